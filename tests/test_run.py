"""The run's own duties: recording, status, and refusing bad input in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from omm_jax.compat import check_jax

X = np.array([[2.0, 1.0], [-2.0, 0.0], [1.5, -1.0], [-1.0, 1.0]], np.float32)
Y = np.array([1.0, -1.0, 1.0, -1.0], np.float32)


@pytest.mark.parametrize(
    ("x", "y", "order", "words"),
    [
        (np.where(X == 1.5, np.nan, X), Y, None, "NaN or infinite features in 1 of 4 rows, the first is row 2"),
        (np.where(X == 1.5, np.inf, X), Y, None, "NaN or infinite"),
        (X, (Y + 1) / 2, None, r"got 0 and 1: pass 2 \* y - 1"),
        (X, Y > 0, None, r"pass 2 \* y - 1"),
        (X, 2 * Y, None, r"labels must be \+1 and -1, got -2.0, 2.0"),
        (X, np.where(Y > 0, Y, np.nan), None, "labels must be"),
        (X, np.abs(Y), None, r"only the class \+1 is present"),
        (X[:0], Y[:0], None, "empty"),
        (X[:, :0], Y, None, "empty"),
        (X[0], Y, None, r"must be a matrix \[n, d\]"),
        (X, Y[:, None], None, r"pass y.ravel\(\)"),
        (X, Y[:3], None, "4 examples and y has 3 labels"),
        (X.astype(int), Y, None, "must be float32 or float64, got int64"),
        (X.astype(np.float16), Y, None, "must be float32 or float64, got float16"),
        (X, Y, [0, 4], r"order must lie in \[0, 4\), got indices from 0 to 4"),
        (X, Y, [-1, 0], "got indices from -1 to 0"),
        (X, Y, [0.0, 1.0], "integer indices"),
        (X, Y, np.zeros((2, 2, 2), int), r"shape \[t\] or \[lanes, t\]"),
        (X, Y, np.zeros(0, int), "order is empty"),
    ],
)
def test_bad_input_is_refused_in_words(x, y, order, words):
    with pytest.raises(ValueError, match=words):
        omm.run(omm.e_omm(), x, y, order)


def test_bad_arguments_are_refused_in_words():
    with pytest.raises(ValueError, match=r"rho must lie in \[0, 1\], got 1.5"):
        omm.e_omm(1.5)
    with pytest.raises(ValueError, match="delta"):
        omm.pumma(-0.1)
    with pytest.raises(ValueError, match=r"alpha must lie in \(0, 1\]"):
        omm.alma(0.0)
    with pytest.raises(ValueError, match=r"p must lie in \[2, inf\]"):
        omm.alma(p=1.5)
    with pytest.raises(ValueError, match="engine must be one of"):
        omm.run(omm.e_omm(), X, Y, engine="warp")
    with pytest.raises(ValueError, match=">= 0"):
        omm.Recording(events=-1)
    with pytest.raises(ValueError, match=r"integer in \[0, 2\^32\)"):
        omm.order(-1, 0, 5)
    with pytest.raises(ValueError, match="1 <= n"):
        omm.order(0, 0, 0)


def test_log_overflow_is_a_status_and_counts_stay_complete():
    order = np.tile(np.arange(4), 5)
    full = omm.run(omm.pumma(), X, Y, order, recording=omm.Recording(events=20))
    short = omm.run(omm.pumma(), X, Y, order, recording=omm.Recording(events=1))
    assert int(full.status) == 0 and int(full.log.total) > 1
    assert int(short.status) == omm.Status.LOG_OVERFLOW and "Recording.events" in omm.describe(short.status)
    assert int(short.log.total) == int(full.log.total) and int(short.updates) == int(full.updates)
    assert int(short.log.position[0]) == int(full.log.position[0])


def test_degenerate_lanes_say_so():
    """Equal points of opposite label shrink the certificate to nothing: a status, and no NaN."""
    x, y = np.array([[1.0, 1.0], [1.0, 1.0]], np.float32), np.array([1.0, -1.0], np.float32)
    for algorithm in (omm.e_omm(), omm.pumma()):
        result = omm.run(algorithm, x, y)
        assert int(result.status) == omm.Status.DEGENERATE
        assert np.isfinite(result.w).all() and np.isnan(result.margin) and int(result.tau) == -1
        assert "opposite label" in omm.describe(result.status)
    assert int(omm.run(omm.romma(), np.array([[1.0], [1.0]], np.float32), y, [0, 1, 0, 1]).status) != 0


def test_weights_that_overflow_say_so():
    x = np.array([[3e38, 3e38], [-3e38, 3e38], [3e38, -3e38]], np.float32)
    result = omm.run(omm.perceptron(), x, np.array([1.0, -1.0, -1.0], np.float32), np.tile(np.arange(3), 3))
    assert int(result.status) & omm.Status.NOT_FINITE and np.isnan(result.margin)


def states_of(algorithm, x, y, order):
    """The state after every example, through `step` alone."""
    step = jax.jit(lambda state, example: algorithm.step(state, example))
    states = [algorithm.init(x.shape[1], x.dtype)]
    for i in order:
        states.append(step(states[-1], (x[i], y[i])))
    return states


def test_curve_reads_the_counters_at_ticks():
    algorithm, order = omm.pumma(), np.asarray(omm.order(0, 0, 4, passes=4))
    ticks = jnp.array([0, 1, 2, 3, 5, 8, 16])
    curve = omm.run(algorithm, X, Y, order, recording=omm.Recording(ticks=ticks)).curve
    states = states_of(algorithm, X, Y, order)
    scores = [algorithm.score(state, X[i]) for state, i in zip(states, order, strict=False)]
    mistakes = [(score >= 0) != (Y[i] > 0) for score, i in zip(scores, order, strict=True)]
    fires = [
        bool(algorithm.threshold(state, Y[i]).fires(Y[i] * score))
        for state, score, i in zip(states, scores, order, strict=False)
    ]
    assert sum(fires) > 2 and sum(map(bool, mistakes)) > 0
    for k, tick in enumerate(ticks.tolist()):
        assert int(curve.mistakes[k]) == sum(map(bool, mistakes[:tick]))
        assert int(curve.updates[k]) == sum(fires[:tick])
        np.testing.assert_allclose(curve.gamma[k], algorithm.gamma(states[tick]), rtol=1e-5)


def test_tau_is_the_first_time_and_can_be_lost_again():
    """Brute force over every prefix, on a stream whose separating classifier is moved off again by an update."""
    rng = np.random.default_rng(1)
    lost = 0
    for _ in range(6):
        w = rng.normal(size=3)
        x = rng.normal(size=(12, 3))
        y = np.where(x @ w >= 0, 1.0, -1.0).astype(np.float32)
        x = (x + 0.02 * y[:, None] * w).astype(np.float32)
        order = np.asarray(omm.order(5, 0, 12, passes=6))
        algorithm = omm.aggressive_romma()
        classifiers = [algorithm.classifier(state) for state in states_of(algorithm, x, y, order)]
        separating = [bool(np.min(y * (x @ np.asarray(w) + np.asarray(b))) > 0) for w, b in classifiers]
        expected = separating.index(True) if any(separating) else -1
        lost += expected >= 0 and not all(separating[expected:])
        assert int(omm.run(algorithm, x, y, order).tau) == expected
        assert int(omm.run(algorithm, x, y, order, tau=False).tau) == -1
    assert lost > 0


def test_tau_is_of_the_classifier_that_is_reported():
    """ALMA's bias is learned beside normalised examples and reported on raw ones; the reported classifier counts."""
    rng = np.random.default_rng(1)
    algorithm, order = omm.with_bias(omm.alma(), 1.0), np.asarray(omm.order(5, 0, 12, passes=6))
    others = 0
    for _ in range(6):
        x = rng.normal(size=(12, 3)) * rng.uniform(0.2, 3, (12, 1)) + [0.5, 0, 0]
        y = np.where(x @ rng.normal(size=3) >= 0.3, 1, -1).astype(np.float32)
        x = x.astype(np.float32)
        features = np.asarray(jax.vmap(algorithm.features)(x))
        taus = []
        states = states_of(algorithm, x, y, order)
        for of, points in ((algorithm.classifier, x), (algorithm.linear, features)):
            scores = [y * (points @ np.asarray(w) + np.asarray(b)) for w, b in map(of, states)]
            taus.append(next((t for t, score in enumerate(scores) if score.min() > 0), -1))
        assert int(omm.run(algorithm, x, y, order).tau) == taus[0]
        others += taus[0] != taus[1]
    assert others > 0


def test_the_broken_jax_is_refused():
    check_jax("0.10.1")
    with pytest.raises(ImportError, match=r"39103.*pip install"):
        check_jax("0.10.2")


@pytest.mark.parametrize(("dtype", "n"), [(np.float32, 32_769), (np.float64, 16_385), (np.float64, 40_000)])
def test_canary_matvec_then_reduction(x64, dtype, n):
    """The shapes at which jax 0.10.2 computes wrong values on CPU, against NumPy."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(n, 8)).astype(dtype), rng.normal(size=(4, 8)).astype(dtype)
    smallest = jax.jit(jax.vmap(lambda w: jnp.min(jnp.asarray(x) @ w)))(jnp.asarray(w))
    np.testing.assert_allclose(smallest, (x.astype(np.float64) @ w.T.astype(np.float64)).min(axis=0), rtol=1e-4)
    y = np.where(rng.normal(size=n) > 0, 1, -1).astype(dtype)
    expected = (y[:, None] * (x.astype(np.float64) @ w.T.astype(np.float64) + 50.0)).min(axis=0)
    margins = jax.vmap(lambda w: omm.margin(jnp.asarray(x), jnp.asarray(y), w, 50.0))(jnp.asarray(w))
    assert np.isnan(margins).all() and (expected < 0).all()
    ones = jnp.ones(n, dtype)
    expected = (x.astype(np.float64) @ w.T.astype(np.float64) + 50.0).min(axis=0) / np.linalg.norm(w, axis=1)
    margins = jax.vmap(lambda w: omm.margin(jnp.asarray(x), ones, w, 50.0))(jnp.asarray(w))
    np.testing.assert_allclose(margins, expected, rtol=1e-4)
