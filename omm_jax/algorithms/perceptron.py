"""The Perceptron (Rosenblatt, 1958)."""

from typing import Any

import jax
import jax.numpy as jnp

from omm_jax.algorithm import Algorithm, Trigger, learner


@learner()
def perceptron() -> Algorithm:
    """The Perceptron: on y w.x <= 0, w <- w + y x. No bias; see `with_bias`.

    Example:
        >>> alg = perceptron()
        >>> alg.step(alg.init(2), (jnp.array([1.0, 2.0]), -1.0)).tolist()
        [-1.0, -2.0]

    Reference: algorithms of the paper's Table 1; Novikoff (1962) for the mistake bound.
    """

    def init(d: int, dtype: Any = None) -> jax.Array:
        return jnp.zeros(d, dtype)

    def linear(w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return w, jnp.zeros((), w.dtype)

    def threshold(w: jax.Array, y: jax.Array) -> Trigger:
        return Trigger(jnp.zeros((), w.dtype), True)

    def update(w: jax.Array, f: jax.Array, y: jax.Array) -> jax.Array:
        return w + y * f

    return Algorithm(init, lambda x: x, linear, threshold, update, linear, same_score=True)
