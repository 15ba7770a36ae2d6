"""What aggressiveness buys: mistakes, updates and margin of e-OMM against rho in [0, 1], on the Adult data.

    python -m experiments.rho_sweep [--quick] [--out DIR] [--analyse]

The paper's variant with gamma* = 1 and b* = 0, one pass, float32. Every value of rho sees the same random orders.
"""

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import omm_jax as omm
from experiments.rows import Row, load_columns, main
from experiments.style import pyplot, save

NAME = "rho_sweep"
SEED = 0


def run(quick: bool) -> Iterator[Row]:
    """One row a rho and replicate."""
    rhos, replicates = (jnp.linspace(0, 1, 6), 4) if quick else (jnp.linspace(0, 1, 33), 32)
    x, y = omm.data.paper_variant().data
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)

    @jax.jit
    def at_all(x, y, replicate):
        order = omm.order(SEED, replicate, x.shape[0])
        return jax.vmap(lambda rho: omm.run(omm.e_omm(rho), x, y, order, tau=False))(rhos)

    for replicate in range(replicates):
        result = at_all(x, y, replicate)
        for k, rho in enumerate(rhos):
            yield {
                "rho": float(rho),
                "replicate": replicate,
                "mistakes": int(result.mistakes[k]),
                "updates": int(result.updates[k]),
                "margin": float(result.margin[k]),
            }


def analyse(folder: Path) -> None:
    """Print medians, and draw medians with the middle nine tenths of the replicates."""
    table = {name: np.array(column) for name, column in load_columns(folder / f"{NAME}.csv").items()}
    rhos = np.unique(table["rho"])
    # A final classifier that does not separate the data has no margin; here it counts as 0.
    table["margin"] = np.nan_to_num(table["margin"])
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
    panels = (
        ("mistakes", "mistakes", "#D55E00"),
        ("updates", "updates", "#0072B2"),
        ("margin", "final margin / $\\gamma_*$", "#009E73"),
    )
    medians = {}
    for axis, (name, title, color) in zip(axes, panels, strict=True):
        low, medians[name], high = np.array(
            [np.quantile(table[name][table["rho"] == rho], (0.05, 0.5, 0.95)) for rho in rhos]
        ).T
        axis.fill_between(rhos, low, high, color=color, alpha=0.2, linewidth=0, label="9 orders in 10")
        axis.plot(rhos, medians[name], color=color, marker="o", markersize=3, label="median")
        axis.set(title=title, xlabel=r"aggressiveness $\rho$", xlim=(0, 1), ylim=(0, None))
        axis.legend()
    save(figure, folder, NAME)
    print("medians over the orders\n  rho  mistakes  updates  margin")
    for k in range(0, len(rhos), max(1, len(rhos) // 8)):
        mistakes, updates, margin = (medians[name][k] for name in ("mistakes", "updates", "margin"))
        print(f"{rhos[k]:5.2f}  {mistakes:8.1f}  {updates:7.0f}  {margin:6.3f}")


if __name__ == "__main__":
    main(__doc__, NAME, run, analyse)
