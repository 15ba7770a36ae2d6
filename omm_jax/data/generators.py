"""Streams whose geometry is known in advance: hard cases from the theory, and clusters with a prescribed shape.

Pure functions; what is random comes from a key. Each returns a `Sample` that states its own maximum-margin classifier,
margin and diameters, so that a bound can be evaluated without solving anything.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm
from omm_jax.norms import Norm, l2
from omm_jax.numerics import dot, is_concrete

_BISECTIONS = 100


class Sample(NamedTuple):
    """Labelled points, an order to show them in, and what is known about them.

    Attributes:
        x: points `[n, d]`.
        y: labels `[n]`, +1 or -1, of the dtype of x.
        order: rows of x, in the order of the stream `[t]`, int32.
        w: weights of the maximum-margin classifier `[d]`, of dual norm 1.
        b: its bias.
        margin: its margin, the paper's gamma*.
        diameter: the largest distance of two points of one class, the paper's D.
        radius: the largest norm of a point, the paper's D_bar.
    """

    x: jax.Array
    y: jax.Array
    order: jax.Array
    w: jax.Array
    b: jax.Array
    margin: jax.Array
    diameter: jax.Array
    radius: jax.Array


def bad_perceptron(c: float, r: float | None = None, *, dtype: Any = None) -> Sample:
    """The paper's Example bad-perceptron: three points on which the Perceptron errs about c^2 / 2 times, OMM at most 3.

    The points are (c, 1) of label +1, (c, -1) and (c + r, -1) of label -1; the order alternates the first and the last
    for as long as the Perceptron provably updates at every step. With r = 2/c < 1 no OMM makes more than two mistakes.

    With r = 2/c every second score of the Perceptron is 0 on a point of label +1: an update but, under sign(0) = +1,
    not a mistake. The tie is exact in floating point when c is a power of two.

    Args:
        c: how far from the origin, c > 0.
        r: the diameter, and since gamma* = 1 the ratio r of the theory; 2/c unless given, and at least 2/c.
        dtype: floating dtype of the points.

    Example:
        >>> sample = bad_perceptron(4.0)
        >>> sample.x.tolist(), sample.order.tolist()[:4], sample.order.shape
        ([[4.0, 1.0], [4.0, -1.0], [4.5, -1.0]], [0, 2, 0, 2], (10,))
    """
    if not c > 0:
        raise ValueError(f"bad_perceptron expects c > 0, got {c}")
    r = 2 / c if r is None else r
    if c * r < 2:
        raise ValueError(
            f"bad_perceptron expects r >= 2/c = {2 / c:g}, else the Perceptron gets (c, 1) right; got {r:g}"
        )
    # The Perceptron updates at every step t with t (c r + r^2 + 2) <= 2 ((c + r)^2 + 1).
    steps = max(1, math.floor(2 * ((c + r) ** 2 + 1) / (c * r + r**2 + 2)))
    x = jnp.array([[c, 1], [c, -1], [c + r, -1]], dtype or float)
    return Sample(
        x=x,
        y=jnp.array([1, -1, -1], x.dtype),
        order=jnp.arange(steps, dtype=jnp.int32) % 2 * 2,
        w=jnp.array([0, 1], x.dtype),
        b=jnp.zeros((), x.dtype),
        margin=jnp.ones((), x.dtype),
        diameter=jnp.asarray(r, x.dtype),
        radius=jnp.asarray(math.hypot(c + r, 1), x.dtype),
    )


def orthogonal_adversary(algorithm: Algorithm, d: int, *, dtype: Any = None) -> Sample:
    """The d unit vectors, each labelled against the learner's own prediction: d mistakes out of any learner.

    The stated classifier is the homogeneous one, w = y / sqrt(d) with margin 1 / sqrt(d). With a bias the margin is
    sqrt(1/n+ + 1/n-) / 2, the same when the classes are equally large and more when not. A learner without bias scores
    every new direction 0, that is +1, so its labels are all -1: such a stream has one class, D = sqrt(2) all the same.
    A score that is 0 but for rounding is answered by the sign it was computed with; another program may see such a tie
    differently.

    Args:
        algorithm: the learner to play against.
        d: the dimension, and the number of mistakes.
        dtype: floating dtype of the points.

    Example:
        >>> from omm_jax import e_omm
        >>> orthogonal_adversary(e_omm(), 4).y.tolist()
        [-1.0, 1.0, -1.0, 1.0]
    """
    if d < 3:
        raise ValueError(f"orthogonal_adversary expects d >= 3, so that two points share a class, got {d}")
    x = jnp.eye(d, dtype=dtype or float)

    def answer(state: Any, point: jax.Array) -> tuple[Any, jax.Array]:
        score = algorithm.score(state, algorithm.features(point))
        y = jnp.where(score >= 0, -1, 1).astype(x.dtype)
        return algorithm.step(state, (point, y)), y

    _, y = jax.lax.scan(answer, algorithm.init(d, x.dtype), x)
    return Sample(
        x=x,
        y=y,
        order=jnp.arange(d, dtype=jnp.int32),
        w=y / math.sqrt(d),
        b=jnp.zeros((), x.dtype),
        margin=jnp.full((), 1 / math.sqrt(d), x.dtype),
        diameter=jnp.full((), math.sqrt(2), x.dtype),
        radius=jnp.ones((), x.dtype),
    )


def clusters(
    key: jax.Array,
    n: int,
    d: int,
    *,
    margin: ArrayLike = 1.0,
    r: ArrayLike = 2.0,
    radius_ratio: ArrayLike | None = None,
    positives: int | None = None,
    norm: Norm = l2,
    dtype: Any = None,
) -> Sample:
    """Two random clusters with a margin, a ratio r = D / gamma* and a ratio D_bar / D that are exactly the given ones.

    Around v+ = gamma* u and v- = -gamma* u, u a random direction of norm 1, each class fills the half of a ball of
    diameter D = r gamma* that lies beyond the hyperplane through its centre. Two antipodal points on that hyperplane
    belong to each class of two points or more: their distance is D and their midpoint is v+ or v-, which makes v+ and
    v- the dual certificates, whatever else was drawn. All is then moved along the separating hyperplane until the
    largest norm is D_bar, so b* = 0.

    The numbers may be traced, and the function vmapped over keys and numbers.

    Args:
        key: a JAX key.
        n: number of points, at least 3.
        d: dimension, at least 2.
        margin: gamma*.
        r: D / gamma*.
        radius_ratio: D_bar / D, at least 1/2 + 1/r; without it the clusters stay around the origin.
        positives: how many points have label +1, from 1 to n - 1; n // 2 unless given.
        norm: the norm of all these quantities.
        dtype: floating dtype of the points.

    Example:
        >>> sample = clusters(jax.random.key(0), n=10, d=3, margin=2.0, r=1.5, radius_ratio=4.0, positives=3)
        >>> float(sample.margin), float(sample.diameter), float(sample.radius), int((sample.y > 0).sum())
        (2.0, 3.0, 12.0, 3)
    """
    positives = n // 2 if positives is None else positives
    _check_clusters(n, d, margin, r, radius_ratio, positives)
    dtype = jnp.zeros((), dtype).dtype
    numbers = (None if number is None else jnp.asarray(number, dtype) for number in (margin, r, radius_ratio))
    return _clusters(key, *numbers, norm, n=n, d=d, positives=positives)


@functools.partial(jax.jit, static_argnames=("n", "d", "positives"))
def _clusters(
    key: jax.Array,
    margin: jax.Array,
    r: jax.Array,
    radius_ratio: jax.Array | None,
    norm: Norm,
    *,
    n: int,
    d: int,
    positives: int,
) -> Sample:
    dtype = margin.dtype
    diameter = r * margin
    keys = jax.random.split(key, 5)

    u = jax.random.normal(keys[0], (d,), dtype)
    u = u / norm.value(u)
    w = norm.gradient(u)
    y = jnp.where(jnp.arange(n) < positives, 1, -1).astype(dtype)

    value, along = jax.vmap(norm.value), jax.vmap(lambda point: dot(w, point))
    ball = jax.random.normal(keys[1], (n, d), dtype)
    ball = ball / value(ball)[:, None] * jax.random.uniform(keys[2], (n, 1), dtype) ** (1 / d)
    # A point on the wrong side of the hyperplane through the centre is replaced by its mirror image.
    ball = jnp.where((y * along(ball) < 0)[:, None], -ball, ball)
    # Directions within the hyperplane: w.u = 1, so this projects along u.
    flat = jax.random.normal(keys[3], (2, d), dtype)
    flat = flat - along(flat)[:, None] * u
    flat = flat / value(flat)[:, None]
    for first, size, direction in ((0, positives, flat[0]), (positives, n - positives, flat[1])):
        ends = jnp.stack([direction, -direction]) if size > 1 else jnp.zeros((1, d), dtype)
        ball = ball.at[first : first + len(ends)].set(ends)
    x = margin * y[:, None] * u + diameter / 2 * ball

    if radius_ratio is None:
        radius = jnp.max(value(x))
    else:
        radius = radius_ratio * diameter
        x = x + _shift(x, flat[0], radius, norm) * flat[0]
    shuffle = jax.random.permutation(keys[4], n)
    return Sample(
        x=x[shuffle],
        y=y[shuffle],
        order=jnp.arange(n, dtype=jnp.int32),
        w=w,
        b=jnp.zeros((), dtype),
        margin=margin,
        diameter=diameter,
        radius=radius,
    )


def _shift(x: jax.Array, direction: jax.Array, radius: jax.Array, norm: Norm) -> jax.Array:
    """How far to move the points along a direction of norm 1 for their largest norm to be `radius`, by bisection.

    The largest norm is a convex function of the distance moved: at 0 it is at most `radius`, at 2 radius at least.
    """

    def halve(_, bracket):
        low, high = bracket
        middle = (low + high) / 2
        short = jnp.max(jax.vmap(norm.value)(x + middle * direction)) <= radius
        return jnp.where(short, middle, low), jnp.where(short, high, middle)

    low, _ = jax.lax.fori_loop(0, _BISECTIONS, halve, (jnp.zeros_like(radius), 2 * radius))
    return low


def _check_clusters(n, d, margin, r, radius_ratio, positives) -> None:
    if n < 3 or d < 2:
        raise ValueError(f"clusters expects n >= 3 points and d >= 2 dimensions, got n = {n}, d = {d}")
    if not 1 <= positives <= n - 1:
        raise ValueError(f"clusters expects both classes: positives from 1 to n - 1 = {n - 1}, got {positives}")
    for name, value in (("margin", margin), ("r", r)):
        if is_concrete(value) and not (np.asarray(value) > 0).all():
            raise ValueError(f"clusters expects {name} > 0, got {value}")
    if radius_ratio is not None and is_concrete(radius_ratio) and is_concrete(r):
        least = 0.5 + 1 / np.asarray(r)
        if not (np.asarray(radius_ratio) >= least).all():
            raise ValueError(f"radius_ratio must be at least 1/2 + 1/r = {np.max(least):g}, got {radius_ratio}")
