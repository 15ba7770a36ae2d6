"""Some of the lanes, packed together, without scatters: on a CPU those keep a loop from becoming one kernel."""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

Tree = TypeVar("Tree")


class Packing(NamedTuple):
    """Which lanes are packed where."""

    lane: jax.Array  # [size], the lane in each place; the last lane where a place is empty
    filled: jax.Array  # [size], whether the place is taken
    place: jax.Array  # [lanes], the place of each lane
    packed: jax.Array  # [lanes], whether the lane has one

    @classmethod
    def of(cls, wanted: jax.Array, size: int) -> "Packing":
        """The first `size` lanes of those `wanted` `[lanes]`."""
        lanes = wanted.shape[0]
        size = min(size, lanes)
        count = jnp.cumsum(wanted, dtype=jnp.int32)
        number = jnp.arange(1, size + 1, dtype=jnp.int32)
        # The lane with the first count of `number`: as many lanes as have a smaller one are before it.
        lane = jnp.minimum(jnp.sum(count < number[:, None], axis=1, dtype=jnp.int32), lanes - 1)
        return cls(lane, number <= count[-1], jnp.clip(count - 1, 0, size - 1), wanted & (count <= size))

    def take(self, whole: Tree) -> Tree:
        """The rows of the packed lanes of every array of a tree."""
        return jax.tree.map(lambda leaf: leaf.at[self.lane].get(mode="promise_in_bounds"), whole)

    def put(self, whole: Tree, part: Tree) -> Tree:
        """The tree with the rows of the packed lanes as in `part`."""

        def one(old: jax.Array, new: jax.Array) -> jax.Array:
            packed = self.packed.reshape(-1, *(1,) * (old.ndim - 1))
            return jnp.where(packed, new.at[self.place].get(mode="promise_in_bounds"), old)

        return jax.tree.map(one, whole, part)


class Few(NamedTuple):
    """A few of the lanes, as a packing of as many."""

    lanes: jax.Array  # [few], all different

    def take(self, whole: Tree, axis: int = 0) -> Tree:
        """The rows of the lanes of every array of a tree, or what lanes have along another axis."""

        def one(leaf: jax.Array) -> jax.Array:
            return jnp.concatenate([jax.lax.dynamic_slice_in_dim(leaf, lane, 1, axis) for lane in self.lanes], axis)

        return jax.tree.map(one, whole)

    def put(self, whole: Tree, part: Tree) -> Tree:
        """The tree with the rows of the lanes as in `part`."""

        def one(old: jax.Array, new: jax.Array) -> jax.Array:
            for place, lane in enumerate(self.lanes):
                old = jax.lax.dynamic_update_slice_in_dim(old, new[place : place + 1], lane, 0)
            return old

        return jax.tree.map(one, whole, part)
