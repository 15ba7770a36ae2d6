"""A learner's functions mapped over lanes: every lane has its own state, and may have its own hyperparameters."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core

from omm_jax.algorithm import Algorithm, State, Trigger
from omm_jax.engine.pieces import Vectors, in_pieces, is_pieces, join
from omm_jax.numerics import dot


class Both(NamedTuple):
    """A number `[lanes]` for each label."""

    negative: jax.Array
    positive: jax.Array

    def of(self, y: jax.Array) -> jax.Array:
        """That of labels `[lanes, ...]`."""
        negative, positive = (part.reshape(part.shape + (1,) * (y.ndim - 1)) for part in self)
        return jnp.where(y > 0, positive, negative)


class Rule(NamedTuple):
    """All that a state says about the next example: the classifier in force and the triggers of both labels.

    The rule that is kept beside a state has None for what `Lanes.whole` finds again at no cost.
    """

    w: Vectors  # [lanes, k], in feature space
    b: jax.Array  # [lanes]
    level: Both
    inclusive: Both

    def score(self, f: Vectors) -> jax.Array:
        """w.f + b `[lanes]` of one example a lane, in feature space."""
        return jax.vmap(in_pieces(dot))(self.w, f) + self.b

    def trigger(self, y: jax.Array) -> Trigger:
        """The trigger of every lane for its label `[lanes]`."""
        return Trigger(self.level.of(y), self.inclusive.of(y))


def _rule(algorithm: Algorithm, state: State) -> Rule:
    """The whole rule of one lane."""
    w, b = algorithm.linear(state)
    triggers = [algorithm.threshold(state, jnp.asarray(y, w.dtype)) for y in (-1, 1)]
    level = Both(*(jnp.asarray(trigger.level) for trigger in triggers))
    return Rule(w, b, level, Both(*(jnp.asarray(trigger.inclusive) for trigger in triggers)))


def _depend(program: core.Jaxpr, inputs: list[core.Var]) -> list[bool]:
    """Whether the results of a program depend on some of its inputs, going by its operations as they stand."""
    touched = set(inputs)
    for equation in program.eqns:
        if any(atom in touched for atom in equation.invars if isinstance(atom, core.Var)):
            touched.update(equation.outvars)
    return [isinstance(atom, core.Var) and atom in touched for atom in program.outvars]


class Lanes(NamedTuple):
    """A batch of algorithms of one kind, as functions of batched states.

    States, features and the weights of rules are in pieces; other results are whole.

    Attributes:
        algorithm: an Algorithm whose leaves have a leading axis `[lanes]`, or `[1]` for what all lanes share.
        lanes: how many.
    """

    algorithm: Algorithm
    lanes: int

    def take(self, lanes: jax.Array) -> "Lanes":
        """These lanes; an index past the end gives the last one."""

        def pick(leaf: jax.Array) -> jax.Array:
            return leaf if leaf.shape[0] == 1 else leaf.at[lanes].get(mode="clip")

        return Lanes(jax.tree.map(pick, self.algorithm), lanes.shape[0])

    def _over(self, function: Callable, *arguments: Any, axis: int | None = 0) -> Any:
        """`function(algorithm, *arguments)` of every lane, in pieces; axis None for what lanes share."""
        leaves, structure = jax.tree.flatten(self.algorithm)
        shared = [leaf.shape[0] == 1 for leaf in leaves]
        leaves = [leaf[0] if same else leaf for leaf, same in zip(leaves, shared, strict=True)]

        def one(leaves, *arguments):
            return in_pieces(functools.partial(function, jax.tree.unflatten(structure, leaves)))(*arguments)

        axes = ([None if same else 0 for same in shared], *(axis for _ in arguments))
        return jax.vmap(one, in_axes=axes, out_axes=axis, axis_size=self.lanes)(leaves, *arguments)

    def init(self, d: int, dtype: Any) -> State:
        """The state of every lane before any example."""
        return self._over(lambda algorithm: algorithm.init(d, dtype))

    def features(self, x: Vectors) -> Vectors:
        """Features `[lanes, k]` of one raw example a lane `[lanes, d]`."""
        return self._over(lambda algorithm, x: algorithm.features(x), x)

    def shared_features(self, x: jax.Array) -> jax.Array | None:
        """Features `[n, k]` of a data set `[n, d]` if they are the same in every lane, else None."""
        try:
            return self._over(lambda algorithm, x: jax.vmap(algorithm.features)(x), x, axis=None)
        except ValueError:  # vmap refuses axis None for results that differ from lane to lane
            return None

    def rule(self, state: State) -> Rule:
        """What every lane would do with the next example, but for what `whole` finds again: kept, it is copied."""
        rule = self._over(_rule, state)
        return jax.tree.map(lambda worth, part: part if worth else None, self._worth_keeping(state), rule)

    def whole(self, state: State, rule: Rule) -> Rule:
        """The rule of a state with nothing left out."""
        negative, positive = rule.level
        if positive is None:
            rule = rule._replace(level=Both(negative, negative))
        found = self._over(_rule, state)
        return jax.tree.map(lambda found, kept: found if kept is None else kept, found, rule, is_leaf=is_pieces)

    def _worth_keeping(self, state: State) -> Rule:
        """Which parts of a rule change with the state and are none of its leaves; one level if labels have the same."""
        state = join(state)
        leaves, structure = jax.tree.flatten(self.algorithm)
        parts = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), (leaves, state))

        def rules(label: jax.Array, leaves: list[jax.Array], state: State) -> tuple[Rule, jax.Array]:
            algorithm = jax.tree.unflatten(structure, leaves)
            rule = _rule(algorithm, state)
            return rule, jnp.asarray(algorithm.threshold(state, label.astype(rule.b.dtype)).level)

        closed, (rule, _) = jax.make_jaxpr(rules, return_shape=True)(jnp.ones(()), *parts)
        label, *inputs = closed.jaxpr.invars
        inputs = inputs[len(leaves) :]
        changes = [
            changes and result not in inputs
            for changes, result in zip(_depend(closed.jaxpr, inputs), closed.jaxpr.outvars, strict=True)
        ]
        worth: Any = jax.tree.unflatten(jax.tree.structure(rule), changes[:-1])
        same = not _depend(closed.jaxpr, [label])[-1]
        return worth._replace(level=worth.level._replace(positive=False)) if same else worth

    def gamma(self, state: State) -> jax.Array:
        """The margin every lane claims."""
        return self._over(lambda algorithm, state: algorithm.gamma(state), state)

    def classifier(self, state: State) -> tuple[jax.Array, jax.Array]:
        """The classifiers in force `[lanes, d]`, `[lanes]`, on raw examples."""
        return join(self._over(lambda algorithm, state: algorithm.classifier(state), state))

    def scales(self, x: jax.Array) -> jax.Array:
        """By how much every lane scales some examples `[some, d]`: `[lanes, some]`."""

        def one(algorithm: Algorithm) -> jax.Array:
            assert algorithm.scaled is not None
            return jax.vmap(algorithm.scaled.scale)(x)

        return join(self._over(one))

    def scaled_features(self, x: Vectors, scale: jax.Array) -> Vectors:
        """Features `[lanes, k]` of one raw example a lane `[lanes, d]`, whose scale `[lanes]` is known."""

        def one(algorithm: Algorithm, x: jax.Array, scale: jax.Array) -> jax.Array:
            assert algorithm.scaled is not None
            return algorithm.scaled.map(x, scale)

        return self._over(one, x, scale)

    def origin(self, d: int, dtype: Any) -> tuple[jax.Array, jax.Array | None]:
        """Features `[lanes, k]` of the example 0, scaled by 0; and what scaling it by 1 adds, None if it is not."""

        def one(algorithm: Algorithm) -> tuple[jax.Array, jax.Array | None]:
            zero = jnp.zeros(d, dtype)
            if algorithm.scaled is None:
                return algorithm.features(zero), None
            at_zero = algorithm.scaled.map(zero, zero[0])
            return at_zero, algorithm.scaled.map(zero, zero[0] + 1) - at_zero

        return join(self._over(one))

    def on_raw(self, w: jax.Array, d: int) -> jax.Array:
        """Weights `[lanes, k]` as weights of raw examples `[lanes, d]`: features must be affine, but for the scale."""

        def one(algorithm: Algorithm, w: jax.Array) -> jax.Array:
            zero = jnp.zeros(d, w.dtype)
            scaled = algorithm.scaled
            features = algorithm.features if scaled is None else lambda x: scaled.map(x, zero[0] + 1)
            return jax.vjp(features, zero)[1](w)[0]

        return join(self._over(one, w))

    def update(self, state: State, f: Vectors, y: jax.Array, where: jax.Array) -> State:
        """The state with the lanes of `where` updated and the others as they were."""
        updated = self._over(lambda algorithm, *example: algorithm.update(*example), state, f, y)

        def pick(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(where.reshape(where.shape + (1,) * (old.ndim - 1)), new, old)

        return jax.tree.map(pick, updated, state)

    def status(self, state: State) -> jax.Array:
        """The status bits of every state."""
        return self._over(lambda algorithm, state: algorithm.status(state), state)

    def dual(self, w: jax.Array) -> jax.Array:
        """The dual norm of every lane's raw weights."""
        return self._over(lambda algorithm, w: algorithm.norm.dual(w), w)
