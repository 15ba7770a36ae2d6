"""Ruling examples out: which of them cannot matter to a lane, whatever rounding, and how many to look at in a round."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from omm_jax.engine.examples import Examples, Table
from omm_jax.engine.lanes import Both, Lanes
from omm_jax.engine.pieces import join
from omm_jax.engine.scan import Progress
from omm_jax.numerics import dot

# What showing an example and beginning to look cost, in examples looked at (measured; they decide speed only).
_SHOW_COST = 3
_LOOK_COST = 2
# Weight of the newest round in the running share of examples that matter.
_NEWEST = 1 / 16


class Screen(NamedTuple):
    """What rules examples out: classifiers, and the signed scores above which an example cannot matter to a lane."""

    table: Table | None  # what the classifiers score; None for the features of each lane
    w: jax.Array  # [lanes, k]
    b: jax.Array  # [lanes]
    level: Both
    doubt: jax.Array  # [lanes], how far a score and the one that decides may be apart
    # If lanes scale examples, by s say, then scores are s (w.x + offset) + b, and level and doubt are s slack larger.
    offset: jax.Array | None = None  # [lanes]
    slack: jax.Array | None = None  # [lanes]

    def take(self, lanes: jax.Array) -> "Screen":
        """For these lanes only."""
        return jax.tree.map(lambda leaf: leaf[lanes], self._replace(table=None))._replace(table=self.table)


def screen(lanes: Lanes, data: Examples, now: Progress) -> Screen:
    """The screen of the states in force, safe whatever rounding."""
    rule = lanes.whole(now.state, now.rule)
    weights = join(rule.w)
    # Twice the bound on the error of an inner product of k terms: the screen's and the deciding one's.
    bound = 2 * (weights.shape[1] + 8) * jnp.finfo(weights.dtype).eps
    length = jnp.sqrt(_products(weights, weights))

    def above(doubt: jax.Array) -> Both:
        return Both(*(jnp.maximum(level, 0) + doubt for level in rule.level))

    if data.shared is not None or not (lanes.algorithm.same_score or data.scaling):
        doubt = bound * (length * data.largest + jnp.abs(rule.b))
        return Screen(data.shared, weights, rule.b, above(doubt), doubt)
    # Lanes have features of their own, but their scores are those of raw classifiers, which are no longer, since
    # features keep distances. Twice as much, for the errors of w and b themselves: b may be the difference of
    # products as large as these.
    d = data.x.shape[1]
    at_zero, offset = lanes.origin(d, weights.dtype)
    w, b = lanes.on_raw(weights, d), _products(weights, at_zero) + rule.b
    biases = jnp.abs(rule.b) + jnp.abs(b)
    if data.scaling is None:
        doubt = 2 * bound * (length * (data.largest + data.largest_raw) + biases)
        return Screen(data.raw, w, b, above(doubt), doubt)
    assert offset is not None
    doubt = 2 * bound * (length * data.scaling.at_zero + biases)
    # Once for the features, once for the products of raw examples.
    slack = 2 * bound * length * 2 * (data.scaling.offset + data.largest_raw)
    return Screen(data.raw, w, b, above(doubt), doubt, _products(weights, offset), slack)


def _products(a: jax.Array, b: jax.Array) -> jax.Array:
    """Inner products `[lanes]` of vectors `[lanes, k]`: they decide nothing, so the additions may be in any order."""
    return a @ b[0] if a.shape[0] == 1 else jax.vmap(dot)(a, b)


def inert(lanes: Lanes, data: Examples, by: Screen, index: jax.Array) -> jax.Array:
    """Which of the rows `index` `[lanes, block]` cannot matter."""
    label = data.labels(index)
    if by.table is not None:
        scores = by.table.scores(by.w, index)
    else:
        assert data.raw is not None
        features = join(jax.vmap(lanes.features, in_axes=1, out_axes=1)(data.raw.rows(index)))
        scores = jax.vmap(jax.vmap(dot, in_axes=(None, 0)))(by.w, features)
    level = by.level.of(label)
    if data.scaling is not None and by.offset is not None and by.slack is not None:
        scale = data.scaling.of_rows(index)
        scores, level = scale * (scores + by.offset[:, None]), level + scale * by.slack[:, None]
    # Not "<=" and the other way round: a NaN must matter.
    return label * (scores + by.b[:, None]) > level


def cheapest(sizes: Sequence[int], share: jax.Array) -> jax.Array:
    """Which block size makes an example cheapest when every example matters with probability `share`.

    Size 1 stands for not looking at all. The smaller the share, the larger the best size.
    """
    size, shares = np.array(sizes), np.geomspace(1e-6, 0.999, 4000)[:, None]
    progress = -np.expm1(size * np.log1p(-shares)) / shares
    best = np.argmin((_SHOW_COST + np.where(size == 1, 0, _LOOK_COST + size)) / progress, axis=1)
    # The largest share at which each size, or a larger one, is best.
    limits = [shares[best >= k, 0].max(initial=0) for k in range(1, len(sizes))]
    return jnp.sum(share < jnp.asarray(limits, share.dtype), dtype=jnp.int32)


def running_share(share: jax.Array, updates: jax.Array, seen: jax.Array, rounds: int) -> jax.Array:
    """The running mean share of examples that matter, after rounds with so many updates and examples `[lanes]`."""
    newest = jnp.sum(updates).astype(share.dtype) / jnp.maximum(jnp.sum(seen), 1).astype(share.dtype)
    return share + (1 - (1 - _NEWEST) ** rounds) * (newest - share)
