"""Diameters against all pairs, on clouds where pruning helps, does not help, and must not go wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import omm_jax as omm

D = 7
A = np.diag(np.arange(1.0, D + 1)) + 0.5
NORMS = {
    "l2": (lambda: omm.l2, lambda a, b: cdist(a, b)),
    "p = 3": (lambda: omm.lp(3.0), lambda a, b: cdist(a, b, "minkowski", p=3)),
    "p = 1.2": (lambda: omm.lp(1.2), lambda a, b: cdist(a, b, "minkowski", p=1.2)),
    "quadratic": (lambda: omm.quadratic(A), lambda a, b: cdist(a @ np.linalg.cholesky(A), b @ np.linalg.cholesky(A))),
}


def clouds(rng, n=1300):
    yield rng.normal(size=(n, D))
    sphere = rng.normal(size=(n, D))
    yield sphere / np.linalg.norm(sphere, axis=1, keepdims=True)
    yield rng.standard_cauchy(size=(n, D))
    yield rng.integers(0, 2, size=(n, D)).astype(float)
    yield 1e6 + rng.normal(size=(n, D))


@pytest.mark.parametrize("name", NORMS)
def test_against_all_pairs(x64, name, rng):
    norm, distances = NORMS[name][0](), NORMS[name][1]
    origin = np.zeros((1, D))
    for x in clouds(rng):
        y = np.where(rng.random(len(x)) < 0.3, 1.0, -1.0)
        sizes = omm.geometry(x, y, norm=norm, gamma=0.5)
        pos, neg = (distances(x[y == sign], x[y == sign]).max() for sign in (1, -1))
        expected = (pos, neg, max(pos, neg), distances(x, origin).max(), 2 * max(pos, neg))
        np.testing.assert_allclose(sizes, expected, rtol=1e-9)


def test_float32_is_within_rounding(rng):
    for x in clouds(rng):
        y = np.where(rng.random(len(x)) < 0.3, 1.0, -1.0)
        single = x.astype(np.float32)
        exact = cdist(single[y < 0].astype(float), single[y < 0].astype(float)).max()
        assert float(omm.geometry(single, y).D_neg) == pytest.approx(exact, rel=3e-6)


def test_small_and_degenerate(x64):
    x, y = np.array([[1.0, 2.0], [4.0, 6.0], [1.0, 2.0]]), np.array([1.0, 1.0, -1.0])
    sizes = omm.geometry(x, y)
    assert float(sizes.D_pos) == 5 and float(sizes.D_neg) == 0 and np.isnan(float(sizes.r))
    same = omm.geometry(np.ones((4, 2)), np.array([1.0, 1.0, -1.0, -1.0]))
    assert float(same.D) == 0 and float(same.D_bar) == pytest.approx(np.sqrt(2))


def test_it_can_be_jitted_and_mapped(x64, rng):
    x, y = rng.normal(size=(3, 40, 2)), np.where(np.arange(40) % 3 == 0, 1.0, -1.0)
    mapped = jax.jit(jax.vmap(lambda x: omm.geometry(x, y, gamma=jnp.ones(())).r))(x)
    np.testing.assert_allclose(mapped, [float(omm.geometry(one, y).D) for one in x], rtol=1e-12)


def test_bad_data_are_refused():
    with pytest.raises(ValueError, match="labels must be"):
        omm.geometry(np.ones((2, 2)), np.array([0, 1]))
