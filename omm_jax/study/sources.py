"""Where a study's data comes from: named functions from plain parameters to a data set with its known geometry."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np

from omm_jax import data
from omm_jax.algorithm import Algorithm, with_bias

OWN_BIAS = ("ce-OMM", "e-OMM", "n-OMM", "PUMMA")
# The constant that every other learner is shown as one more coordinate; "radius" is minus the largest norm in the data.
HOMOGENEOUS: dict[str, float | str] = {
    "ROMMA": "radius",
    "a-ROMMA": "radius",
    "Perceptron": 1.0,
    "ALMA": 1.0,
    "PA": 1.0,
    "PA-I": 1.0,
    "PA-II": 1.0,
    "OGD": 1.0,
}
# Jitted as a whole: one compilation instead of one for every operation, and none when a variant is made again.
_draw = jax.jit(data.clusters, static_argnames=("n", "d", "margin", "r", "radius_ratio", "positives"))


@dataclasses.dataclass(frozen=True)
class Problem:
    """A data set and what is known of it.

    Attributes:
        x: examples `[n, d]`.
        y: labels `[n]`.
        biased: whether its separator has, or may have, a bias.
        margin: gamma*, nan if not known.
        diameter: D, the largest distance of two points of one class, nan if not known.
    """

    x: np.ndarray
    y: np.ndarray
    biased: bool = True
    margin: float = float("nan")
    diameter: float = float("nan")

    @functools.cached_property
    def radius(self) -> float:
        """The largest norm of an example, the paper's D_bar."""
        return float(np.sqrt(np.max(np.einsum("nd,nd->n", self.x, self.x))))


def clusters(
    *,
    n: int = 1000,
    d: int = 10,
    margin: float = 1.0,
    r: float = 2.0,
    radius_ratio: float | None = None,
    positives: int | None = None,
    draw: int = 0,
) -> Problem:
    """Two random clusters of prescribed shape, see `omm_jax.data.clusters`; `draw` is the seed of the points."""
    sample = _draw(jax.random.key(draw), n, d, margin=margin, r=r, radius_ratio=radius_ratio, positives=positives)
    return Problem(np.asarray(sample.x), np.asarray(sample.y), False, float(sample.margin), float(sample.diameter))


def adult(*, theta: float = 0.0, zero_bias: bool = True) -> Problem:
    """The paper's variants of the Adult data set, see `omm_jax.data.paper_variant`."""
    variant = data.paper_variant(theta, zero_bias)
    return Problem(variant.x, variant.y, not zero_bias, variant.gamma, variant.D)


def npz(*, path: str, biased: bool = True) -> Problem:
    """Arrays x `[n, d]` and y `[n]` of a .npz file; `biased` says whether the separator may miss the origin."""
    with np.load(path, allow_pickle=False) as file:
        lacking = {"x", "y"} - set(file)
        if lacking:
            raise ValueError(f"{path} must hold arrays x and y, it holds {', '.join(file) or 'nothing'}")
        return Problem(file["x"], file["y"], biased)


SOURCES: dict[str, Callable[..., Problem]] = {"adult": adult, "clusters": clusters, "npz": npz}


def equip(name: str, algorithm: Algorithm, biased: bool, radius: float) -> Algorithm:
    """The learner as it meets the data: one without a bias of its own gets one more coordinate if it needs a bias.

    Args:
        name: the learner's name in `omm_jax.ALGORITHMS`.
        algorithm: the learner.
        biased: whether it needs a bias.
        radius: the largest norm of an example.
    """
    if name not in HOMOGENEOUS or not biased:
        return algorithm
    coordinate = HOMOGENEOUS[name]
    return with_bias(algorithm, -radius if isinstance(coordinate, str) else coordinate)
