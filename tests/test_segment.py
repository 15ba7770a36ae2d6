"""The kernel against a scalar optimiser, and norms against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm


def brute_force(u, s, p):
    """Nearest point of [u, s] to 0 in the p-norm by golden-section search in extended precision."""
    u, s, p = (np.asarray(a, np.longdouble) for a in (u, s, p))

    def value(beta):
        h = u + beta * (s - u)
        top = np.max(np.abs(h))
        return top * np.sum((np.abs(h) / top) ** p) ** (1 / p) if top > 0 else np.longdouble(0)

    low, high = np.longdouble(0), np.longdouble(1)
    ratio = (np.sqrt(np.longdouble(5)) - 1) / 2
    for _ in range(120):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if value(a) <= value(b) else (a, high)
    return min(value(low), value(high), value(np.longdouble(0)), value(np.longdouble(1))), value


@jax.jit
def betas(p, u, s):
    return jax.vmap(lambda p, u, s: omm.segment(omm.lp(p), u, s))(p, u, s)


def test_lp_segment_reaches_float64_accuracy(x64, rng):
    """Relative 1e-12 of the optimum for p from 1.05 to 30, flat coordinates, zeros, huge and tiny scales."""
    us, ss, ps = [], [], []
    for k in range(240):
        u, s = rng.normal(size=(2, 6)) + 0.5 * (k % 2)
        if k % 5 == 1:
            s[:3] = u[:3]  # flat coordinates
        if k % 7 == 2:
            u[2:] = 0
        if k % 11 == 3:
            s = -u * rng.uniform(0.1, 3) + 1e-4 * rng.normal(size=6)  # the optimum is nearly 0
        scale = [1.0, 1e-9, 1e9][k % 3]
        us.append(scale * u)
        ss.append(scale * s)
        ps.append([1.05, 1.5, 1.9, 2.5, 3.0, 7.0, 30.0][k % 7])
    found = np.asarray(betas(jnp.asarray(ps), jnp.asarray(us), jnp.asarray(ss)))
    assert ((found >= 0) & (found <= 1)).all()
    assert ((found > 0) & (found < 1)).sum() > 50
    for u, s, p, beta in zip(us, ss, ps, found, strict=True):
        best, value = brute_force(u, s, p)
        assert float(value(np.longdouble(beta))) <= float(best) * (1 + 1e-12), (p, u, s)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
def test_degenerate_segments(x64, p):
    u, zero = jnp.array([1.0, -2.0, 0.0]), jnp.zeros(3)
    norm = omm.lp(p)
    assert float(omm.segment(norm, u, u)) == 0
    assert float(omm.segment(norm, zero, zero)) == 0
    assert float(omm.segment(norm, zero, u)) == 0
    assert float(omm.segment(norm, u, zero)) == 1
    np.testing.assert_allclose(omm.segment(norm, u, -u), 0.5, rtol=1e-15)


def test_l2_and_quadratic_closed_forms(x64, rng):
    """lp at a traced p = 2, the closed form, and a quadratic norm after a change of variables agree."""
    root = rng.normal(size=(5, 5)) + 3 * np.eye(5)
    norm = omm.quadratic(root.T @ root)
    for _ in range(50):
        u, s = rng.normal(size=(2, 5))
        closed = float(omm.segment(omm.l2, jnp.asarray(u), jnp.asarray(s)))
        searched = float(betas(jnp.array([2.0]), jnp.asarray(u)[None], jnp.asarray(s)[None])[0])
        np.testing.assert_allclose(searched, closed, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(
            omm.segment(norm, jnp.asarray(u), jnp.asarray(s)),
            omm.segment(omm.l2, jnp.asarray(root @ u), jnp.asarray(root @ s)),
            rtol=1e-12,
        )


@pytest.mark.parametrize("make", [lambda rng: omm.l2, lambda rng: omm.lp(1.3), lambda rng: omm.lp(4.0), "quadratic"])
def test_norm_identities(x64, rng, make):
    """l(x).x = norm(x), dual(l(x)) = 1, and l is the gradient JAX finds."""
    if make == "quadratic":
        root = rng.normal(size=(4, 4))
        norm = omm.quadratic(root.T @ root + np.eye(4))
    else:
        norm = make(rng)
    for scale in (1e-150, 1.0, 1e150) if norm.__class__.__name__ == "Lp" else (1e-6, 1.0, 1e6):
        x = jnp.asarray(scale * rng.normal(size=4))
        g = norm.gradient(x)
        np.testing.assert_allclose(g @ x, norm.value(x), rtol=1e-12)
        np.testing.assert_allclose(norm.dual(g), 1, rtol=1e-12)
        np.testing.assert_allclose(norm.half_square_gradient(x), norm.value(x) * g, rtol=1e-12)
    x = jnp.asarray(rng.normal(size=4))
    np.testing.assert_allclose(norm.gradient(x), jax.grad(norm.value)(x), rtol=1e-10)
    assert (norm.gradient(jnp.zeros(4)) == 0).all() and float(norm.value(jnp.zeros(4))) == 0


def test_bad_norms_are_refused():
    for p in (1.0, 0.5, np.inf, np.nan):
        with pytest.raises(ValueError, match="1 < p < inf"):
            omm.lp(p)
    with pytest.raises(ValueError, match="square"):
        omm.quadratic(np.ones((2, 3)))
    with pytest.raises(ValueError, match="symmetric"):
        omm.quadratic(np.array([[1.0, 2.0], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="positive definite"):
        omm.quadratic(np.array([[1.0, 2.0], [2.0, 1.0]]))
