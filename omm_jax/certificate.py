"""An independent check of a maximum-margin solution: NumPy in extended precision, from data and claim alone."""

from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

from omm_jax.maxmargin import MaxMargin
from omm_jax.norms import L2, Lp, Norm, Quadratic, l2
from omm_jax.validation import check_data


class Verification(NamedTuple):
    """What the data say about a solution.

    Attributes:
        margin: margin of (w, b), min y (w.x + b) / dual norm(w): the maximum margin is at least this.
        distance: norm of v_pos - v_neg, summed from the support: the maximum margin is at most half of this.
        gap: (distance/2 - margin) / (distance/2).
        hull_error: how far the weights and the certificates are from describing points of the two hulls: negative
            weights, sums other than 1, and v_pos and v_neg apart from their support (relative to the data's size).
        accepted: whether both gap and hull_error are within the tolerance.
    """

    margin: float
    distance: float
    gap: float
    hull_error: float
    accepted: bool


def verify(x: ArrayLike, y: ArrayLike, solution: MaxMargin, *, norm: Norm = l2, tol: float = 1e-9) -> Verification:
    """Recompute margin, distance, hull membership and gap of a claimed solution; nothing of the solver is used.

    Args:
        x: examples `[n, d]`.
        y: labels `[n]`, +1 or -1.
        solution: the claim; its w, b, v_pos, v_neg and support are read, its gamma, lower, upper and status are not.
        norm: the norm of the margin.
        tol: largest gap and hull error to accept.

    Example:
        >>> from omm_jax.maxmargin import max_margin
        >>> x, y = np.array([[3.0], [5.0], [-1.0]], np.float32), np.array([1, 1, -1])
        >>> found = verify(x, y, max_margin(x, y), tol=1e-6)
        >>> found.margin, found.distance, found.accepted
        (2.0, 4.0, True)
    """
    check_data(x, y)
    points, labels = np.asarray(x, np.longdouble), np.asarray(y)
    w, v_pos, v_neg = (np.asarray(part, np.longdouble) for part in (solution.w, solution.v_pos, solution.v_neg))
    row, weight = np.asarray(solution.support.row), np.asarray(solution.support.weight, np.longdouble)
    row, weight = row[row >= 0], weight[row >= 0]

    margin = np.min(labels * (points @ w + np.longdouble(solution.b))) / _dual(norm, w)

    # Sums relative to a centre, so that an offset of the data does not drown them.
    centre = points.mean(axis=0)
    size = np.abs(points - centre).max()
    errors, ends = [max(-weight.min(), 0)], []
    for sign, claimed in ((1, v_pos), (-1, v_neg)):
        part = weight * (labels[row] == sign)
        end = part @ (points[row] - centre)
        errors += [abs(part.sum() - 1), np.abs(claimed - centre - end).max() / size]
        ends.append(end)
    distance = _value(norm, ends[0] - ends[1])

    gap = 1 - 2 * margin / distance if distance > 0 else np.inf
    hull_error = max(errors)
    accepted = bool(margin > 0 and gap <= tol and hull_error <= tol)
    return Verification(float(margin), float(distance), float(gap), float(hull_error), accepted)


def _value(norm: Norm, u: np.ndarray) -> np.longdouble:
    if isinstance(norm, L2):
        return np.sqrt(u @ u)
    if isinstance(norm, Lp):
        return _power_norm(u, _exponent(norm))
    if isinstance(norm, Quadratic):
        return np.sqrt(u @ np.asarray(norm.matrix, np.longdouble) @ u)
    raise ValueError(f"verify knows the norms l2, lp and quadratic, got {type(norm).__name__}")


def _dual(norm: Norm, w: np.ndarray) -> np.longdouble:
    if isinstance(norm, Lp):
        return _power_norm(w, _exponent(norm) / (_exponent(norm) - 1))
    if isinstance(norm, Quadratic):
        solved = np.linalg.solve(np.asarray(norm.matrix, np.float64), w.astype(np.float64))
        return np.sqrt(w @ solved.astype(np.longdouble))
    return _value(norm, w)


def _exponent(norm: Lp) -> np.longdouble:
    return np.longdouble(np.asarray(norm.p).item())


def _power_norm(u: np.ndarray, p: np.longdouble) -> np.longdouble:
    largest = np.abs(u).max()
    return largest * np.sum((np.abs(u) / largest) ** p) ** (1 / p) if largest > 0 else largest
