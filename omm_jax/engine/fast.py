"""The fast engine: every lane jumps from one example that matters to the next, at its own place in the stream.

An example matters if the learner updates on it or gets it wrong. Each round a lane scores a block of its next
examples, jumps to the first that may matter, and is shown that one by the reference engine's own code. Scores of a
block only rule examples out: one whose signed score is within rounding of its level is shown, never decided here, so
the updates are those of the reference engine. How long the blocks are follows how far lanes have been getting.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.engine import kernel
from omm_jax.engine.examples import Examples
from omm_jax.engine.lanes import Lanes
from omm_jax.engine.result import Recording, Result
from omm_jax.engine.scan import Progress, begin, finish, show
from omm_jax.engine.screen import Screen, cheapest, running_share, screen, signed_scores

# How many examples a lane may look at in a round, besides 1: then it looks at none and is shown the next.
_BLOCKS = (4, 8, 16, 32, 64, 256)


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


def run_fast(
    lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Result:
    """Run every lane over its order, row `rows[lane]` of `table` `[orders, t]`."""
    return finish(lanes, data, drive(lanes, data, table, rows, recording, tau).now)


def drive(lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool) -> Round:
    """Take every lane to the end of its stream."""
    length = table.shape[1]
    start = Round.start(begin(lanes, data.x, recording, tau))
    return kernel.loop(
        lambda carry: jnp.any(carry.position < length), functools.partial(advance, lanes, data, table, rows), start
    )


def advance(lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, before: Round) -> Round:
    """One round: every lane looks ahead, and is shown the first example that may matter."""
    rounds, position, share, now = before
    length = table.shape[1]
    sizes = sorted({min(size, length) for size in (1, *_BLOCKS)})

    def block(size: int, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The rows `[lanes, size]` that come next, and the place of the first of them."""
        # The last block of a stream ends with it and begins with examples that have been seen.
        start = jnp.minimum(position, length - size)
        index = jax.vmap(lambda row, at: jax.lax.dynamic_slice(table, (row, at), (1, size))[0])(rows, start)
        return index.astype(jnp.int32), start

    def look(size: int, position: jax.Array, by: Screen) -> tuple[jax.Array, jax.Array]:
        """The place of the first of the next `size` examples that may matter, or the stream's end; and its row."""
        index, start = block(size, position)
        signed = signed_scores(lanes, data, by, index)
        place = start[:, None] + jnp.arange(size, dtype=jnp.int32)
        # Not "signed <= level": a NaN must matter.
        inert = (signed > by.level.of(data.labels(index))) | (place < position[:, None])
        first = jnp.min(jnp.where(inert, length, place), axis=1)
        return first, jnp.take_along_axis(index, jnp.minimum(first - start, size - 1)[:, None], axis=1)[:, 0]

    def take_next(choice: jax.Array, position: jax.Array, now: Progress):
        return jnp.minimum(position, length), block(1, position)[0][:, 0]

    def look_ahead(choice: jax.Array, position: jax.Array, now: Progress):
        branches = [functools.partial(look, size) for size in sizes[1:] or sizes]
        return jax.lax.switch(choice - 1, branches, position, screen(lanes, data, now))

    choice = cheapest(sizes, share)
    # One branch inside the other, so that what only looking needs is computed only then.
    first, row = jax.lax.cond(choice == 0, take_next, look_ahead, choice, position, now)
    matters = first < length
    after = show(lanes, data, now, row, first, matters)
    moved = jnp.where(matters, first + 1, jnp.minimum(position + jnp.asarray(sizes, jnp.int32)[choice], length))
    share = running_share(share, after.updates - now.updates, moved - position)
    return Round(rounds + 1, moved, share, after)
