"""The paper's three transformations of a data set whose maximum-margin classifier is known.

Each is a translation of the points (of each class, or of all), so what it does to the margin gamma*, the bias b* and
the diameter D is known in advance, and a `Variant` carries those numbers along instead of computing them again. In the
paper's order: `feature_scaling(bias_control(margin_normalisation(variant)), theta)`.
"""

from typing import NamedTuple

import numpy as np

from omm_jax.data.dataset import Dataset


class Variant(NamedTuple):
    """A data set with its maximum-margin classifier and its geometry, in the Euclidean norm.

    Attributes:
        x: examples `[n, d]`, float64.
        y: labels `[n]`.
        w: the maximum-margin weights, of norm 1 `[d]`.
        b: the maximum-margin bias b*.
        gamma: the margin gamma*.
        v_pos: the positive dual certificate: the point of the positive hull nearest the negative one `[d]`.
        v_neg: the negative dual certificate `[d]`.
        D: the largest distance between two points of one class.
        D_bar: the largest norm.
    """

    x: np.ndarray
    y: np.ndarray
    w: np.ndarray
    b: float
    gamma: float
    v_pos: np.ndarray
    v_neg: np.ndarray
    D: float
    D_bar: float

    @property
    def data(self) -> Dataset:
        """The examples and labels alone."""
        return Dataset(self.x, self.y)

    @classmethod
    def from_certificates(cls, data: Dataset, v_pos: np.ndarray, v_neg: np.ndarray, D: float) -> "Variant":
        """A data set whose two dual certificates and diameter are known: w = u/|u| with u = v+ - v-, and so on."""
        u = v_pos - v_neg
        size = float(np.linalg.norm(u))
        w = u / size
        b = -float(w @ (v_pos + v_neg)) / 2
        return cls(data.x, data.y, w, b, size / 2, v_pos, v_neg, D, _largest_norm(data.x))


def margin_normalisation(variant: Variant, margin: float = 1.0) -> Variant:
    """x + (margin - gamma) y w*: the classes move apart along w*; gamma* becomes `margin`, b* and D stay."""
    if not margin > 0:
        raise ValueError(f"margin_normalisation expects a positive margin, got {margin}")
    shift = (margin - variant.gamma) * variant.w
    x = variant.x + variant.y[:, None] * shift
    v_pos, v_neg = variant.v_pos + shift, variant.v_neg - shift
    return variant._replace(x=x, gamma=float(margin), v_pos=v_pos, v_neg=v_neg, D_bar=_largest_norm(x))


def bias_control(variant: Variant) -> Variant:
    """x - (v+ + v-)/2: all points move so that b* becomes 0; w*, gamma* and D stay."""
    return _translate(variant, -(variant.v_pos + variant.v_neg) / 2)._replace(b=0.0)


def feature_scaling(variant: Variant, theta: float) -> Variant:
    """x + theta (xbar - (xbar.w*) w*): all points move along the hyperplane; only D_bar changes, and it grows.

    xbar is the point of largest norm. Then D_bar >= sqrt(|xbar|^2 + theta^2 |xbar - (xbar.w*) w*|^2).
    """
    if not theta >= 0:
        raise ValueError(f"feature_scaling expects theta >= 0, got {theta}")
    farthest = variant.x[np.argmax(np.einsum("nd,nd->n", variant.x, variant.x))]
    return _translate(variant, theta * (farthest - (farthest @ variant.w) * variant.w))


def _translate(variant: Variant, shift: np.ndarray) -> Variant:
    x = variant.x + shift
    return variant._replace(x=x, v_pos=variant.v_pos + shift, v_neg=variant.v_neg + shift, D_bar=_largest_norm(x))


def _largest_norm(x: np.ndarray) -> float:
    return float(np.sqrt(np.einsum("nd,nd->n", x, x).max()))
