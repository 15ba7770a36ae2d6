"""What a classifier is worth on a whole data set, a block of rows at a time."""

import jax
import jax.numpy as jnp

from omm_jax.norms import Norm, l2

_BLOCK = 4096
# Scores held at a time, whatever the number of classifiers.
_SCORES = 2**22


def smallest_signed_scores(x: jax.Array, y: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    """min over the data set of y (w.x + b) for many classifiers at once.

    Args:
        x: examples `[n, d]`.
        y: labels `[n]`.
        w: weights `[lanes, d]`.
        b: biases `[lanes]`.

    Returns:
        The smallest signed score of each classifier `[lanes]`; memory is bounded, whatever n and lanes.
    """
    n = x.shape[0]
    block = min(_BLOCK, n, max(1, _SCORES // w.shape[0]))

    def visit(k: jax.Array, smallest: jax.Array) -> jax.Array:
        # The last block is moved back to end at n; seeing a row twice does not change a minimum.
        start = jnp.minimum(k * block, n - block)
        rows = jax.lax.dynamic_slice_in_dim(x, start, block)
        labels = jax.lax.dynamic_slice_in_dim(y, start, block)
        scores = jnp.matmul(rows, w.T, precision=jax.lax.Precision.HIGHEST) + b
        return jnp.minimum(smallest, jnp.min(labels[:, None] * scores, axis=0))

    start = jnp.full(w.shape[0], jnp.inf, x.dtype)
    return jax.lax.fori_loop(0, -(-n // block), visit, start)


@jax.jit
def margin(x: jax.Array, y: jax.Array, w: jax.Array, b: jax.Array, norm: Norm = l2) -> jax.Array:
    """The margin of (w, b) on a data set: min y (w.x + b) / dual norm(w), nan where it is not positive.

    Example:
        >>> float(margin(jnp.array([[3.0], [-1.0]]), jnp.array([1.0, -1.0]), jnp.array([2.0]), jnp.array(-1.0)))
        1.5
    """
    y = jnp.asarray(y, x.dtype)
    smallest = smallest_signed_scores(x, y, w[None], jnp.asarray(b)[None])[0]
    return jnp.where(smallest > 0, smallest / norm.dual(w), jnp.nan)
