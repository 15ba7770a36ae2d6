"""Ruling examples out: which of them cannot matter to a lane, whatever rounding, and how many to look at in a round."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from omm_jax.engine.examples import Examples, filled, norms
from omm_jax.engine.lanes import Lanes, Rule
from omm_jax.numerics import WIDTH, fold

# What showing an example and beginning to look cost, in examples looked at (measured; they decide speed only).
_SHOW_COST = 6
_LOOK_COST = 2
# Weight of the newest round in the running share of examples that matter.
_NEWEST = 1 / 16
# From so many rows on a matrix product sums 16 numbers faster than a tree of halves does.
_LONG = 16


def scores(lanes: Lanes, data: Examples, weights: jax.Array, index: jax.Array) -> jax.Array:
    """w.f `[lanes, block]` of the rows `index` `[lanes, block]`, w being the rows of `weights`."""
    if data.tiled is not None:
        # Gathering tile by tile lets the compiler fuse the gather with the products; of whole rows it cannot.
        block = [data.tiled.at[index, k].get(mode="promise_in_bounds") for k in range(data.tiled.shape[1])]
    else:
        block = tiles(filled(jax.vmap(lanes.features, in_axes=1, out_axes=1)(data.x[index])))
    k = weights.shape[1]
    done, parts = k - k % WIDTH, []
    if done:
        products = [f * w for f, w in zip(block, tiles(weights[:, None, :done]), strict=False)]
        sums = functools.reduce(jnp.add, products)
        if index.shape[1] < _LONG:
            parts.append(fold(sums))
        else:
            parts.append(jnp.matmul(sums, jnp.ones(WIDTH, sums.dtype), precision=jax.lax.Precision.HIGHEST))
    # The rest in ever smaller powers of two, as in `dot`: filling the weights up would cost more than it is.
    for width in (8, 4, 2, 1):
        if (k - done) & width:
            at = done % WIDTH
            parts.append(fold(block[-1][..., at : at + width] * weights[:, None, done : done + width]))
            done += width
    return functools.reduce(jnp.add, parts)


def cut(data: Examples, rule: Rule) -> jax.Array:
    """The signed scores `[lanes, 2]` above which an example of label -1 or +1 cannot matter, whatever rounding."""
    k = rule.w.shape[1]
    size = norms(rule.w) * data.largest + jnp.abs(rule.b)
    # Twice the bound on the error of an inner product of k terms: this score's and the deciding one's.
    doubt = 2 * (k + 8) * jnp.finfo(rule.w.dtype).eps * size
    return jnp.maximum(rule.level, 0) + doubt[:, None]


def raw_cut(data: Examples, rule: Rule, w: jax.Array, b: jax.Array) -> jax.Array:
    """The same for scores of raw examples by the classifiers `w` `[lanes, d]` and `b`, if learners keep same_score."""
    k = rule.w.shape[1]
    # The error of either score, and of w and b themselves: b may be the difference of products as large as these.
    feature_size = norms(rule.w) * data.largest + jnp.abs(rule.b)
    raw_size = norms(w) * data.largest_raw + jnp.abs(b)
    doubt = 4 * (k + 8) * jnp.finfo(rule.w.dtype).eps * (feature_size + raw_size)
    return jnp.maximum(rule.level, 0) + doubt[:, None]


def tiles(vectors: jax.Array) -> list[jax.Array]:
    """The last axis in pieces `[..., 16]`."""
    return jnp.split(vectors, vectors.shape[-1] // WIDTH, axis=-1)


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


def running_share(share: jax.Array, updates: jax.Array, seen: jax.Array) -> jax.Array:
    """The running mean share of examples that matter, after a round of so many updates and examples `[lanes]`."""
    newest = jnp.sum(updates).astype(share.dtype) / jnp.maximum(jnp.sum(seen), 1).astype(share.dtype)
    return share + _NEWEST * (newest - share)
