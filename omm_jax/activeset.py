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

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from omm_jax.numerics import safe_divide

# A column nearer than this many roundings to the span of the others is not added.
_DEPENDENT = 32
# Arrivals without progress after which a search gives up, searches from a renewed dual basis, and most iterations.
_PATIENCE, _SEARCHES, _LIMIT = 6, 2, 10_000


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
    w: jax.Array  # [d] the unit vector along v+ - v-
    lowest: jax.Array  # [2] where the first points of the positive and of the negative class lie along w, from c
    lower: jax.Array
    upper: jax.Array


def lift(z: jax.Array, label: jax.Array, scale: jax.Array) -> jax.Array:
    """The column `[d + 2]` of a signed centred point z = y (x - c) `[d]`."""
    return jnp.concatenate([z, scale * jnp.stack([label > 0, label < 0]).astype(z.dtype)])


class _Change(NamedTuple):
    """A change of one slot; the dual basis becomes dual - coordinates x direction, and `direction` in the slot."""

    slot: jax.Array  # k for no change
    row: jax.Array
    column: jax.Array  # [d + 2]
    coordinates: jax.Array  # [k]
    direction: jax.Array  # [d + 2]
    fresh: jax.Array  # [d + 2] the dual vector of the slot

    def apply(self, active: ActiveSet) -> ActiveSet:
        at = jnp.arange(active.row.shape[0]) == self.slot
        changed = active.dual - self.coordinates[:, None] * self.direction
        return ActiveSet(
            jnp.where(at, self.row, active.row),
            jnp.where(at, 0, active.weight),
            active.column.at[self.slot].set(self.column, mode="drop"),
            jnp.where(at[:, None], self.fresh, changed),
        )


def _add(active: ActiveSet, row: jax.Array, column: jax.Array, wanted: jax.Array) -> _Change:
    """A point for a free slot, with weight 0; no change if it is not wanted, depends on the others or has no room."""
    k = active.row.shape[0]
    slot = jnp.argmin(active.row)
    # The coordinates of the column in the support, and what they leave of it; done twice, for orthogonality.
    first = _matmul(active.dual, column)
    residual = column - _matmul(first, active.column)
    second = _matmul(active.dual, residual)
    residual = residual - _matmul(second, active.column)
    length = _matmul(residual, residual)
    floor = (_DEPENDENT * jnp.finfo(column.dtype).eps) ** 2 * _matmul(column, column)
    possible = wanted & (active.row[slot] < 0) & (length > floor)
    direction = jnp.where(possible, residual / length, 0)
    return _Change(jnp.where(possible, slot, k), row, column, first + second, direction, direction)


def _drop(active: ActiveSet, slot: jax.Array) -> _Change:
    """The point of a slot leaves the support."""
    gone, zero = active.dual[slot], jnp.zeros_like(active.dual[0])
    along = _matmul(active.dual, gone) / _matmul(gone, gone)
    return _Change(slot, jnp.full((), -1, jnp.int32), zero, along, gone, zero)


def build(row: jax.Array, weight: jax.Array, column: jax.Array) -> ActiveSet:
    """The active set of these columns `[k, d + 2]`; dependent ones, and those of row -1, are left out."""
    k = row.shape[0]

    def take(i: jax.Array, built: ActiveSet) -> ActiveSet:
        change = _add(built, row[i], column[i], row[i] >= 0)
        built = change.apply(built)
        return built._replace(weight=built.weight.at[change.slot].set(weight[i], mode="drop"))

    return jax.lax.fori_loop(0, k, take, ActiveSet.empty(k, column.shape[1] - 2, column.dtype))


def _affine_step(active: ActiveSet, scale: jax.Array) -> jax.Array:
    """The change of the weights `[k]` that leads to the nearest points of the affine hulls of the support."""
    membership = active.column[:, -2:] / scale
    total = _matmul(active.weight, active.column)
    missing = 1 - total[-2:] / scale
    target = jnp.concatenate([-total[:-2], scale * missing])
    # Least squares for the lifted target, then the combination of the two unit directions that makes the sums exact.
    free = _matmul(active.dual, target)
    directions = active.dual[:, -2:]
    (a, b), (c, d) = _matmul(membership.T, directions)
    r, s = missing - _matmul(free, membership)
    determinant = a * d - b * c
    correction = safe_divide(jnp.stack([d * r - b * s, a * s - c * r]), determinant)
    return free + _matmul(directions, correction)


def _normal(active: ActiveSet, scale: jax.Array) -> tuple[jax.Array, ...]:
    """Half the length of v+ - v-, the unit vector along it, and where v+ and v- lie along that, each from its side.

    The weighted sum of the points loses digits where the hulls nearly touch. But (v+ - v-, -s at_pos, -s at_neg) is
    orthogonal to the columns of the support, and taking away what is not is accurate however short the vector is.
    """
    difference = _matmul(active.weight, active.column)[:-2]
    upper = jnp.sqrt(_matmul(difference, difference)) / 2
    held = _matmul(active.column[:, :-2], difference) * active.weight
    stand = _matmul(held, active.column[:, -2:]) / scale
    normal = jnp.concatenate([difference, -stand / scale])
    normal = normal - _matmul(_matmul(active.dual, normal), active.column)
    along = normal[:-2]
    normal = safe_divide(normal, jnp.sqrt(_matmul(along, along)))
    at_pos, at_neg = -scale * normal[-2:]
    return upper, normal[:-2], at_pos, at_neg


def _in_turn(solve: Callable[..., Nearest]) -> Callable[..., Nearest]:
    """Make vmap of a solver solve one problem after the other on a CPU, and all at once elsewhere.

    Problems take different numbers of iterations, and most of an iteration is needed in one of two cases only. A CPU
    has nothing to gain from doing for all what one needs.
    """
    mapped = custom_vmap(solve)

    @mapped.def_vmap
    def rule(size, is_mapped, *arguments):
        leaves, structure = jax.tree.flatten(arguments)
        moves = jax.tree.leaves(is_mapped)

        def in_turn(*leaves):
            def one(moving):
                moving = iter(moving)
                merged = [next(moving) if moved else leaf for leaf, moved in zip(leaves, moves, strict=True)]
                return mapped(*jax.tree.unflatten(structure, merged))

            return jax.lax.map(one, [leaf for leaf, moved in zip(leaves, moves, strict=True) if moved])

        def at_once(*leaves):
            axes = [0 if moved else None for moved in moves]
            return jax.vmap(lambda *leaves: solve(*jax.tree.unflatten(structure, leaves)), axes)(*leaves)

        result = in_turn(*leaves) if jax.default_backend() == "cpu" else at_once(*leaves)
        return result, jax.tree.map(lambda _: True, result)

    return mapped


class _Search(NamedTuple):
    active: ActiveSet
    w: jax.Array
    lowest: jax.Array
    upper: jax.Array
    best_gap: jax.Array
    best_upper: jax.Array
    stalled: jax.Array
    done: jax.Array
    iterations: jax.Array
    searches: jax.Array


@_in_turn
def nearest(points: jax.Array, label: jax.Array, active: ActiveSet, scale: jax.Array, tol: jax.Array) -> Nearest:
    """The nearest points of the two hulls, from a support that holds at least one point of each class.

    Args:
        points: signed centred points z_i = y_i (x_i - c) `[m, d]`.
        label: +1 or -1 `[m]`, 0 for a row that is not there.
        active: where to start; its rows are those of `points`, its weights sum to 1 over each class.
        scale: the s of the lifted columns, of the size of the points; it must stay the same for one active set.
        tol: stop when upper - lower <= tol upper, or at the rounding of the points.
    """
    d = points.shape[1]
    eps = jnp.finfo(points.dtype).eps
    # A certificate this narrow, or a distance this small (then the hulls meet), is nothing but rounding.
    rounding = 4 * eps * jnp.max(jnp.abs(points))

    def step(now: _Search) -> _Search:
        change = _affine_step(now.active, scale)
        ratio = jnp.where((now.active.row >= 0) & (change < 0), now.active.weight / -change, jnp.inf)
        slot = jnp.argmin(ratio)
        blocked = ratio[slot] < 1
        weight = jnp.maximum(now.active.weight + jnp.minimum(ratio[slot], 1) * change, 0)
        now = now._replace(active=now.active._replace(weight=weight), iterations=now.iterations + 1)
        # The branches return the numbers that describe the change, and only they differ: no large array is copied.
        change, news = jax.lax.cond(blocked, lambda: (_drop(now.active, slot), _news(now)), lambda: arrive(now))
        return now._replace(active=change.apply(now.active), **news)

    def arrive(now: _Search) -> tuple[_Change, dict[str, jax.Array]]:
        """At the nearest points of the affine hulls: finished, or one more point for the support."""
        active = now.active
        upper, w, at_pos, at_neg = _normal(active, scale)
        along = _matmul(points, w)
        lowest = jnp.stack([jnp.min(jnp.where(label == sign, along, jnp.inf)) for sign in (1, -1)])
        # The point that violates most: how far each lies below the certificate of its class.
        excess = jnp.where(label == 0, jnp.inf, along - jnp.where(label > 0, at_pos, at_neg))
        worst = jnp.argmin(excess).astype(jnp.int32)

        gap = upper - jnp.mean(lowest)
        progress = (gap < 0.5 * now.best_gap) | (upper < now.best_upper * (1 - 4 * eps))
        stalled = jnp.where(progress, 0, now.stalled + 1)
        # Not "upper < 0": a NaN must end the search.
        done = (gap <= jnp.maximum(tol * upper, rounding)) | (upper <= rounding) | ~(upper >= 0)
        wanted = ~done & ~jnp.any(active.row == worst)
        best_gap, best_upper = jnp.minimum(gap, now.best_gap), jnp.minimum(upper, now.best_upper)
        news = _news(_Search(active, w, lowest, upper, best_gap, best_upper, stalled, done, *now[-2:]))
        return _add(active, worst, lift(points[worst], label[worst], scale), wanted), news

    def search(now: _Search) -> _Search:
        # A search that stopped getting nearer has lost its dual basis to rounding: make it anew and try once more.
        active = _when(now.searches > 0, lambda old: build(old.row, old.weight, old.column), now.active)
        now = now._replace(active=active, stalled=jnp.zeros((), jnp.int32), searches=now.searches + 1)

        def going(now: _Search) -> jax.Array:
            return ~now.done & (now.stalled < _PATIENCE) & (now.iterations < _LIMIT)

        return jax.lax.while_loop(going, step, now)

    infinite, zero = jnp.full((), jnp.inf, points.dtype), jnp.zeros((), jnp.int32)
    nothing = jnp.zeros(d, points.dtype), jnp.zeros(2, points.dtype)
    start = _Search(active, *nothing, infinite, infinite, infinite, zero, zero < 0, zero, zero)
    end = jax.lax.while_loop(lambda now: ~now.done & (now.searches < _SEARCHES), search, start)
    return Nearest(end.active, end.w, end.lowest, jnp.mean(end.lowest), end.upper)


def _news(now: _Search) -> dict[str, jax.Array]:
    """What an iteration may change besides the active set."""
    names = ("w", "lowest", "upper", "best_gap", "best_upper", "stalled", "done")
    return {name: getattr(now, name) for name in names}


def _matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def _when(condition: jax.Array, change, value):
    """change(value) where the condition holds. A loop of at most one turn: unlike cond it costs nothing under vmap."""
    turn = (condition, value)
    return jax.lax.while_loop(lambda turn: turn[0], lambda turn: (jnp.zeros_like(turn[0]), change(turn[1])), turn)[1]
