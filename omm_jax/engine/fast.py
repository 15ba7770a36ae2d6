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

from omm_jax.engine.examples import Examples
from omm_jax.engine.lanes import Lanes, Rule
from omm_jax.engine.result import Recording, Result
from omm_jax.engine.scan import Progress, begin, finish, show
from omm_jax.engine.screen import cheapest, cut, running_share, scores
from omm_jax.engine.shared import run_shared, sharing_pays

# How many examples a lane may look at in a round, besides 1: then it looks at none and is shown the next.
_BLOCKS = (4, 8, 16, 32, 64, 256)


class Round(NamedTuple):
    """Where the lanes are."""

    rounds: jax.Array  # [], how many there have been
    position: jax.Array  # [lanes], place in the stream of the next example
    share: jax.Array  # [], running mean share of examples that matter
    now: Progress


def run_fast(
    lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Result:
    """Run every lane over its order, row `rows[lane]` of `table` `[orders, t]`."""
    if sharing_pays(lanes, data, table.shape[0]):
        return run_shared(lanes, data, table, rows, recording, tau)
    return finish(lanes, data, drive(lanes, data, table, rows, recording, tau).now)


def drive(lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool) -> Round:
    """Take every lane to the end of its stream."""
    length = table.shape[1]
    sizes = sorted({min(size, length) for size in (1, *_BLOCKS)})

    def block(size: int, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The rows `[lanes, size]` that come next, and the place of the first of them."""
        # The last block of a stream ends with it and begins with examples that have been seen.
        start = jnp.minimum(position, length - size)
        index = jax.vmap(lambda row, at: jax.lax.dynamic_slice(table, (row, at), (1, size))[0])(rows, start)
        return index.astype(jnp.int32), start

    def look(size: int, position: jax.Array, weights: jax.Array, b: jax.Array, levels: jax.Array):
        """The place of the first of the next `size` examples that may matter, or the stream's end; and its row."""
        index, start = block(size, position)
        label = data.y.at[index].get(mode="promise_in_bounds")
        signed = label * (scores(lanes, data, weights, index) + b[:, None])
        place = start[:, None] + jnp.arange(size, dtype=jnp.int32)
        # Not "signed <= level": a NaN must matter.
        inert = (signed > jnp.where(label > 0, levels[:, 1:], levels[:, :1])) | (place < position[:, None])
        first = jnp.min(jnp.where(inert, length, place), axis=1)
        return first, jnp.take_along_axis(index, jnp.minimum(first - start, size - 1)[:, None], axis=1)[:, 0]

    def take_next(choice: jax.Array, position: jax.Array, rule: Rule):
        return jnp.minimum(position, length), block(1, position)[0][:, 0]

    def look_ahead(choice: jax.Array, position: jax.Array, rule: Rule):
        branches = [functools.partial(look, size) for size in sizes[1:] or sizes]
        return jax.lax.switch(choice - 1, branches, position, rule.w, rule.b, cut(data, rule))

    def advance(carry: Round) -> Round:
        rounds, position, share, now = carry
        choice = cheapest(sizes, share)
        # One branch inside the other, so that what only looking needs is computed only then.
        first, row = jax.lax.cond(choice == 0, take_next, look_ahead, choice, position, now.rule)
        matters = first < length
        now = show(lanes, data, now, row, first, matters)
        after = jnp.where(matters, first + 1, jnp.minimum(position + jnp.asarray(sizes, jnp.int32)[choice], length))
        share = running_share(share, now.updates - carry.now.updates, after - position)
        return Round(rounds + 1, after, share, now)

    start = Round(
        jnp.zeros((), jnp.int32),
        jnp.zeros(lanes.lanes, jnp.int32),
        jnp.ones((), jnp.float32),
        begin(lanes, data.x, recording, tau),
    )
    return jax.lax.while_loop(lambda carry: jnp.any(carry.position < length), advance, start)
