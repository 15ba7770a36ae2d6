"""n-OMM: keeps every point it updates on, and solves the offline problem on them after each update."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.activeset import ActiveSet, lift, nearest
from omm_jax.algorithm import Algorithm, Trigger, learner
from omm_jax.algorithms.arguments import check_range
from omm_jax.algorithms.certificates import Seen
from omm_jax.algorithms.omm import omm_trigger
from omm_jax.numerics import dot
from omm_jax.status import Status, flag


class NOmmState(NamedTuple):
    """The update points V+ and V-, and the exact solution on them: O(capacity x d) numbers."""

    points: jax.Array  # [capacity, d] y (x - origin) of the update points
    label: jax.Array  # [capacity] +1 or -1, 0 where there is no point
    origin: jax.Array  # [d] the first point
    scale: jax.Array  # the first distance between the classes
    active: ActiveSet  # the support of the solution, min(capacity, d + 2) places
    w: jax.Array  # [d]
    b: jax.Array
    gamma: jax.Array  # half the distance of v+ and v-
    lower: jax.Array  # the margin of (w, b) on the update points, less an allowance for rounding
    overflow: jax.Array  # bool, an update point found no room
    seen: Seen

    @property
    def v_pos(self) -> jax.Array:
        """The dual certificate of the positive class `[d]`."""
        return self.origin + self._combination(0)

    @property
    def v_neg(self) -> jax.Array:
        """The dual certificate of the negative class `[d]`."""
        return self.origin - self._combination(1)

    def _combination(self, side: int) -> jax.Array:
        d = self.origin.shape[0]
        of_class = self.active.column[:, d + side] > 0
        return jnp.sum(jnp.where(of_class, self.active.weight, 0)[:, None] * self.active.column[:, :d], axis=0)


@learner(static=("capacity",))
def n_omm(rho: ArrayLike = 1.0, *, capacity: int = 512) -> Algorithm:
    """n-OMM(rho): on y(w.x + b) < rho gamma it keeps x, and takes the maximum-margin classifier of all it has kept.

    The points kept are never dropped: one that carries no weight now may carry some later. The Euclidean norm only.

    Args:
        rho: aggressiveness in [0, 1]; the paper takes 1.
        capacity: room for update points; when a lane needs more, it keeps its last exact classifier and its status says
            so.

    Example:
        >>> alg = n_omm(capacity=8)
        >>> state = alg.init(1)
        >>> for x, y in ((3.0, 1.0), (-1.0, -1.0), (2.0, 1.0)):
        ...     state = alg.step(state, (jnp.array([x]), y))
        >>> w, b = alg.classifier(state)
        >>> w.tolist(), float(b), float(alg.gamma(state))
        ([1.0], -0.5, 1.5)

    Reference: Algorithm 1 of the paper, naive version.
    """
    check_range("rho", rho, 0, 1)
    if capacity < 2:
        raise ValueError(f"n_omm needs a capacity of at least one point a class, got capacity = {capacity}")

    def init(d: int, dtype: Any = None) -> NOmmState:
        zeros, zero = jnp.zeros(d, dtype), jnp.zeros((), dtype)
        return NOmmState(
            points=jnp.zeros((capacity, d), dtype),
            label=jnp.zeros(capacity, jnp.int8),
            origin=zeros,
            scale=zero + 1,
            active=ActiveSet.empty(min(capacity, d + 2), d, zeros.dtype),
            w=zeros,
            b=zero,
            gamma=zero,
            lower=zero,
            overflow=jnp.zeros((), bool),
            seen=Seen.nothing(),
        )

    def linear(state: NOmmState) -> tuple[jax.Array, jax.Array]:
        return state.seen.linear(state.w, state.b)

    def gamma(state: NOmmState) -> jax.Array:
        return jnp.where(state.seen.both(), state.gamma, jnp.nan)

    def threshold(state: NOmmState, y: jax.Array) -> Trigger:
        # A kept point is never nearer than `lower`, so that it does not fire again by the rounding of its own score.
        return state.seen.threshold(y, omm_trigger(rho, state.lower, y))

    def update(state: NOmmState, f: jax.Array, y: jax.Array) -> NOmmState:
        return _solve(_keep(state, f, y))

    def status(state: NOmmState) -> jax.Array:
        touching = state.seen.both() & (state.gamma <= 0)
        return flag(touching, Status.DEGENERATE) | flag(state.overflow, Status.CAPACITY)

    return Algorithm(init, lambda x: x, linear, threshold, update, linear, status, gamma, same_score=True)


def _keep(state: NOmmState, f: jax.Array, y: jax.Array) -> NOmmState:
    """The state with one more point kept, if it is not there already and there is room for it."""
    origin = jnp.where(state.seen.pos | state.seen.neg, state.origin, f)
    z = y * (f - origin)
    held = jnp.any((state.label == y) & jnp.all(state.points == z, axis=1))
    place = jnp.argmin(jnp.abs(state.label))
    free = state.label[place] == 0
    at = (jnp.arange(state.label.shape[0]) == place) & free & ~held
    seen = state.seen.add(y)
    # The second point kept is the first of the other class: the two are the support.
    pair = seen.both() & ~state.seen.both()
    distance = jnp.sqrt(dot(z, z))
    scale = jnp.where(pair & (distance > 0), distance, state.scale)
    first = _pair(z, y, scale, state.active.row.shape[0])
    return state._replace(
        points=jnp.where(at[:, None], z, state.points),
        label=jnp.where(at, y.astype(jnp.int8), state.label),
        origin=origin,
        scale=scale,
        active=jax.tree.map(lambda new, old: jnp.where(pair, new, old), first, state.active),
        overflow=state.overflow | (~held & ~free),
        seen=seen,
    )


def _pair(z: jax.Array, y: jax.Array, scale: jax.Array, k: int) -> ActiveSet:
    """The active set of the origin and of z, one a class: their columns are orthogonal."""
    columns = jnp.stack([lift(jnp.zeros_like(z), -y, scale), lift(z, y, scale)])
    dual = columns / jnp.sum(columns**2, axis=1, keepdims=True)
    room = ((0, k - 2), (0, 0))
    place = jnp.arange(k, dtype=jnp.int32)
    used = place < 2
    return ActiveSet(jnp.where(used, place, -1), used.astype(z.dtype), jnp.pad(columns, room), jnp.pad(dual, room))


def _solve(state: NOmmState) -> NOmmState:
    """The state with the maximum-margin classifier of its points, from the support of the last."""
    eps = jnp.finfo(state.w.dtype).eps
    found = nearest(state.points, state.label, state.active, state.scale, eps**0.7)
    b = (found.lowest[1] - found.lowest[0]) / 2 - dot(found.w, state.origin)
    # What the score of a kept point may lose to rounding.
    allowance = 8 * eps * (jnp.abs(b) + jnp.max(jnp.abs(state.points)) + jnp.max(jnp.abs(state.origin)))
    return state._replace(
        active=found.active, w=found.w, b=b, gamma=found.upper, lower=jnp.maximum(found.lower - allowance, 0)
    )
