"""kappa0 and kappa: by how much one violation must shrink the margin that OMM claims.

kappa0(delta, eta) = max over norm(u) = 1, norm(z) <= delta, l(u).z >= eta of min over beta in [0, 1] of
norm(u - beta z), with l the gradient of the norm (the paper's equation kappa0). It is -inf where no such (u, z) exists
and does not decrease with delta or increase with eta.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from omm_jax.norms import L2, Norm, Quadratic, l2
from omm_jax.numerics import dot
from omm_jax.segment import segment

_BISECTIONS = 60


class Bracket(NamedTuple):
    """Two numbers with kappa0 between them."""

    lower: jax.Array
    upper: jax.Array


class _Power(NamedTuple):
    """kappa0^order, and 1 minus it, each computed without cancellation."""

    value: jax.Array
    deficit: jax.Array
    order: ArrayLike


@jax.jit
def kappa0(delta: ArrayLike, eta: ArrayLike, *, norm: Norm = l2) -> jax.Array:
    """kappa0(delta, eta) of the l2 and quadratic norms; of the lp norms an upper bound, so that guarantees hold.

    - max(0, eta) > delta: -inf, nothing is feasible. Else eta <= 0: 1. Else:
    - l2: sqrt(1 - eta^2 / delta^2) if eta <= delta^2, and sqrt(1 + delta^2 - 2 eta) if not. A quadratic norm is
      isometric to l2, so it has the same kappa0.
    - lp, p > 2: half the squared norm is (p-1)-smooth, norm(u - beta z)^2 <= 1 - 2 beta eta + (p-1) beta^2 delta^2, and
      the least of this over beta is the l2 formula with sqrt(p-1) delta for delta.
    - lp, 1 < p < 2: with s(a) = sign(a) |a|^(p-1), |s(a) - s(b)| <= c |a - b|^(p-1) for c = 2^(2-p). Integrated from
      a = u_i to u_i - beta z_i and summed over i: norm(u - beta z)^p <= 1 - p beta eta + c beta^p delta^p, of which the
      least over beta in [0, 1] is taken: at beta^(p-1) = eta / (c delta^p) it is 1 - (p-1) beta eta. At p = 2 it is the
      l2 formula.

    Args:
        delta: largest norm of z, any shape.
        eta: least l(u).z, broadcast against delta.
        norm: the norm.

    Example:
        >>> round(float(kappa0(0.475, 0.3)), 4)
        0.791

    Reference: the paper's equation kappa0, Lemma kappa and section 5.1.
    """
    return _cases(delta, eta, norm, lambda power: power.value ** (1 / power.order))


@jax.jit
def log_kappa0(delta: ArrayLike, eta: ArrayLike, *, norm: Norm = l2) -> jax.Array:
    """The logarithm of `kappa0`, accurate also where kappa0 is 1 but for rounding (large r)."""

    def log(power: _Power) -> jax.Array:
        near = power.deficit < 0.5
        small = jnp.log1p(-jnp.where(near, power.deficit, 0))
        return jnp.where(near, small, jnp.log(jnp.where(near, 1, power.value))) / power.order

    # log kappa0 is 0 where kappa0 is 1, and -inf where nothing is feasible.
    return _cases(delta, eta, norm, log, trivial=0.0)


def kappa(r: ArrayLike, phi: ArrayLike, *, norm: Norm = l2) -> jax.Array:
    """kappa(r, phi) = kappa0(r / 2, (1 - phi) / 2), the factor of a violation of level phi on data of ratio r.

    Example:
        >>> round(float(kappa(0.95, 0.4)), 4), round(float(kappa(2.0, 0.0)), 4)
        (0.791, 0.866)

    Reference: the paper's equation kappa.
    """
    return kappa0(jnp.asarray(r) / 2, (1 - jnp.asarray(phi)) / 2, norm=norm)


def _cases(delta: ArrayLike, eta: ArrayLike, norm: Norm, read, trivial: float = 1.0) -> jax.Array:
    dtype = jnp.result_type(delta, eta, float)
    delta, eta = jnp.broadcast_arrays(jnp.asarray(delta, dtype), jnp.asarray(eta, dtype))
    feasible = jnp.maximum(eta, 0) <= delta
    proper = feasible & (eta > 0)
    # Where the formulas do not apply they see harmless numbers, so that gradients stay finite.
    power = _power(jnp.where(proper, delta, 1), jnp.where(proper, eta, 0.5), norm)
    return jnp.where(proper, read(power), jnp.where(feasible, trivial, -jnp.inf))


def _power(delta: jax.Array, eta: jax.Array, norm: Norm) -> _Power:
    if isinstance(norm, L2 | Quadratic):
        return _smooth(delta, eta)
    p = jnp.asarray(norm.p, delta.dtype)  # type: ignore[attr-defined]
    above, below = _smooth(jnp.sqrt(jnp.maximum(p, 2) - 1) * delta, eta), _rough(delta, eta, jnp.minimum(p, 2))
    return _Power(*(jnp.where(p >= 2, a, b) for a, b in zip(above, below, strict=True)))


def _smooth(delta: jax.Array, eta: jax.Array) -> _Power:
    """The least of 1 - 2 beta eta + beta^2 delta^2."""
    inner = eta <= delta**2
    value = jnp.where(inner, (delta - eta) * (delta + eta) / delta**2, (1 - delta) ** 2 + 2 * (delta - eta))
    return _Power(jnp.maximum(value, 0), jnp.where(inner, (eta / delta) ** 2, 2 * eta - delta**2), 2.0)


def _rough(delta: jax.Array, eta: jax.Array, p: jax.Array) -> _Power:
    """The least of 1 - p beta eta + c beta^p delta^p, 1 < p <= 2."""
    size = 2 ** (2 - p) * delta**p
    inner = eta <= size
    beta = jnp.where(inner, eta / size, 1) ** (1 / (p - 1))
    deficit = jnp.where(inner, (p - 1) * beta * eta, p * eta - size)
    return _Power(jnp.maximum(1 - deficit, 0), deficit, p)


def kappa0_bracket(
    key: jax.Array, delta: ArrayLike, eta: ArrayLike, *, norm: Norm, d: int = 3, starts: int = 32, steps: int = 150
) -> Bracket:
    """kappa0 from both sides, for norms without a closed form.

    The upper end is `kappa0`. The lower end is the best of many gradient ascents over feasible (u, z) in R^d, and so a
    lower bound, to rounding, of kappa0 in every dimension from d on.

    Both constraints are tight at a maximum. Shrinking z shortens the segment [u, u - z], so l(u).z = eta. And for
    z = eta u + s q with l(u).q = 0, no norm(u - beta z) decreases with s >= 0. So the search is over u and q alone,
    with s the largest that keeps norm(z) <= delta.

    Args:
        key: a JAX key, for the starts.
        delta: scalar.
        eta: scalar.
        norm: the norm.
        d: the dimension searched, at least 2.
        starts: number of ascents.
        steps: steps of each.

    Example:
        >>> from omm_jax import lp
        >>> low, high = kappa0_bracket(jax.random.key(0), 1.5, 0.5, norm=lp(3.0))
        >>> bool(low <= high)
        True
    """
    if d < 2:
        raise ValueError(f"kappa0_bracket expects a dimension d >= 2, got {d}")
    upper = kappa0(delta, eta, norm=norm)
    delta, eta = jnp.asarray(delta, upper.dtype), jnp.asarray(eta, upper.dtype)
    proper = (eta > 0) & (eta <= delta)
    # Outside the proper case the two ends agree, and the search is given harmless numbers.
    lower = _search(key, jnp.where(proper, delta, 1), jnp.where(proper, eta, 0.5), norm, d, starts, steps)
    return Bracket(jnp.where(proper, lower, upper), upper)


def _search(key: jax.Array, delta: jax.Array, eta: jax.Array, norm: Norm, d: int, starts: int, steps: int) -> jax.Array:
    optimizer = optax.adam(optax.cosine_decay_schedule(0.1, steps))

    def height(pair: jax.Array) -> jax.Array:
        u = pair[0] / norm.value(pair[0])
        q = pair[1] - dot(norm.gradient(u), pair[1]) * u
        q = q / norm.value(q)
        z = eta * u + _reach(norm, eta * u, q, delta) * q
        # At the minimising beta the derivative by beta is 0 or blocked, so beta may be held fixed.
        beta = jax.lax.stop_gradient(segment(norm, u, u - z))
        return norm.value(u - beta * z)

    def ascend(pair: jax.Array) -> jax.Array:
        def step(carry, _):
            pair, memory, best = carry
            value, slope = jax.value_and_grad(height)(pair)
            # A norm may have no derivative where a coordinate vanishes: an ascent that meets one stays where it is.
            slope = jnp.where(jnp.isfinite(slope), slope, 0)
            move, memory = optimizer.update(-slope, memory, pair)
            return (pair + move, memory, jnp.fmax(best, value)), None

        start = (pair, optimizer.init(pair), jnp.full((), -jnp.inf, delta.dtype))
        (_, _, best), _ = jax.lax.scan(step, start, None, length=steps)
        return best

    return jnp.max(jax.vmap(ascend)(jax.random.normal(key, (starts, 2, d), delta.dtype)))


def _reach(norm: Norm, start: jax.Array, q: jax.Array, delta: jax.Array) -> jax.Array:
    """The largest s >= 0 with norm(start + s q) <= delta, where l(start).q = 0; differentiable."""

    def halve(_, bracket):
        low, high = bracket
        middle = (low + high) / 2
        inside = norm.value(start + middle * q) <= delta
        return jnp.where(inside, middle, low), jnp.where(inside, high, middle)

    # norm(s q) <= norm(start) + norm(start + s q) <= 2 delta, and norm(q) = 1.
    low, _ = jax.lax.fori_loop(0, _BISECTIONS, halve, (jnp.zeros_like(delta), 2 * delta))
    s = jax.lax.stop_gradient(low)
    # One step of Newton's method has the derivative of the root, and here the value 0.
    excess = norm.value(start + s * q) - delta
    slope = jax.lax.stop_gradient(dot(norm.gradient(start + s * q), q))
    correction = (excess - jax.lax.stop_gradient(excess)) / jnp.where(slope > 0, slope, 1)
    return s - jnp.where(slope > 0, correction, 0)
