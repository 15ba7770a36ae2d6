"""Every learner against its literal transcription, update by update."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import omm_jax as omm

# name -> (learner, transcription), both for d features and data of largest norm R.
CASES = {
    "Perceptron": (lambda R: omm.perceptron(), lambda d, R: oracles.Perceptron(d)),
    "ALMA": (lambda R: omm.alma(), lambda d, R: oracles.Alma(d)),
    "ALMA alpha=0.3": (lambda R: omm.alma(0.3), lambda d, R: oracles.Alma(d, 0.3)),
    "ALMA p=3": (lambda R: omm.alma(p=3.0), lambda d, R: oracles.AlmaP(d, 3.0)),
    "ROMMA": (lambda R: omm.romma(), lambda d, R: oracles.Romma(d)),
    "a-ROMMA": (lambda R: omm.aggressive_romma(), lambda d, R: oracles.AggressiveRomma(d)),
    "a-ROMMA delta=0.2": (lambda R: omm.aggressive_romma(0.2), lambda d, R: oracles.AggressiveRomma(d, 0.2)),
    "PUMMA": (lambda R: omm.pumma(), lambda d, R: oracles.Pumma(d)),
    "PUMMA delta=0.4": (lambda R: omm.pumma(0.4), lambda d, R: oracles.Pumma(d, 0.4)),
    "PUMMA p=4": (lambda R: omm.pumma(p=4.0), lambda d, R: oracles.PummaP(d, 4.0)),
    "e-OMM": (lambda R: omm.e_omm(), lambda d, R: oracles.Omm(d)),
    "e-OMM rho=0.5": (lambda R: omm.e_omm(0.5), lambda d, R: oracles.Omm(d, 0.5)),
    "e-OMM p=1.5": (lambda R: omm.e_omm(norm=omm.lp(1.5)), lambda d, R: oracles.OmmP(d, 1.5)),
    "e-OMM p=3": (lambda R: omm.e_omm(0.9, norm=omm.lp(3.0)), lambda d, R: oracles.OmmP(d, 3.0, 0.9)),
    "ce-OMM": (lambda R: omm.ce_omm(), lambda d, R: oracles.Omm(d, 0.0)),
    "Perceptron + bias": (
        lambda R: omm.with_bias(omm.perceptron(), 1.0),
        lambda d, R: oracles.Biased(oracles.Perceptron(d + 1), 1.0),
    ),
    "ROMMA + bias": (lambda R: omm.with_bias(omm.romma(), -R), lambda d, R: oracles.Biased(oracles.Romma(d + 1), -R)),
    "a-ROMMA + bias": (
        lambda R: omm.with_bias(omm.aggressive_romma(), -R),
        lambda d, R: oracles.Biased(oracles.AggressiveRomma(d + 1), -R),
    ),
    "ALMA + bias": (
        lambda R: omm.with_bias(omm.alma(), 1.0),
        lambda d, R: oracles.Biased(oracles.Alma(d + 1), 1.0),
    ),
    "ALMA + bias, appended first": (
        lambda R: omm.with_bias(omm.alma(), 1.0, before_features=True),
        lambda d, R: oracles.Biased(oracles.Alma(d + 1), 1.0, before=True),
    ),
}
L2_ONLY = [name for name in CASES if "p=" not in name]


def separable(rng, n, d, margin, homogeneous=False):
    """Random points pushed away from a random hyperplane."""
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    x = rng.normal(size=(n, d))
    b = 0.0 if homogeneous else 0.3
    y = np.where(x @ w + b >= 0, 1.0, -1.0)
    return x + margin * y[:, None] * w, y


@jax.jit
def trace(algorithm, x, y):
    """The classifier before every example, its score and whether it updated, through `step` alone."""

    def advance(state, example):
        f = algorithm.features(example[0])
        score = algorithm.score(state, f)
        new = algorithm.step(state, example)
        changed = algorithm.threshold(state, example[1]).fires(example[1] * score)
        return new, (*algorithm.classifier(state), score, changed)

    state, (w, b, score, changed) = jax.lax.scan(advance, algorithm.init(x.shape[1], x.dtype), (x, y))
    return algorithm.classifier(state), w, b, score, changed


def follow(name, x, y):
    """Walk learner and transcription side by side; returns how many updates were compared, and how many ties.

    Where rounding alone decides, that is where the signed score is within `doubt` of its level, the transcription is
    made to follow the learner, and the call is counted. Everywhere else they must agree.
    """
    n, d = x.shape
    R = float(np.max(np.linalg.norm(x, axis=1)))
    make, literal = CASES[name]
    (w_end, _), w, b, score, changed = jax.tree.map(np.asarray, trace(make(R), jnp.asarray(x), jnp.asarray(y)))
    twin = literal(d, R)
    tolerance = 1e-9
    ties = 0
    for t in range(n):
        w_twin, b_twin = twin.classifier()
        size = np.linalg.norm(w_twin)
        assert np.linalg.norm(w[t] - w_twin) <= tolerance * max(size, 1e-300), f"weights part at {t}"
        # A constant coordinate of 1 beside data of 1e-6 takes steps of size 1 that cancel: they leave 2^-53 each.
        rounding = 2.0**-52 * changed[:t].sum()
        assert abs(b[t] - b_twin) <= tolerance * (size * R + abs(b_twin)) + rounding, f"bias parts at {t}"
        wants = twin.wants(x[t], y[t])
        doubt = 1e-13 * (np.linalg.norm(w_twin) * R + abs(b_twin) + 1)
        if wants != changed[t]:
            assert abs(y[t] * twin.score(x[t]) - twin.level(y[t])) <= doubt, f"decisions part at {t}"
            ties += 1
        if abs(twin.score(x[t])) > doubt:
            assert (score[t] >= 0) == (twin.score(x[t]) >= 0), f"predictions part at {t}"
        if changed[t]:
            twin.update(x[t], y[t])
    w_twin, b_twin = twin.classifier()
    np.testing.assert_allclose(w_end, w_twin, rtol=0, atol=tolerance * np.linalg.norm(w_twin))
    return int(changed.sum()), ties


@pytest.mark.parametrize("name", CASES)
def test_random_streams(x64, name):
    rng = np.random.default_rng(1)
    total = 0
    for _ in range(4):
        updates, ties = follow(name, *separable(rng, 200, 7, 0.05))
        assert ties == 0
        total += updates
    assert total > 20


@pytest.mark.parametrize("name", L2_ONLY)
def test_tiny_scale(x64, name):
    """At 1e-6 the rules are the same; only the Perceptron's bias coordinate and ALMA's are not scaled with the data."""
    x, y = separable(np.random.default_rng(2), 200, 7, 0.1)
    updates, ties = follow(name, 1e-6 * x, y)
    assert updates > 1 and ties == 0


@pytest.mark.parametrize("name", L2_ONLY)
def test_repeated_points_and_certificates(x64, name):
    """Every example is shown three times in a row, so ties between score and level abound."""
    x, y = separable(np.random.default_rng(3), 60, 5, 0.1)
    follow(name, np.repeat(x, 3, axis=0), np.repeat(y, 3))


@pytest.mark.parametrize("name", ["e-OMM", "e-OMM rho=0.5", "ce-OMM", "PUMMA", "Perceptron", "ROMMA", "a-ROMMA"])
def test_exact_ties(x64, name):
    """On a lattice where all arithmetic is exact a tie is a tie, and both sides must break it alike."""
    x = np.array([[0.0, 2.0], [0.0, -2.0], [4.0, 2.0], [0.0, 2.0], [8.0, -2.0], [2.0, 0.0]])
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0 if name in ("ROMMA", "a-ROMMA") else -1.0])
    updates, ties = follow(name, x, y)
    assert ties == 0 and updates >= 2


@pytest.mark.parametrize("name", ["e-OMM", "e-OMM rho=0.5", "ce-OMM", "PUMMA", "PUMMA delta=0.4"])
def test_translation_of_a_million(x64, name):
    """Translated by 1e6 the learners lose what float64 must lose, and not more.

    Every certificate coordinate is rounded at relative 2^-53 of its size S ~ 1e6 in each of m updates, and w is their
    difference over 2 gamma, so two correct programs may part by C m sqrt(d) 2^-53 S / gamma. C = 8 here, and the bound
    is about 1e-7, which is why the weights are not compared to 1e-9.
    """
    x, y = separable(np.random.default_rng(4), 200, 6, 0.5)
    moved = x + 1e6
    make, literal = CASES[name]
    R = float(np.max(np.abs(moved)))
    (w, _), _, _, _, changed = jax.tree.map(np.asarray, trace(make(R), jnp.asarray(moved), jnp.asarray(y)))
    run = oracles.literal_run(literal(6, R), moved, y, np.arange(len(y)))
    assert np.flatnonzero(changed).tolist() == run["updates"]
    gamma = 0.5
    bound = 8 * changed.sum() * np.sqrt(6) * 2.0**-53 * R / gamma
    assert bound < 1e-5
    assert np.linalg.norm(w - run["w"]) <= bound * np.linalg.norm(run["w"])
    # And it is the same run as without the translation.
    still = oracles.literal_run(literal(6, R), x, y, np.arange(len(y)))
    assert still["updates"] == run["updates"]
    assert np.linalg.norm(w - still["w"]) <= bound * np.linalg.norm(still["w"])


@pytest.mark.parametrize("name", L2_ONLY)
def test_run_equals_brute_force(x64, name):
    """Counts, classifier, margin and tau of `run` over three passes, against the loop that looks at everything."""
    rng = np.random.default_rng(5)
    x, y = separable(rng, 80, 4, 0.3, homogeneous="bias" not in name)
    R = float(np.max(np.linalg.norm(x, axis=1)))
    make, literal = CASES[name]
    order = np.asarray(omm.order(0, 1, 80, passes=3))
    run = oracles.literal_run(literal(4, R), x, y, order)
    result = omm.run(make(R), x, y, order, recording=omm.Recording(events=300))
    assert int(result.mistakes) == run["mistakes"]
    assert np.asarray(result.log.position)[np.asarray(result.log.update)].tolist() == run["updates"]
    assert int(result.updates) == len(run["updates"])
    assert int(result.tau) == run["tau"]
    np.testing.assert_allclose(result.w, run["w"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.b, run["b"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.margin, run["margin"], rtol=1e-9)
    assert int(result.status) == 0
