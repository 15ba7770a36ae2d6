"""The passive-aggressive family (Crammer, Dekel, Keshet, Shalev-Shwartz and Singer, 2006): PA, PA-I and PA-II."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm, Trigger, learner
from omm_jax.algorithms.arguments import check_range
from omm_jax.numerics import dot, safe_divide


def _passive_aggressive(step: Callable[[jax.Array, jax.Array], jax.Array]) -> Algorithm:
    """The family: on a hinge loss l = 1 - y w.x > 0, w <- w + step(l, ||x||^2) y x."""

    def init(d: int, dtype: Any = None) -> jax.Array:
        return jnp.zeros(d, dtype)

    def linear(w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return w, jnp.zeros((), w.dtype)

    def threshold(w: jax.Array, y: jax.Array) -> Trigger:
        return Trigger(jnp.ones((), w.dtype), False)

    def update(w: jax.Array, f: jax.Array, y: jax.Array) -> jax.Array:
        loss = 1 - y * dot(w, f)
        return w + jnp.asarray(step(loss, dot(f, f)), w.dtype) * y * f

    return Algorithm(init, lambda x: x, linear, threshold, update, linear, same_score=True)


@learner()
def passive_aggressive() -> Algorithm:
    """PA: on y w.x < 1, the smallest change of w that brings y w.x to 1. No bias; see `with_bias`.

    With l = 1 - y w.x: w <- w + (l / ||x||^2) y x.

    Example:
        >>> alg = passive_aggressive()
        >>> alg.step(alg.init(2), (jnp.array([0.0, 2.0]), -1.0)).tolist()
        [0.0, -0.5]
    """
    return _passive_aggressive(safe_divide)


@learner()
def passive_aggressive_1(C: ArrayLike = 1.0) -> Algorithm:
    """PA-I: PA with the step capped, w <- w + min(C, l / ||x||^2) y x. No bias; see `with_bias`.

    Args:
        C: aggressiveness, the price of a unit of hinge loss, C > 0; PA is the limit C = inf.
    """
    check_range("C", C, 0, math.inf, open_low=True)
    return _passive_aggressive(lambda loss, square: jnp.minimum(C, safe_divide(loss, square)))


@learner()
def passive_aggressive_2(C: ArrayLike = 1.0) -> Algorithm:
    """PA-II: PA with the step damped, w <- w + l / (||x||^2 + 1 / (2 C)) y x. No bias; see `with_bias`.

    Args:
        C: aggressiveness, the price of a unit of squared hinge loss, C > 0; PA is the limit C = inf.
    """
    check_range("C", C, 0, math.inf, open_low=True)
    return _passive_aggressive(lambda loss, square: safe_divide(loss, square + 0.5 / C))
