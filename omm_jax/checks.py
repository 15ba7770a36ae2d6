"""Was the theory kept? Every per-step fact of the analysis, checked along a run.

Written for one stream and jitted; vmap it over streams, orders, hyperparameters and data sets.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm, State
from omm_jax.kappa import kappa0, log_kappa0
from omm_jax.numerics import dot
from omm_jax.violations import PHIS, Counts, Step, arguments, count, drive, in_precision, no_counts


class Fact(NamedTuple):
    """The worst slack of an inequality along a run, and the place in the stream where it happened; -1 if nowhere.

    A fact that was never put to the test has slack inf.
    """

    slack: jax.Array
    position: jax.Array


class Report(NamedTuple):
    """What the analysis says of a run of OMM, fact by fact; slacks are relative to the margin, below 0 is a breach.

    With a_t the signed score, gamma_t the margin claimed, v_y the certificate of the example's class,
    delta_t = norm(v_y - x_t) / (2 gamma_t) and eta_t = (gamma_t - a_t) / (2 gamma_t), at updates after initialisation:

    Attributes:
        certificates: w has dual norm 1, w.v+ + b = gamma_t = -(w.v- + b) = norm(v+ - v-)/2 (Lemma
            separable-max-margin).
        nonincreasing: gamma_{t+1} <= gamma_t.
        above_optimum: gamma_t >= gamma* (Lemma gamma_bound).
        reach: eta_t <= delta_t (Lemma kappa, the infeasible case).
        increment: gamma_{t+1} / gamma_t <= kappa0(delta_t, eta_t) (Lemma max-margin-increment), in squares.
        within_diameter: norm(v_y - x_t) <= D.
        contraction: gamma_{t+1} / gamma_t <= kappa0(D / (2 gamma_t), eta_t) (Lemma max-margin-increment-alg).
        uniform_contraction: gamma_{t+1} / gamma_t <= kappa(r, a_t / gamma_t), in squares as well.
        first_margin: gamma_3 <= D + gamma*.
        violations: count log(1 / kappa(r, phi)) <= log(gamma_3 / gamma*) for every phi, where the repaired violations
            of level phi are counted (Theorem margin-performance).
        mistakes: the same of the mistakes, but for two, at phi = 0.
        counts: m(phi) and mbar(phi).
        mistake_count: how many predictions were wrong.
        phi: the levels, `[k]`.
        gamma_3: the first margin claimed, nan if there is none.
        tolerance: what rounding may take from a slack.
    """

    certificates: Fact
    nonincreasing: Fact
    above_optimum: Fact
    reach: Fact
    increment: Fact
    within_diameter: Fact
    contraction: Fact
    uniform_contraction: Fact
    first_margin: Fact
    violations: Fact
    mistakes: Fact
    counts: Counts
    mistake_count: jax.Array
    phi: jax.Array
    gamma_3: jax.Array
    tolerance: jax.Array

    def facts(self) -> dict[str, Fact]:
        """The facts by name."""
        return {name: fact for name, fact in zip(self._fields, self, strict=True) if isinstance(fact, Fact)}

    def kept(self) -> jax.Array:
        """Whether every fact holds, up to rounding; one bool a run."""
        slack = jnp.stack([fact.slack for fact in self.facts().values()])
        # Not "any breach": a NaN must count as one.
        return jnp.all(slack >= -self.tolerance, axis=0)


def check_run(
    algorithm: Algorithm,
    x: ArrayLike,
    y: ArrayLike,
    order: ArrayLike | None = None,
    *,
    gamma_star: ArrayLike,
    D: ArrayLike,
    phi: ArrayLike | Sequence[float] = PHIS,
    tolerance: ArrayLike | None = None,
) -> Report:
    """Run e-OMM, ce-OMM or n-OMM and check every fact of the analysis at every step.

    Args:
        algorithm: a learner whose state has the certificates `v_pos` and `v_neg`.
        x: examples `[n, d]`, float32 or float64; the slacks have that precision.
        y: labels `[n]`.
        order: indices `[t]`; every example once unless given.
        gamma_star: the maximum margin of the data, or a lower bound of it.
        D: the larger diameter of a class, or an upper bound of it.
        phi: levels of violation `[k]`.
        tolerance: what rounding may take from a slack; by default a little more than it does, eps^0.7 times one plus
            the largest norm over gamma*.

    Example:
        >>> from omm_jax import e_omm
        >>> from omm_jax.data import clusters
        >>> s = clusters(jax.random.key(0), n=40, d=3, r=5.0)
        >>> report = check_run(e_omm(), s.x, s.y, gamma_star=s.margin, D=s.diameter)
        >>> bool(report.kept()), bool(report.violations.slack > 0)
        (True, True)
    """
    x, order = arguments(x, y, order)
    state = jax.eval_shape(lambda: algorithm.init(x.shape[1], x.dtype))
    if not (hasattr(type(state), "v_pos") and hasattr(type(state), "v_neg")):
        raise ValueError(
            f"check_run checks learners that keep the certificates v_pos and v_neg, got a state of type "
            f"{type(state).__name__}: violation_counts works for any learner"
        )
    if tolerance is None:
        largest = jnp.max(jax.vmap(algorithm.norm.value)(x))
        tolerance = jnp.finfo(x.dtype).eps ** 0.7 * (1 + largest / gamma_star)
    numbers = (jnp.asarray(number, x.dtype) for number in (gamma_star, D, phi, tolerance))
    return _check_run(algorithm, x, jnp.asarray(y), order, *numbers)


class _Progress(NamedTuple):
    facts: dict[str, Fact]
    counts: Counts
    mistakes: jax.Array
    gamma_3: jax.Array


@jax.jit
def _check_run(
    algorithm: Algorithm,
    x: jax.Array,
    y: jax.Array,
    order: jax.Array,
    gamma_star: jax.Array,
    D: jax.Array,
    phi: jax.Array,
    tolerance: jax.Array,
) -> Report:
    algorithm = in_precision(algorithm, x.dtype)
    norm = algorithm.norm
    # Rounding must not make a level infeasible that is just feasible.
    r = D / gamma_star * (1 + tolerance)
    rate = -log_kappa0(r / 2, (1 - phi) / 2, norm=norm)
    mistake_rate = -log_kappa0(r / 2, 0.5, norm=norm)

    def square(delta: jax.Array, eta: jax.Array) -> jax.Array:
        # Infeasible pairs are the business of `reach`; here they are taken as just feasible.
        return kappa0(jnp.maximum(delta, eta), eta, norm=norm) ** 2

    def look(now: _Progress, step: Step) -> _Progress:
        gamma, after = algorithm.gamma(step.before), algorithm.gamma(step.after)
        begun = ~jnp.isnan(gamma)
        counts = count(now.counts, algorithm, step, phi, gamma_star)
        mistakes = now.mistakes + step.mistake
        gamma_3 = jnp.where(jnp.isnan(now.gamma_3), after, now.gamma_3)

        v = jnp.where(step.y > 0, step.before.v_pos, step.before.v_neg)
        distance = norm.value(v - step.f)
        eta = (gamma - step.signed) / (2 * gamma)
        ratio = (after / gamma) ** 2
        room = jnp.log(gamma_3 / gamma_star)
        repaired = counts.claimed - counts.unrepaired
        exists = ~jnp.isnan(after)
        update = begun & step.fires
        slacks = {
            "certificates": (exists & step.fires, -_certificate_error(algorithm, step.after)),
            "nonincreasing": (update, 1 - after / gamma),
            "above_optimum": (exists & step.fires, after / gamma_star - 1),
            "reach": (update, distance / (2 * gamma) - eta),
            "increment": (update, square(distance / (2 * gamma), eta) - ratio),
            "within_diameter": (update, (D - distance) / (2 * gamma)),
            "contraction": (update, square(D / (2 * gamma), eta) - ratio),
            "uniform_contraction": (update, square(r / 2, eta) - ratio),
            "first_margin": (exists & ~begun, 1 + D / gamma_star - after / gamma_star),
            "violations": (update, jnp.min(room - _spent(repaired, rate))),
            "mistakes": (exists, room - _spent(jnp.maximum(mistakes - 2, 0), mistake_rate)),
        }
        facts = {name: _worse(now.facts[name], *slacks[name], step.position) for name in slacks}
        return _Progress(facts, counts, mistakes, gamma_3)

    untested = Fact(jnp.full((), jnp.inf, x.dtype), jnp.full((), -1, jnp.int32))
    names = Report._fields[: Report._fields.index("counts")]
    start = _Progress(
        dict.fromkeys(names, untested), no_counts(phi), jnp.zeros((), jnp.int32), jnp.full((), jnp.nan, x.dtype)
    )
    end = drive(algorithm, x, y, order, start, look)
    return Report(
        **end.facts,
        counts=end.counts,
        mistake_count=end.mistakes,
        phi=phi,
        gamma_3=end.gamma_3,
        tolerance=tolerance,
    )


def _spent(count: jax.Array, rate: jax.Array) -> jax.Array:
    """count x rate, where a rate may be infinite: nothing of the kind may happen."""
    return jnp.where(count > 0, count * rate, 0)


def _certificate_error(algorithm: Algorithm, state: State) -> jax.Array:
    """By how much the classifier is not the bisector of its certificates, relative to the margin."""
    gamma, (w, b) = algorithm.gamma(state), algorithm.linear(state)
    errors = (
        algorithm.norm.dual(w) - 1,
        (dot(w, state.v_pos) + b) / gamma - 1,
        (dot(w, state.v_neg) + b) / gamma + 1,
        algorithm.norm.value(state.v_pos - state.v_neg) / (2 * gamma) - 1,
    )
    return jnp.max(jnp.abs(jnp.stack(errors)))


def _worse(fact: Fact, tested: jax.Array, slack: jax.Array, position: jax.Array) -> Fact:
    # Not "slack < fact.slack": a NaN slack must be kept.
    worse = tested & ~(slack >= fact.slack) & ~jnp.isnan(fact.slack)
    return Fact(jnp.where(worse, slack, fact.slack), jnp.where(worse, position, fact.position))
