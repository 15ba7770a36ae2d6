"""What an online learner is: a NamedTuple of pure functions of one example.

Every engine, sweep and check runs the same functions, and knows a learner only through them. A learner is *linear with
a trigger*: it scores an example, compares the signed score with a level, and updates its state or leaves it alone.
The trigger is data (a level, and whether equality fires), which is what lets an engine skip inert examples safely.

An `Algorithm` is also a pytree whose leaves are its hyperparameters. So a jitted function takes it as an argument
without recompiling for every value, and `e_omm(rho=jnp.linspace(0, 1, 64))` can be vmapped over like any array.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from omm_jax.norms import Norm, l2
from omm_jax.numerics import dot

State = Any

_NUMBERS = (jax.Array, np.ndarray, np.generic, bool, int, float)


class Trigger(NamedTuple):
    """When an example makes the learner update: its signed score is below `level`, or equal to it if `inclusive`."""

    level: jax.Array
    inclusive: ArrayLike

    def fires(self, signed_score: jax.Array) -> jax.Array:
        """Whether this signed score makes the learner update."""
        return (signed_score < self.level) | (jnp.asarray(self.inclusive) & (signed_score == self.level))


class Scaled(NamedTuple):
    """Features as examples that are moved, scaled and extended: features(x) is map(x, scale(x)), to the last bit.

    Attributes:
        scale: x `[d]` -> s, not negative.
        map: (x `[d]`, s) -> f `[k]`. It is affine in s x and s, and keeps the distances of the s x.
    """

    scale: Callable[[jax.Array], jax.Array]
    map: Callable[[jax.Array, jax.Array], jax.Array]


def _no_status(state: State) -> jax.Array:
    return jnp.zeros((), jnp.int32)


def _no_gamma(state: State) -> jax.Array:
    leaf = jax.tree.leaves(state)[0]
    return jnp.full((), jnp.nan, leaf.dtype if jnp.issubdtype(leaf.dtype, jnp.inexact) else None)


class Recipe(NamedTuple):
    """How an Algorithm is rebuilt from its hyperparameters: the static half of the pytree."""

    factory: Callable[..., "Algorithm"]
    static: tuple[tuple[str, Any], ...]


class Algorithm(NamedTuple):
    """An online linear learner, as pure unbatched functions.

    Attributes:
        init: (d, dtype) -> state, before any example, for raw examples of d features.
        features: x `[d]` -> f `[k]`, a map that does not depend on the state (identity, append, normalise).
        linear: state -> (w `[k]`, b), the classifier in force, in feature space.
        threshold: (state, y) -> Trigger, the level of the signed score y (w.f + b) below which to update.
        update: (state, f `[k]`, y) -> state, unconditionally.
        classifier: state -> (w `[d]`, b), the classifier in force, on raw examples.
        status: state -> int32, the bits of `Status` the state is entitled to.
        gamma: state -> the margin the learner claims for itself, nan if it claims none.
        norm: the norm its margin is measured in.
        same_score: whether `linear` gives the features of an example the score that `classifier` gives the example, but
            for a positive factor that depends on the state alone, and features keep distances. It is a promise;
            engines that may rely on it do less.
        scaled: what `features` does, in two steps, if it can be said so. It is a promise too: an engine that knows it
            scores examples without computing their features.
        params: the hyperparameters, the leaves of this pytree.
        recipe: what rebuilds the algorithm from `params`; None for one that has none.
    """

    init: Callable[..., State]
    features: Callable[[jax.Array], jax.Array]
    linear: Callable[[State], tuple[jax.Array, jax.Array]]
    threshold: Callable[[State, jax.Array], Trigger]
    update: Callable[[State, jax.Array, jax.Array], State]
    classifier: Callable[[State], tuple[jax.Array, jax.Array]]
    status: Callable[[State], jax.Array] = _no_status
    gamma: Callable[[State], jax.Array] = _no_gamma
    norm: Norm = l2
    same_score: bool = False
    scaled: Scaled | None = None
    params: Any = None
    recipe: Recipe | None = None

    def score(self, state: State, f: jax.Array) -> jax.Array:
        """w.f + b of the classifier in force."""
        w, b = self.linear(state)
        return dot(w, f) + b

    def step(self, state: State, example: tuple[jax.Array, jax.Array]) -> State:
        """One example: the state after seeing (x, y). For `jax.lax.scan`, pair it with an empty output."""
        x, y = example
        f = self.features(x)
        y = jnp.asarray(y, f.dtype)
        fires = self.threshold(state, y).fires(y * self.score(state, f))
        return jax.lax.cond(fires, self.update, lambda state, f, y: state, state, f, y)


def _flatten(algorithm: Algorithm):
    if algorithm.recipe is None:
        return (), algorithm
    return (algorithm.params,), algorithm.recipe


def _unflatten(static: Recipe | Algorithm, children):
    if isinstance(static, Algorithm):
        return static
    if all(isinstance(leaf, _NUMBERS) for leaf in jax.tree.leaves(children)):
        return _build(static, children[0])
    # JAX also builds trees of placeholders (in_axes, shapes, tree_map to strings): those have leaves but no functions.
    functions: Any = dict.fromkeys(Algorithm._fields[:6])
    return Algorithm(**functions, params=children[0], recipe=static)


def _build(recipe: Recipe, params: dict[str, Any]) -> Algorithm:
    built = recipe.factory(**params, **dict(recipe.static))
    return built._replace(params=params, recipe=recipe)


jax.tree_util.register_pytree_node(Algorithm, _flatten, _unflatten)

_Factory = TypeVar("_Factory", bound=Callable[..., Algorithm])


def learner(*, static: tuple[str, ...] = ()) -> Callable[[_Factory], _Factory]:
    """Decorate a factory so that its arguments become the leaves of the Algorithm it returns.

    Args:
        static: names of the arguments that are structure (sizes, flags, callables) and not numbers. They must be
            hashable.

    Example:
        >>> @learner()
        ... def lazy(level=0.0):
        ...     return Algorithm(
        ...         init=lambda d, dtype=float: jnp.zeros(d, dtype),
        ...         features=lambda x: x,
        ...         linear=lambda w: (w, jnp.zeros((), w.dtype)),
        ...         threshold=lambda w, y: Trigger(level, True),
        ...         update=lambda w, f, y: w + y * f,
        ...         classifier=lambda w: (w, jnp.zeros((), w.dtype)),
        ...     )
        >>> jax.tree.leaves(lazy(0.5))
        [0.5]
    """

    def decorate(factory: _Factory) -> _Factory:
        signature = inspect.signature(factory)

        @functools.wraps(factory)
        def make(*args, **kwargs) -> Algorithm:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            params = {name: value for name, value in bound.arguments.items() if name not in static}
            recipe = Recipe(factory, tuple((name, bound.arguments[name]) for name in static))
            return _build(recipe, params)

        return make  # type: ignore[return-value]

    return decorate


@learner(static=("before_features",))
def with_bias(algorithm: Algorithm, coordinate: ArrayLike = 1.0, *, before_features: bool = False) -> Algorithm:
    """Give a homogeneous learner a bias by showing it one more, constant, coordinate.

    The Perceptron and ALMA are used with 1, the ROMMA family with -D_bar (minus the largest norm in the data). The bias
    is the coordinate times the last weight; margins still divide by the norm of the d original weights alone.

    Args:
        algorithm: the learner to extend.
        coordinate: the constant that is appended.
        before_features: append to the raw example, before the learner's own feature map. It matters for ALMA only,
            which normalises: the paper's figures come from appending after (the default).

    Example:
        >>> from omm_jax.algorithms.perceptron import perceptron
        >>> with_bias(perceptron(), 1.0).init(3).shape
        (4,)
    """

    def append(x: jax.Array) -> jax.Array:
        return jnp.concatenate([x, jnp.asarray(coordinate, x.dtype)[None]])

    def features(x: jax.Array) -> jax.Array:
        return algorithm.features(append(x)) if before_features else append(algorithm.features(x))

    def scaled(inner: Scaled) -> Scaled:
        if before_features:
            return Scaled(lambda x: inner.scale(append(x)), lambda x, s: inner.map(append(x), s))
        return inner._replace(map=lambda x, s: append(inner.map(x, s)))

    def classifier(state: State) -> tuple[jax.Array, jax.Array]:
        w, b = algorithm.classifier(state)
        return w[:-1], b + jnp.asarray(coordinate, w.dtype) * w[-1]

    def init(d: int, dtype: Any = None) -> State:
        return algorithm.init(d + 1, dtype)

    return algorithm._replace(
        init=init,
        features=features,
        classifier=classifier,
        scaled=algorithm.scaled and scaled(algorithm.scaled),
        params=None,
        recipe=None,
    )


@learner()
def translated(algorithm: Algorithm, shift: ArrayLike) -> Algorithm:
    """The learner as it is when all examples are moved by a vector: it sees x + shift, and its classifier is for x.

    A sweep over translations of a data set is one run over that data set: `vmap` over shifts, and over orders, fetches
    each example once for all of them.

    Args:
        algorithm: the learner; with a bias already if it needs one.
        shift: `[d]`, added to every example.

    Example:
        >>> from omm_jax.algorithms.perceptron import perceptron
        >>> translated(perceptron(), jnp.array([1.0, 0.0])).features(jnp.array([2.0, 3.0])).tolist()
        [3.0, 3.0]
    """

    def move(x: jax.Array) -> jax.Array:
        return x + jnp.asarray(shift, x.dtype)

    def features(x: jax.Array) -> jax.Array:
        return algorithm.features(move(x))

    def scaled(inner: Scaled) -> Scaled:
        return Scaled(lambda x: inner.scale(move(x)), lambda x, s: inner.map(move(x), s))

    def classifier(state: State) -> tuple[jax.Array, jax.Array]:
        w, b = algorithm.classifier(state)
        return w, b + dot(w, jnp.asarray(shift, w.dtype))

    return algorithm._replace(
        features=features,
        classifier=classifier,
        scaled=algorithm.scaled and scaled(algorithm.scaled),
        params=None,
        recipe=None,
    )
