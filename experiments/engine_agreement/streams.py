"""The data sets and orders that the engines are compared on: the Adult data, and generated sets full of close calls."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import omm_jax as omm
from experiments.paper_tables.spec import Setting, make

LEARNERS = ("ce-OMM", "e-OMM", "ROMMA", "a-ROMMA", "PUMMA", "Perceptron", "ALMA")
ADULT = {"Adult plain": (0.0, True), "Adult hardest": (1.0, False)}  # theta, zero bias
GENERATED = ("gaussian", "exact ties", "near ties", "aimed")
# Settings over each order, where lanes share orders: enough for the engine to run them together.
SETTINGS = 16
SEED = 6
ADULT_LENGTH = 35_508
# Longer than the fast engine's longest block, and no multiple of any.
LENGTH = 413
_POINTS, _DIMENSION = 192, 20
# The aimed set: base points, streams of them, and for the state after each stream pairs of points aimed at it and two
# that are far from its level.
_BASE, _PREFIXES, _PAIRS, _FAR = 32, 16, 4, 2
_PREFIX_LENGTH, _QUIET_LENGTH = 24, 240


class Streams(NamedTuple):
    """A data set, and where the orders of the lanes come from."""

    name: str
    x: jax.Array
    y: jax.Array
    algorithm: omm.Algorithm  # the learner with its usual hyperparameters
    length: int

    def orders(self, first: int, lanes: int) -> jax.Array:
        """The orders `[lanes, length]` of replicates `first`, `first + 1`, ..."""
        if self.name in ADULT:
            return _permutations(jnp.arange(first, first + lanes), self.x.shape[0])[:, : self.length]
        rng = np.random.default_rng([SEED, first])
        orders = rng.integers(0, _POINTS, (lanes, self.length))
        if self.name == "aimed":
            opening = _openings(rng, np.arange(first, first + lanes) % _PREFIXES)[:, : self.length]
            orders[:, : opening.shape[1]] = opening
        return jnp.asarray(orders, jnp.int32)


def streams(name: str, learner: str, dtype: Any, length: int | None = None) -> Streams:
    """The data set of a name for a learner, in a precision, with orders cut to a length."""
    if name not in (*ADULT, *GENERATED):
        raise ValueError(f"there is no data set {name!r}: choose one of {(*ADULT, *GENERATED)}")
    if name in ADULT:
        theta, zero_bias = ADULT[name]
        variant = omm.data.paper_variant(theta, zero_bias)
        x, y = variant.data
        algorithm = make(Setting(learner, theta, zero_bias, 1), variant)
        usual = len(y)
    else:
        algorithm = omm.ALGORITHMS[learner]()
        x, y = _aimed(algorithm, dtype) if name == "aimed" else _points(name, dtype)
        usual = LENGTH
    return Streams(name, jnp.asarray(x, dtype), jnp.asarray(y, dtype), algorithm, min(usual, length or usual))


def sweep(learner: str, of: Streams) -> tuple[str, np.ndarray]:
    """Sixteen settings of a learner: the name of what differs between them, and its values."""
    steps = np.linspace(0, 1, SETTINGS)
    if learner == "e-OMM":
        return "rho", steps
    if learner == "ce-OMM":  # all there is to set
        return "rho", 0 * steps
    if learner in ("a-ROMMA", "PUMMA"):
        return "delta", (0.01 if learner == "PUMMA" else 0.0) + 0.9 * steps
    # A coordinate makes the features differ from setting to setting, in another way if the learner scales them.
    largest = 1.0 if learner == "ALMA" else -float(jnp.max(jnp.linalg.norm(of.x, axis=1)))
    return "coordinate", largest * (0.5 + steps)


def with_setting(learner: str, name: str, value: jax.Array, of: omm.Algorithm) -> omm.Algorithm:
    """The learner with one of its settings replaced; `of` says which bias coordinate it has."""
    if name == "coordinate":
        return omm.with_bias(omm.ALGORITHMS[learner](), value)
    factory = omm.e_omm if learner in ("e-OMM", "ce-OMM") else omm.ALGORITHMS[learner]
    algorithm = factory(**{name: value})
    return omm.with_bias(algorithm, of.params["coordinate"]) if "coordinate" in of.params else algorithm


@functools.partial(jax.jit, static_argnames="n")
def _permutations(replicates: jax.Array, n: int) -> jax.Array:
    return jax.vmap(lambda replicate: omm.order(SEED, replicate, n))(replicates)


def _labels(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    y = np.where(x @ rng.standard_normal(x.shape[1]) + 0.3 > 0, 1, -1)
    y[:2] = 1, -1
    return y


def _points(name: str, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Few points, so that streams repeat them: a learner's level often is the score of a point it has seen."""
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((_POINTS, _DIMENSION))
    if name == "exact ties":  # small integers
        x = rng.integers(-2, 3, x.shape).astype(float)
    elif name == "near ties":  # copies of a few points, moved by a rounding error or two
        x = np.repeat(x[:_BASE], _POINTS // _BASE, axis=0)
        x *= 1 + rng.integers(-2, 3, x.shape) * np.finfo(dtype).eps
    return x, _labels(rng, x)


@functools.cache
def _prefixes() -> np.ndarray:
    rng = np.random.default_rng(SEED + 1)
    return rng.permuted(np.tile(np.arange(_BASE), (_PREFIXES, 1)), axis=1)[:, :_PREFIX_LENGTH]


def _openings(rng: np.random.Generator, prefix: np.ndarray) -> np.ndarray:
    """How lanes begin on the aimed set: a prefix, then far points, among the later ones those aimed at the state.

    The far points are there to make the fast engine look far ahead before it meets the others.
    """
    lanes, aimed = len(prefix), 2 * _PAIRS
    first = _BASE + (aimed + _FAR) * prefix[:, None]
    quiet = first + aimed + rng.integers(0, _FAR, (lanes, _QUIET_LENGTH))
    half = _QUIET_LENGTH // 2
    places = half + rng.permuted(np.tile(np.arange(half), (lanes, 1)), axis=1)[:, :aimed]
    np.put_along_axis(quiet, places, first + np.arange(aimed), axis=1)
    return np.concatenate([_prefixes()[prefix], quiet], axis=1)


def _aimed(algorithm: omm.Algorithm, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points whose scores straddle the level of the state that a lane is in when it meets them.

    Between a point that makes the learner update and one that does not, bisection finds two neighbouring points that
    still differ in this, for the states after `_PREFIXES` short streams. A lane begins with one of these streams and
    later meets the points aimed at it.
    """
    rng = np.random.default_rng(SEED + 2)
    base = rng.standard_normal((_BASE, _DIMENSION))
    labels = _labels(rng, base)
    x, y = jnp.asarray(base, dtype), jnp.asarray(labels, dtype)
    noise = jnp.asarray(rng.standard_normal((_PREFIXES, _PAIRS, 2, _DIMENSION)), dtype)
    sides = jnp.asarray([1, -1] * (_PAIRS // 2), dtype)

    def aim(order: jax.Array, noise: jax.Array) -> jax.Array:
        start = algorithm.init(_DIMENSION, x.dtype)
        state, _ = jax.lax.scan(lambda state, i: (algorithm.step(state, (x[i], y[i])), None), start, order)
        direction = algorithm.classifier(state)[0]
        direction = 100 * direction / jnp.linalg.norm(direction)

        def pair(noise: jax.Array, side: jax.Array) -> jax.Array:
            def halve(_, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
                inert, firing = ends
                middle = (inert + firing) / 2
                signed = side * algorithm.score(state, algorithm.features(middle))
                fires = algorithm.threshold(state, side).fires(signed)
                return jnp.where(fires, inert, middle), jnp.where(fires, middle, firing)

            ends = noise[0] + side * direction, noise[1] - side * direction
            return jnp.stack(jax.lax.fori_loop(0, 80, halve, ends))

        pairs = jax.vmap(pair)(noise, sides).reshape(-1, _DIMENSION)
        return jnp.concatenate([pairs, noise[:_FAR, 0] + sides[:_FAR, None] * direction])

    points = np.asarray(jax.jit(jax.vmap(aim))(jnp.asarray(_prefixes()), noise)).reshape(-1, _DIMENSION)
    sides_of_state = np.concatenate([np.repeat(sides, 2), sides[:_FAR]])
    return np.concatenate([base, points]), np.concatenate([labels, np.tile(sides_of_state, _PREFIXES)])
