"""The reference engine: every lane sees every example of its order, one after the other, under `jax.lax.scan`.

It is the definition of a run; any other engine makes the same updates at the same positions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.algorithm import State
from omm_jax.engine import separation
from omm_jax.engine.examples import Examples
from omm_jax.engine.lanes import Lanes, Rule
from omm_jax.engine.packing import Few, Packing
from omm_jax.engine.pieces import Vectors, join
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
from omm_jax.engine.separation import Classifiers, Separation
from omm_jax.numerics import dot
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

    def score(self, lanes: Lanes, f: Vectors) -> jax.Array:
        """The score `[lanes]` of features `[lanes, k]`."""
        return lanes.whole(self.state, self.rule).score(f)

    def take(self, packing: Packing | Few) -> "Progress":
        """That of the packed lanes."""
        return packing.take(self._of_lanes())._keep_hard(self)

    def put(self, packing: Packing | Few, part: "Progress") -> "Progress":
        """With the packed lanes as in `part`."""
        return packing.put(self._of_lanes(), part._of_lanes())._keep_hard(part)

    def _of_lanes(self) -> "Progress":
        """Without what all lanes share."""
        none: Any = None
        return self if self.known is None else self._replace(known=self.known._replace(hard=none))

    def _keep_hard(self, other: "Progress") -> "Progress":
        if self.known is None or other.known is None:
            return self
        return self._replace(known=self.known._replace(hard=other.known.hard))


class Example(NamedTuple):
    """One example a lane."""

    row: jax.Array  # [lanes], in the data set
    label: jax.Array  # [lanes]
    features: Callable[[], Vectors]  # [lanes, k]: found where they are needed, it costs less than to keep them


def begin(lanes: Lanes, x: jax.Array, recording: Recording, tau: bool) -> Progress:
    """The lanes before their first example of a data set `[n, d]`."""
    dtype = x.dtype
    state = lanes.init(x.shape[1], dtype)
    zero = jnp.zeros(lanes.lanes, jnp.int32)
    return Progress(
        state,
        lanes.rule(state),
        zero,
        zero,
        Separation.start(lanes.lanes, x.shape[0]) if tau else None,
        empty_curve(recording.ticks, lanes.lanes, dtype),
        empty_log(recording.events, lanes.lanes, dtype),
    )


def show(
    lanes: Lanes, data: Examples, now: Progress, index: jax.Array, position: jax.Array, active: jax.Array
) -> Progress:
    """Show row `index` `[lanes]` at stream place `position` `[lanes]` to every active lane."""
    f = data.features(lanes, index)
    example = Example(index, data.labels(index), lambda: f)
    return show_example(lanes, data, now, example, now.score(lanes, f), position, active)


def show_example(
    lanes: Lanes,
    data: Examples,
    now: Progress,
    example: Example,
    score: jax.Array,
    position: jax.Array,
    active: jax.Array,
) -> Progress:
    """The same with the example of every lane at hand, and its score `[lanes]`."""
    index, label, features = example
    signed = label * score
    trigger = lanes.whole(now.state, now.rule).trigger(label)
    # sign(0) = +1.
    mistake = active & ((score >= 0) != (label > 0))
    outcome = mistake + jnp.where(active & trigger.fires(signed), 4, 0)
    # Many things hang on it, and a compiler would find it again, score and all, for each of them. It does not divide
    # again, and it cannot know that this is a division by one.
    outcome = outcome.astype(score.dtype) / jnp.where(now.updates < 0, 2, 1).astype(score.dtype)
    fires, mistake = outcome >= 4, (outcome == 1) | (outcome == 5)

    def change(now: Progress) -> Progress:
        known = now.known

        def in_force() -> Classifiers:
            return Classifiers(*lanes.classifier(now.state))

        if known is not None:
            # What a learner reports need not be what it scores features with.
            raw = signed if lanes.algorithm.same_score else in_force().signed_score(data, index)
            known = separation.settle(separation.refute(known, data, index, raw, fires), data, in_force, fires)
            known = separation.replace(known, position + 1, fires)
        state = lanes.update(now.state, features(), label, fires)
        return now._replace(state=state, rule=lanes.rule(state), known=known)

    after = jax.lax.cond(jnp.any(fires), change, lambda now: now, now)
    after = after._replace(mistakes=now.mistakes + mistake, updates=now.updates + fires)
    if now.curve is None and now.log is None:
        return after
    event = Event(position, index, signed, trigger.level, lanes.gamma(now.state), mistake, fires)
    curve = extend_curve(now.curve, event, lanes.gamma(after.state))
    return after._replace(curve=curve, log=extend_log(now.log, event))


def finish(lanes: Lanes, data: Examples, now: Progress) -> Result:
    """The result of lanes that have seen their streams, but for the margin."""
    known, (w, b) = now.known, lanes.classifier(now.state)
    tau = jnp.full(lanes.lanes, -1, jnp.int32)
    if known is not None:
        tau = separation.settle(known, data, lambda: Classifiers(w, b), jnp.ones(lanes.lanes, bool)).tau
    finite = jnp.isfinite(b) & jnp.isfinite(jax.vmap(dot)(w, w))
    status = lanes.status(now.state) | flag(~finite, Status.NOT_FINITE)
    if now.log is not None:
        status |= flag(now.log.total > now.log.position.shape[1], Status.LOG_OVERFLOW)
    return Result(
        mistakes=now.mistakes,
        updates=now.updates,
        w=w,
        b=b,
        margin=jnp.full_like(b, jnp.nan),
        tau=tau,
        gamma=lanes.gamma(now.state),
        status=status,
        state=join(now.state),
        curve=now.curve,
        log=now.log,
    )


def run_scan(
    lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Result:
    """Run every lane over its order, row `rows[lane]` of `table` `[orders, t]`."""
    active = jnp.ones(lanes.lanes, bool)

    def advance(now: Progress, t: jax.Array) -> tuple[Progress, None]:
        position = jnp.broadcast_to(t, (lanes.lanes,))
        return show(lanes, data, now, table[rows, t].astype(jnp.int32), position, active), None

    now = begin(lanes, data.x, recording, tau)
    now, _ = jax.lax.scan(advance, now, jnp.arange(table.shape[1], dtype=jnp.int32))
    return finish(lanes, data, now)
