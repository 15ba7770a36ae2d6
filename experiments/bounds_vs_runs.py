"""How far realised violations stay below their bound, over r from 0.2 to 50 and the three regimes of the theory.

    python -m experiments.bounds_vs_runs [--quick] [--out DIR] [--analyse]

Each run is e-OMM (rho = 1) over two passes of its own random data set, clusters with exactly the given r. Every fact of
the analysis is checked along every run.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import omm_jax as omm
from experiments.rows import Row, load_columns, main
from experiments.style import pyplot, save

NAME = "bounds_vs_runs"
POINTS, DIMENSIONS, SEED = 60, 5, 0
PHIS = (0.0, 0.5, 0.75)


def run(quick: bool) -> Iterator[Row]:
    """One row a run and phi."""
    runs = 400 if quick else 6000
    r = jnp.exp(jnp.linspace(math.log(0.2), math.log(50), runs))
    key = jax.random.key(SEED)

    def one(replicate, r):
        sample = omm.data.clusters(jax.random.fold_in(key, replicate), POINTS, DIMENSIONS, r=r)
        order = omm.order(SEED, replicate, POINTS, passes=2)
        return omm.check_run(
            omm.e_omm(), sample.x, sample.y, order, gamma_star=sample.margin, D=sample.diameter, phi=PHIS
        )

    report = jax.jit(jax.vmap(one))(jnp.arange(runs), r)
    bound = omm.violation_bound(r[:, None], jnp.array(PHIS), report.gamma_3[:, None], 1.0)
    worst = omm.violation_bound(r[:, None], jnp.array(PHIS), omm.largest_gamma_3(r, 1.0)[:, None], 1.0)
    kept = np.asarray(report.kept())
    columns = (np.asarray(a) for a in (r, report.counts.claimed, report.counts.attainable, bound, worst))
    r, claimed, attainable, bound, worst = columns
    for i in range(runs):
        for k, phi in enumerate(PHIS):
            yield {
                "run": i,
                "r": float(r[i]),
                "phi": phi,
                "m": int(claimed[i, k]),
                "m_bar": int(attainable[i, k]),
                "bound": float(bound[i, k]),
                "worst_bound": float(worst[i, k]),
                "gamma_3": float(report.gamma_3[i]),
                "kept": int(kept[i]),
            }


def analyse(folder: Path) -> None:
    """Say how the runs compare with their bounds, and draw them."""
    table = {name: np.array(column) for name, column in load_columns(folder / f"{NAME}.csv").items()}
    runs = len(set(table["run"]))
    print(f"{runs} runs; every fact of the analysis kept in {int(table['kept'][:: len(PHIS)].sum())} of them")
    plt = pyplot()
    figure, axes = plt.subplots(1, len(PHIS), figsize=(9, 3.9), sharey=True, layout="constrained")
    for axis, phi in zip(axes, PHIS, strict=True):
        here = table["phi"] == phi
        r, m, bound, worst = (table[name][here] for name in ("r", "m", "bound", "worst_bound"))
        edges = (1 - phi, math.sqrt(2 * (1 - phi)))
        for name, low, high in zip(("none possible", "middle", "large"), (0, *edges), (*edges, math.inf), strict=True):
            inside = (low <= r) & (r < high)
            if inside.any():
                share = np.max(m[inside] / np.maximum(bound[inside], 1e-9)) if bound[inside].max() > 0 else 0.0
                print(
                    f"phi = {phi:g}, {name:13s} {low:5.3f} <= r < {high:5.3f}: {inside.sum():5d} runs, "
                    f"largest m {m[inside].max():3.0f}, mean {m[inside].mean():6.3f}, largest m / bound {share:.3f}"
                )
        dots = {"linestyle": "none", "marker": ".", "alpha": 0.5, "rasterized": True}
        axis.plot(r, worst, color="#D55E00", linewidth=1.8, label=r"bound, largest $\gamma_3$")
        axis.plot(r, bound, color="#E69F00", markersize=2, label=r"bound, realised $\gamma_3$", **dots)
        jitter = np.random.default_rng(0).uniform(-0.25, 0.25, len(m)) * (m > 0)
        axis.plot(r, m + jitter, color="#0072B2", markersize=3, label=r"realised $m(\phi)$", **dots)
        least = float(omm.least_violating_r(phi))
        axis.axvline(least, color="#009E73", linewidth=1.2, linestyle=":", label="no violation to the left")
        for edge, name in zip(edges, ("regimes of the theory", None), strict=True):
            axis.axvline(edge, color="black", linewidth=0.8, linestyle="--", label=name)
        axis.set(title=rf"$\phi = {phi:g}$", xscale="log", xlabel=r"$r = D/\gamma_*$", xlim=(r[0], r[-1]))
        axis.set_yscale("symlog", linthresh=1, linscale=0.4)
        axis.set_xticks([0.2, 0.5, 1, 2, 5, 10, 20, 50], ["0.2", "0.5", "1", "2", "5", "10", "20", "50"])
        axis.minorticks_off()
    axes[0].set_ylabel("violations in a run")
    axes[0].set_ylim(-0.4, 2 * table["worst_bound"].max())
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, markerscale=3)
    save(figure, folder, NAME)


if __name__ == "__main__":
    main(__doc__, NAME, run, analyse)
