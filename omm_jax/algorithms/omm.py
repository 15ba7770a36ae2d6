"""e-OMM and ce-OMM: online maximum margin from two dual certificates (the paper's Algorithm 1, efficient version)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm, Trigger, learner
from omm_jax.algorithms.arguments import check_range
from omm_jax.algorithms.certificates import Seen
from omm_jax.norms import Norm, l2
from omm_jax.numerics import dot
from omm_jax.segment import segment
from omm_jax.status import Status, flag


class OmmState(NamedTuple):
    """The two dual certificates: a convex combination of the points of each class."""

    v_pos: jax.Array  # [d]
    v_neg: jax.Array  # [d]
    seen: Seen


def omm_trigger(aggressiveness: ArrayLike, gamma: jax.Array, y: jax.Array) -> Trigger:
    """The trigger a < rho gamma, or a mistake.

    Deviation from the paper: at rho = 0 a tie a = 0 with y = -1 is a mistake (sign(0) = +1) that the printed rule never
    repairs, so equality fires there.
    """
    level = jnp.asarray(aggressiveness * gamma, gamma.dtype)
    return Trigger(level, (y < 0) & (level <= 0))


@learner()
def e_omm(rho: ArrayLike = 1.0, *, norm: Norm = l2) -> Algorithm:
    """e-OMM(rho): keeps v+ and v-, classifies by their bisector, moves one of them when an example is too close.

    With u = v+ - v-: w = grad norm(u), b = -w.(v+ + v-)/2, gamma = norm(u)/2. On y(w.x + b) < rho gamma the
    certificate of class y moves to the point of [v_y, x] that brings v+ and v- nearest.

    Args:
        rho: aggressiveness in [0, 1]; 1 is the paper's e-OMM, 0 its ce-OMM.
        norm: the norm of the margin.

    Example:
        >>> alg = e_omm()
        >>> state = alg.init(1)
        >>> for x, y in ((3.0, 1.0), (-1.0, -1.0)):
        ...     state = alg.step(state, (jnp.array([x]), y))
        >>> w, b = alg.classifier(state)
        >>> w.tolist(), float(b), float(alg.gamma(state))
        ([1.0], -1.0, 2.0)

    Reference: Algorithm 1 and Lemma separable-max-margin of the paper.
    """
    check_range("rho", rho, 0, 1)

    def init(d: int, dtype: Any = None) -> OmmState:
        return OmmState(jnp.zeros(d, dtype), jnp.zeros(d, dtype), Seen.nothing())

    def linear(state: OmmState) -> tuple[jax.Array, jax.Array]:
        w = norm.gradient(state.v_pos - state.v_neg)
        return state.seen.linear(w, -dot(w, state.v_pos + state.v_neg) / 2)

    def gamma(state: OmmState) -> jax.Array:
        return jnp.where(state.seen.both(), norm.value(state.v_pos - state.v_neg) / 2, jnp.nan)

    def threshold(state: OmmState, y: jax.Array) -> Trigger:
        half = norm.value(state.v_pos - state.v_neg) / 2
        return state.seen.threshold(y, omm_trigger(rho, half, y))

    def update(state: OmmState, f: jax.Array, y: jax.Array) -> OmmState:
        v = jnp.where(y > 0, state.v_pos, state.v_neg)
        other = jnp.where(y > 0, state.v_neg, state.v_pos)
        # The segment of differences, written for the class that moves: both norms are even, so the sign is free.
        beta = jnp.where(state.seen.has(y), segment(norm, v - other, f - other), 1)
        moved = jnp.where(beta == 1, f, v + beta * (f - v))
        return OmmState(jnp.where(y > 0, moved, state.v_pos), jnp.where(y > 0, state.v_neg, moved), state.seen.add(y))

    def status(state: OmmState) -> jax.Array:
        touching = state.seen.both() & (norm.value(state.v_pos - state.v_neg) == 0)
        return flag(touching, Status.DEGENERATE)

    return Algorithm(init, lambda x: x, linear, threshold, update, linear, status, gamma, norm, same_score=True)


def ce_omm(*, norm: Norm = l2) -> Algorithm:
    """ce-OMM, the conservative version: e-OMM with rho = 0, which updates on mistakes only."""
    return e_omm(0.0, norm=norm)
