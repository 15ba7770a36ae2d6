"""The nearest points of two convex hulls in a p-norm, as a sequence of Euclidean problems.

Newton's method for f(u) = sum |u_i|^p / p over the hull of differences u = v+ - v-: with H the diagonal of f'' at u,
the next u is the point of the hull nearest u - f'(u)/H in the norm sqrt(u'Hu), which is the Euclidean problem of
`activeset` after scaling and shifting the points, warm-started from the last support. A step that fails to bring the
hulls nearer is taken again with a larger H. For p < 2 the largest H used is |u_i|^(p-2), which majorises f.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.activeset import build, lift, nearest
from omm_jax.norms import Lp
from omm_jax.numerics import safe_divide

_STEPS = 400
# How often H may be doubled, and steps that may pass without a narrower certificate.
_DAMPINGS, _PATIENCE = 40, 20


class _Newton(NamedTuple):
    row: jax.Array  # [k]
    weight: jax.Array  # [k]
    difference: jax.Array  # [d]
    w: jax.Array  # [d]
    gap: jax.Array
    best_gap: jax.Array
    damping: jax.Array
    stalled: jax.Array
    steps: jax.Array


def nearest_lp(
    points: jax.Array, label: jax.Array, row: jax.Array, weight: jax.Array, norm: Lp, tol: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The support of the nearest points of the two hulls in a p-norm, and the direction between them.

    Args:
        points: signed centred points y_i (x_i - c) `[m, d]`.
        label: +1 or -1 `[m]`, 0 for a row that is not there.
        row: rows of the support to start from `[k]`, -1 in unused places; at least one of each class.
        weight: their weights `[k]`, which sum to 1 over each class.
        norm: the p-norm.
        tol: stop when the certificate interval is at most this wide, relatively.

    Returns:
        The row `[k]` and weight `[k]` of the support found, and w `[d]` of dual norm 1.
    """
    eps = jnp.finfo(points.dtype).eps
    size = jnp.max(jnp.abs(points))

    def gap(w: jax.Array, difference: jax.Array) -> jax.Array:
        along = jnp.matmul(points, w, precision=jax.lax.Precision.HIGHEST)
        lowest = [jnp.min(jnp.where(of_class, along, jnp.inf)) for of_class in (label > 0, label < 0)]
        return 1 - (lowest[0] + lowest[1]) / norm.value(difference)

    def combine(row: jax.Array, weight: jax.Array) -> jax.Array:
        return jnp.matmul(weight, points[row], precision=jax.lax.Precision.HIGHEST)

    def step(now: _Newton) -> _Newton:
        curvature, target = _model(norm.p, now.difference, now.damping)
        root = jnp.sqrt(curvature)
        # Half of the shift goes to each class, as the weights of each sum to 1.
        images = root * (points - target / 2)
        scale = jnp.sqrt(jnp.mean(jnp.where(label == 0, 0, jnp.sum(images**2, axis=1))))
        scale = jnp.where(scale > 0, scale, 1)
        columns = jax.vmap(lift, in_axes=(0, 0, None))(images[now.row], label[now.row], scale)
        active = build(now.row, now.weight, columns)
        found = nearest(images, label, active, scale, 1e-2 * tol)
        moved = combine(found.active.row, found.active.weight)
        # The gradient of the model at its minimiser: where u_i is all but 0 the model knows it better than u does.
        w = root * found.w
        w = safe_divide(w, norm.dual(w))
        nearer = norm.value(moved) <= norm.value(now.difference) * (1 + 4 * eps)
        new_gap = jnp.where(nearer, gap(w, moved), now.gap)
        improved = new_gap < 0.9 * now.best_gap
        return _Newton(
            jnp.where(nearer, found.active.row, now.row),
            jnp.where(nearer, found.active.weight, now.weight),
            jnp.where(nearer, moved, now.difference),
            jnp.where(nearer, w, now.w),
            new_gap,
            jnp.minimum(new_gap, now.best_gap),
            jnp.where(nearer, jnp.maximum(now.damping - 1, 0), now.damping + 1),
            jnp.where(improved, 0, now.stalled + nearer),
            now.steps + 1,
        )

    def unfinished(now: _Newton) -> jax.Array:
        apart = norm.value(now.difference) > 8 * eps * size
        going = (now.steps < _STEPS) & (now.damping <= _DAMPINGS) & (now.stalled < _PATIENCE)
        return (now.gap > tol) & apart & going

    start = combine(row, weight)
    zero = jnp.zeros((), jnp.int32)
    w = norm.gradient(start)
    begin = _Newton(row, weight, start, w, gap(w, start), jnp.full_like(w[0], jnp.inf), zero, zero, zero)
    end = jax.lax.while_loop(unfinished, step, begin)
    return end.row, end.weight, end.w


def _model(p, u: jax.Array, damping: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The diagonal H `[d]` of the quadratic model of sum |u_i|^p / p at u, and its minimiser u - f'(u)/H `[d]`."""
    u_max = jnp.max(jnp.abs(u))
    relative = jnp.abs(u) / u_max
    double = 2.0 ** damping.astype(u.dtype)
    # Curvature vanishes (p > 2) or grows without bound (p < 2) at u_i = 0: a floor keeps it finite.
    floor = jnp.where(p > 2, jnp.minimum(1e-3 * double, 1), 1e-10)
    factor = jnp.where(p > 2, (p - 1) * double, jnp.minimum((p - 1) * double, 1))
    curvature = factor * jnp.maximum(relative, floor) ** (p - 2)
    slope = jnp.sign(u) * jnp.where(relative > 0, jnp.where(relative > 0, relative, 1) ** (p - 1), 0)
    return curvature.astype(u.dtype), (u - u_max * slope / curvature).astype(u.dtype)
