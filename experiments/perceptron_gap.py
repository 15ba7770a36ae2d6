"""The paper's Example bad-perceptron: mistakes and updates of every learner as the data move away from the origin.

    python -m experiments.perceptron_gap [--quick] [--out DIR] [--analyse]

Three points, gamma* = 1, r = 2/c < 1, the largest norm about c. The Perceptron updates at every step of the stream,
about c^2 / 2 of them; OMM makes at most two mistakes whatever c is.
"""

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp

import omm_jax as omm
from experiments.rows import Row, load_columns, main
from experiments.style import LOOKS, pyplot, save
from omm_jax.data import bad_perceptron

NAME = "perceptron_gap"


def run(quick: bool) -> Iterator[Row]:
    """Every learner of the registry on every c, a power of two so that the ties of the example are exact."""
    samples = [bad_perceptron(2.0**k) for k in range(2, 6 if quick else 8)]
    x, y = jnp.stack([s.x for s in samples]), samples[0].y
    # One order for all, the longest; each c is read where its own stream ends.
    order = samples[-1].order
    ticks = jnp.array([[s.order.shape[0]] for s in samples])
    for name, factory in omm.ALGORITHMS.items():

        def one(x, ticks, factory=factory):
            return omm.run(factory(), x, y, order, recording=omm.Recording(ticks=ticks), tau=False).curve

        curve = jax.jit(jax.vmap(one))(x, ticks)
        for k, sample in enumerate(samples):
            yield {
                "c": 2.0 ** (k + 2),
                "r": float(sample.diameter),
                "steps": int(ticks[k, 0]),
                "learner": name,
                "mistakes": int(curve.mistakes[k, 0]),
                "updates": int(curve.updates[k, 0]),
                "order": float(omm.mistake_order(sample.radius, sample.margin)),
                "omm_bound": float(omm.mistake_bound(sample.diameter, 2.0, sample.margin)),
            }


def analyse(folder: Path) -> None:
    """Print the table and draw mistakes and updates against c."""
    table = load_columns(folder / f"{NAME}.csv")
    learners = list(dict.fromkeys(table["learner"]))
    cs = sorted(set(table["c"]))
    cell = {
        (learner, c): (int(m), int(u))
        for learner, c, m, u in zip(table["learner"], table["c"], table["mistakes"], table["updates"], strict=True)
    }
    print("mistakes / updates by c")
    print(f"{'':12s}" + "".join(f"{f'c = {c:g}':>14s}" for c in cs))
    for learner in learners:
        print(f"{learner:12s}" + "".join(f"{'{} / {}'.format(*cell[learner, c]):>14s}" for c in cs))

    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.9), sharey=True, layout="constrained")
    order = dict(zip(table["c"], table["order"], strict=True))
    for panel, (axis, what) in enumerate(zip(axes, ("mistakes", "updates"), strict=True)):
        for place, learner in enumerate(learners):
            color, line, marker = LOOKS[learner]
            # Learners that coincide are drawn side by side.
            nudged = [c * 1.035 ** (place - len(learners) / 2) for c in cs]
            counts = [cell[learner, c][panel] for c in cs]
            axis.plot(nudged, counts, color=color, linestyle=line, marker=marker, markersize=5, label=learner)
        axis.plot(cs, [order[c] for c in cs], color="black", linewidth=0.8, label=r"$(\bar D/\gamma_*)^2$")
        if what == "mistakes":
            axis.axhline(2, color="black", linewidth=0.8, linestyle=":", label="bound of OMM")
        axis.set(title=what, xscale="log", xlabel="c", xticks=cs, xticklabels=[f"{c:g}" for c in cs])
        axis.set_yscale("symlog", linthresh=1, linscale=0.3)
        axis.set_ylim(-0.3, None)
        axis.minorticks_off()
    axes[0].set_ylabel("count over the stream")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    save(figure, folder, NAME)


if __name__ == "__main__":
    main(__doc__, NAME, run, analyse)
