"""The sizes of a data set that the theory speaks of: diameters of the classes, largest norm, aspect ratio r."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.norms import L2, Norm, Quadratic, l2
from omm_jax.validation import check_data

_BLOCK = 512
_FINE_BLOCK = 64


class Geometry(NamedTuple):
    """Sizes of a data set, in the chosen norm.

    Attributes:
        D_pos: diameter of the positive class.
        D_neg: diameter of the negative class.
        D: the larger of the two.
        D_bar: largest norm of a point.
        r: D / gamma, nan if gamma was not given.
    """

    D_pos: jax.Array
    D_neg: jax.Array
    D: jax.Array
    D_bar: jax.Array
    r: jax.Array


def geometry(x: ArrayLike, y: ArrayLike, *, norm: Norm = l2, gamma: ArrayLike | None = None) -> Geometry:
    """Diameters and largest norm of a data set, exact up to the rounding of one norm each.

    All pairs count, but few are computed: points are visited from the outside in, blocks of pairs that the triangle
    inequality or, for the Euclidean norm, a matmul with a rounding allowance rules out are skipped, and what is left is
    computed from the differences themselves. Memory is O(n d).

    Args:
        x: examples `[n, d]`.
        y: labels `[n]`, +1 or -1.
        norm: the norm to measure in.
        gamma: the maximum margin of the data set, for r.

    Example:
        >>> sizes = geometry(jnp.array([[3.0, 0.0], [3.0, 4.0], [-1.0, 0.0]]), jnp.array([1.0, 1.0, -1.0]), gamma=2.0)
        >>> [float(size) for size in sizes]
        [4.0, 0.0, 4.0, 5.0, 2.0]

    Reference: the paper's Theorem margin-performance, where r = D / gamma*.
    """
    check_data(x, y)
    x = jnp.asarray(x)
    return _geometry(x, jnp.asarray(y), norm, jnp.asarray(jnp.nan if gamma is None else gamma, x.dtype))


@jax.jit
def _geometry(x: jax.Array, y: jax.Array, norm: Norm, gamma: jax.Array) -> Geometry:
    if isinstance(norm, Quadratic):
        # With A = LL' the norm sqrt(x'Ax) is the Euclidean norm of L'x.
        x = jnp.matmul(x, jnp.linalg.cholesky(norm.matrix).astype(x.dtype), precision=jax.lax.Precision.HIGHEST)
        norm = l2
    positive, negative = (_diameter(x, of_class, norm) for of_class in (y > 0, y < 0))
    largest = jnp.maximum(positive, negative)
    return Geometry(positive, negative, largest, jnp.max(jax.vmap(norm.value)(x)), largest / gamma)


class _Walk(NamedTuple):
    i: jax.Array  # the next pair of blocks
    j: jax.Array
    best: jax.Array


def _diameter(x: jax.Array, member: jax.Array, norm: Norm) -> jax.Array:
    """The largest distance between two of the members."""
    n, d = x.shape
    # Without a matmul to rule out pairs, smaller blocks let the triangle inequality do more.
    block = min(_BLOCK if isinstance(norm, L2) else _FINE_BLOCK, n)
    blocks = -(-n // block)
    slack = 1 + 8 * d * jnp.finfo(x.dtype).eps

    def distances(point: jax.Array) -> jax.Array:
        return jax.vmap(norm.value)(x - point)

    # A first pair, from a few walks to the farthest point.
    total = jnp.matmul(member.astype(x.dtype), x, precision=jax.lax.Precision.HIGHEST)
    centre = total / jnp.maximum(jnp.sum(member), 1)
    here = there = jnp.argmax(jnp.where(member, distances(centre), -1))
    for _ in range(2):
        there, here = here, jnp.argmax(jnp.where(member, distances(x[here]), -1))
    first = norm.value(x[here] - x[there])

    # Members by decreasing distance from the centre; the rest, and the padding, at -inf.
    radius = jnp.where(member, distances(centre) * slack, -jnp.inf)
    outward = jnp.argsort(-radius)
    padding = blocks * block - n
    radius = jnp.pad(radius[outward], (0, padding), constant_values=-jnp.inf)
    points = jnp.pad((x - centre)[outward], ((0, padding), (0, 0)))
    top = radius[::block]

    def rows(i: jax.Array) -> tuple[jax.Array, jax.Array]:
        return (
            jax.lax.dynamic_slice_in_dim(points, i * block, block),
            jax.lax.dynamic_slice_in_dim(radius, i * block, block),
        )

    def compute(i: jax.Array, j: jax.Array, best: jax.Array) -> jax.Array:
        (mine, my_radius), (others, other_radius) = rows(i), rows(j)

        def visit(row: jax.Array, best: jax.Array) -> jax.Array:
            def look() -> jax.Array:
                apart = jax.vmap(norm.value)(others - mine[row])
                return jnp.maximum(best, jnp.max(jnp.where(other_radius >= 0, apart, 0)))

            return jax.lax.cond(my_radius[row] + top[j] > best, look, lambda: best)

        return jax.lax.fori_loop(0, block, visit, best)

    def screen(i: jax.Array, j: jax.Array, best: jax.Array) -> jax.Array:
        """Whether a pair of these blocks may be farther apart than `best`."""
        if not isinstance(norm, L2):
            return jnp.ones((), bool)
        (mine, _), (others, _) = rows(i), rows(j)
        squares = jnp.sum(mine**2, axis=1)[:, None] + jnp.sum(others**2, axis=1)
        apart = squares - 2 * jnp.matmul(mine, others.T, precision=jax.lax.Precision.HIGHEST)
        doubt = 8 * d * jnp.finfo(x.dtype).eps * (top[i] + top[j]) ** 2
        return jnp.max(apart) + doubt > best**2

    def advance(carry: _Walk) -> _Walk:
        i, j, best = carry
        best = jax.lax.cond(screen(i, j, best), compute, lambda i, j, best: best, i, j, best)
        # Radii decrease along a row of blocks: once one is too near, so are all after it.
        go_on = (j < i) & (top[i] + top[jnp.minimum(j + 1, blocks - 1)] > best)
        return _Walk(jnp.where(go_on, i, i + 1), jnp.where(go_on, j + 1, 0), best)

    def unfinished(carry: _Walk) -> jax.Array:
        i, j, best = carry
        return (i < blocks) & (top[jnp.minimum(i, blocks - 1)] + top[j] > best)

    start = _Walk(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32), first)
    return jax.lax.while_loop(unfinished, advance, start).best
