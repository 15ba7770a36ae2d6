"""The data set as lanes see it."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.engine import kernel
from omm_jax.engine.lanes import Lanes
from omm_jax.engine.pieces import Pieces, Vectors, in_pieces
from omm_jax.numerics import WIDTH, add_up, dot

# Rows that are scaled at a time.
_BLOCK = 64


class Table(NamedTuple):
    """Vectors `[n, k]`, to be fetched one here and one there."""

    whole: jax.Array | None  # [n, k - k % 16]; None if k < 16
    rest: jax.Array | None  # [n, k % 16]; None if there is none

    @classmethod
    def of(cls, vectors: jax.Array) -> "Table":
        """The table of the rows of a matrix."""
        k = vectors.shape[1]
        whole = k - k % WIDTH
        return cls(vectors[:, :whole] if whole else None, vectors[:, whole:] if whole < k else None)

    def rows(self, index: jax.Array) -> Vectors:
        """The vectors `[..., k]` at `index` `[...]`."""
        parts = [_fetch(part, index) for part in self if part is not None]
        return parts[0] if len(parts) == 1 else Pieces(*parts)

    def scores(self, weights: jax.Array, index: jax.Array) -> jax.Array:
        """w.v `[lanes, block]` of the vectors at `index` `[lanes, block]`, w being the rows of `weights`."""
        # Fetching tile by tile lets the compiler fuse the fetching with the products; of whole rows it cannot. The sums
        # decide nothing, so it may add up as it likes.
        whole, parts = weights.shape[1] - weights.shape[1] % WIDTH, []
        if self.whole is not None:
            tiles = self.whole.reshape(self.whole.shape[0], -1, WIDTH)
            pieces = enumerate(jnp.split(weights[:, None, :whole], whole // WIDTH, axis=-1))
            products = [tiles.at[index, t].get(mode="promise_in_bounds") * piece for t, piece in pieces]
            parts.append(jnp.sum(add_up(0, products), axis=-1))
        if self.rest is not None:
            parts.append(jnp.sum(_fetch(self.rest, index) * weights[:, None, whole:], axis=-1))
        return functools.reduce(jnp.add, parts)


class Scaling(NamedTuple):
    """How lanes scale the examples of a data set, and how large their features are at least."""

    table: jax.Array  # [settings, n], the scales
    row: jax.Array  # [lanes], where in the table those of a lane are
    at_zero: jax.Array  # [lanes], the norm of the features of the example 0, scaled by 0
    offset: jax.Array  # [lanes], the norm of what scaling it by 1 adds

    @classmethod
    def of(cls, lanes: Lanes, x: jax.Array, shared: bool) -> "Scaling":
        """That of some lanes. Each of them has a row of the table, unless all share one."""
        n, d = x.shape
        at_zero, offset = lanes.origin(d, x.dtype)
        assert offset is not None
        count = 1 if shared else lanes.lanes
        size = min(_BLOCK, n)
        blocks = -(-n // size)

        def fill(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            """One lane scales a block of rows."""
            i, table = carry
            lane, first = i % count, jnp.minimum(i // count * size, n - size)
            scales = lanes.take(lane[None]).scales(jax.lax.dynamic_slice_in_dim(x, first, size))
            return i + 1, jax.lax.dynamic_update_slice(table, scales, (lane, first))

        start = (jnp.zeros((), jnp.int32), jnp.zeros((count, n), x.dtype))
        _, table = kernel.loop(lambda carry: carry[0] < count * blocks, fill, start)
        return cls(table, jnp.arange(lanes.lanes) % count, norms(at_zero), norms(offset))

    def of_rows(self, index: jax.Array) -> jax.Array:
        """By how much each lane scales rows `[lanes, ...]`."""
        lane = self.row.reshape(-1, *(1,) * (index.ndim - 1))
        return self.table.at[lane, index].get(mode="promise_in_bounds")

    def take(self, lanes: jax.Array) -> "Scaling":
        """For these lanes only."""
        return self._replace(row=self.row[lanes], at_zero=self.at_zero[lanes], offset=self.offset[lanes])


class Examples(NamedTuple):
    """A data set, raw and in feature space."""

    x: jax.Array  # [n, d]
    y: jax.Array  # [n]
    shared: Table | None  # the features; None if they differ between lanes
    raw: Table | None  # the examples; None if there is no need for them
    largest: jax.Array  # [] if shared, else [lanes], the largest norm of a feature vector
    largest_raw: jax.Array  # [], the largest norm of a raw example
    scaling: Scaling | None = None  # by which features are found from raw examples, if the engine asked for it

    @classmethod
    def of(cls, lanes: Lanes, x: jax.Array, y: jax.Array) -> "Examples":
        """The data set of some lanes."""
        features, largest_raw = lanes.shared_features(x), jnp.max(norms(x))
        if features is not None:
            return cls(x, y, Table.of(features), None, jnp.max(norms(features)), largest_raw)

        def of_row(row: jax.Array) -> jax.Array:
            return norms(lanes.features(jnp.broadcast_to(row, (lanes.lanes, row.size))))

        if lanes.algorithm.same_score:
            # Features keep distances: none is farther from that of 0 than its example is from 0.
            largest = of_row(jnp.zeros_like(x[0])) + largest_raw
        else:
            largest = jnp.max(jax.lax.map(of_row, x, batch_size=64), axis=0)
        return cls(x, y, None, Table.of(x), largest, largest_raw)

    @property
    def source(self) -> Table:
        """What rows are fetched from: features if lanes share them, else raw examples."""
        source = self.raw if self.shared is None else self.shared
        assert source is not None
        return source

    def with_scaling(self, lanes: Lanes) -> "Examples":
        """With the scales of examples that some lanes scale, each in its own way."""
        if self.shared is not None or lanes.algorithm.scaled is None:
            return self
        return self._replace(scaling=Scaling.of(lanes, self.x, shared=False))

    def without_table(self, lanes: Lanes) -> "Examples":
        """With raw examples and their scales in the place of features that some lanes share.

        Devices share the raw examples, and their caches with them; a table of features each would make for itself.
        """
        if self.shared is None or lanes.algorithm.scaled is None:
            return self
        largest = jnp.broadcast_to(self.largest, (lanes.lanes,))
        scaling = Scaling.of(lanes, self.x, shared=True)
        return self._replace(shared=None, raw=Table.of(self.x), largest=largest, scaling=scaling)

    def take(self, lanes: jax.Array) -> "Examples":
        """For these lanes only."""
        if self.shared is not None:
            return self
        return self._replace(largest=self.largest[lanes], scaling=self.scaling and self.scaling.take(lanes))

    def features(self, lanes: Lanes, index: jax.Array) -> Vectors:
        """Features `[lanes, k]` of one row a lane `[lanes]`."""
        return self.features_of(lanes, *self.fetch(index))

    def fetch(self, index: jax.Array) -> tuple[Vectors, jax.Array | None]:
        """What features of rows `[lanes, ...]` are found from: features or raw examples, and by how much to scale."""
        # Features from the table that the engine looks ahead in: the row is in the caches already.
        return self.source.rows(index), self.scaling and self.scaling.of_rows(index)

    def features_of(self, lanes: Lanes, x: Vectors, scale: jax.Array | None) -> Vectors:
        """Features `[lanes, k]` from what was fetched of one row a lane."""
        if self.shared is not None:
            return x
        return lanes.features(x) if scale is None else lanes.scaled_features(x, scale)

    def labels(self, index: jax.Array) -> jax.Array:
        """The labels of rows."""
        return _fetch(self.y, index)


def norms(vectors: Vectors) -> jax.Array:
    """The Euclidean norms `[n]` of vectors `[n, k]`."""
    return jnp.sqrt(jax.vmap(in_pieces(dot))(vectors, vectors))


def _fetch(array: jax.Array, index: jax.Array) -> jax.Array:
    return array.at[index].get(mode="promise_in_bounds")
