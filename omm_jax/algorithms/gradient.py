"""Online gradient steps on a convex loss, with any optax optimiser (Zinkevich, 2003, for the plain one)."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm, Trigger, learner
from omm_jax.numerics import dot

Loss = Literal["hinge", "logistic"]


class _LossOfScore(NamedTuple):
    """A loss of the signed score a = y w.x: the level below which it has a slope, and minus that slope."""

    level: float
    pull: Callable[[jax.Array], jax.Array]


_LOSSES = {
    "hinge": _LossOfScore(1.0, jnp.ones_like),  # max(0, 1 - a)
    "logistic": _LossOfScore(float("inf"), lambda score: jax.nn.sigmoid(-score)),  # log(1 + exp(-a))
}


class GradientState(NamedTuple):
    """The weights, and what the optimiser remembers."""

    w: jax.Array  # [k]
    optimizer: Any


def gradient_learner(
    optimizer: optax.GradientTransformation | Callable[..., optax.GradientTransformation],
    loss: Loss = "hinge",
    **hyperparameters: ArrayLike,
) -> Algorithm:
    """A linear learner that takes one optimiser step on the loss of every example that has a slope.

    With a = y w.x: "hinge" is max(0, 1 - a) and fires on a < 1; "logistic" is log(1 + exp(-a)) and fires always. On an
    example that does not fire nothing happens at all: momentum, averages, weight decay and step counts of the optimiser
    stand still too, so its clock counts updates and not examples. No bias; see `with_bias`.

    Args:
        optimizer: an optax optimiser, or a function that makes one from `hyperparameters`. The second form keeps the
            numbers outside the compiled program, so that they can be swept and vmapped.
        loss: "hinge" or "logistic".
        **hyperparameters: arguments of `optimizer` when it is a function, by name.

    Example:
        >>> alg = gradient_learner(optax.sgd, learning_rate=0.5)
        >>> alg.step(alg.init(2), (jnp.array([1.0, 2.0]), -1.0)).w.tolist()
        [-0.5, -1.0]
        >>> adam = gradient_learner(optax.adam(1e-2), "logistic")
    """
    if loss not in _LOSSES:
        raise ValueError(f"loss must be one of {list(_LOSSES)}, got {loss!r}")
    made = isinstance(optimizer, optax.GradientTransformation)
    if made and hyperparameters:
        raise ValueError(
            f"{sorted(hyperparameters)} cannot be given to an optimiser that is already made: pass the function that "
            "makes it (optax.sgd, not optax.sgd(0.1))"
        )
    if not made and not callable(optimizer):
        raise ValueError(f"optimizer must be an optax optimiser or a function that makes one, got {optimizer!r}")
    return _gradient_learner(optimizer, loss, hyperparameters)


def online_gradient_descent(learning_rate: ArrayLike = 0.1) -> Algorithm:
    """OGD: on y w.x < 1, w <- w + learning_rate y x; the gradient step on the hinge loss. No bias; see `with_bias`.

    Args:
        learning_rate: the constant step size.
    """
    return gradient_learner(optax.sgd, learning_rate=learning_rate)


@learner(static=("optimizer", "loss"))
def _gradient_learner(optimizer: Any, loss: Loss, hyperparameters: Mapping[str, ArrayLike]) -> Algorithm:
    made = isinstance(optimizer, optax.GradientTransformation)
    transformation = optimizer if made else optimizer(**hyperparameters)
    level, pull = _LOSSES[loss]

    def init(d: int, dtype: Any = None) -> GradientState:
        w = jnp.zeros(d, dtype)
        return GradientState(w, transformation.init(w))

    def linear(state: GradientState) -> tuple[jax.Array, jax.Array]:
        return state.w, jnp.zeros((), state.w.dtype)

    def threshold(state: GradientState, y: jax.Array) -> Trigger:
        return Trigger(jnp.full((), level, state.w.dtype), False)

    def update(state: GradientState, f: jax.Array, y: jax.Array) -> GradientState:
        gradient = -y * pull(y * dot(state.w, f)) * f
        step, memory = transformation.update(gradient, state.optimizer, state.w)
        return GradientState(state.w + step, memory)

    return Algorithm(init, lambda x: x, linear, threshold, update, linear, same_score=True)
