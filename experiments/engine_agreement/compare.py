"""Both engines over the same orders, what they recorded compared lane by lane."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import omm_jax as omm
from experiments.engine_agreement.streams import SETTINGS, Streams, sweep, with_setting


class Parting(NamedTuple):
    """Where a lane of one engine first decided otherwise than the same lane of the other."""

    lane: int
    position: int
    score: float
    level: float
    distance: float  # |score - level| in units of the rounding bound


class Tally(NamedTuple):
    """What a comparison of some lanes found.

    Attributes:
        lanes: how many were compared.
        updates: made by the reference engine in them.
        close: of these, how many at a score within the rounding bound of the level.
        decided: lanes with another update, mistake or tau, in the fast engine with a log or without one.
        numbers: lanes with the same decisions but another bit in a score, level, w, b, margin, gamma or state.
        partings: one for every lane with another update or mistake.
    """

    lanes: int
    updates: int
    close: int
    decided: int
    numbers: int
    partings: list[Parting]


def compare(learner: str, of: Streams, shared: bool, first: int, lanes: int) -> Tally:
    """Run both engines over `lanes` lanes and compare them.

    Args:
        learner: its name.
        of: the data set and the orders.
        shared: sixteen settings over each order, instead of an order for every lane.
        first: the first replicate.
        lanes: how many lanes; a multiple of sixteen if shared.
    """
    orders = of.orders(first, lanes // SETTINGS if shared else lanes)
    values = None
    if shared:
        name, values = sweep(learner, of)
        values = jnp.asarray(values, of.x.dtype)
    else:
        learner = name = ""
    arguments = (of.algorithm, values, of.x, of.y, orders)
    reference, fast = (_program(engine)(*arguments, learner=learner, name=name) for engine in ("scan", "fast"))
    # Without a log lanes that share orders compute fewer scores.
    quiet = _program("fast")(*arguments, learner=learner, name=name, log=False) if shared else fast
    silent = jax.device_get(_silent_differences(reference, quiet))
    bound = functools.partial(_bound, of.algorithm, values, of.x, learner=learner, name=name)
    found = jax.device_get(_differences(reference, fast))
    close = _close(reference, bound(reference.state))
    parted = np.flatnonzero(found["events"])
    partings = []
    if parted.size:
        logs = jax.device_get((reference.log, fast.log))
        for lane in parted:
            partings.append(_parting(int(lane), int(found["first"][lane]), logs, of, values, learner, name))
    # Where a lane without a log parts nothing tells, so nothing excuses it.
    alone = np.flatnonzero(silent["decisions"] & ~found["events"])
    partings += [Parting(int(lane), -1, np.nan, np.nan, np.inf) for lane in alone]
    decided = found["events"] | found["tau"] | silent["decisions"]
    return Tally(
        lanes,
        int(reference.updates.sum()),
        int(close),
        int(decided.sum()),
        int(((found["numbers"] | silent["numbers"]) & ~decided).sum()),
        partings,
    )


@functools.cache
def _program(engine: str) -> Any:
    """The lanes of one engine: the reference as a plain program, the fast one as studies compile it."""
    options = omm.compiler_options() if engine == "fast" else None
    names = ("learner", "name", "log")
    return jax.jit(functools.partial(_run, engine), static_argnames=names, compiler_options=options)


def _run(
    engine: Any,
    algorithm: omm.Algorithm,
    values: jax.Array | None,
    x: jax.Array,
    y: jax.Array,
    orders: jax.Array,
    learner: str,
    name: str,
    log: bool = True,
) -> omm.Result:
    """The lanes of one engine, `[lanes]` or, of settings and orders, `[settings * orders]`."""
    recording = omm.Recording(events=orders.shape[1] if log else 0)
    if values is None:
        return omm.run(algorithm, x, y, orders, engine=engine, recording=recording)

    def one(value: jax.Array) -> omm.Result:
        setting = with_setting(learner, name, value, algorithm)
        return omm.run(setting, x, y, orders, engine=engine, recording=recording)

    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), jax.vmap(one)(values))


def _differ(one: jax.Array, other: jax.Array) -> jax.Array:
    nan = jnp.isnan(one) & jnp.isnan(other) if jnp.issubdtype(one.dtype, jnp.inexact) else False
    return (one != other) & ~nan


def _any_differ(one: Any, other: Any) -> jax.Array:
    """Which lanes differ `[lanes]` in anything."""
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    flags = [_differ(a, b).reshape(a.shape[0], -1).any(axis=1) for a, b in leaves]
    return functools.reduce(jnp.logical_or, flags)


@jax.jit
def _silent_differences(one: omm.Result, other: omm.Result) -> dict[str, jax.Array]:
    """Which lanes differ `[lanes]` in what is known without a log: in counters and tau, in numbers."""
    counters = ((run.mistakes, run.updates, run.tau) for run in (one, other))
    return {
        "decisions": _any_differ(*counters),
        "numbers": _any_differ(*(run._replace(log=None) for run in (one, other))),
    }


@jax.jit
def _differences(one: omm.Result, other: omm.Result) -> dict[str, jax.Array]:
    """Which lanes differ `[lanes]` in events, in tau, in numbers; and the first event in which they do."""
    columns = ("position", "row", "mistake", "update")
    events = functools.reduce(
        jnp.logical_or, [_differ(getattr(one.log, column), getattr(other.log, column)) for column in columns]
    )
    counters = _any_differ(*((run.mistakes, run.updates, run.log.total) for run in (one, other)))
    return {
        "events": events.any(axis=1) | counters,
        "first": jnp.argmax(events, axis=1),
        "tau": one.tau != other.tau,
        "numbers": _any_differ(one, other),
    }


@functools.partial(jax.jit, static_argnames=("learner", "name"))
def _bound(
    algorithm: omm.Algorithm, values: jax.Array | None, x: jax.Array, states: Any, learner: str, name: str
) -> jax.Array:
    """The rounding bound of scores (k + 8) eps (|w| max|f| + |b|) `[lanes]`, w, b being those of states `[lanes]`."""

    def of(algorithm: omm.Algorithm, states: Any) -> jax.Array:
        largest = jnp.max(jnp.linalg.norm(jax.vmap(algorithm.features)(x), axis=1))
        w, b = jax.vmap(algorithm.linear)(states)
        scale = jnp.linalg.norm(w, axis=1) * largest + jnp.abs(b)
        return (w.shape[1] + 8) * jnp.finfo(x.dtype).eps * scale

    if values is None:
        return of(algorithm, states)
    states = jax.tree.map(lambda leaf: leaf.reshape(len(values), -1, *leaf.shape[1:]), states)
    settings = jax.vmap(lambda value, states: of(with_setting(learner, name, value, algorithm), states))
    return settings(values, states).reshape(-1)


@jax.jit
def _close(run: omm.Result, bound: jax.Array) -> jax.Array:
    """Updates within the rounding bound of their level; the bound is that of the final classifier."""
    return jnp.sum(run.log.update & (jnp.abs(run.log.score - run.log.level) <= bound[:, None]))


def _parting(lane: int, event: int, logs: Any, of: Streams, values: Any, learner: str, name: str) -> Parting:
    """How far from their levels the decisions were that first came out differently."""
    length = of.length
    places = [int(log.position[lane, event]) for log in logs]
    position = min(place if place >= 0 else length for place in places)
    there = [log for log, place in zip(logs, places, strict=True) if place == position]
    decisions = [
        (bool(log.update[lane, event]), bool(log.mistake[lane, event])) if place == position else (False, False)
        for log, place in zip(logs, places, strict=True)
    ]
    score, level = float(there[0].score[lane, event]), float(there[0].level[lane, event])
    (updates, mistakes), (others_updates, others_mistakes) = decisions
    # An update is decided by the level, a mistake by the sign.
    distances = [abs(score - level)] if updates != others_updates else []
    distances += [abs(score)] if mistakes != others_mistakes else []
    algorithm = of.algorithm
    if values is not None:
        algorithm = with_setting(learner, name, values[lane // (len(logs[0].total) // len(values))], algorithm)
    state = _replay(algorithm, of.x, of.y, there[0].row[lane], there[0].update[lane], event)
    bound = float(_bound(algorithm, None, of.x, jax.tree.map(lambda leaf: leaf[None], state), learner, "")[0])
    # Lanes that differ in the row alone did not see the same stream: no score explains that.
    worst = max(distances, default=np.inf)
    distance = worst / bound if worst > 0 else 0.0
    return Parting(lane, position, score, level, distance)


@jax.jit
def _replay(
    algorithm: omm.Algorithm, x: jax.Array, y: jax.Array, rows: jax.Array, updated: jax.Array, event: jax.Array
) -> Any:
    """The state after the logged updates that came before an event."""

    def update(k: jax.Array, state: Any) -> Any:
        after = algorithm.update(state, algorithm.features(x[rows[k]]), y[rows[k]])
        return jax.tree.map(lambda new, old: jnp.where(updated[k], new, old), after, state)

    return jax.lax.fori_loop(0, event, update, algorithm.init(x.shape[1], x.dtype))
