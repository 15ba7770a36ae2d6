"""The fast engine: every lane jumps from one example that matters to the next, at its own place in the stream.

An example matters if the learner updates on it or gets it wrong. Each round a lane scores a block of its next
examples, jumps to the first that may matter, and is shown that one by the reference engine's own code. Scores of a
block only rule examples out: one whose signed score is within rounding of its level is shown, never decided here, so
the updates are those of the reference engine. How long the blocks are follows how far lanes have been getting; lanes
that hardly get anywhere do not look, and are shown one example after the other.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.engine import kernel
from omm_jax.engine.examples import Examples
from omm_jax.engine.lanes import Lanes
from omm_jax.engine.result import Recording, Result
from omm_jax.engine.scan import Example, Progress, begin, finish, show, show_example
from omm_jax.engine.screen import Screen, cheapest, inert, running_share, screen

# How many examples a lane may look at in a round. Of 256, XLA 0.12 would have a library add up the products (16 each),
# which it cannot do in a kernel.
_BLOCKS = (8, 24, 64, 240)
# How many it is shown one after the other, without looking, where so many matter that looking does not pay.
_FEW = 16


class Round(NamedTuple):
    """Where the lanes are."""

    rounds: jax.Array  # [], how many there have been
    position: jax.Array  # [lanes], place in the stream of the next example
    share: jax.Array  # [], running mean share of examples that matter
    now: Progress

    @classmethod
    def start(cls, now: Progress) -> "Round":
        """All lanes at the beginning of their streams."""
        zero = jnp.zeros((), jnp.int32)
        return cls(zero, jnp.zeros_like(now.updates), jnp.ones((), jnp.float32), now)

    def after(self, rounds: int, position: jax.Array, now: Progress) -> "Round":
        """So many rounds later, that have taken the lanes to `position`."""
        updates, seen = now.updates - self.now.updates, position - self.position
        return Round(self.rounds + rounds, position, running_share(self.share, updates, seen, rounds), now)


def run_fast(
    lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Result:
    """Run every lane over its order, row `rows[lane]` of `table` `[orders, t]`."""
    return finish(lanes, data, drive(lanes, data, table, rows, recording, tau).now)


def drive(lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool) -> Round:
    """Take every lane to the end of its stream."""
    start = Round.start(begin(lanes, data.x, recording, tau))

    def unfinished(carry: Round) -> jax.Array:
        return jnp.any(carry.position < table.shape[1])

    def turn(over: Callable) -> Callable:
        return functools.partial(advance, lanes, data, table, rows, over)

    # In a kernel a look of one lane is one loop over examples, from fetching their rows to what they decide.
    def otherwise() -> Round:
        return jax.lax.while_loop(unfinished, turn(_together), start)

    return kernel.loop(unfinished, turn(jax.lax.map), start, otherwise)


def _together(function: Callable, lanes: jax.Array) -> Any:
    return jax.vmap(function)(lanes)


def advance(lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, over: Callable, before: Round) -> Round:
    """One round of looking ahead; before it, lanes that update too often for that are shown all that comes next.

    Lanes look one after the other or together, as `over` maps them.
    """
    length = table.shape[1]
    sizes = sorted({min(size, length) for size in (1, *_BLOCKS)})

    def block(size: int, row: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The rows `[size]` that come next in an order, and the place of the first of them."""
        # The last block of a stream ends with it and begins with examples that have been seen.
        start = jnp.minimum(position, length - size)
        return jax.lax.dynamic_slice(table, (row, start), (1, size))[0].astype(jnp.int32), start

    def look(size: int, position: jax.Array, by: Screen, lane: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The place of the first of the next `size` examples that may matter to a lane, or the end; and its row."""
        index, start = block(size, rows[lane], position[lane])
        place = start + jnp.arange(size, dtype=jnp.int32)
        alone = lane[None]
        out = inert(lanes.take(alone), data.take(alone), by.take(alone), index[None])[0] | (place < position[lane])
        first = jnp.min(jnp.where(out, length, place))
        return first, index[jnp.minimum(first - start, size - 1)]

    def jump(before: Round) -> Round:
        """Every lane looks ahead, and is shown the first example that may matter."""
        position, now = before.position, before.now
        blocks = sizes[1:] or sizes
        # Streams may end while lanes walk: then there is nothing to look at, however far.
        choice = jnp.maximum(cheapest(sizes, before.share) - 1, 0)
        by, every = screen(lanes, data, now), jnp.arange(lanes.lanes, dtype=jnp.int32)
        branches = [functools.partial(over, functools.partial(look, size, position, by)) for size in blocks]
        first, row = jax.lax.switch(choice, branches, every)
        matters = first < length
        past = jnp.minimum(position + jnp.asarray(blocks, jnp.int32)[choice], length)
        return before.after(1, jnp.where(matters, first + 1, past), show(lanes, data, now, row, first, matters))

    def walk(before: Round) -> Round:
        """Every lane is shown its next few examples. They are fetched together: to wait for one is to wait for all."""
        position, size = before.position, min(_FEW, length)
        index, start = jax.vmap(functools.partial(block, size))(rows, position)
        fetched = index, data.fetch(index), data.labels(index)

        def step(i: jax.Array, now: Progress) -> Progress:
            row, x, label = jax.tree.map(lambda part: jax.lax.dynamic_index_in_dim(part, i, 1, keepdims=False), fetched)
            example = Example(row, label, functools.partial(data.features_of, lanes, *x))
            score, place = now.score(lanes, example.features()), start + i
            return show_example(lanes, data, now, example, score, place, place >= position)

        now = jax.lax.fori_loop(0, size, step, before.now)
        return before.after(size, jnp.minimum(position + size, length), now)

    def often(now: Round) -> jax.Array:
        return (cheapest(sizes, now.share) == 0) & jnp.any(now.position < length)

    return jump(jax.lax.while_loop(often, walk, before))
