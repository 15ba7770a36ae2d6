"""The fast engine on a CPU for lanes that share an order: they take turns, and each is alone while it has its turn.

A stretch of the order is fetched once. One lane after the other looks at it by products of a matrix and a vector, jumps
to the first example that may matter to it, is shown that one by the reference engine's own code, and looks on from
there. A score found by looking is computed again as the reference does it, unless rounding cannot change what happens.
Of a lane on its own a compiler makes the best code: its vectors are a few registers, its ifs are branches.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.engine import kernel
from omm_jax.engine.examples import Examples, norms
from omm_jax.engine.fast import drive
from omm_jax.engine.lanes import Lanes
from omm_jax.engine.packing import One
from omm_jax.engine.result import Recording, Result
from omm_jax.engine.scan import Example, Progress, begin, finish, show_example
from omm_jax.engine.screen import Screen, screen
from omm_jax.engine.shared import drive_together, sharing_pays

# Examples of a stretch: as many rows as stay in the innermost cache of a core.
_STRETCH = 64
# How many of them a lane may look at at a time.
_LOOKS = (4, 16, _STRETCH)


class Stretch(NamedTuple):
    """Examples that follow each other in an order."""

    first: jax.Array  # [], place in the order of the first of them
    start: jax.Array  # [], place of the first that is still to be seen: the last stretch begins with seen ones
    row: jax.Array  # [size], in the data set
    x: jax.Array  # [size, k], features if lanes share them, else raw examples
    y: jax.Array  # [size]


class Found(NamedTuple):
    """What a lane finds when it looks."""

    position: jax.Array  # [], place in the order of the first example that may matter, or of what to look at next
    matters: jax.Array  # [], whether it is one that may matter
    score: jax.Array  # [1], its score as far as looking tells
    sure: jax.Array  # [], whether that leaves no doubt about what happens


class Course(NamedTuple):
    """Where the lanes are."""

    position: jax.Array  # [], place in the order of the next stretch
    busy: jax.Array  # [lanes], updates in the last stretch
    now: Progress


def run_in_turn(
    lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Result:
    """Run lanes that have the same order, row `rows[0]` of `table` `[orders, t]`.

    If that cannot be one kernel they are run otherwise: a lane alone does little at a time.
    """
    length = table.shape[1]
    size = min(_STRETCH, length)
    source = data.raw if data.shared is None else data.shared
    assert source is not None
    known = data
    if data.shared is None and not lanes.algorithm.same_score:
        # Too much work to find for features that differ from lane to lane: not needed, or found a stretch at a time.
        known = data._replace(largest=jnp.zeros(lanes.lanes, data.x.dtype))
    scales = None if data.scaling is None else data.scaling.table[data.scaling.row].T

    def go_through(course: Course) -> Course:
        first = jnp.minimum(course.position, length - size)
        index = jax.lax.dynamic_slice(table, (rows[0], first), (1, size))[0].astype(jnp.int32)
        stretch = Stretch(first, course.position, index, source.rows(index), data.labels(index))
        scale = None if scales is None else scales.at[index].get(mode="promise_in_bounds")

        def turn(carry: tuple[jax.Array, Course]) -> tuple[jax.Array, Course]:
            lane, course = carry
            one, alone = One(lane), lane[None]
            now = course.now.take(one)
            mine = None if scale is None else jax.lax.dynamic_slice_in_dim(scale, lane, 1, axis=1)[:, 0]
            after = _turn(lanes.take(alone), known.take(alone), stretch, mine, one.take(course.busy), now)
            busy = one.put(course.busy, after.updates - now.updates)
            return lane + 1, course._replace(busy=busy, now=course.now.put(one, after))

        start = (jnp.zeros((), jnp.int32), course)
        _, course = jax.lax.while_loop(lambda carry: carry[0] < lanes.lanes, turn, start)
        return course._replace(position=course.position + size)

    def otherwise() -> Course:
        unscaled = data._replace(scaling=None)
        if sharing_pays(lanes, data, 1):
            now = drive_together(lanes, unscaled, table[rows[:1]], jnp.zeros_like(rows), recording, tau)
        else:
            now = drive(lanes, unscaled, table, rows, recording, tau).now
        return start._replace(now=now)

    busy = jnp.full(lanes.lanes, size, jnp.int32)
    start = Course(jnp.zeros((), jnp.int32), busy, begin(lanes, data.x, recording, tau))
    end = kernel.loop(lambda course: course.position < length, go_through, start, otherwise)
    return finish(lanes, data, end.now)


def _own_features(lanes: Lanes, data: Examples) -> bool:
    """Whether every lane scores features of its own, for want of scores in the terms of raw examples."""
    return data.shared is None and data.scaling is None and not lanes.algorithm.same_score


def _turn(
    lanes: Lanes, data: Examples, stretch: Stretch, scale: jax.Array | None, busy: jax.Array, now: Progress
) -> Progress:
    """One lane goes through a stretch, whose examples it scales by `scale` `[size]`."""
    size = stretch.y.shape[0]
    end = stretch.first + size
    looks = sorted({min(count, size) for count in _LOOKS})
    # The more the lane learns the less it looks at: about as much as holds one update, going by the last stretch.
    choice = jnp.sum(busy * jnp.asarray(looks[1:], jnp.int32) <= size, dtype=jnp.int32)
    scored = stretch.x
    if _own_features(lanes, data):
        scored = jax.vmap(lambda x: lanes.features(x[None])[0])(stretch.x)
        data = data._replace(largest=jnp.max(norms(scored), keepdims=True))

    def look(count: int, position: jax.Array, by: Screen, surely: jax.Array) -> Found:
        """The first of the next `count` examples that may matter; signed scores below `surely` make the lane update."""
        at = jnp.minimum(position - stretch.first, size - count)
        x, y = (jax.lax.dynamic_slice_in_dim(array, at, count) for array in (scored, stretch.y))
        score, slack = x @ by.w[0], jnp.zeros(count, x.dtype)
        if scale is not None and by.offset is not None and by.slack is not None:
            factor = jax.lax.dynamic_slice_in_dim(scale, at, count)
            score, slack = factor * (score + by.offset), factor * by.slack
        score += by.b
        place = stretch.first + at + jnp.arange(count, dtype=jnp.int32)
        past = stretch.first + at + count
        # Not "signed <= level": a NaN must matter.
        inert = (y * score > jnp.where(y > 0, by.level[0, 1], by.level[0, 0]) + slack) | (place < position)
        found = jnp.min(jnp.where(inert, past, place))
        y, score, slack = (
            jax.lax.dynamic_slice_in_dim(part, found - stretch.first - at, 1) for part in (y, score, slack)
        )
        level = jnp.where(y > 0, surely[:, 1], surely[:, 0])
        sure = (y * score < level - slack) & (jnp.abs(score) > by.doubt + slack)
        return Found(found, found < past, score, sure[0])

    def look_on(position: jax.Array, now: Progress) -> Found:
        """The first example from `position` on that may matter, or the end of the stretch."""
        by, branches = screen(lanes, data, now), [functools.partial(look, count) for count in looks]
        surely = now.rule.level - by.doubt[:, None]
        no = jnp.zeros((), bool)
        return jax.lax.while_loop(
            lambda found: (found.position < end) & ~found.matters,
            lambda found: jax.lax.switch(choice, branches, found.position, by, surely),
            Found(position, no, jnp.zeros_like(by.b), no),
        )

    def step(carry: tuple[Found, Progress]) -> tuple[Found, Progress]:
        found, now = carry
        position = found.position
        parts = (stretch.row, scored, stretch.y)
        example = Example(*(jax.lax.dynamic_slice_in_dim(part, position - stretch.first, 1) for part in parts))
        if data.shared is None and not _own_features(lanes, data):
            example = example._replace(f=lanes.features(example.f))
        # A score that leaves no doubt says as much as the one that decides, except to a log.
        enough = found.sure if now.log is None else jnp.zeros((), bool)
        score = jax.lax.cond(enough, lambda: found.score, lambda: now.rule.score(example.f))
        now = show_example(lanes, data, now, example, score, position[None], jnp.ones(1, bool))
        return look_on(position + 1, now), now

    start = (look_on(stretch.start, now), now)
    return jax.lax.while_loop(lambda carry: carry[0].position < end, step, start)[1]
