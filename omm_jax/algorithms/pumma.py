"""PUMMA (Ishibashi, Hatano and Takeda, 2008): p-norm online maximum margin with a bias."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm, Trigger, learner
from omm_jax.algorithms.arguments import check_range
from omm_jax.algorithms.certificates import Seen
from omm_jax.norms import L2, Lp, lp
from omm_jax.numerics import dot, safe_divide
from omm_jax.segment import segment
from omm_jax.status import Status, flag


class PummaState(NamedTuple):
    """The last point taken of each class, and the certificate v with w = 2 grad norm(v) / norm(v)."""

    x_pos: jax.Array  # [d]
    x_neg: jax.Array  # [d]
    certificate: jax.Array  # [d]
    seen: Seen


def pumma(delta: ArrayLike = 0.01, *, p: ArrayLike = 2.0) -> Algorithm:
    """PUMMA(delta): on y(w.x + b) < 1 - delta, x replaces the kept point of its class and v moves towards x+ - x-.

    w = 2 grad norm(v) / norm(v), b = -w.(x+ + x-)/2 from the raw points, v <- the point of [v, x+ - x-] nearest the
    origin in the p-norm.

    Args:
        delta: slack in [0, 1]; the guarantee is a (1 - delta) fraction of the margin, the paper takes 0.01.
        p: exponent of the norm, p >= 2.
    """
    check_range("delta", delta, 0, 1)
    check_range("p", p, 2, math.inf)
    return _pumma(delta, lp(p))


@learner()
def _pumma(delta: ArrayLike, norm: L2 | Lp) -> Algorithm:
    def init(d: int, dtype: Any = None) -> PummaState:
        zero = jnp.zeros(d, dtype)
        return PummaState(zero, zero, zero, Seen.nothing())

    def linear(state: PummaState) -> tuple[jax.Array, jax.Array]:
        v = state.certificate
        w = norm.gradient(v) * safe_divide(2, norm.value(v))
        return state.seen.linear(w, -dot(w, state.x_pos + state.x_neg) / 2)

    def threshold(state: PummaState, y: jax.Array) -> Trigger:
        level = jnp.asarray(1 - delta, state.certificate.dtype)
        # delta = 1 makes the level 0, where a tie of a negative example is a mistake (see omm_trigger).
        return state.seen.threshold(y, Trigger(level, (y < 0) & (level <= 0)))

    def update(state: PummaState, f: jax.Array, y: jax.Array) -> PummaState:
        x_pos = jnp.where(y > 0, f, state.x_pos)
        x_neg = jnp.where(y > 0, state.x_neg, f)
        v, target = state.certificate, x_pos - x_neg
        beta = jnp.where(state.seen.both(), segment(norm, v, target), 1)
        moved = jnp.where(beta == 1, target, v + beta * (target - v))
        return PummaState(x_pos, x_neg, moved, state.seen.add(y))

    def status(state: PummaState) -> jax.Array:
        vanished = state.seen.both() & (norm.value(state.certificate) == 0)
        return flag(vanished, Status.DEGENERATE)

    def gamma(state: PummaState) -> jax.Array:
        return jnp.where(state.seen.both(), norm.value(state.certificate) / 2, jnp.nan)

    return Algorithm(init, lambda x: x, linear, threshold, update, linear, status, gamma, norm, same_score=True)
