"""kappa0 against brute force, its cases and its brackets."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from omm_jax.kappa import log_kappa0
from omm_jax.norms import Lp

PAIRS = [(0.475, 0.3), (0.2, 0.1), (0.6, 0.5), (0.5, 0.5), (1.0, 0.5), (1.0, 1.0), (1.5, 0.5), (1.5, 1.4), (3.0, 0.05)]


def brute_force(delta, eta):
    """Over z = (a, c) in the half plane with u = e1, and over beta: a grid, no derivative, no case."""
    a = np.linspace(eta, delta, 101)[:, None]
    size = np.linspace(0, 1, 101) * np.sqrt(np.maximum(delta**2 - a**2, 0))
    smallest = np.full(size.shape, np.inf)
    for beta in np.linspace(0, 1, 1001):
        smallest = np.minimum(smallest, np.hypot(1 - beta * a, beta * size))
    return smallest.max()


@pytest.mark.parametrize("delta, eta", PAIRS)
def test_l2_is_the_brute_force_maximum(x64, delta, eta):
    assert abs(float(omm.kappa0(delta, eta)) - brute_force(delta, eta)) < 1e-4


def test_every_case_and_edge(x64):
    cases = [
        ((0.5, 0.6), -np.inf),
        ((-0.1, -1.0), -np.inf),
        ((-0.1, 0.5), -np.inf),
        ((0.0, 0.1), -np.inf),
        ((0.0, 0.0), 1.0),
        ((0.0, -1.0), 1.0),
        ((2.0, -3.0), 1.0),
        ((2.0, 0.0), 1.0),
        ((0.5, 0.5), 0.5),
        ((1.0, 1.0), 0.0),
        ((3.0, 3.0), 0.0),
        ((2.0, 1.0), np.sqrt(0.75)),
        ((0.5, 0.25), np.sqrt(0.75)),
        ((0.5, 0.3), np.sqrt(0.65)),
    ]
    delta, eta = np.array([pair for pair, _ in cases]).T
    expected = [value for _, value in cases]
    np.testing.assert_allclose(omm.kappa0(delta, eta), expected, atol=1e-15)
    np.testing.assert_allclose(jax.vmap(omm.kappa0)(delta, eta), expected, atol=1e-15)
    with np.errstate(invalid="ignore", divide="ignore"):
        np.testing.assert_allclose(np.exp(log_kappa0(delta, eta)), np.maximum(expected, 0), atol=1e-15)


@pytest.mark.parametrize("norm", [omm.l2, Lp(1.3), Lp(2.0), Lp(5.0)], ids=str)
def test_monotone_and_continuous_across_the_cases(x64, norm):
    grid = jnp.linspace(0.001, 3, 600)
    delta, eta = jnp.meshgrid(grid, grid, indexing="ij")
    values = omm.kappa0(delta, eta, norm=norm)
    assert bool((jnp.where(eta > delta, values == -jnp.inf, (values >= 0) & (values <= 1))).all())
    assert bool((values[1:] >= values[:-1] - 1e-12).all()), "decreases with delta"
    assert bool((values[:, 1:] <= values[:, :-1] + 1e-12).all()), "increases with eta"
    # Continuous wherever it is finite; at eta = delta >= 1 it has a vertical tangent, hence the square root.
    inside = (eta + 0.01 < delta)[:-1, :-1]
    jump = jnp.maximum(jnp.abs(jnp.diff(values, axis=0)[:, :-1]), jnp.abs(jnp.diff(values, axis=1)[:-1]))
    assert float(jnp.where(inside, jump, 0).max()) < 2 * np.sqrt(grid[1] - grid[0])
    # Across the boundary of the two cases eta = delta^2, and as eta tends to 0.
    side = jnp.array([1 - 1e-9, 1 + 1e-9])
    for middle in (0.2, 0.6, 0.95):
        left, right = omm.kappa0(middle, middle**2 * side, norm=norm)
        assert abs(left - right) < 1e-7
    # From p near 1 the approach to 1 is slow in eta: 1 - kappa0 goes like eta^(p / (p - 1)).
    assert abs(1 - float(omm.kappa0(0.5, 1e-9, norm=norm))) < 1e-8


@pytest.mark.parametrize("norm", [omm.l2, Lp(1.5), Lp(3.0)], ids=str)
def test_gradients_are_finite_inside_each_case_and_right(x64, norm):
    points = jnp.array([(0.5, 0.8), (-1.0, 0.2), (2.0, -1.0), (2.0, 0.7), (0.5, 0.1), (0.5, 0.4), (0.0, -0.5)])
    slope = jax.vmap(jax.grad(lambda pair: omm.kappa0(pair[0], pair[1], norm=norm)))(points)
    assert bool(jnp.isfinite(slope).all())
    assert not slope[:3].any() and not slope[-1].any()
    for k in range(2):
        step = jnp.zeros(2).at[k].set(1e-6)
        ends = [omm.kappa0(*(points[3:6] + sign * step).T, norm=norm) for sign in (1, -1)]
        np.testing.assert_allclose(slope[3:6, k], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7)


def test_the_logarithm_keeps_its_digits_where_kappa_is_nearly_1(x64):
    r = 1e5
    exact = -0.5 * np.log1p(-1 / r**2)
    assert abs(float(-log_kappa0(np.float32(r / 2), np.float32(0.5))) / exact - 1) < 1e-5
    # In float32 kappa itself is 1, and its logarithm would be 0.
    assert float(omm.kappa0(np.float32(r / 2), np.float32(0.5))) == 1


EXPONENTS = (1.2, 1.5, 1.9, 2.0, 2.5, 3.0, 8.0)
# Two pairs outside the proper case at the end.
BRACKETED = [*PAIRS, (0.5, 0.8), (1.0, -0.2)]


@functools.cache
def brackets():
    """p, delta, eta, lower, upper: one compilation, p is a number like the others."""
    p = np.repeat(EXPONENTS, len(BRACKETED))
    delta, eta = np.tile(np.array(BRACKETED), (len(EXPONENTS), 1)).T
    keys = jax.random.split(jax.random.key(1), len(p))
    ends = jax.jit(jax.vmap(lambda key, a, b, p: omm.kappa0_bracket(key, a, b, norm=Lp(p), starts=12, steps=100)))
    return p, delta, eta, *(np.asarray(end) for end in ends(keys, delta, eta, p))


def test_brackets_of_the_p_norms(x64):
    p, delta, eta, lower, upper = brackets()
    proper = (eta > 0) & (eta <= delta)
    assert (lower[proper] <= upper[proper] + 1e-7).all()
    closed = np.asarray(omm.kappa0(delta, eta))
    # p = 2 goes through the general code as well.
    at_2 = proper & (p == 2)
    np.testing.assert_allclose(lower[at_2], closed[at_2], atol=1e-6)
    np.testing.assert_allclose(upper[at_2], closed[at_2], atol=1e-12)
    # At eta = delta the only feasible z is parallel to u, so kappa0 = |1 - delta| or 0 in every norm. The unit ball is
    # flat to order p there: a norm that is right to eps lets z turn by eps^(1/p).
    parallel = (delta == eta) & (delta <= 1) & (p <= 3)
    np.testing.assert_allclose(lower[parallel], 1 - delta[parallel], atol=2e-5)
    # The bracket is narrow for large delta, and every other norm is worse than l2 for every proper pair.
    wide = (delta == 3.0) & (p > 1.4)
    assert (upper[wide] - lower[wide]).max() < 2e-3
    generic = proper & (p != 2) & (delta > eta)
    assert (lower[generic] > closed[generic]).all()


def test_outside_the_proper_case_both_ends_agree(x64):
    _, delta, eta, lower, upper = brackets()
    for a, b, value in ((0.5, 0.8, -np.inf), (1.0, -0.2, 1.0)):
        here = (delta == a) & (eta == b)
        assert (lower[here] == value).all() and (upper[here] == value).all()
    with pytest.raises(ValueError, match="d >= 2"):
        omm.kappa0_bracket(jax.random.key(0), 1.0, 0.5, norm=omm.lp(3.0), d=1)


def test_the_search_reaches_the_best_pair_of_the_plane(x64):
    """In the plane a fine grid of directions u decides: q is unique up to sign. More dimensions can only add."""
    delta, eta, best = 1.0, 0.5, -np.inf
    beta = np.linspace(0, 1, 501)[:, None]
    for angle in np.linspace(0, np.pi, 181):
        u = np.array([np.cos(angle), np.sin(angle)])
        u /= np.linalg.norm(u, 3)
        gradient = np.sign(u) * np.abs(u) ** 2
        q = np.array([-gradient[1], gradient[0]])
        for sign in (1, -1):
            z = eta * u + sign * np.linspace(0, 4, 4001)[:, None] * q
            z = z[np.flatnonzero((np.abs(z) ** 3).sum(axis=1) <= delta**3)[-1]]
            best = max(best, ((np.abs(u - beta * z) ** 3).sum(axis=1) ** (1 / 3)).min())
    p, deltas, etas, lower, upper = brackets()
    here = (p == 3) & (deltas == delta) & (etas == eta)
    assert best - 1e-4 <= lower[here].item() <= upper[here].item()
    assert best < upper[here].item()


def test_a_quadratic_norm_has_the_kappa0_of_l2(x64, rng):
    """An isometry maps feasible pairs to feasible pairs: a pair that attains kappa0 of l2, mapped, attains it too."""
    factor = rng.normal(size=(3, 3))
    norm = omm.quadratic(factor @ factor.T)
    delta, eta = 0.8, 0.5
    u, z = np.array([1.0, 0, 0]), np.array([eta, np.sqrt(delta**2 - eta**2), 0])
    u, z = (jnp.asarray(np.linalg.solve(factor.T, vector)) for vector in (u, z))
    np.testing.assert_allclose([norm.value(u), norm.value(z), norm.gradient(u) @ z], [1, delta, eta], rtol=1e-9)
    values = [float(norm.value(u - beta * z)) for beta in np.linspace(0, 1, 201)]
    closed = float(omm.kappa0(delta, eta, norm=norm))
    assert closed == float(omm.kappa0(delta, eta))
    assert abs(min(values) - closed) < 1e-4
