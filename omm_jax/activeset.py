"""The nearest points of two convex hulls in the Euclidean norm, by a finite active-set method that starts warm.

With z_i = y_i (x_i - c) for any fixed centre c, the pair v+, v- nearest each other has v+ - v- = sum_i a_i z_i, where
a >= 0 sums to 1 over each class. As in Wolfe's algorithm for the point of a hull nearest the origin, a few support
points carry the weights; one iteration takes the exact step to the minimiser over the affine hulls of the support,
stops it where a weight reaches 0 and drops that point, or, if nothing stops it, adds the point that violates the
certificate most. The distance decreases with every point added, so the method ends.

The support is kept as columns a_i = (z_i, s [y_i = +1], s [y_i = -1]), linearly independent, with their dual basis
p_i.a_j = [i = j] (the rows of the pseudo-inverse). Adding or dropping a point is one rank-one change of the dual basis;
there is no factorisation and no Gram matrix, so the condition number is not squared. Every step starts from a freshly
summed v+ - v-, hence corrects the rounding of the one before.

All shapes are fixed and every function is for one problem: `vmap` for more.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.numerics import dot, safe_divide

_HIGHEST = jax.lax.Precision.HIGHEST
# A column nearer than this many roundings to the span of the others is not added.
_DEPENDENT = 32
# Iterations without progress after which the dual basis is made anew, and after which to give up.
_REBUILD, _GIVE_UP = 4, 12


class ActiveSet(NamedTuple):
    """The support: k slots, unused ones have row -1 and zeros elsewhere."""

    row: jax.Array  # [k] which of the points, int32
    weight: jax.Array  # [k]
    column: jax.Array  # [k, d + 2] the lifted points
    dual: jax.Array  # [k, d + 2] their dual basis

    @classmethod
    def empty(cls, k: int, d: int, dtype) -> "ActiveSet":
        """No support point, room for k. A problem with d features never needs more than d + 2."""
        rows = jnp.zeros((k, d + 2), dtype)
        return cls(jnp.full(k, -1, jnp.int32), jnp.zeros(k, dtype), rows, rows)


class Nearest(NamedTuple):
    """The nearest points found, and the interval they prove: lower <= gamma <= upper."""

    active: ActiveSet
    difference: jax.Array  # [d] v+ - v-
    lower: jax.Array
    upper: jax.Array
    iterations: jax.Array  # int32


class _Search(NamedTuple):
    active: ActiveSet
    difference: jax.Array
    lower: jax.Array
    upper: jax.Array
    best_gap: jax.Array
    best_upper: jax.Array
    stalled: jax.Array
    iterations: jax.Array
    done: jax.Array


def lift(z: jax.Array, label: jax.Array, scale: jax.Array) -> jax.Array:
    """The column `[d + 2]` of a signed centred point z = y (x - c) `[d]`."""
    return jnp.concatenate([z, scale * jnp.stack([label > 0, label < 0]).astype(z.dtype)])


def insert(active: ActiveSet, row: jax.Array, column: jax.Array, weight: jax.Array) -> ActiveSet:
    """Add a point to the support, in a free slot; if there is none or it depends on the others, change nothing."""
    slot = jnp.argmin(active.row)
    at = jnp.arange(active.row.shape[0]) == slot
    coordinates, residual = _project(active, column)
    length = dot(residual, residual)
    eps = jnp.finfo(column.dtype).eps
    free = (active.row[slot] < 0) & (length > (_DEPENDENT * eps) ** 2 * dot(column, column))
    fresh = safe_divide(residual, length)
    added = ActiveSet(
        jnp.where(at, row, active.row).astype(jnp.int32),
        jnp.where(at, weight, active.weight),
        jnp.where(at[:, None], column, active.column),
        jnp.where(at[:, None], fresh, active.dual - coordinates[:, None] * fresh),
    )
    return jax.tree.map(lambda new, old: jnp.where(free, new, old), added, active)


def _project(active: ActiveSet, column: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The coordinates of a column in the support, and what they leave of it; done twice, for orthogonality."""
    first = _matvec(active.dual, column)
    residual = column - _matvec(active.column.T, first)
    second = _matvec(active.dual, residual)
    return first + second, residual - _matvec(active.column.T, second)


def _matvec(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    return jnp.matmul(matrix, vector, precision=_HIGHEST)


def remove(active: ActiveSet, slot: jax.Array) -> ActiveSet:
    """Drop the support point of a slot."""
    at = jnp.arange(active.row.shape[0]) == slot
    gone = jnp.sum(jnp.where(at[:, None], active.dual, 0), axis=0)
    along = safe_divide(_matvec(active.dual, gone), dot(gone, gone))
    return ActiveSet(
        jnp.where(at, -1, active.row),
        jnp.where(at, 0, active.weight),
        jnp.where(at[:, None], 0, active.column),
        jnp.where(at[:, None], 0, active.dual - along[:, None] * gone),
    )


def build(row: jax.Array, weight: jax.Array, column: jax.Array) -> ActiveSet:
    """The active set of these columns `[k, d + 2]`; dependent ones, and those of row -1, are left out."""
    k = row.shape[0]

    def add(slot: jax.Array, built: ActiveSet) -> ActiveSet:
        more = insert(built, row[slot], column[slot], weight[slot])
        used = row[slot] >= 0
        return jax.tree.map(lambda new, old: jnp.where(used, new, old), more, built)

    return jax.lax.fori_loop(0, k, add, ActiveSet.empty(k, column.shape[1] - 2, column.dtype))


def _affine_step(active: ActiveSet, scale: jax.Array) -> jax.Array:
    """The change of the weights `[k]` that leads to the nearest points of the affine hulls of the support."""
    membership = active.column[:, -2:] / scale
    total = _matvec(active.column.T, active.weight)
    missing = 1 - total[-2:] / scale
    target = jnp.concatenate([-total[:-2], scale * missing])
    # Least squares for the lifted target, then the combination of the two unit directions that makes the sums exact.
    free = _matvec(active.dual, target)
    directions = active.dual[:, -2:]
    (a, b), (c, d) = jnp.matmul(membership.T, directions, precision=_HIGHEST)
    r, s = missing - _matvec(membership.T, free)
    determinant = a * d - b * c
    correction = safe_divide(jnp.stack([d * r - b * s, a * s - c * r]), determinant)
    return free + _matvec(directions, correction)


def nearest(
    points: jax.Array, label: jax.Array, active: ActiveSet, scale: jax.Array, tol: jax.Array, limit: int = 10_000
) -> Nearest:
    """The nearest points of the two hulls, from a support that holds at least one point of each class.

    Args:
        points: signed centred points z_i = y_i (x_i - c) `[m, d]`.
        label: +1 or -1 `[m]`, 0 for a row that is not there.
        active: where to start; its rows are those of `points`, its weights sum to 1 over each class.
        scale: the s of the lifted columns, of the size of the points; it must stay the same for one active set.
        tol: stop when upper - lower <= tol upper.
        limit: most iterations.
    """
    eps = jnp.finfo(points.dtype).eps
    # A difference of this size is nothing but rounding: the hulls meet.
    nothing = 64 * eps * jnp.max(jnp.where(active.row >= 0, jnp.max(jnp.abs(active.column), axis=1), 0))

    def step(now: _Search) -> _Search:
        active = now.active
        change = _affine_step(active, scale)
        ratio = jnp.where((active.row >= 0) & (change < 0), active.weight / -change, jnp.inf)
        slot = jnp.argmin(ratio)
        blocked = ratio[slot] < 1
        weight = jnp.maximum(active.weight + jnp.minimum(ratio[slot], 1) * change, 0)
        active = active._replace(weight=weight)

        difference, lower, upper, worst = price(points, label, active)
        gap = upper - lower
        column = lift(points[worst], label[worst], scale)
        changed = _exchange(active, blocked, slot, worst, column)

        progress = (gap < 0.5 * now.best_gap) | (upper < now.best_upper * (1 - 4 * eps))
        stalled = jnp.where(blocked, now.stalled, jnp.where(progress, 0, now.stalled + 1))
        best_gap = jnp.where(blocked, now.best_gap, jnp.minimum(gap, now.best_gap))
        best_upper = jnp.where(blocked, now.best_upper, jnp.minimum(upper, now.best_upper))
        done = ~blocked & ((gap <= tol * upper) | (upper <= nothing) | (stalled >= _GIVE_UP))
        active = jax.tree.map(lambda new, old: jnp.where(done, old, new), changed, active)
        drifted = ~done & ~blocked & (stalled == _REBUILD)
        active = _when(drifted, lambda active: build(active.row, active.weight, active.column), active)
        return _Search(
            active, difference, lower, upper, best_gap, best_upper, stalled, now.iterations + 1, done | ~(upper >= 0)
        )

    zero, infinite = jnp.zeros((), points.dtype), jnp.full((), jnp.inf, points.dtype)
    count = jnp.zeros((), jnp.int32)
    start = _Search(
        active, jnp.zeros_like(points[0]), zero, infinite, infinite, infinite, count, count, jnp.zeros((), bool)
    )
    end = jax.lax.while_loop(lambda now: ~now.done & (now.iterations < limit), step, start)
    return Nearest(end.active, end.difference, end.lower, end.upper, end.iterations)


def price(points: jax.Array, label: jax.Array, active: ActiveSet) -> tuple[jax.Array, ...]:
    """v+ - v-, the interval it proves for the margin of these points, and the point that violates it most."""
    d = points.shape[1]
    difference = _matvec(active.column[:, :d].T, active.weight)
    upper = jnp.sqrt(dot(difference, difference)) / 2
    w = safe_divide(difference, 2 * upper)
    # Where the two certificates stand along w, each seen from its own side.
    held = _matvec(active.column[:, :d], w) * active.weight
    of_pos, of_neg = active.column[:, -2] > 0, active.column[:, -1] > 0
    at_pos, at_neg = jnp.sum(jnp.where(of_pos, held, 0)), jnp.sum(jnp.where(of_neg, held, 0))
    along = _matvec(points, w)
    lowest_pos = jnp.min(jnp.where(label > 0, along, jnp.inf))
    lowest_neg = jnp.min(jnp.where(label < 0, along, jnp.inf))
    excess = jnp.where(label == 0, jnp.inf, along - jnp.where(label > 0, at_pos, at_neg))
    return difference, (lowest_pos + lowest_neg) / 2, upper, jnp.argmin(excess).astype(jnp.int32)


def _exchange(active: ActiveSet, blocked: jax.Array, slot: jax.Array, worst: jax.Array, column: jax.Array) -> ActiveSet:
    """Drop the point of `slot` if it blocked the step, else add the point `worst` unless the support holds it."""
    dropped, added = remove(active, slot), insert(active, worst, column, jnp.zeros((), column.dtype))
    held = jnp.any(active.row == worst)

    def pick(drop: jax.Array, add: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(blocked, drop, jnp.where(held, old, add))

    return jax.tree.map(pick, dropped, added, active)


def _when(condition: jax.Array, change, value):
    """change(value) where the condition holds. A loop of at most one turn: unlike cond it costs nothing under vmap."""
    turn = (condition, value)
    return jax.lax.while_loop(lambda turn: turn[0], lambda turn: (jnp.zeros_like(turn[0]), change(turn[1])), turn)[1]
