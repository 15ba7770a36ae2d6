"""The fast engine on a CPU for lanes that share an order: they take turns, and each is alone while it has its turn.

A stretch of the order is fetched once. One lane after the other looks at it by products of a matrix and a vector, jumps
to the first example that may matter to it, is shown that one by the reference engine's own code, and looks on from
there. A score found by looking is computed again as the reference does it, unless rounding cannot change what happens.
Of a lane on its own a compiler makes the best code: its vectors are a few registers, its ifs are branches.

Lanes that update often would look in vain, and wait for one sum after the other. They go through the stretch a few
abreast instead, as in the reference engine, and one lane's sums are added up while another's are.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.engine import kernel
from omm_jax.engine.examples import Examples, norms
from omm_jax.engine.fast import drive
from omm_jax.engine.lanes import Both, Lanes
from omm_jax.engine.packing import Few
from omm_jax.engine.pieces import Vectors, join
from omm_jax.engine.result import Recording, Result
from omm_jax.engine.scan import Example, Progress, begin, finish, show_example
from omm_jax.engine.screen import Screen, screen
from omm_jax.engine.shared import drive_together, sharing_pays

# Examples of a stretch: as many rows as stay in the innermost cache of a core.
_STRETCH = 64
# How many of them a lane may look at at a time.
_LOOKS = (4, 8, 16, 32)
# Lanes that update on more than one example in so many go abreast, so many at a time (measured; for speed only).
_OFTEN, _ABREAST = 8, 8
# How many examples those are shown in one turn of their loop.
_AT_A_TIME = 2


class Stretch(NamedTuple):
    """Examples that follow each other in an order."""

    first: jax.Array  # [], place in the order of the first of them
    start: jax.Array  # [], place of the first that is still to be seen: the last stretch begins with seen ones
    row: jax.Array  # [size], in the data set
    x: Vectors  # [size, k], features if lanes share them, else raw examples
    y: jax.Array  # [size]
    scale: jax.Array | None  # [size, lanes], by how much lanes scale them, if they do

    def example(self, lanes: Lanes, place: jax.Array, ready: bool) -> Example:
        """The example at `place` in the stretch, for every lane; whether features are `ready`, or raw examples here."""
        # A place is not negative, and to know it saves more than it looks.
        cut = functools.partial(
            jax.lax.dynamic_slice_in_dim, start_index=place, slice_size=1, allow_negative_indices=False
        )

        def each(part: jax.Array) -> jax.Array:
            return jnp.broadcast_to(cut(part), (lanes.lanes, *part.shape[1:]))

        def features() -> Vectors:
            x = jax.tree.map(each, self.x)
            if ready:
                return x
            return lanes.features(x) if self.scale is None else lanes.scaled_features(x, cut(self.scale)[0])

        return Example(each(self.row), each(self.y), features)

    def of(self, few: Few) -> "Stretch":
        """As it is for some of the lanes."""
        return self._replace(scale=None if self.scale is None else few.take(self.scale, axis=1))


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
    line: jax.Array  # [lanes], all lanes, roughly in the order of how often they update
    now: Progress


def run_in_turn(
    lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Result:
    """Run lanes that have the same order, row `rows[0]` of `table` `[orders, t]`.

    If that cannot be one kernel they are run otherwise: a lane alone does little at a time.
    """
    length = table.shape[1]
    size, abreast = min(_STRETCH, length), min(_ABREAST, lanes.lanes)
    known = data
    if data.shared is None and not lanes.algorithm.same_score:
        # Too much work to find for features that differ from lane to lane: not needed, or found a stretch at a time.
        known = data._replace(largest=jnp.zeros(lanes.lanes, data.x.dtype))
    scales = None if data.scaling is None else data.scaling.table[data.scaling.row].T

    def go_through(course: Course) -> Course:
        first = jnp.minimum(course.position, length - size)
        index = jax.lax.dynamic_slice(table, (rows[0], first), (1, size))[0].astype(jnp.int32)
        scale = None if scales is None else scales.at[index].get(mode="promise_in_bounds")
        stretch = Stretch(first, course.position, index, data.source.rows(index), data.labels(index), scale)

        def go(count: int, carry: tuple[jax.Array, Course]) -> tuple[jax.Array, Course]:
            """The next `count` lanes of the line go through the stretch."""
            place, course = carry
            few = _at(place, count, course.line)
            some, their, part, now = lanes.take(few.lanes), known.take(few.lanes), stretch.of(few), course.now.take(few)
            if count == 1:
                after = _turn(some, their, part, few.take(course.busy), now)
            else:
                after = _abreast(some, their, part, now)
            busy = few.put(course.busy, after.updates - now.updates)
            return place + count, course._replace(busy=busy, now=course.now.put(few, after))

        def often(carry: tuple[jax.Array, Course]) -> jax.Array:
            """Whether the next lanes are to go abreast."""
            place, course = carry
            updates = jnp.sum(_at(place, abreast, course.line).take(course.busy))
            return (place + abreast <= lanes.lanes) & (_OFTEN * updates > size * abreast)

        carry = jnp.zeros((), jnp.int32), course._replace(line=_in_line(course.line, course.busy))
        carry = jax.lax.while_loop(often, functools.partial(go, abreast), carry)
        course = jax.lax.while_loop(lambda carry: carry[0] < lanes.lanes, functools.partial(go, 1), carry)[1]
        return course._replace(position=course.position + size)

    def otherwise() -> Course:
        unscaled = data._replace(scaling=None)
        if sharing_pays(lanes, data, 1):
            now = drive_together(lanes, unscaled, table[rows[:1]], jnp.zeros_like(rows), recording, tau)
        else:
            now = drive(lanes, unscaled, table, rows, recording, tau).now
        return start._replace(now=now)

    busy = jnp.full(lanes.lanes, size, jnp.int32)
    line = jnp.arange(lanes.lanes, dtype=jnp.int32)
    start = Course(jnp.zeros((), jnp.int32), busy, line, begin(lanes, data.x, recording, tau))
    end = kernel.loop(lambda course: course.position < length, go_through, start, otherwise)
    return finish(lanes, data, end.now)


def _at(place: jax.Array, count: int, line: jax.Array) -> Few:
    """The `count` lanes at a place of a line and after it."""
    return Few(jax.lax.dynamic_slice(line, (place,), (count,)))


def _in_line(line: jax.Array, busy: jax.Array) -> jax.Array:
    """A line of lanes, those with more updates before those with fewer as far as swapping neighbours once goes."""

    def swap(count: jax.Array, line: jax.Array) -> jax.Array:
        # From the end, so that a lane may come to the head at once.
        place = line.shape[0] - 2 - count
        first, second = pair = jax.lax.dynamic_slice(line, (place,), (2,))
        before, after = busy.at[pair].get(mode="promise_in_bounds")
        return jax.lax.dynamic_update_slice(line, jnp.where(after > before, jnp.stack([second, first]), pair), (place,))

    return jax.lax.fori_loop(0, line.shape[0] - 1, swap, line)


def _own_features(lanes: Lanes, data: Examples) -> bool:
    """Whether every lane scores features of its own, for want of scores in the terms of raw examples."""
    return data.shared is None and data.scaling is None and not lanes.algorithm.same_score


def _abreast(lanes: Lanes, data: Examples, stretch: Stretch, now: Progress) -> Progress:
    """All these lanes go through a stretch, example by example."""
    size = stretch.y.shape[0]

    def see(place: jax.Array, active: jax.Array, now: Progress) -> Progress:
        example = stretch.example(lanes, place, data.shared is not None)
        position, active = (jnp.broadcast_to(part, (lanes.lanes,)) for part in (stretch.first + place, active))
        return show_example(lanes, data, now, example, now.score(lanes, example.features()), position, active)

    def step(carry: tuple[jax.Array, Progress]) -> tuple[jax.Array, Progress]:
        # Some at a time: a compiler sets up many pointers for every turn of a loop.
        place, now = carry
        for more in range(_AT_A_TIME):
            now = see(place + more, place + more < size if more else jnp.ones((), bool), now)
        return place + _AT_A_TIME, now

    start = (stretch.start - stretch.first, now)
    return jax.lax.while_loop(lambda carry: carry[0] < size, step, start)[1]


def _turn(lanes: Lanes, data: Examples, stretch: Stretch, busy: jax.Array, now: Progress) -> Progress:
    """One lane goes through a stretch."""
    size = stretch.y.shape[0]
    end = stretch.first + size
    looks = sorted({min(count, size) for count in _LOOKS})
    # The more the lane learns the less it looks at: about as much as holds one update, going by the last stretch.
    choice = jnp.sum(busy * jnp.asarray(looks[1:], jnp.int32) <= size, dtype=jnp.int32)
    ready = data.shared is not None
    if _own_features(lanes, data):
        each = jax.vmap(lambda x: lanes.features(jax.tree.map(lambda part: part[None], x)))(stretch.x)
        ready, stretch = True, stretch._replace(x=jax.tree.map(lambda part: part[:, 0], each))
        data = data._replace(largest=jnp.max(norms(stretch.x), keepdims=True))
    scored = join(stretch.x)

    def look(count: int, position: jax.Array, by: Screen, surely: Both) -> Found:
        """The first of the next `count` examples that may matter; signed scores below `surely` make the lane update."""
        at = jnp.minimum(position - stretch.first, size - count)
        x, y = (jax.lax.dynamic_slice_in_dim(array, at, count) for array in (scored, stretch.y))
        score, slack = x @ by.w[0], jnp.zeros(count, x.dtype)
        if stretch.scale is not None and by.offset is not None and by.slack is not None:
            factor = jax.lax.dynamic_slice_in_dim(stretch.scale[:, 0], at, count)
            score, slack = factor * (score + by.offset), factor * by.slack
        score += by.b
        place = stretch.first + at + jnp.arange(count, dtype=jnp.int32)
        past = stretch.first + at + count
        # Not "signed <= level": a NaN must matter.
        inert = (y * score > by.level.of(y) + slack) | (place < position)
        found = jnp.min(jnp.where(inert, past, place))
        y, score, slack = (
            jax.lax.dynamic_slice_in_dim(part, found - stretch.first - at, 1) for part in (y, score, slack)
        )
        sure = (y * score < surely.of(y) - slack) & (jnp.abs(score) > by.doubt + slack)
        return Found(found, found < past, score, sure[0])

    def look_on(position: jax.Array, now: Progress) -> Found:
        """The first example from `position` on that may matter, or the end of the stretch."""
        by, branches = screen(lanes, data, now), [functools.partial(look, count) for count in looks]
        surely = Both(*(level - by.doubt for level in lanes.whole(now.state, now.rule).level))
        no = jnp.zeros((), bool)
        return jax.lax.while_loop(
            lambda found: (found.position < end) & ~found.matters,
            lambda found: jax.lax.switch(choice, branches, found.position, by, surely),
            Found(position, no, jnp.zeros_like(by.b), no),
        )

    def step(carry: tuple[Found, Progress]) -> tuple[Found, Progress]:
        found, now = carry
        position = found.position
        example = stretch.example(lanes, position - stretch.first, ready)
        # A score that leaves no doubt says as much as the one that decides, except to a log.
        enough = found.sure if now.log is None else jnp.zeros((), bool)
        score = jax.lax.cond(enough, lambda: found.score, lambda: now.score(lanes, example.features()))
        now = show_example(lanes, data, now, example, score, position[None], jnp.ones(1, bool))
        return look_on(position + 1, now), now

    start = (look_on(stretch.start, now), now)
    return jax.lax.while_loop(lambda carry: carry[0].position < end, step, start)[1]
