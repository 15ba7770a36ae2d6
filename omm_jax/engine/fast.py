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

_BLOCKS = (1, 4, 8, 16, 32, 64, 128, 512)
# The fixed cost of a round, in examples scored: what the best block length trades against scoring in vain.
_ROUND_COST = 8
# Weight of the newest round in the running mean of the gap between examples that matter.
_NEWEST = 0.125


class Screen(NamedTuple):
    """What rules examples out: the data set in feature space if lanes share it, and bounds on rounding."""

    tiles: tuple[jax.Array, ...]  # each [n, 16], the columns of the features; empty if they differ between lanes
    largest: jax.Array  # [lanes] or [], the largest norm of a feature vector

    @classmethod
    def of(cls, lanes: Lanes, x: jax.Array) -> "Screen":
        """The screen of a data set `[n, d]`."""
        features = lanes.shared_features(x)
        if features is not None:
            return cls(tuple(_tiles(features)), jnp.max(_norm(features)))
        largest = jax.lax.map(lambda row: _norm(lanes.features(jnp.broadcast_to(row, (lanes.lanes, row.size)))), x)
        return cls((), jnp.max(largest, axis=0))

    def scores(self, lanes: Lanes, x: jax.Array, rule: Rule, index: jax.Array) -> jax.Array:
        """w.f + b `[lanes, block]` of the rows `index` `[lanes, block]`."""
        weights = _tiles(rule.w[:, None])
        if self.tiles:
            # Gathering tile by tile lets the compiler fuse the gather with the products; of whole rows it cannot.
            block = [tile.at[index].get(mode="promise_in_bounds") for tile in self.tiles]
        else:
            block = _tiles(jax.vmap(lanes.features, in_axes=1, out_axes=1)(x[index]))
        products = [f * w for f, w in zip(block, weights, strict=True)]
        return fold(functools.reduce(jnp.add, products)) + rule.b[:, None]

    def cut(self, rule: Rule) -> jax.Array:
        """The signed scores `[lanes, 2]` above which an example of label -1 or +1 cannot matter, whatever rounding."""
        k = rule.w.shape[1]
        size = _norm(rule.w) * self.largest + jnp.abs(rule.b)
        # Twice the bound on the error of an inner product of k terms: this score's and the deciding one's.
        doubt = 2 * (k + 8) * jnp.finfo(rule.w.dtype).eps * size
        return jnp.maximum(rule.level, 0) + doubt[:, None]


def _tiles(vectors: jax.Array) -> list[jax.Array]:
    """The last axis in pieces `[..., 16]`, filled up with zeros."""
    missing = -vectors.shape[-1] % WIDTH
    if missing:
        padding = [(0, 0)] * (vectors.ndim - 1) + [(0, missing)]
        # Padded once, not at every use.
        vectors = jax.lax.optimization_barrier(jnp.pad(vectors, padding))
    return jnp.split(vectors, vectors.shape[-1] // WIDTH, axis=-1)


def _norm(vectors: jax.Array) -> jax.Array:
    return jnp.sqrt(jax.vmap(dot)(vectors, vectors))


class Round(NamedTuple):
    """Where the lanes are."""

    rounds: jax.Array  # [], how many there have been
    position: jax.Array  # [lanes], place in the stream of the next example
    gap: jax.Array  # [], running mean of the examples between two that matter
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
    sizes = sorted({min(block, length) for block in _BLOCKS})
    screen = Screen.of(lanes, x)

    def look(size: int, position: jax.Array, rule: Rule) -> tuple[jax.Array, jax.Array]:
        """The place of the first of the next `size` examples that may matter, and its row; past them if none may."""
        # The last block of a stream ends with it and begins with examples that have been seen.
        start = jnp.minimum(position, length - size)
        index = jax.vmap(lambda row, at: jax.lax.dynamic_slice(table, (row, at), (1, size))[0])(rows, start)
        if size == 1:
            return start, index[:, 0]
        labels = y.at[index].get(mode="promise_in_bounds")
        scores = screen.scores(lanes, x, rule, index)
        cut = screen.cut(rule)
        # Not "signed <= cut": a NaN must matter.
        inert = labels * scores > jnp.where(labels > 0, cut[:, 1:], cut[:, :1])
        place = start[:, None] + jnp.arange(size, dtype=jnp.int32)
        nothing = start + size
        first = jnp.min(jnp.where(inert | (place < position[:, None]), nothing[:, None], place), axis=1)
        return first, jnp.take_along_axis(index, jnp.minimum(first - start, size - 1)[:, None], axis=1)[:, 0]

    def advance(carry: Round) -> Round:
        rounds, position, gap, now = carry
        wanted = jnp.sqrt(2 * _ROUND_COST * gap)
        choice = sum((wanted > 2 * size).astype(jnp.int32) for size in sizes[:-1])
        branches = [lambda position, rule, size=size: look(size, position, rule) for size in sizes]
        first, row = jax.lax.switch(choice, branches, position, now.rule)
        end = jnp.minimum(position + jnp.asarray(sizes, jnp.int32)[choice], length)
        matters = first < end
        now = show(lanes, x, y, now, row, first, matters)
        after = jnp.where(matters, first + 1, end)
        seen = jnp.sum(after - position).astype(gap.dtype)
        newest = seen / jnp.maximum(jnp.sum(matters), 1).astype(gap.dtype)
        return Round(rounds + 1, after, gap + _NEWEST * (newest - gap), now)

    start = Round(
        jnp.zeros((), jnp.int32),
        jnp.zeros(lanes.lanes, jnp.int32),
        jnp.ones((), jnp.float32),
        begin(lanes, x.shape[1], x.dtype, recording, tau),
    )
    return jax.lax.while_loop(lambda carry: jnp.any(carry.position < length), advance, start)


def count_rounds(a, x, y, orders):
    leaves, structure = jax.tree.flatten(a)
    al = jax.tree.unflatten(structure, [jnp.asarray(l)[None].astype(x.dtype) for l in leaves])
    return int(jax.jit(lambda o: drive(Lanes(al, o.shape[0]), x, y, o, jnp.arange(o.shape[0]), Recording(), False).rounds)(orders))
