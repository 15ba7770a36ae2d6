"""The fast engine for lanes that share orders: a block of rows is fetched once for all lanes that go through it.

Lanes of one order look through the same window, which begins where the slowest of them stands; one matrix product
scores it for all of them. Only lanes that found an example that may matter are shown one, packed together, and those
for which there is no room wait for the next round. On a CPU lanes take turns instead, if they can.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from omm_jax.engine.examples import Examples
from omm_jax.engine.lanes import Lanes
from omm_jax.engine.packing import Packing
from omm_jax.engine.pieces import join
from omm_jax.engine.result import Recording, Result
from omm_jax.engine.scan import Progress, begin, finish, show
from omm_jax.engine.screen import Screen, screen

_WINDOWS = (8, 16, 32, 64, 128, 512)
# A round shows examples to one in so many lanes at most.
_PACKING = 4
# Lanes to an order from which fetching its rows once is worth waiting for each other (measured).
_ENOUGH = 16
# What a round costs besides looking, in examples looked at by matrix product (measured; it decides speed only).
_ROUND_COST = 40


def sharing_pays(lanes: Lanes, data: Examples, orders: int) -> bool:
    """Whether lanes that go through so many orders had better do it together."""
    return lanes.lanes >= _ENOUGH * orders and (data.shared is not None or lanes.algorithm.same_score)


def run_shared(
    lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Result:
    """Run every lane over its order, row `rows[lane]` of `table` `[orders, t]`.

    Every order has as many lanes, next to each other: `rows` is 0, ..., 0, 1, ..., 1 and so on.
    """
    return finish(lanes, data, drive_together(lanes, data, table, rows, recording, tau))


def drive_together(
    lanes: Lanes, data: Examples, table: jax.Array, rows: jax.Array, recording: Recording, tau: bool
) -> Progress:
    """Take every lane to the end of its stream."""
    orders, length = table.shape
    each = lanes.lanes // orders
    sizes = sorted({min(size, length) for size in _WINDOWS})
    room = max(1, lanes.lanes // _PACKING)

    def look(size: int, position: jax.Array, by: Screen) -> tuple[jax.Array, jax.Array]:
        """The place of the first example of its window that may matter to each lane, or the window's end; that end."""
        start = jnp.minimum(jnp.min(position.reshape(orders, each), axis=1), length - size)
        index = jax.vmap(lambda order, at: jax.lax.dynamic_slice(order, (at,), (size,)))(table, start).astype(jnp.int32)
        assert by.table is not None  # or sharing would not pay
        weights = by.w.reshape(orders, each, -1)
        scores = jnp.einsum("olk,osk->ols", weights, join(by.table.rows(index)), precision=jax.lax.Precision.HIGHEST)
        label = data.labels(index)[:, None]
        signed = label * (scores + by.b.reshape(orders, each, 1))
        negative, positive = (level.reshape(orders, each, 1) for level in by.level)
        place = (start[:, None] + jnp.arange(size, dtype=jnp.int32))[:, None]
        seen = place < position.reshape(orders, each, 1)
        # Not "signed <= level": a NaN must matter.
        inert = (signed > jnp.where(label > 0, positive, negative)) | seen
        end = (start + size)[:, None]
        first = jnp.min(jnp.where(inert, jnp.maximum(end, position.reshape(orders, each))[..., None], place), axis=2)
        return first.reshape(-1), jnp.repeat(start + size, each)

    def advance(carry):
        position, now = carry
        branches = [functools.partial(look, size) for size in sizes]
        # A window takes one round, and one more for every example in it that matters to the lane that has most of them.
        share = jnp.max(now.updates / (position + 1).astype(jnp.float32))
        wanted = jnp.sqrt(_ROUND_COST / jnp.maximum(share, 1e-6))
        choice = jnp.sum(wanted > 1.4 * jnp.asarray(sizes[:-1], jnp.float32))
        first, end = jax.lax.switch(choice, branches, position, screen(lanes, data, now))
        packing = Packing.of(first < end, room)
        at = packing.take(first)
        row = table[packing.take(rows), jnp.minimum(at, length - 1)].astype(jnp.int32)
        after = show(lanes.take(packing.lane), data, now.take(packing), row, at, packing.filled)
        # Lanes that found nothing are at the end of the window, those that wait at the example they found.
        return first + packing.packed, now.put(packing, after)

    start: Any = (
        jnp.zeros(lanes.lanes, jnp.int32),
        begin(lanes, data.x, recording, tau),
    )
    return jax.lax.while_loop(lambda carry: jnp.any(carry[0] < length), advance, start)[1]
