"""ROMMA and aggressive ROMMA (Li and Long, 1999): the relaxed online maximum margin algorithms."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm, Trigger, learner
from omm_jax.algorithms.arguments import check_range
from omm_jax.norms import l2
from omm_jax.numerics import divide, dot
from omm_jax.segment import segment
from omm_jax.status import Status, flag


class RommaState(NamedTuple):
    """The certificate v = w / ||w||^2, and whether there is one yet."""

    certificate: jax.Array  # [k]
    started: jax.Array  # bool


def _romma(level: ArrayLike | None) -> Algorithm:
    """ROMMA that updates on y w.x < level, or on y w.x <= 0 if there is none."""

    def init(d: int, dtype: Any = None) -> RommaState:
        return RommaState(jnp.zeros(d, dtype), jnp.zeros((), bool))

    def classifier(state: RommaState) -> tuple[jax.Array, jax.Array]:
        v = state.certificate
        return divide(v, dot(v, v)), jnp.zeros((), v.dtype)

    # y w.x < level is y v.x < level ||v||^2: w itself is not needed on the way.
    def linear(state: RommaState) -> tuple[jax.Array, jax.Array]:
        return state.certificate, jnp.zeros((), state.certificate.dtype)

    def threshold(state: RommaState, y: jax.Array) -> Trigger:
        if level is None:
            return Trigger(jnp.zeros((), state.certificate.dtype), True)
        square = dot(state.certificate, state.certificate)
        return Trigger(jnp.asarray(level * jnp.where(square > 0, square, 1), square.dtype), False)

    def update(state: RommaState, f: jax.Array, y: jax.Array) -> RommaState:
        # The published formulas work on w and subtract ||x||^2 ||w||^2 - (w.x)^2; the certificate does not cancel.
        v, target = state.certificate, y * f
        moved = v + segment(l2, v, target) * (target - v)
        return RommaState(jnp.where(state.started, moved, target), jnp.ones((), bool))

    def status(state: RommaState) -> jax.Array:
        vanished = state.started & (dot(state.certificate, state.certificate) == 0)
        return flag(vanished, Status.DEGENERATE)

    def gamma(state: RommaState) -> jax.Array:
        return jnp.where(state.started, l2.value(state.certificate), jnp.nan)

    return Algorithm(init, lambda x: x, linear, threshold, update, classifier, status, gamma, same_score=True)


@learner()
def romma() -> Algorithm:
    """ROMMA: on y w.x <= 0, the certificate v moves to the point of [v, y x] nearest the origin; w = v / ||v||^2.

    The first update sets v = y x. No bias; see `with_bias`. Decided by y v.x: that is the score in an event log.

    Example:
        >>> alg = romma()
        >>> w, b = alg.classifier(alg.step(alg.init(2), (jnp.array([2.0, 0.0]), 1.0)))
        >>> w.tolist()
        [0.5, 0.0]
    """
    return _romma(None)


@learner()
def aggressive_romma(delta: ArrayLike = 0.0) -> Algorithm:
    """Aggressive ROMMA: ROMMA's update on y w.x < 1 - delta, so also on correct examples with too small a margin.

    Decided by y v.x < (1 - delta) ||v||^2: these are score and level in an event log.

    Args:
        delta: slack of the trigger, in [0, 1]; 0 is the published algorithm.
    """
    check_range("delta", delta, 0, 1)
    return _romma(1 - delta)
