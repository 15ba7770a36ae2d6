"""The data set as lanes see it."""

from typing import NamedTuple

import jax

from omm_jax.engine.lanes import Lanes


class Examples(NamedTuple):
    """A data set, raw and in feature space."""

    x: jax.Array  # [n, d]
    y: jax.Array  # [n]
    shared: jax.Array | None  # [n, k], the features; None if they differ between lanes

    @classmethod
    def of(cls, lanes: Lanes, x: jax.Array, y: jax.Array) -> "Examples":
        """The data set of some lanes."""
        return cls(x, y, lanes.shared_features(x))

    def features(self, lanes: Lanes, index: jax.Array) -> jax.Array:
        """Features `[lanes, k]` of one row a lane `[lanes]`."""
        if self.shared is None:
            return lanes.features(self.x[index])
        return self.shared.at[index].get(mode="promise_in_bounds")
