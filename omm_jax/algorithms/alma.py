"""ALMA_p (Gentile, 2001): an approximate large margin algorithm for p-norms."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm, Scaled, Trigger, learner
from omm_jax.algorithms.arguments import check_range
from omm_jax.norms import L2, Lp, lp
from omm_jax.numerics import safe_divide

_ROOT_2 = math.sqrt(2)


class AlmaState(NamedTuple):
    """The weights' image theta (theta = w for p = 2), and k, one more than the updates so far, with 1 / sqrt(k)."""

    theta: jax.Array  # [k]
    k: jax.Array  # int32
    pace: jax.Array  # 1 / sqrt(k)


def alma(
    alpha: ArrayLike = 0.7, *, p: ArrayLike = 2.0, B: ArrayLike | None = None, C: ArrayLike = _ROOT_2
) -> Algorithm:
    """ALMA_p(alpha; B, C): additive updates of shrinking size on examples normalised to norm 1, projected on a ball.

    With x^ = x / ||x||_p: on y w.x^ <= (1 - alpha) B sqrt(p-1) / sqrt(k),
    theta <- theta + C / (sqrt(p-1) sqrt(k)) y x^, then theta <- theta / max(1, ||theta||_p), k <- k + 1.
    theta is the image of w under the gradient of half the squared dual norm; that map keeps lengths, so the
    projection of w on the unit ball of the dual norm is the projection of theta. No bias; see `with_bias`.

    Args:
        alpha: accuracy in (0, 1]; the paper's phi = 0.3 is alpha = 0.7.
        p: exponent of the norm, p >= 2.
        B: the paper's sqrt(8) / alpha unless given.
        C: step size, the paper's sqrt(2).
    """
    check_range("alpha", alpha, 0, 1, open_low=True)
    check_range("p", p, 2, math.inf)
    return _alma(alpha, math.sqrt(8) / alpha if B is None else B, C, lp(p))


@learner()
def _alma(alpha: ArrayLike, scale: ArrayLike, rate: ArrayLike, norm: L2 | Lp) -> Algorithm:
    root = jnp.sqrt(jnp.asarray(norm.p) - 1)

    def init(d: int, dtype: Any = None) -> AlmaState:
        return AlmaState(jnp.zeros(d, dtype), jnp.ones((), jnp.int32), jnp.ones((), dtype))

    def inverse_norm(x: jax.Array) -> jax.Array:
        return safe_divide(1, norm.value(x))

    def linear(state: AlmaState) -> tuple[jax.Array, jax.Array]:
        return norm.half_square_gradient(state.theta), jnp.zeros((), state.theta.dtype)

    def threshold(state: AlmaState, y: jax.Array) -> Trigger:
        return Trigger(jnp.asarray((1 - alpha) * scale * root * state.pace, state.theta.dtype), True)

    def update(state: AlmaState, f: jax.Array, y: jax.Array) -> AlmaState:
        dtype, k = state.theta.dtype, state.k + 1
        theta = state.theta + jnp.asarray(rate / root * state.pace, dtype) * y * f
        # Not 1 / sqrt(k), of which XLA makes an approximation.
        return AlmaState(theta * (1 / jnp.maximum(1, norm.value(theta))), k, jnp.sqrt(1 / k.astype(dtype)))

    scaled = Scaled(inverse_norm, lambda x, s: s * x)

    def features(x: jax.Array) -> jax.Array:
        return scaled.map(x, scaled.scale(x))

    return Algorithm(init, features, linear, threshold, update, linear, norm=norm, scaled=scaled)
