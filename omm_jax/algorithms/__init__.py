"""The learners, one a file, and the registry that names them as the paper does."""

from collections.abc import Callable

from omm_jax.algorithm import Algorithm
from omm_jax.algorithms.alma import alma
from omm_jax.algorithms.gradient import gradient_learner, online_gradient_descent
from omm_jax.algorithms.n_omm import n_omm
from omm_jax.algorithms.omm import ce_omm, e_omm
from omm_jax.algorithms.passive_aggressive import (
    passive_aggressive,
    passive_aggressive_1,
    passive_aggressive_2,
)
from omm_jax.algorithms.perceptron import perceptron
from omm_jax.algorithms.pumma import pumma
from omm_jax.algorithms.romma import aggressive_romma, romma

# Every contract test walks this table, and the defaults are the paper's settings where it has any.
ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "ce-OMM": ce_omm,
    "e-OMM": e_omm,
    "n-OMM": n_omm,
    "ROMMA": romma,
    "a-ROMMA": aggressive_romma,
    "PUMMA": pumma,
    "Perceptron": perceptron,
    "ALMA": alma,
    "PA": passive_aggressive,
    "PA-I": passive_aggressive_1,
    "PA-II": passive_aggressive_2,
    "OGD": online_gradient_descent,
}

__all__ = [
    "ALGORITHMS",
    "aggressive_romma",
    "alma",
    "ce_omm",
    "e_omm",
    "gradient_learner",
    "n_omm",
    "online_gradient_descent",
    "passive_aggressive",
    "passive_aggressive_1",
    "passive_aggressive_2",
    "perceptron",
    "pumma",
    "romma",
]
