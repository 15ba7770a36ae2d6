"""tau: when did a lane first hold a classifier with positive margin on the whole data set?

Looking at all n examples after every update would cost far more than the run. A classifier is refuted by one example
with y (w.x + b) <= 0, and refutations are nearly always free: an example the lane gets wrong refutes the classifier in
force, and the example that refuted the last classifier usually refutes the next one too. Only a classifier that is
still standing when it is about to be replaced, or at the end, is searched for a witness, from where the last search
ended; if the search goes all round the data set, the classifier separates it and tau is known. The answer is exact.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.engine.lanes import Rule
from omm_jax.numerics import dot

_BLOCK = 1024


class Separation(NamedTuple):
    """What is known of the classifiers in force, each `[lanes]`."""

    tau: jax.Array  # examples seen when the first separating classifier came into force, -1 while unknown
    since: jax.Array  # examples seen when the classifier in force came into force
    refuted: jax.Array  # whether an example is known that the classifier in force does not get right
    witness: jax.Array  # that example, or the last one that refuted a classifier

    @classmethod
    def start(cls, lanes: int) -> "Separation":
        """Before the first example."""
        zero = jnp.zeros(lanes, jnp.int32)
        return cls(zero - 1, zero, jnp.zeros(lanes, bool), zero)


def raw_signed_score(x: jax.Array, y: jax.Array, rule: Rule, index: jax.Array) -> jax.Array:
    """y (w.x + b) of one data row a lane `[lanes]`, on raw examples."""
    return y[index] * (jax.vmap(dot)(rule.raw_w, x[index]) + rule.raw_b)


def refute(known: Separation, index: jax.Array, signed_score: jax.Array, where: jax.Array) -> Separation:
    """Note that the lanes of `where` saw row `index` at this signed score."""
    hit = where & (signed_score <= 0) & ~known.refuted
    return known._replace(refuted=known.refuted | hit, witness=jnp.where(hit, index, known.witness))


def settle(known: Separation, x: jax.Array, y: jax.Array, rule: Rule, where: jax.Array) -> Separation:
    """Decide the classifiers in force of the lanes of `where`, before they are replaced: refuted, or tau."""
    return jax.lax.while_loop(
        lambda known: jnp.any(_open(known, where)),
        lambda known: _search(known, x, y, rule, jnp.argmax(_open(known, where))),
        known,
    )


def replace(known: Separation, x: jax.Array, y: jax.Array, rule: Rule, seen: jax.Array, where: jax.Array) -> Separation:
    """The lanes of `where` have new classifiers, in force after `seen` examples; does the old witness refute them?"""
    still = raw_signed_score(x, y, rule, known.witness) <= 0
    return known._replace(since=jnp.where(where, seen, known.since), refuted=jnp.where(where, still, known.refuted))


def _open(known: Separation, where: jax.Array) -> jax.Array:
    return where & ~known.refuted & (known.tau < 0)


def _search(known: Separation, x: jax.Array, y: jax.Array, rule: Rule, lane: jax.Array) -> Separation:
    """Look for a witness against one lane's classifier, block after block, from its last witness all the way round."""
    n = x.shape[0]
    block = min(_BLOCK, n)
    w, b = rule.raw_w[lane], rule.raw_b[lane]
    blocks = -(-n // block)
    first = known.witness[lane] // block

    def unfinished(carry):
        visited, witness = carry
        return (visited < blocks) & (witness < 0)

    def visit(carry):
        visited, _ = carry
        start = jnp.minimum((first + visited) % blocks * block, n - block)
        rows = jax.lax.dynamic_slice_in_dim(x, start, block)
        labels = jax.lax.dynamic_slice_in_dim(y, start, block)
        signed = labels * (jnp.matmul(rows, w, precision=jax.lax.Precision.HIGHEST) + b)
        worst = jnp.argmin(signed)
        # Not "signed > 0": a NaN score must refute.
        return visited + 1, jnp.where(jnp.all(signed > 0), -1, (start + worst).astype(jnp.int32))

    _, witness = jax.lax.while_loop(unfinished, visit, (jnp.int32(0), jnp.int32(-1)))
    found = witness >= 0
    return known._replace(
        tau=known.tau.at[lane].set(jnp.where(found, known.tau[lane], known.since[lane])),
        refuted=known.refuted.at[lane].set(found),
        witness=known.witness.at[lane].set(jnp.where(found, witness, known.witness[lane])),
    )
