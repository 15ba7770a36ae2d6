"""A learner's functions mapped over lanes: every lane has its own state and its own hyperparameters."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from omm_jax.algorithm import Algorithm, State, Trigger
from omm_jax.numerics import dot


class Linear(NamedTuple):
    """The classifiers in force: (w, b) in feature space and (raw_w, raw_b) on raw examples."""

    w: jax.Array  # [lanes, k]
    b: jax.Array  # [lanes]
    raw_w: jax.Array  # [lanes, d]
    raw_b: jax.Array  # [lanes]


class Lanes(NamedTuple):
    """A batch of algorithms of one kind, as functions of batched states.

    Attributes:
        algorithm: an Algorithm whose leaves all have a leading axis `[lanes]`.
        lanes: how many.
    """

    algorithm: Algorithm
    lanes: int

    def init(self, d: int, dtype: Any) -> State:
        """The state of every lane before any example."""

        def one(algorithm: Algorithm, _):
            return algorithm.init(d, dtype)

        return jax.vmap(one)(self.algorithm, jnp.arange(self.lanes))

    def features(self, x: jax.Array) -> jax.Array:
        """Features `[lanes, k]` of one raw example a lane `[lanes, d]`."""
        return jax.vmap(lambda algorithm, x: algorithm.features(x))(self.algorithm, x)

    def linear(self, state: State) -> Linear:
        """The classifiers in force."""

        def one(algorithm: Algorithm, state: State) -> Linear:
            return Linear(*algorithm.linear(state), *algorithm.classifier(state))

        return jax.vmap(one)(self.algorithm, state)

    def score(self, linear: Linear, f: jax.Array) -> jax.Array:
        """w.f + b `[lanes]` of one example a lane."""
        return jax.vmap(dot)(linear.w, f) + linear.b

    def threshold(self, state: State, y: jax.Array) -> Trigger:
        """The trigger of every lane for its label."""

        def one(algorithm: Algorithm, state: State, y: jax.Array) -> Trigger:
            level, inclusive = algorithm.threshold(state, y)
            return Trigger(level, jnp.asarray(inclusive))

        return jax.vmap(one)(self.algorithm, state, y)

    def update(self, state: State, f: jax.Array, y: jax.Array, where: jax.Array) -> State:
        """The state with the lanes of `where` updated and the others as they were."""
        updated = jax.vmap(lambda algorithm, *example: algorithm.update(*example))(self.algorithm, state, f, y)

        def pick(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(where.reshape(where.shape + (1,) * (old.ndim - 1)), new, old)

        return jax.tree.map(pick, updated, state)

    def gamma(self, state: State) -> jax.Array:
        """The margins the learners claim."""
        return jax.vmap(lambda algorithm, state: algorithm.gamma(state))(self.algorithm, state)

    def status(self, state: State) -> jax.Array:
        """The status bits of every state."""
        return jax.vmap(lambda algorithm, state: algorithm.status(state))(self.algorithm, state)

    def dual(self, w: jax.Array) -> jax.Array:
        """The dual norm of every lane's raw weights."""
        return jax.vmap(lambda algorithm, w: algorithm.norm.dual(w))(self.algorithm, w)
