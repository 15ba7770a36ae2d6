"""The reference engine: every lane sees every example of its order, one after the other, under `jax.lax.scan`.

It is the definition of a run; any other engine makes the same updates at the same positions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.algorithm import State
from omm_jax.engine import separation
from omm_jax.engine.lanes import Lanes, Rule
from omm_jax.engine.result import (
    Curve,
    Event,
    EventLog,
    Recording,
    Result,
    empty_curve,
    empty_log,
    extend_curve,
    extend_log,
)
from omm_jax.engine.separation import Separation
from omm_jax.metrics import smallest_signed_scores
from omm_jax.status import Status, flag


class Progress(NamedTuple):
    """Everything about the lanes that changes along the stream."""

    state: State
    rule: Rule
    mistakes: jax.Array
    updates: jax.Array
    known: Separation | None
    curve: Curve | None
    log: EventLog | None


def begin(lanes: Lanes, d: int, dtype: Any, recording: Recording, tau: bool) -> Progress:
    """The lanes before their first example."""
    state = lanes.init(d, dtype)
    zero = jnp.zeros(lanes.lanes, jnp.int32)
    return Progress(
        state,
        lanes.rule(state),
        zero,
        zero,
        Separation.start(lanes.lanes) if tau else None,
        empty_curve(recording.ticks, lanes.lanes, dtype),
        empty_log(recording.events, lanes.lanes, dtype),
    )


def show(
    lanes: Lanes, x: jax.Array, y: jax.Array, now: Progress, index: jax.Array, position: jax.Array, active: jax.Array
) -> Progress:
    """Show row `index` `[lanes]` at stream place `position` `[lanes]` to every active lane."""
    f, label = lanes.features(x[index]), y[index]
    score = now.rule.score(f)
    signed = label * score
    trigger = now.rule.trigger(label)
    fires = active & trigger.fires(signed)
    # sign(0) = +1.
    mistake = active & ((score >= 0) != (label > 0))
    event = Event(position, index, signed, trigger.level, now.rule.gamma, mistake, fires)

    def change(now: Progress) -> Progress:
        known = now.known
        if known is not None:
            known = separation.refute(known, y, index, separation.raw_signed_score(x, y, now.rule, index), fires)
            known = separation.settle(known, x, y, now.rule, fires)
        state = lanes.update(now.state, f, label, fires)
        rule = lanes.rule(state)
        if known is not None:
            known = separation.replace(known, x, y, rule, position + 1, fires)
        return now._replace(state=state, rule=rule, known=known)

    after = jax.lax.cond(jnp.any(fires), change, lambda now: now, now)
    return after._replace(
        mistakes=now.mistakes + mistake,
        updates=now.updates + fires,
        curve=extend_curve(now.curve, event, after.rule.gamma),
        log=extend_log(now.log, event),
    )


def finish(lanes: Lanes, x: jax.Array, y: jax.Array, now: Progress) -> Result:
    """The result of lanes that have seen their streams."""
    rule, known = now.rule, now.known
    tau = jnp.full(lanes.lanes, -1, jnp.int32)
    if known is not None:
        tau = separation.settle(known, x, y, rule, jnp.ones(lanes.lanes, bool)).tau
    smallest = smallest_signed_scores(x, y, rule.raw_w, rule.raw_b)
    finite = jnp.isfinite(rule.raw_b) & jnp.all(jnp.isfinite(rule.raw_w), axis=1)
    status = lanes.status(now.state) | flag(~finite, Status.NOT_FINITE)
    if now.log is not None:
        status |= flag(now.log.total > now.log.position.shape[1], Status.LOG_OVERFLOW)
    return Result(
        mistakes=now.mistakes,
        updates=now.updates,
        w=rule.raw_w,
        b=rule.raw_b,
        margin=jnp.where(smallest > 0, smallest / lanes.dual(rule.raw_w), jnp.nan),
        tau=tau,
        gamma=rule.gamma,
        status=status,
        state=now.state,
        curve=now.curve,
        log=now.log,
    )


def run_scan(
    lanes: Lanes, x: jax.Array, y: jax.Array, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Result:
    """Run every lane over its order, row `rows[lane]` of `table` `[orders, t]`."""
    active = jnp.ones(lanes.lanes, bool)

    def advance(now: Progress, t: jax.Array) -> tuple[Progress, None]:
        position = jnp.broadcast_to(t, (lanes.lanes,))
        return show(lanes, x, y, now, table[rows, t].astype(jnp.int32), position, active), None

    now = begin(lanes, x.shape[1], x.dtype, recording, tau)
    now, _ = jax.lax.scan(advance, now, jnp.arange(table.shape[1], dtype=jnp.int32))
    return finish(lanes, x, y, now)
