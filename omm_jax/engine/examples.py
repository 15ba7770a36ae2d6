"""The data set as lanes see it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.engine.lanes import Lanes
from omm_jax.numerics import WIDTH, dot


class Examples(NamedTuple):
    """A data set, raw and in feature space."""

    x: jax.Array  # [n, d]
    y: jax.Array  # [n]
    shared: jax.Array | None  # [n, k], the features; None if they differ between lanes
    tiled: jax.Array | None  # [n, tiles, 16], the same filled up with zeros, in pieces
    largest: jax.Array  # [] if shared, else [lanes], the largest norm of a feature vector
    largest_raw: jax.Array  # [], the largest norm of a raw example

    @classmethod
    def of(cls, lanes: Lanes, x: jax.Array, y: jax.Array) -> "Examples":
        """The data set of some lanes."""
        features = lanes.shared_features(x)
        if features is not None:
            tiled = filled(features).reshape(features.shape[0], -1, WIDTH)
            return cls(x, y, features, tiled, jnp.max(norms(features)), jnp.max(norms(x)))
        largest_raw = jnp.max(norms(x))

        def of_row(row: jax.Array) -> jax.Array:
            return norms(lanes.features(jnp.broadcast_to(row, (lanes.lanes, row.size))))

        if lanes.algorithm.same_score:
            # Features keep distances: none is farther from that of 0 than its example is from 0.
            largest = of_row(jnp.zeros_like(x[0])) + largest_raw
        else:
            largest = jnp.max(jax.lax.map(of_row, x, batch_size=64), axis=0)
        return cls(x, y, None, None, largest, largest_raw)

    def features(self, lanes: Lanes, index: jax.Array) -> jax.Array:
        """Features `[lanes, k]` of one row a lane `[lanes]`."""
        if self.shared is None:
            return lanes.features(self.x[index])
        return self.shared.at[index].get(mode="promise_in_bounds")


def filled(vectors: jax.Array) -> jax.Array:
    """The last axis filled up with zeros to a multiple of 16."""
    return jnp.pad(vectors, [(0, 0)] * (vectors.ndim - 1) + [(0, -vectors.shape[-1] % WIDTH)])


def norms(vectors: jax.Array) -> jax.Array:
    """The Euclidean norms `[n]` of vectors `[n, k]`."""
    return jnp.sqrt(jax.vmap(dot)(vectors, vectors))
