"""The few numerical primitives that every learner and engine shares."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


def dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """Inner product of two vectors `[d]`, never in reduced precision (no TF32 or bfloat16 passes)."""
    return jnp.vdot(a, b, precision=jax.lax.Precision.HIGHEST)


def safe_divide(a: ArrayLike, b: ArrayLike) -> jax.Array:
    """a / b, and 0 where b is 0 (finite gradients included)."""
    nonzero = jnp.asarray(b) != 0
    return jnp.where(nonzero, a / jnp.where(nonzero, b, 1), 0)


def is_concrete(value: object) -> bool:
    """Whether `value` is a number that can be looked at now, not a tracer."""
    return not isinstance(value, jax.core.Tracer)
