"""What the theory promises: bounds on violations and mistakes, and the paper's Table 1 for given data.

Every OMM bound goes through kappa0. The closed forms printed in the paper's section 5.1 and in the second column of its
Table 1 choose their case by r / (1 - phi) where r^2 / (1 - phi) is right, and are too small for some phi > 0.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.kappa import log_kappa0
from omm_jax.norms import Norm, l2


def violation_bound(
    r: ArrayLike, phi: ArrayLike, gamma_3: ArrayLike, gamma_star: ArrayLike, *, norm: Norm = l2
) -> jax.Array:
    """The bound on m(phi), the number of examples after the initialisation with margin at most phi gamma_t.

    0 if phi < 1 - r, else log(gamma_3 / gamma*) / (-log kappa(r, phi)); inf for phi >= 1. It holds at once for all phi
    below the aggressiveness rho of the learner, and at phi = rho apart from exact ties, which OMM does not repair.

    Args:
        r: D / gamma*.
        phi: level of the violations, any shape.
        gamma_3: the first margin claimed, half the distance of the first two points of opposite class;
            `largest_gamma_3` where it is not known.
        gamma_star: the maximum margin of the data.
        norm: the norm of the margin.

    Example:
        >>> round(float(violation_bound(0.95, 0.4, 2.0, 1.0)), 4)
        2.9558

    Reference: the paper's Theorem margin-performance.
    """
    rate = -log_kappa0(jnp.asarray(r) / 2, (1 - jnp.asarray(phi)) / 2, norm=norm)
    # Rounding may put gamma_3 below gamma*, which it bounds.
    shrinkage = jnp.maximum(jnp.log(jnp.asarray(gamma_3) / gamma_star), 0)
    return jnp.where(rate > 0, shrinkage / jnp.where(rate > 0, rate, 1), jnp.inf)


def mistake_bound(r: ArrayLike, gamma_3: ArrayLike, gamma_star: ArrayLike, *, norm: Norm = l2) -> jax.Array:
    """The bound on the mistakes of OMM: those counted by m(0), and two while it waits for both classes.

    Example:
        >>> float(mistake_bound(0.5, 3.0, 1.0))
        2.0
    """
    return 2 + violation_bound(r, 0.0, gamma_3, gamma_star, norm=norm)


def margin_bound(
    r: ArrayLike, phi: ArrayLike, gamma_3: ArrayLike, gamma_star: ArrayLike, *, norm: Norm = l2
) -> jax.Array:
    """The bound on the examples on which OMM has at most the margin phi gamma*, the first two included (Table 1)."""
    return 2 + violation_bound(r, phi, gamma_3, gamma_star, norm=norm)


def least_violating_r(phi: ArrayLike) -> jax.Array:
    """The r below which OMM with the Euclidean norm meets no violation of level phi at all: 2 (1 - phi) / (1 + phi).

    In particular it makes at most two mistakes whenever r < 2. Sharper than the paper's 1 - phi: a violation leaves
    gamma_{t+1} <= gamma_t kappa0(D / (2 gamma_t), (1 - phi) / 2), whose largest value over all gamma_t is
    D (1 + phi) / (2 (1 - phi)), at gamma_t = D / (1 - phi); and gamma_{t+1} >= gamma*. For phi = 0 in words: a positive
    point on the wrong side of the bisector is as near to v- as to v+, so within D; yet it is 2 gamma* away from v-.

    Example:
        >>> float(least_violating_r(0.0)), round(float(least_violating_r(0.5)), 4)
        (2.0, 0.6667)
    """
    return 2 * (1 - jnp.asarray(phi)) / (1 + jnp.asarray(phi))


def largest_gamma_3(diameter: ArrayLike, gamma_star: ArrayLike) -> jax.Array:
    """The largest first margin, D + gamma*.

    Each of the first two points is within D of its class's dual certificate, and these are 2 gamma* apart, so the two
    points are at most 2 D + 2 gamma* apart. The paper states 2 (D + gamma*), twice as much.
    """
    return jnp.asarray(diameter) + gamma_star


def mistake_order(radius: ArrayLike, gamma_star: ArrayLike) -> jax.Array:
    """(D_bar / gamma*)^2, the order, without its constant, of the mistakes of the Perceptron, ROMMA and PUMMA.

    ALMA's is the same of normalised data: radius 1, and the maximum margin of x / norm(x).
    """
    return (jnp.asarray(radius) / gamma_star) ** 2


def margin_order(radius: ArrayLike, gamma_star: ArrayLike, phi: ArrayLike) -> jax.Array:
    """(D_bar / (gamma* (1 - phi)))^2, the order, without its constant, of what a-ROMMA and PUMMA need for phi."""
    return mistake_order(radius, gamma_star) / (1 - jnp.asarray(phi)) ** 2


class Guarantee(NamedTuple):
    """A row of Table 1: what a learner's mistakes, and its examples of less margin than phi gamma*, are bounded by.

    Attributes:
        learner: its name in the registry.
        mistakes: the bound on its mistakes.
        margin: the bound on the examples of too small a margin; None where the paper has none.
        exact: False where the numbers are orders of magnitude, without their constants.
        bias: whether the learner finds the bias itself; the others are promised this for b* = 0.
    """

    learner: str
    mistakes: float
    margin: float | None
    exact: bool
    bias: bool


def guarantees(
    D: ArrayLike,
    D_bar: ArrayLike,
    gamma_star: ArrayLike,
    *,
    phi: float = 0.5,
    gamma_3: ArrayLike | None = None,
    normalised_margin: ArrayLike | None = None,
) -> tuple[Guarantee, ...]:
    """The paper's Table 1 for a data set, in the Euclidean norm.

    Args:
        D: the larger diameter of a class.
        D_bar: the largest norm of a point.
        gamma_star: the maximum margin.
        phi: the fraction of the margin asked for.
        gamma_3: the first margin claimed by OMM; the largest possible unless given.
        normalised_margin: the maximum margin of x / ||x||, for ALMA; without it ALMA is left out.
    """
    r = jnp.asarray(D) / gamma_star
    first = largest_gamma_3(D, gamma_star) if gamma_3 is None else gamma_3
    mistakes, margin = float(mistake_bound(r, first, gamma_star)), float(margin_bound(r, phi, first, gamma_star))
    order, far = float(mistake_order(D_bar, gamma_star)), float(margin_order(D_bar, gamma_star, phi))
    rows = [
        Guarantee("n-OMM", mistakes, margin, True, True),
        Guarantee("e-OMM", mistakes, margin, True, True),
        Guarantee("PUMMA", order, far, False, True),
        Guarantee("a-ROMMA", order, far, False, False),
        Guarantee("ROMMA", order, None, False, False),
        Guarantee("Perceptron", order, None, False, False),
    ]
    if normalised_margin is not None:
        order, far = float(mistake_order(1.0, normalised_margin)), float(margin_order(1.0, normalised_margin, phi))
        rows.append(Guarantee("ALMA", order, far, False, False))
    return tuple(rows)


def guarantee_table(
    D: ArrayLike,
    D_bar: ArrayLike,
    gamma_star: ArrayLike,
    *,
    phi: float = 0.5,
    gamma_3: ArrayLike | None = None,
    normalised_margin: ArrayLike | None = None,
) -> str:
    """`guarantees` as a Markdown table; "order" marks numbers without their constants.

    Example:
        >>> print(guarantee_table(D=0.5, D_bar=10.0, gamma_star=1.0))
        | learner    | mistakes  | margin >= 0.5 gamma* | bias |
        |------------|-----------|----------------------|------|
        | n-OMM      | 2         | 3.409                | own  |
        | e-OMM      | 2         | 3.409                | own  |
        | PUMMA      | order 100 | order 400            | own  |
        | a-ROMMA    | order 100 | order 400            | 0    |
        | ROMMA      | order 100 | none                 | 0    |
        | Perceptron | order 100 | none                 | 0    |
    """
    rows = guarantees(D, D_bar, gamma_star, phi=phi, gamma_3=gamma_3, normalised_margin=normalised_margin)

    def show(number: float | None, exact: bool) -> str:
        return "none" if number is None else f"{'' if exact else 'order '}{number:.4g}"

    cells = [("learner", "mistakes", f"margin >= {phi:g} gamma*", "bias")]
    for row in rows:
        numbers = show(row.mistakes, row.exact), show(row.margin, row.exact)
        cells.append((row.learner, *numbers, "own" if row.bias else "0"))
    widths = [max(len(line[k]) for line in cells) for k in range(4)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
