"""m(phi) and mbar(phi): how often a learner met an example with a small margin.

The learner is driven here one example after the other, through its protocol functions, and every step can be looked at;
`omm_jax.checks` looks at them too. Written for one stream; vmap for more.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm, State
from omm_jax.numerics import dot, safe_divide
from omm_jax.validation import check_data, check_order

PHIS = (0.0, 0.25, 0.5, 0.75, 0.9)


class Counts(NamedTuple):
    """Numbers of examples with a small margin, for every phi `[k]`.

    Attributes:
        claimed: m(phi), the margin was at most phi times the margin the learner claimed then; 0 if it claims none.
        attainable: mbar(phi), the margin was at most phi gamma*.
        unrepaired: those counted in `claimed` that made the learner no update: exact ties at phi = rho, for OMM, and
            any at phi > rho. The theory speaks of the others.
    """

    claimed: jax.Array
    attainable: jax.Array
    unrepaired: jax.Array


class Step(NamedTuple):
    """One example, raw and as the learner sees it, and what the learner made of it."""

    x: jax.Array
    position: jax.Array
    before: State
    after: State
    f: jax.Array
    y: jax.Array
    signed: jax.Array
    fires: jax.Array
    mistake: jax.Array


def violation_counts(
    algorithm: Algorithm,
    x: ArrayLike,
    y: ArrayLike,
    order: ArrayLike | None = None,
    *,
    phi: ArrayLike | Sequence[float] = PHIS,
    gamma_star: ArrayLike = jnp.nan,
) -> Counts:
    """m(phi) and mbar(phi) of a run, for all phi at once.

    Counted are the examples met by a classifier with w != 0, for OMM those after the initialisation, whose signed
    distance y (w.x + b) / dual norm(w), on raw examples, is at most phi times the reference. For phi >= 0 that is what
    the paper counts; its margins are never negative.

    Args:
        algorithm: the learner, any.
        x: examples `[n, d]`.
        y: labels `[n]`.
        order: indices `[t]`; every example once unless given.
        phi: levels `[k]`.
        gamma_star: the maximum margin of the data, for mbar; without it mbar is 0.

    Example:
        >>> from omm_jax import e_omm
        >>> x, y = jnp.array([[3.0], [-1.0], [2.0], [1.4]]), jnp.array([1.0, -1.0, 1.0, 1.0])
        >>> violation_counts(e_omm(), x, y, phi=[0.0, 0.5, 0.75], gamma_star=1.2).claimed.tolist()
        [0, 1, 2]

    Reference: the paper's equation m-phi-counts.
    """
    x, order = arguments(x, y, order)
    return _violation_counts(
        algorithm, x, jnp.asarray(y), order, jnp.asarray(phi, x.dtype), jnp.asarray(gamma_star, x.dtype)
    )


def arguments(x: ArrayLike, y: ArrayLike, order: ArrayLike | None) -> tuple[jax.Array, jax.Array]:
    """The data and the order of one stream as arrays; ValueError unless they are ones."""
    check_data(x, y)
    x = jnp.asarray(x)
    order = jnp.arange(x.shape[0]) if order is None else jnp.asarray(order)
    check_order(order, x.shape[0])
    if order.ndim != 1:
        raise ValueError(f"order must have shape [t], got {order.shape}: vmap over the orders of several runs")
    return x, order


def drive(algorithm: Algorithm, x: jax.Array, y: jax.Array, order: jax.Array, start: Any, look: Callable) -> Any:
    """Scan the stream, folding look(carry, step) over the examples."""

    def advance(carry, t):
        state, seen = carry
        raw, label = x[order[t]], y[order[t]].astype(x.dtype)
        f = algorithm.features(raw)
        score = algorithm.score(state, f)
        fires = algorithm.threshold(state, label).fires(label * score)
        after = jax.lax.cond(fires, algorithm.update, lambda state, f, y: state, state, f, label)
        mistake = (score >= 0) != (label > 0)
        return (after, look(seen, Step(raw, t, state, after, f, label, label * score, fires, mistake))), None

    begin = (algorithm.init(x.shape[1], x.dtype), start)
    (_, end), _ = jax.lax.scan(advance, begin, jnp.arange(order.shape[0], dtype=jnp.int32))
    return end


def in_precision(algorithm: Algorithm, dtype: Any) -> Algorithm:
    """The learner with its hyperparameters in the precision of the data."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), algorithm)


@jax.jit
def _violation_counts(
    algorithm: Algorithm, x: jax.Array, y: jax.Array, order: jax.Array, phi: jax.Array, gamma_star: jax.Array
) -> Counts:
    algorithm = in_precision(algorithm, x.dtype)

    def look(counts: Counts, step: Step) -> Counts:
        return count(counts, algorithm, step, phi, gamma_star)

    return drive(algorithm, x, y, order, no_counts(phi), look)


def no_counts(phi: jax.Array) -> Counts:
    """Nothing counted yet."""
    zero = jnp.zeros(phi.shape, jnp.int32)
    return Counts(zero, zero, zero)


def count(counts: Counts, algorithm: Algorithm, step: Step, phi: jax.Array, gamma_star: jax.Array) -> Counts:
    """The counts after one more example."""
    w, b = algorithm.classifier(step.before)
    size = algorithm.norm.dual(w)
    distance = safe_divide(step.y * (dot(w, step.x) + b), size)
    claimed = (size > 0) & (distance <= phi * algorithm.gamma(step.before))
    return Counts(
        counts.claimed + claimed,
        counts.attainable + ((size > 0) & (distance <= phi * gamma_star)),
        counts.unrepaired + (claimed & ~step.fires),
    )
