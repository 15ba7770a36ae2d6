"""What a run returns, and what it is asked to record on the way."""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


@functools.partial(jax.tree_util.register_dataclass, data_fields=("ticks",), meta_fields=("events",))
@dataclass(frozen=True)
class Recording:
    """What to record besides the totals; nothing by default, so that memory does not grow with the stream.

    Attributes:
        ticks: `[k]` numbers of examples seen at which to read the counters, for a curve.
        events: room in the log of updates and mistakes; 0 keeps no log.
    """

    ticks: ArrayLike | None = None
    events: int = 0

    def __post_init__(self):
        if self.events < 0:
            raise ValueError(f"Recording.events is a number of log entries and must be >= 0, got {self.events}")


class Curve(NamedTuple):
    """Counters after `ticks` examples, each `[k]`."""

    ticks: jax.Array
    mistakes: jax.Array
    updates: jax.Array
    gamma: jax.Array


class EventLog(NamedTuple):
    """The first `capacity` events of a run, an event being an update, a mistake or both; unused entries are -1 or 0.

    Attributes:
        total: how many events happened, which may be more than there is room for (then the status says so).
        position: place in the stream, from 0.
        row: row of the data set.
        score: signed score y (w.f + b) when the example came.
        level: the level it was compared with.
        gamma: the margin the learner claimed before the event, nan if none.
        mistake: whether the prediction was wrong.
        update: whether the learner updated.
    """

    total: jax.Array
    position: jax.Array
    row: jax.Array
    score: jax.Array
    level: jax.Array
    gamma: jax.Array
    mistake: jax.Array
    update: jax.Array


class Result(NamedTuple):
    """The outcome of a run; every field gains a leading axis for every axis that was mapped over.

    Attributes:
        mistakes: predictions that were wrong.
        updates: examples that changed the state.
        w: final weights `[d]`, on raw examples.
        b: final bias.
        margin: margin of the final classifier on the whole data set, nan if not positive.
        tau: examples seen when the classifier in force first had positive margin on the whole data set, -1 if never.
        gamma: margin the learner claims at the end, nan if it claims none.
        status: bits of `Status`, 0 when all is well; `describe(status)` says it in words.
        state: final state, to go on from.
        curve: counters at the ticks of the recording, or None.
        log: the event log of the recording, or None.
    """

    mistakes: jax.Array
    updates: jax.Array
    w: jax.Array
    b: jax.Array
    margin: jax.Array
    tau: jax.Array
    gamma: jax.Array
    status: jax.Array
    state: Any
    curve: Curve | None
    log: EventLog | None


class Event(NamedTuple):
    """What happened to every lane at one stream position, each `[lanes]`."""

    position: jax.Array
    row: jax.Array
    score: jax.Array
    level: jax.Array
    gamma: jax.Array
    mistake: jax.Array
    update: jax.Array


def empty_curve(ticks: ArrayLike | None, lanes: int, dtype: Any) -> Curve | None:
    """A curve of zeros for every lane, None without ticks."""
    if ticks is None:
        return None
    at = jnp.broadcast_to(jnp.asarray(ticks, jnp.int32), (lanes, jnp.shape(ticks)[-1]))
    zero = jnp.zeros_like(at)
    return Curve(at, zero, zero, jnp.full(at.shape, jnp.nan, dtype))


def extend_curve(curve: Curve | None, event: Event, gamma_after: jax.Array) -> Curve | None:
    """The curve after an event: it counts at every tick later than the event's position."""
    if curve is None:
        return None
    later = curve.ticks > event.position[:, None]
    return Curve(
        curve.ticks,
        curve.mistakes + (later & event.mistake[:, None]),
        curve.updates + (later & event.update[:, None]),
        jnp.where(later & event.update[:, None], gamma_after[:, None], curve.gamma),
    )


def empty_log(capacity: int, lanes: int, dtype: Any) -> EventLog | None:
    """A log with room for `capacity` events a lane, None for 0."""
    if capacity == 0:
        return None
    integers, numbers = jnp.full((lanes, capacity), -1, jnp.int32), jnp.zeros((lanes, capacity), dtype)
    flags = jnp.zeros((lanes, capacity), bool)
    return EventLog(jnp.zeros(lanes, jnp.int32), integers, integers, numbers, numbers, numbers, flags, flags)


def extend_log(log: EventLog | None, event: Event) -> EventLog | None:
    """The log after an event of some lanes; entries past the capacity are counted and dropped."""
    if log is None:
        return None
    happened = event.mistake | event.update
    slot = jnp.where(happened, log.total, log.position.shape[1])
    write = _write_in_turn if jax.default_backend() == "cpu" else _write_at_once
    return EventLog(log.total + happened, *write(log[1:], slot, event))


def _write_at_once(columns: tuple[jax.Array, ...], slot: jax.Array, event: Event) -> list[jax.Array]:
    """Columns `[lanes, capacity]` with the entries of an event in slot `slot[lane]`; past the end it is dropped."""
    lanes = jnp.arange(slot.shape[0])
    return [column.at[lanes, slot].set(entry, mode="drop") for column, entry in zip(columns, event, strict=True)]


def _write_in_turn(columns: tuple[jax.Array, ...], slot: jax.Array, event: Event) -> list[jax.Array]:
    """The same lane after lane: a scatter keeps a loop from becoming one kernel."""

    def write(lane: jax.Array, columns: list[jax.Array]) -> list[jax.Array]:
        def one(column: jax.Array, entry: jax.Array) -> jax.Array:
            place = (lane, jnp.minimum(slot[lane], column.shape[1] - 1).astype(lane.dtype))
            old = jax.lax.dynamic_slice(column, place, (1, 1))
            new = jnp.where(slot[lane] < column.shape[1], entry[lane], old)
            return jax.lax.dynamic_update_slice(column, new, place)

        return [one(column, entry) for column, entry in zip(columns, event, strict=True)]

    return jax.lax.fori_loop(0, slot.shape[0], write, list(columns))
