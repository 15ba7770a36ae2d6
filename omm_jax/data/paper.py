"""The ten variants of the Adult data set that the paper's tables are about."""

import functools

import numpy as np

from omm_jax.data.adult import adult, load_fit
from omm_jax.data.dataset import Dataset
from omm_jax.data.transformations import Variant, bias_control, feature_scaling, margin_normalisation

PAPER_THETAS = (0.0, 0.25, 0.5, 0.75, 1.0)
_TOLERANCE = 1e-8


def paper_variant(theta: float = 0.0, zero_bias: bool = True) -> Variant:
    """A variant of the separable Adult set: margin normalised to 1, optionally b* = 0, features scaled by theta.

    The maximum-margin classifier comes from stored support points; whenever they are loaded, the interval
    [min y-score of the two classes, |v+ - v-|/2] that encloses the margin is computed from all the data.

    Args:
        theta: feature scaling, one of the paper's 0, 0.25, 0.5, 0.75, 1 or any other number >= 0.
        zero_bias: whether to move the data so that b* = 0; otherwise b* = -0.2848.

    Returns:
        A Variant, float64.

    Example:
        >>> variant = paper_variant(theta=0.25, zero_bias=False)
        >>> f"{variant.gamma:.4f} {variant.b:.4f} {variant.D:.4f} {variant.D_bar / variant.D:.4f}"
        '1.0000 -0.2848 220.4355 1.2072'

    Reference: sections "Preprocessing" and "Data transformations" of the paper's appendix.
    """
    normalised = margin_normalisation(adult_variant())
    return feature_scaling(bias_control(normalised) if zero_bias else normalised, theta)


@functools.cache
def adult_variant() -> Variant:
    """The separable Adult set before its transformations, with its maximum-margin classifier and geometry."""
    data, fit = adult(), load_fit()
    positive = data.y[fit.support_rows] > 0
    points, weights = data.x[fit.support_rows], fit.support_weights
    v_pos, v_neg = weights[positive] @ points[positive], weights[~positive] @ points[~positive]
    diameter = max(_diameter(data.x[data.y > 0]), _diameter(data.x[data.y < 0]))
    variant = Variant.from_certificates(data, v_pos, v_neg, diameter)
    _check(data, variant, weights, positive)
    return variant


def _check(data: Dataset, variant: Variant, weights: np.ndarray, positive: np.ndarray) -> None:
    """Refuse stored support points that are not a certificate of the data's maximum margin."""
    sums = np.array([weights[positive].sum(), weights[~positive].sum()])
    scores = data.x @ variant.w
    lower = (scores[data.y > 0].min() - scores[data.y < 0].max()) / 2
    gap = (variant.gamma - lower) / variant.gamma
    if not (weights.min() >= 0 and np.allclose(sums, 1, rtol=0, atol=1e-12) and gap <= _TOLERANCE):
        raise ValueError(
            f"the stored support points do not certify the margin of the Adult data (relative gap {gap:.1e}): "
            "rebuild them with python -m omm_jax.data.build_adult"
        )


def _diameter(points: np.ndarray) -> float:
    """The largest distance between two points `[n, d]`, exactly.

    Two points at distance D0 or more are both at least D0 - R from the centre, R being the largest distance from it;
    a walk from farthest point to farthest point gives a D0, and few points are left to compare.
    """
    from_centre = np.linalg.norm(points - points.mean(axis=0), axis=1)
    end, reached = points[from_centre.argmax()], 0.0
    for _ in range(3):
        distance = np.linalg.norm(points - end, axis=1)
        end, reached = points[distance.argmax()], max(reached, float(distance.max()))
    # The rounding of `from_centre` must not exclude an end of the diameter.
    candidates = points[from_centre >= (reached - from_centre.max()) * (1 - 1e-12)]
    squares = np.einsum("nd,nd->n", candidates, candidates)
    largest = 0.0
    for start in range(0, len(candidates), 512):
        block = slice(start, start + 512)
        squared = squares[block, None] + squares - 2 * candidates[block] @ candidates.T
        largest = max(largest, float(squared.max()))
    return float(np.sqrt(largest))
