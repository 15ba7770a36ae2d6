"""The kernel of every maximum-margin learner: the point of a segment nearest the origin.

`segment(norm, u, s)` minimises norm(u + beta (s - u)) over beta in [0, 1] (the paper's problem (6) with z = u - s).
"""

import jax
import jax.numpy as jnp

from omm_jax.norms import L2, Norm, Quadratic
from omm_jax.numerics import dot, safe_divide

# Chandrupatla's method halves the bracket at least every third step, so this suffices for any float64 bracket.
_MAX_STEPS = 160


def segment(norm: Norm, u: jax.Array, s: jax.Array) -> jax.Array:
    """The beta in [0, 1] at which u + beta (s - u) is nearest the origin; 0 when u = s.

    Closed form for l2 and quadratic norms, a safeguarded search of fixed shape for the others.

    Args:
        norm: the norm to be near in.
        u: start of the segment `[d]`.
        s: end of the segment `[d]`.

    Returns:
        beta, a scalar of the dtype of u.

    Example:
        >>> from omm_jax.norms import l2
        >>> float(segment(l2, jnp.array([1.0, 1.0]), jnp.array([1.0, -1.0])))
        0.5
    """
    if isinstance(norm, L2):
        difference = u - s
        square = dot(difference, difference)
        return jnp.clip(dot(u, difference) / jnp.where(square > 0, square, 1), 0, 1)
    if isinstance(norm, Quadratic):
        difference = u - s
        image = norm.matrix @ difference
        return jnp.clip(safe_divide(dot(u, image), dot(difference, image)), 0, 1)
    return _search(norm, u, s)


def _search(norm: Norm, u: jax.Array, s: jax.Array) -> jax.Array:
    """Root of the slope gradient(h).(s - u), which does not decrease with beta.

    Bracketed inverse quadratic interpolation that falls back on bisection (Chandrupatla, 1997). The slope is the exact
    derivative of the norm, so it is well scaled however small the optimum is.
    """
    scale = jnp.maximum(jnp.max(jnp.abs(u)), jnp.max(jnp.abs(s)))
    u, s = safe_divide(u, scale), safe_divide(s, scale)
    direction = s - u

    def slope(beta: jax.Array) -> jax.Array:
        # Measured from the nearer end, so that beta near 1 keeps its relative accuracy.
        h = jnp.where(beta < 0.5, u + beta * direction, s - (1 - beta) * direction)
        return dot(norm.gradient(h), direction)

    zero, one = jnp.zeros((), u.dtype), jnp.ones((), u.dtype)
    at_zero, at_one = slope(zero), slope(one)
    tolerance = 2 * jnp.finfo(u.dtype).eps

    def unfinished(carry):
        a, b, _, fa, fb, _, _, steps = carry
        width = jnp.abs(b - a)
        smallest = jnp.minimum(jnp.abs(fa), jnp.abs(fb))
        return (steps < _MAX_STEPS) & (smallest > 0) & (width > tolerance * jnp.maximum(jnp.abs(a), tolerance))

    def advance(carry):
        a, b, c, fa, fb, fc, fraction, steps = carry
        x = a + fraction * (b - a)
        fx = slope(x)
        same = jnp.sign(fx) == jnp.sign(fa)
        c, fc = jnp.where(same, a, b), jnp.where(same, fa, fb)
        b, fb = jnp.where(same, b, a), jnp.where(same, fb, fa)
        a, fa = x, fx
        # Inverse quadratic interpolation where it is trustworthy, the midpoint elsewhere.
        xi = safe_divide(a - b, c - b)
        phi = safe_divide(fa - fb, fc - fb)
        trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        interpolated = safe_divide(fa, fb - fa) * safe_divide(fc, fb - fc) + safe_divide(c - a, b - a) * safe_divide(
            fa, fc - fa
        ) * safe_divide(fb, fc - fb)
        smallest = 0.5 * safe_divide(tolerance * jnp.maximum(jnp.abs(a), tolerance), jnp.abs(b - a))
        limit = jnp.minimum(smallest, 0.5)
        fraction = jnp.clip(jnp.where(trusted, interpolated, 0.5), limit, 1 - limit)
        return a, b, c, fa, fb, fc, fraction, steps + 1

    # Where the slope does not change sign an end is the answer, and an empty bracket ends the search before it starts.
    end = jnp.where((at_zero < 0) & (at_one > 0), one, zero)
    start = (zero, end, end, at_zero, at_one, at_one, jnp.full((), 0.5, u.dtype), jnp.zeros((), jnp.int32))
    a, b, _, fa, fb, _, _, _ = jax.lax.while_loop(unfinished, advance, start)
    root = jnp.where(jnp.abs(fa) <= jnp.abs(fb), a, b)
    return jnp.where(at_zero >= 0, zero, jnp.where(at_one <= 0, one, root))
