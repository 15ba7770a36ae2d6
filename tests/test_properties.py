"""The theory as properties, on streams that hypothesis draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omm_jax as omm

N, D = 60, 4
TRANSLATION_INVARIANT = {
    "e-OMM": omm.e_omm(),
    "e-OMM rho=0.3": omm.e_omm(0.3),
    "ce-OMM": omm.ce_omm(),
    "e-OMM p=3": omm.e_omm(norm=omm.lp(3.0)),
    "PUMMA": omm.pumma(),
    "PUMMA p=3": omm.pumma(p=3.0),
}
PAPER = ["ce-OMM", "e-OMM", "ROMMA", "a-ROMMA", "PUMMA", "Perceptron", "ALMA"]
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=25, deadline=None, derandomize=True)


def stream(seed, homogeneous=True):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=D)
    w /= np.linalg.norm(w)
    x = rng.normal(size=(N, D))
    y = np.where(x @ w + (0 if homogeneous else 0.4) >= 0, 1.0, -1.0)
    y[:2] = [1, -1]
    x[:2] = np.abs(x[:2] @ w)[:, None] * w * y[:2, None] + (x[:2] - np.outer(x[:2] @ w, w))
    return x + rng.uniform(0.01, 1) * y[:, None] * w, y


def events(algorithm, x, y):
    result = omm.run(algorithm, x, y, recording=omm.Recording(events=N))
    log = result.log
    used = np.arange(N) < int(log.total)
    position = np.asarray(log.position)
    return (
        position[used & np.asarray(log.update)].tolist(),
        position[used & np.asarray(log.mistake)].tolist(),
        result,
    )


@pytest.mark.parametrize("name", TRANSLATION_INVARIANT)
@given(seed=seeds, size=st.floats(0, 100))
@few
def test_translation_changes_only_the_bias(name, seed, size):
    jax.config.update("jax_enable_x64", True)
    try:
        x, y = stream(seed, homogeneous=False)
        shift = size * np.random.default_rng(seed + 1).normal(size=D)
        updates, mistakes, result = events(TRANSLATION_INVARIANT[name], x, y)
        moved_updates, moved_mistakes, moved = events(TRANSLATION_INVARIANT[name], x + shift, y)
        assert (updates, mistakes, int(result.tau)) == (moved_updates, moved_mistakes, int(moved.tau))
        np.testing.assert_allclose(moved.w, result.w, rtol=0, atol=1e-8 * np.linalg.norm(result.w))
        bias = result.b - result.w @ shift
        np.testing.assert_allclose(moved.b, bias, rtol=0, atol=1e-8 * np.linalg.norm(result.w) * (1 + size * D))
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("name", PAPER)
@given(seed=seeds)
@few
def test_rotation_rotates_the_run(name, seed):
    jax.config.update("jax_enable_x64", True)
    try:
        x, y = stream(seed)
        rotation = np.linalg.qr(np.random.default_rng(seed + 1).normal(size=(D, D)))[0]
        algorithm = omm.ALGORITHMS[name]()
        updates, mistakes, result = events(algorithm, x, y)
        turned_updates, turned_mistakes, turned = events(algorithm, x @ rotation.T, y)
        assert (updates, mistakes, int(result.tau)) == (turned_updates, turned_mistakes, int(turned.tau))
        np.testing.assert_allclose(turned.w, rotation @ result.w, rtol=0, atol=1e-9 * np.linalg.norm(result.w))
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("name", PAPER)
@given(seed=seeds)
@few
def test_label_flip_mirrors_the_run(name, seed):
    """(x, y) -> (-x, -y) leaves y x alone. Ties are apart: only the first prediction (+1, or a score of 0) is one."""
    jax.config.update("jax_enable_x64", True)
    try:
        x, y = stream(seed)
        algorithm = omm.ALGORITHMS[name]()
        updates, mistakes, result = events(algorithm, x, y)
        mirror_updates, mirror_mistakes, mirror = events(algorithm, -x, -y)
        assert updates == mirror_updates
        assert [t for t in mistakes if t > 0] == [t for t in mirror_mistakes if t > 0]
        np.testing.assert_allclose(mirror.w, result.w, rtol=0, atol=1e-12 * np.linalg.norm(result.w))
        np.testing.assert_allclose(mirror.b, -result.b, rtol=0, atol=1e-12 * (1 + abs(result.b)))
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("rho", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("norm", [omm.l2, omm.lp(1.5), omm.lp(4.0)], ids=["l2", "p=1.5", "p=4"])
@given(seed=seeds)
@few
def test_gamma_does_not_increase_and_stays_above_the_margin(norm, rho, seed):
    """gamma_t is non-increasing, and no classifier's margin on the data exceeds the smallest of them."""
    jax.config.update("jax_enable_x64", True)
    try:
        x, y = stream(seed, homogeneous=False)
        recording = omm.Recording(ticks=jnp.arange(1, N + 1))
        result = omm.run(omm.e_omm(rho, norm=norm), x, y, recording=recording)
        gamma = np.asarray(result.curve.gamma)
        gamma = gamma[~np.isnan(gamma)]
        assert len(gamma) > N - 10
        assert (np.diff(gamma) <= 1e-14 * gamma[:-1]).all()
        margin = float(result.margin)
        assert np.isnan(margin) or margin <= gamma[-1] * (1 + 1e-12)
    finally:
        jax.config.update("jax_enable_x64", False)


def bad_perceptron(c, steps):
    """Example bad-perceptron with r = 2/c: z1 and z3 in turn."""
    r = 2 / c
    x = np.where(np.arange(steps)[:, None] % 2 == 0, [[c, 1.0]], [[c + r, -1.0]])
    return x, np.where(np.arange(steps) % 2 == 0, 1.0, -1.0)


@pytest.mark.parametrize("c", [4.0, 8.0, 16.0, 32.0, 64.0])
def test_bad_perceptron(x64, c):
    """The Perceptron updates at least m(c) times; every OMM makes at most two mistakes whatever rho."""
    forced = int((c**2 + 4 / c**2 + 5) // (2 * (1 + 1 / c**2)))
    x, y = bad_perceptron(c, forced + 10)
    assert int(omm.run(omm.perceptron(), x, y).updates) >= forced
    # Under sign(0) = +1 the odd steps, where w.x = 0, are updates and not mistakes.
    assert int(omm.run(omm.perceptron(), x, y).mistakes) >= forced // 2
    orders = np.random.default_rng(0).integers(0, 2, size=(20, 200))
    everything = np.concatenate([np.tile(np.arange(2), 100)[None], orders])
    rhos = jnp.linspace(0, 1, 11)
    mistakes = jax.vmap(lambda rho: omm.run(omm.e_omm(rho), x, y, everything).mistakes)(rhos)
    assert mistakes.shape == (11, 21) and int(mistakes.max()) <= 2
