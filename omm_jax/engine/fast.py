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

from omm_jax.engine.lanes import Lanes, Rule
from omm_jax.engine.result import Recording, Result
from omm_jax.engine.scan import Progress, begin, finish, show
from omm_jax.numerics import WIDTH, dot, fold

# How many examples a lane may look at in a round, besides 1: then it looks at none and is shown the next.
_BLOCKS = (4, 8, 16, 32, 64, 128, 256, 512)
# What showing an example and beginning to look cost, in examples looked at (measured; they decide speed only).
_SHOW_COST = 6
_LOOK_COST = 3
# Weight of the newest round in the running share of examples that matter.
_NEWEST = 1 / 16


class Screen(NamedTuple):
    """What rules examples out: the data set in feature space if lanes share it, and bounds on rounding."""

    tiles: jax.Array | None  # [n, tiles, 16], the features in pieces; None if they differ between lanes
    largest: jax.Array  # [lanes] or [], the largest norm of a feature vector

    @classmethod
    def of(cls, lanes: Lanes, x: jax.Array) -> "Screen":
        """The screen of a data set `[n, d]`."""
        features = lanes.shared_features(x)
        if features is not None:
            return cls(_filled(features).reshape(features.shape[0], -1, WIDTH), jnp.max(_norm(features)))
        largest = jax.lax.map(lambda row: _norm(lanes.features(jnp.broadcast_to(row, (lanes.lanes, row.size)))), x)
        return cls(None, jnp.max(largest, axis=0))

    def scores(self, lanes: Lanes, x: jax.Array, weights: jax.Array, index: jax.Array) -> jax.Array:
        """w.f `[lanes, block]` of the rows `index` `[lanes, block]`, w being the rows of `weights`, filled up."""
        if self.tiles is not None:
            # Gathering tile by tile lets the compiler fuse the gather with the products; of whole rows it cannot.
            block = [self.tiles.at[index, k].get(mode="promise_in_bounds") for k in range(self.tiles.shape[1])]
        else:
            block = _tiles(_filled(jax.vmap(lanes.features, in_axes=1, out_axes=1)(x[index])))
        products = [f * w for f, w in zip(block, _tiles(weights[:, None]), strict=True)]
        return fold(functools.reduce(jnp.add, products))

    def cut(self, rule: Rule) -> jax.Array:
        """The signed scores `[lanes, 2]` above which an example of label -1 or +1 cannot matter, whatever rounding."""
        k = rule.w.shape[1]
        size = _norm(rule.w) * self.largest + jnp.abs(rule.b)
        # Twice the bound on the error of an inner product of k terms: this score's and the deciding one's.
        doubt = 2 * (k + 8) * jnp.finfo(rule.w.dtype).eps * size
        return jnp.maximum(rule.level, 0) + doubt[:, None]


def _filled(vectors: jax.Array) -> jax.Array:
    """The last axis filled up with zeros to a multiple of 16."""
    return jnp.pad(vectors, [(0, 0)] * (vectors.ndim - 1) + [(0, -vectors.shape[-1] % WIDTH)])


def _tiles(vectors: jax.Array) -> list[jax.Array]:
    """The last axis in pieces `[..., 16]`."""
    return jnp.split(vectors, vectors.shape[-1] // WIDTH, axis=-1)


def _norm(vectors: jax.Array) -> jax.Array:
    return jnp.sqrt(jax.vmap(dot)(vectors, vectors))


class Round(NamedTuple):
    """Where the lanes are."""

    rounds: jax.Array  # [], how many there have been
    position: jax.Array  # [lanes], place in the stream of the next example
    share: jax.Array  # [], running mean share of examples that matter
    now: Progress


def run_fast(
    lanes: Lanes, x: jax.Array, y: jax.Array, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Result:
    """Run every lane over its order, row `rows[lane]` of `table` `[orders, t]`."""
    return finish(lanes, x, y, drive(lanes, x, y, table, rows, recording, tau).now)


def drive(
    lanes: Lanes, x: jax.Array, y: jax.Array, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Round:
    """Take every lane to the end of its stream."""
    length = table.shape[1]
    sizes = sorted({min(size, length) for size in (1, *_BLOCKS)})
    screen = Screen.of(lanes, x)

    def block(size: int, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The rows `[lanes, size]` that come next, and the place of the first of them."""
        # The last block of a stream ends with it and begins with examples that have been seen.
        start = jnp.minimum(position, length - size)
        return jax.vmap(lambda row, at: jax.lax.dynamic_slice(table, (row, at), (1, size))[0])(rows, start), start

    def look(size: int, position: jax.Array, weights: jax.Array, b: jax.Array, cut: jax.Array):
        """The place of the first of the next `size` examples that may matter, or the stream's end; and its row."""
        index, start = block(size, position)
        label = y.at[index].get(mode="promise_in_bounds")
        signed = label * (screen.scores(lanes, x, weights, index) + b[:, None])
        place = start[:, None] + jnp.arange(size, dtype=jnp.int32)
        # Not "signed <= cut": a NaN must matter.
        inert = (signed > jnp.where(label > 0, cut[:, 1:], cut[:, :1])) | (place < position[:, None])
        first = jnp.min(jnp.where(inert, length, place), axis=1)
        return first, jnp.take_along_axis(index, jnp.minimum(first - start, size - 1)[:, None], axis=1)[:, 0]

    def take_next(choice: jax.Array, position: jax.Array, rule: Rule):
        return jnp.minimum(position, length), block(1, position)[0][:, 0]

    def look_ahead(choice: jax.Array, position: jax.Array, rule: Rule):
        branches = [functools.partial(look, size) for size in sizes[1:] or sizes]
        return jax.lax.switch(choice - 1, branches, position, _filled(rule.w), rule.b, screen.cut(rule))

    def advance(carry: Round) -> Round:
        rounds, position, share, now = carry
        choice = jnp.argmin(_cost(jnp.asarray(sizes, jnp.float32), share))
        # One branch inside the other, so that what only looking needs is computed only then.
        first, row = jax.lax.cond(choice == 0, take_next, look_ahead, choice, position, now.rule)
        matters = first < length
        now = show(lanes, x, y, now, row, first, matters)
        after = jnp.where(matters, first + 1, jnp.minimum(position + jnp.asarray(sizes, jnp.int32)[choice], length))
        updates, seen = jnp.sum(now.updates - carry.now.updates), jnp.sum(after - position)
        newest = updates.astype(share.dtype) / jnp.maximum(seen, 1).astype(share.dtype)
        return Round(rounds + 1, after, share + _NEWEST * (newest - share), now)

    start = Round(
        jnp.zeros((), jnp.int32),
        jnp.zeros(lanes.lanes, jnp.int32),
        jnp.ones((), jnp.float32),
        begin(lanes, x.shape[1], x.dtype, recording, tau),
    )
    return jax.lax.while_loop(lambda carry: jnp.any(carry.position < length), advance, start)


def _cost(size: jax.Array, share: jax.Array) -> jax.Array:
    """What an example costs when lanes look at blocks of this size and every example matters with this probability."""
    share = jnp.clip(share, 1e-6, 1 - 1e-6)
    progress = -jnp.expm1(size * jnp.log1p(-share)) / share
    return (_SHOW_COST + jnp.where(size == 1, 0, _LOOK_COST + size)) / progress
