"""tau: when did a lane first hold a classifier with positive margin on the whole data set?

Looking at all n examples after every update would cost far more than the run. A classifier is refuted by one example
with y (w.x + b) <= 0, and refutations are nearly always free: an example the lane gets wrong refutes the classifier in
force, and the examples of either class that refuted one last usually refute the next one too (one of each, because a
learner that is thrown from side to side gets the classes wrong in turn). Only a classifier that is still standing when
it is about to be replaced, or at the end, is searched for a witness, first among a few examples, then among all; if
there is none, the classifier separates the data set and tau is known. The answer is exact.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.engine.lanes import Rule
from omm_jax.numerics import dot

_BLOCK = 1024
_FEW = 64


class Separation(NamedTuple):
    """What is known of the classifiers in force, each `[lanes]`."""

    tau: jax.Array  # examples seen when the first separating classifier came into force, -1 while unknown
    since: jax.Array  # examples seen when the classifier in force came into force
    refuted: jax.Array  # whether an example is known that the classifier in force does not get right
    witness: jax.Array  # [lanes, 2], the last example of label -1 and the last of label +1 that refuted a classifier

    @classmethod
    def start(cls, lanes: int) -> "Separation":
        """Before the first example."""
        zero = jnp.zeros(lanes, jnp.int32)
        return cls(zero - 1, zero, jnp.zeros(lanes, bool), jnp.zeros((lanes, 2), jnp.int32))


def raw_signed_score(x: jax.Array, y: jax.Array, rule: Rule, index: jax.Array) -> jax.Array:
    """y (w.x + b) of one data row a lane `[lanes]`, on raw examples."""
    return y[index] * (jax.vmap(dot)(rule.raw_w, x[index]) + rule.raw_b)


def refute(known: Separation, y: jax.Array, index: jax.Array, signed_score: jax.Array, where: jax.Array) -> Separation:
    """Note that the lanes of `where` saw row `index` at this signed score."""
    hit = where & (signed_score <= 0)
    return known._replace(refuted=known.refuted | hit, witness=_remember(known.witness, y, index, hit))


def settle(known: Separation, x: jax.Array, y: jax.Array, rule: Rule, where: jax.Array) -> Separation:
    """Decide the classifiers in force of the lanes of `where`, before they are replaced: refuted, or tau."""
    return jax.lax.while_loop(
        lambda known: jnp.any(_open(known, where)),
        lambda known: _search(known, x, y, rule, jnp.argmax(_open(known, where))),
        known,
    )


def replace(known: Separation, x: jax.Array, y: jax.Array, rule: Rule, seen: jax.Array, where: jax.Array) -> Separation:
    """The lanes of `where` have new classifiers, in force after `seen` examples; do the witnesses refute them?"""
    scores = jax.vmap(lambda index: raw_signed_score(x, y, rule, index), in_axes=1)(known.witness)
    still = jnp.any(scores <= 0, axis=0)
    return known._replace(since=jnp.where(where, seen, known.since), refuted=jnp.where(where, still, known.refuted))


def _open(known: Separation, where: jax.Array) -> jax.Array:
    return where & ~known.refuted & (known.tau < 0)


def _remember(witness: jax.Array, y: jax.Array, index: jax.Array, where: jax.Array) -> jax.Array:
    """The witnesses `[..., 2]` with row `index` `[...]` in the place of its label."""
    place = jnp.stack([y[index] < 0, y[index] > 0], axis=-1)
    return jnp.where(place & where[..., None], index[..., None], witness)


def _search(known: Separation, x: jax.Array, y: jax.Array, rule: Rule, lane: jax.Array) -> Separation:
    """Look for a witness against one lane's classifier: a few rows, then block after block all the way round."""
    n = x.shape[0]
    few, block = min(_FEW, n), min(_BLOCK, n)
    w, b = rule.raw_w[lane], rule.raw_b[lane]
    blocks = -(-n // block)
    # Begin where the last search ended.
    first = jnp.max(known.witness[lane]) // block

    def look(start: jax.Array, size: int) -> jax.Array:
        rows = jax.lax.dynamic_slice_in_dim(x, start, size)
        labels = jax.lax.dynamic_slice_in_dim(y, start, size)
        signed = labels * (jnp.matmul(rows, w, precision=jax.lax.Precision.HIGHEST) + b)
        worst = jnp.argmin(signed)
        # Not "signed > 0": a NaN score must refute.
        return jnp.where(jnp.all(signed > 0), -1, (start + worst).astype(jnp.int32))

    def unfinished(carry):
        visited, witness = carry
        return (visited < blocks) & (witness < 0)

    def visit(carry):
        visited, _ = carry
        return visited + 1, look(jnp.minimum((first + visited) % blocks * block, n - block), block)

    begin = look(jnp.minimum(first * block, n - few), few)
    _, witness = jax.lax.while_loop(unfinished, visit, (jnp.int32(0), begin))
    found = witness >= 0
    return known._replace(
        tau=known.tau.at[lane].set(jnp.where(found, known.tau[lane], known.since[lane])),
        refuted=known.refuted.at[lane].set(found),
        witness=known.witness.at[lane].set(_remember(known.witness[lane], y, jnp.maximum(witness, 0), found)),
    )
