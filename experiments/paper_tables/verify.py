"""The runs against the literal NumPy transcriptions of tests/oracles.py, on the same orders."""

import jax
import numpy as np

import omm_jax as omm
from experiments.paper_tables.spec import Setting
from experiments.runner import Plan, load


def transcription(setting: Setting, variant: omm.data.Variant):
    """The learner of a setting as written out in tests/oracles.py."""
    from tests import oracles

    d = variant.x.shape[1]
    makers = {
        "ce-OMM": lambda d: oracles.Omm(d, 0.0),
        "e-OMM": oracles.Omm,
        "PUMMA": oracles.Pumma,
        "ROMMA": oracles.Romma,
        "a-ROMMA": oracles.AggressiveRomma,
        "Perceptron": oracles.Perceptron,
        "ALMA": oracles.Alma,
    }
    if not setting.biased:
        return makers[setting.learner](d)
    coordinate = -variant.D_bar if "ROMMA" in setting.learner else 1.0
    return oracles.Biased(makers[setting.learner](d + 1), coordinate)


def literal_counts(setting: Setting, variant: omm.data.Variant, order: np.ndarray) -> tuple[int, int]:
    """Mistakes and updates of a transcription over an order."""
    learner, mistakes, updates = transcription(setting, variant), 0, 0
    for i in order:
        x, y = variant.x[i], variant.y[i]
        mistakes += (1.0 if learner.score(x) >= 0 else -1.0) != y
        if learner.wants(x, y):
            learner.update(x, y)
            updates += 1
    return mistakes, updates


def verify(plan: Plan, orders: int) -> bool:
    """Print how the one-pass runs agree with the transcriptions; whether all do.

    For every setting: in how many of the orders both counts are the same, and whether the transcription's means over
    these orders lie within four standard errors of ours over all replicates.
    """
    print(
        f"against NumPy transcriptions, {orders} orders: counts that are the same; mean mistakes and updates, z-scores"
    )
    agree = True
    stream = jax.jit(omm.order, static_argnums=2)
    streams = [np.asarray(stream(plan.seed, replicate, len(omm.data.adult().y))) for replicate in range(orders)]
    for setting in plan.settings:
        runs = load(plan, setting)
        if setting.passes > 1 or setting.learner == "n-OMM" or len(runs.get("mistakes", ())) < orders:
            continue
        variant = omm.data.paper_variant(setting.theta, setting.zero_bias)
        literal = np.array([literal_counts(setting, variant, stream) for stream in streams])
        ours = np.stack([runs["mistakes"], runs["updates"]], axis=1)
        same = int((literal == ours[:orders]).all(axis=1).sum())
        error = np.maximum(ours.std(axis=0), 0.5) / np.sqrt(orders)
        z = (literal.mean(axis=0) - ours.mean(axis=0)) / error
        agree &= bool((np.abs(z) < 4).all())
        pairs = zip(literal.mean(axis=0), ours.mean(axis=0), strict=True)
        means = "; ".join(f"{theirs:,.1f} {mine:,.1f}" for theirs, mine in pairs)
        print(f"{setting.name:45s} {same}/{orders}  {means}  z {z[0]:+.1f} {z[1]:+.1f}", flush=True)
    print("all means agree" if agree else "some means do NOT agree")
    return agree
