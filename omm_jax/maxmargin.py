"""The offline maximum margin of a data set, with the interval that proves it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from omm_jax.activeset import build, lift, nearest
from omm_jax.norms import L2, Lp, Norm, Quadratic, l2
from omm_jax.numerics import dot, is_concrete
from omm_jax.reweighted import nearest_lp
from omm_jax.status import Status, describe, flag
from omm_jax.validation import check_data

# Points looked at together: the support and the worst violators of the whole set. Smaller sets are solved in one go.
_VIOLATORS = 256
_ROUNDS = 500
# Rounds without progress after which to give up.
_PATIENCE = 3


class Support(NamedTuple):
    """The points that carry the solution: v_pos and v_neg are their combinations."""

    row: jax.Array  # [k] of the data set, -1 in unused places
    weight: jax.Array  # [k] sums to 1 over each class


class MaxMargin(NamedTuple):
    """The maximum-margin classifier of a data set and its dual certificates.

    Attributes:
        w: weights `[d]`, of dual norm 1.
        b: bias; (w, b) has margin `lower` on the data set.
        gamma: the maximum margin, norm(v_pos - v_neg)/2.
        v_pos: the point of the positive hull nearest the negative hull `[d]`.
        v_neg: the point of the negative hull nearest the positive hull `[d]`.
        lower: the margin (w, b) attains; gamma cannot be below it.
        upper: half the distance of v_pos and v_neg; gamma cannot be above it.
        support: the points v_pos and v_neg are made of.
        status: bits of `Status`, 0 when all is well.
    """

    w: jax.Array
    b: jax.Array
    gamma: jax.Array
    v_pos: jax.Array
    v_neg: jax.Array
    lower: jax.Array
    upper: jax.Array
    support: Support
    status: jax.Array


def max_margin(x: ArrayLike, y: ArrayLike, *, norm: Norm = l2, tol: ArrayLike | None = None) -> MaxMargin:
    """The hyperplane of largest margin, as the bisector of the nearest points of the two convex hulls.

    gamma = min norm(v+ - v-)/2 over conv(V+) x conv(V-), w = grad norm(v+ - v-). For any such pair the margin that w
    attains and half the distance enclose gamma; the solver stops when that interval is at most tol wide, relatively.

    It can be jitted and vmapped; then nothing is raised (read `status`), and the support is padded with row -1.

    Args:
        x: examples `[n, d]`, float32 or float64.
        y: labels `[n]`, +1 or -1.
        norm: the norm of the margin.
        tol: relative width of the interval to stop at; 1e-9 in float64 and 1e-5 in float32 by default.

    Raises:
        ValueError: for bad data, and when no hyperplane separates the classes.

    Example:
        >>> x, y = jnp.array([[3.0, 0.0], [3.0, 4.0], [-1.0, 1.0]]), jnp.array([1.0, 1.0, -1.0])
        >>> solution = max_margin(x, y)
        >>> solution.w.round(6).tolist(), float(solution.b), float(solution.gamma), solution.support.row.tolist()
        ([1.0, 0.0], -1.0, 2.0, [0, 1, 2])

    Reference: Lemma separable-max-margin of the paper.
    """
    check_data(x, y)
    x = jnp.asarray(x)
    if tol is None:
        tol = 1e-9 if x.dtype == jnp.float64 else 1e-5
    solution = _solve(x, jnp.asarray(y).astype(x.dtype), norm, jnp.asarray(tol, x.dtype))
    return _on_host(solution) if is_concrete(solution.status) else solution


def _on_host(solution: MaxMargin) -> MaxMargin:
    """The solution with its support trimmed; ValueError if there is none."""
    status = Status(int(solution.status))
    if status & (Status.NOT_SEPARABLE | Status.NOT_FINITE):
        raise ValueError(
            f"max_margin found no margin: {describe(status & ~Status.NOT_CONVERGED)} (the hulls come as near as "
            f"{2 * float(solution.upper):.3g}, and the margin found is {float(solution.lower):.3g})"
        )
    row, weight = (np.asarray(part) for part in solution.support)
    used = np.flatnonzero(weight > 0)
    used = used[np.argsort(row[used])]
    return solution._replace(support=Support(jnp.asarray(row[used]), jnp.asarray(weight[used])))


class _Rounds(NamedTuple):
    support: Support
    w: jax.Array  # [d] of dual norm 1
    along: jax.Array  # [n] how far each point lies on its side, along w
    lower: jax.Array
    upper: jax.Array
    turns: jax.Array
    stalled: jax.Array


@jax.jit
def _solve(x: jax.Array, y: jax.Array, norm: Norm, tol: jax.Array) -> MaxMargin:
    if isinstance(norm, Quadratic):
        # With A = LL' the norm sqrt(x'Ax) is the Euclidean norm of L'x.
        factor = jnp.linalg.cholesky(norm.matrix).astype(x.dtype)
        end = _rounds(_centred(_matmul(x, factor), y), y, l2, tol)
        w = _matmul(factor, end.w)
    else:
        end = _rounds(_centred(x, y), y, norm, tol)
        w = end.w

    centre = jnp.mean(x, axis=0)
    weight, rows = end.support.weight, end.support.row
    of_pos, of_neg = (jnp.where(y[rows] == sign, weight, 0) for sign in (1, -1))
    v_pos, v_neg = (centre + _matmul(part, x[rows] - centre) for part in (of_pos, of_neg))
    # The bias half-way between the two classes as w sees them: what makes `lower` the margin of (w, b). At the optimum
    # it is the paper's -w.(v+ + v-)/2.
    lowest_pos, lowest_neg = _lowest(end.along, y)
    b = (lowest_neg - lowest_pos) / 2 - dot(w, centre)
    separable = end.lower > _rounding(x - centre)
    status = (
        flag(~separable, Status.NOT_SEPARABLE)
        | flag(separable & ~(end.upper - end.lower <= tol * end.upper), Status.NOT_CONVERGED)
        | flag(~jnp.isfinite(end.lower + end.upper), Status.NOT_FINITE)
    )
    return MaxMargin(w, b, end.upper, v_pos, v_neg, end.lower, end.upper, end.support, status)


def _rounds(signed: jax.Array, y: jax.Array, norm: Norm, tol: jax.Array) -> _Rounds:
    """Solve on the support and the worst violators of the whole set, again and again until nothing violates."""
    n, d = signed.shape
    k, violators = min(n, d + 2), min(n, _VIOLATORS)
    scale = jnp.sqrt(jnp.mean(jnp.sum(signed**2, axis=1)))
    scale = jnp.where(scale > 0, scale, 1)

    def look(support: Support, w: jax.Array, turns: jax.Array, stalled: jax.Array) -> _Rounds:
        along = _matmul(signed, w)
        lowest_pos, lowest_neg = _lowest(along, y)
        upper = norm.value(_matmul(support.weight, signed[support.row])) / 2
        return _Rounds(support, w, along, (lowest_pos + lowest_neg) / 2, upper, turns, stalled)

    def advance(now: _Rounds) -> _Rounds:
        lowest_pos, lowest_neg = _lowest(now.along, y)
        excess = now.along - jnp.where(y > 0, lowest_pos, lowest_neg)
        rows = jnp.concatenate([now.support.row, jax.lax.top_k(-excess, violators)[1].astype(jnp.int32)])
        label = jnp.where(rows >= 0, y[rows], 0)
        local = jnp.where(now.support.row >= 0, jnp.arange(k, dtype=jnp.int32), -1)
        (row, weight), w = _solve_few(signed[rows], label, Support(local, now.support.weight), norm, scale, tol / 4)
        # Weights of exactly unit sum, whatever the rounding.
        for sign in (1, -1):
            of_class = label[row] == sign
            weight = jnp.where(of_class, weight / jnp.sum(jnp.where(of_class, weight, 0)), weight)
        after = look(Support(jnp.where(row >= 0, rows[row], -1), weight), w, now.turns + 1, now.stalled)
        narrower = after.upper - after.lower < 0.5 * (now.upper - now.lower)
        nearer = after.upper < now.upper * (1 - 8 * jnp.finfo(signed.dtype).eps)
        return after._replace(stalled=jnp.where(narrower | nearer, 0, now.stalled + 1))

    def unfinished(now: _Rounds) -> jax.Array:
        wide = ~(now.upper - now.lower <= tol * now.upper)
        return wide & (now.upper > _rounding(signed)) & (now.turns < _ROUNDS) & (now.stalled < _PATIENCE)

    mean_pos, mean_neg = (_matmul(of_class / jnp.sum(of_class), signed) for of_class in (y > 0, y < 0))
    along = _matmul(signed, mean_pos + mean_neg)
    first = jnp.stack([jnp.argmin(jnp.where(of_class, along, jnp.inf)) for of_class in (y > 0, y < 0)])
    place = jnp.arange(k)
    support = Support(
        jnp.where(place < 2, first[jnp.minimum(place, 1)], -1).astype(jnp.int32), (place < 2).astype(signed.dtype)
    )
    zero = jnp.zeros((), jnp.int32)
    w = norm.gradient(jnp.sum(signed[first], axis=0))
    return jax.lax.while_loop(unfinished, advance, look(support, w, zero, zero))


def _solve_few(
    points: jax.Array, label: jax.Array, start: Support, norm: Norm, scale: jax.Array, tol: jax.Array
) -> tuple[Support, jax.Array]:
    """The support and w of a problem that is small enough to look at every point in every iteration."""
    if isinstance(norm, L2):
        columns = jax.vmap(lift, in_axes=(0, 0, None))(points[start.row], label[start.row], scale)
        found = nearest(points, label, build(*start, columns), scale, tol)
        return Support(found.active.row, found.active.weight), found.w
    if isinstance(norm, Lp):
        row, weight, w = nearest_lp(points, label, *start, norm, tol)
        return Support(row, weight), w
    raise ValueError(f"max_margin knows the norms l2, lp and quadratic, got {type(norm).__name__}")


def _centred(images: jax.Array, y: jax.Array) -> jax.Array:
    """y_i (x_i - c): only differences matter, and a centre keeps the offset of the data out of the rounding."""
    return y[:, None] * (images - jnp.mean(images, axis=0))


def _lowest(along: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.min(jnp.where(y > 0, along, jnp.inf)), jnp.min(jnp.where(y < 0, along, jnp.inf))


def _rounding(points: jax.Array) -> jax.Array:
    """A margin of this size is nothing but rounding."""
    return 4 * jnp.finfo(points.dtype).eps * jnp.max(jnp.abs(points))


def _matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
