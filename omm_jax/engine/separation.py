"""tau: when did a lane first hold a classifier with positive margin on the whole data set?

Looking at all n examples after every update would cost far more than the run. A classifier is refuted by one example
with y (w.x + b) <= 0, and it is asked for one only when it is about to be replaced, or at the end. Refutations are
nearly always free: the example that makes a learner update is one the classifier gets wrong, or else an example of
either class that refuted a classifier last usually refutes the next one too (one of each, because a learner that is
thrown from side to side gets the classes wrong in turn), or else one of a few rows that
were hard for other lanes does. Only then all rows are
searched; if no one refutes it, the classifier separates the data set and tau is known. The answer is exact.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.engine.examples import Examples
from omm_jax.engine.packing import Packing
from omm_jax.numerics import dot

_BLOCK = 1024
# Rows and lanes of a glance.
_HARD = 32
_PACK = 8


class Separation(NamedTuple):
    """What is known of the classifiers in force, each `[lanes]`."""

    tau: jax.Array  # examples seen when the first separating classifier came into force, -1 while unknown
    since: jax.Array  # examples seen when the classifier in force came into force
    refuted: jax.Array  # whether an example is known that the classifier in force does not get right
    witness: jax.Array  # [lanes, 2], the last example of label -1 and the last of label +1 that refuted a classifier
    hard: "Hard"  # shared by all lanes

    @classmethod
    def start(cls, lanes: int, n: int) -> "Separation":
        """Before the first of n examples."""
        zero = jnp.zeros(lanes, jnp.int32)
        hard = Hard(jnp.linspace(0, n - 1, min(_HARD, n)).astype(jnp.int32), jnp.zeros((), jnp.int32))
        return cls(zero - 1, zero, jnp.zeros(lanes, bool), jnp.zeros((lanes, 2), jnp.int32), hard)


class Hard(NamedTuple):
    """Rows that refuted classifiers when nothing nearer at hand did; which they are decides speed only."""

    rows: jax.Array  # [32]
    next: jax.Array  # the one to forget next

    def add(self, row: jax.Array, where: jax.Array) -> "Hard":
        """With one more row, if `where`."""
        rows = jnp.where(where & (jnp.arange(self.rows.shape[0]) == self.next), row, self.rows)
        return Hard(rows, (self.next + where) % self.rows.shape[0])


class Classifiers(NamedTuple):
    """The classifiers in force, on raw examples."""

    w: jax.Array  # [lanes, d]
    b: jax.Array  # [lanes]

    def signed_score(self, data: Examples, index: jax.Array) -> jax.Array:
        """y (w.x + b) of one row a lane `[lanes]`."""
        return jax.vmap(_signed_score)(self.w, self.b, data.x[index], data.y[index])


def refute(
    known: Separation, data: Examples, index: jax.Array, signed_score: jax.Array, where: jax.Array
) -> Separation:
    """Note the signed score that the classifiers of the lanes of `where` give row `index` `[lanes]`."""
    hit = where & (signed_score <= 0)
    return known._replace(refuted=known.refuted | hit, witness=_remember(known.witness, data.y, index, hit))


def settle(known: Separation, data: Examples, in_force: Callable[[], Classifiers], where: jax.Array) -> Separation:
    """Decide the classifiers in force of the lanes of `where`, before they are replaced: refuted, or tau."""

    def ask_witnesses(known: Separation) -> Separation:
        classifiers = in_force()
        for index in (known.witness[:, 0], known.witness[:, 1]):
            known = refute(known, data, index, classifiers.signed_score(data, index), where)

        def search(known: Separation) -> Separation:
            return jax.lax.while_loop(
                lambda known: jnp.any(_open(known, where)),
                lambda known: _search(known, data, classifiers, jnp.argmax(_open(known, where))),
                _glance(known, data, classifiers, where),
            )

        return jax.lax.cond(jnp.any(_open(known, where)), search, lambda known: known, known)

    return jax.lax.cond(jnp.any(_open(known, where)), ask_witnesses, lambda known: known, known)


def replace(known: Separation, seen: jax.Array, where: jax.Array) -> Separation:
    """The lanes of `where` have new classifiers, in force after `seen` examples."""
    return known._replace(since=jnp.where(where, seen, known.since), refuted=known.refuted & ~where)


def _signed_score(w: jax.Array, b: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    # By `dot`: what refutes a classifier must not depend on who asks.
    return y * (dot(w, x) + b)


# Of one classifier and many examples `[n, d]`, `[n]`. A NaN refutes.
_signed_scores = jax.vmap(_signed_score, in_axes=(None, None, 0, 0))


def _open(known: Separation, where: jax.Array) -> jax.Array:
    return where & ~known.refuted & (known.tau < 0)


def _remember(witness: jax.Array, y: jax.Array, index: jax.Array, where: jax.Array) -> jax.Array:
    """The witnesses `[..., 2]` with row `index` `[...]` in the place of its label."""
    place = jnp.stack([y[index] < 0, y[index] > 0], axis=-1)
    return jnp.where(place & where[..., None], index[..., None], witness)


def _glance(known: Separation, data: Examples, classifiers: Classifiers, where: jax.Array) -> Separation:
    """Look for witnesses against some of the open classifiers among the hard rows."""
    packing = Packing.of(_open(known, where), _PACK)
    w, b = packing.take(classifiers)
    rows = known.hard.rows
    signed = jax.vmap(_signed_scores, in_axes=(0, 0, None, None))(w, b, data.x[rows], data.y[rows])
    found = ~jnp.all(signed > 0, axis=1)
    witness = _remember(packing.take(known.witness), data.y, rows[jnp.argmin(signed, axis=1)], found)
    return known._replace(refuted=packing.put(known.refuted, found), witness=packing.put(known.witness, witness))


def _search(known: Separation, data: Examples, classifiers: Classifiers, lane: jax.Array) -> Separation:
    """Look for a witness against one lane's classifier, block after block all the way round."""
    x, y = data.x, data.y
    n = x.shape[0]
    block = min(_BLOCK, n)
    w, b = classifiers.w[lane], classifiers.b[lane]
    blocks = -(-n // block)
    # Begin where the last search ended.
    first = jnp.max(known.witness[lane]) // block

    def look(start: jax.Array) -> jax.Array:
        rows = jax.lax.dynamic_slice_in_dim(x, start, block)
        labels = jax.lax.dynamic_slice_in_dim(y, start, block)
        signed = _signed_scores(w, b, rows, labels)
        return jnp.where(jnp.all(signed > 0), -1, (start + jnp.argmin(signed)).astype(jnp.int32))

    def unfinished(carry):
        visited, witness = carry
        return (visited < blocks) & (witness < 0)

    def visit(carry):
        visited, _ = carry
        return visited + 1, look(jnp.minimum((first + visited) % blocks * block, n - block))

    _, witness = jax.lax.while_loop(unfinished, visit, (jnp.int32(0), jnp.int32(-1)))
    found = witness >= 0
    here = jnp.arange(known.tau.shape[0]) == lane
    return known._replace(
        tau=jnp.where(here & ~found, known.since, known.tau),
        refuted=known.refuted | (here & found),
        witness=_remember(known.witness, y, jnp.broadcast_to(jnp.maximum(witness, 0), here.shape), here & found),
        hard=known.hard.add(witness, found),
    )
