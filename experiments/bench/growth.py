"""How the cost of a pass grows with the number of examples, of features and of lanes: e-OMM on generated data."""

import csv
from pathlib import Path

import numpy as np

from experiments.bench import contenders
from experiments.bench.contenders import Problem
from experiments.style import pyplot

_EXAMPLES = (10_000, 100_000, 1_000_000)
_FEATURES = (16, 96, 256, 1024)
_LANES = (1, 8, 64, 512, 8192)


def plots(folder: Path) -> list[str]:
    """Three plots in one file, the numbers in another."""
    table = []
    for axis, values in (("examples", _EXAMPLES), ("features", _FEATURES), ("lanes", _LANES)):
        for value in values:
            n, d, lanes = 10_000, 96, 64
            if axis == "examples":
                n, lanes = value, 16
            elif axis == "features":
                d = value
            else:
                n, lanes = 2_000, value
            problem = _generated(n, d)
            numba, fast = contenders.race(
                contenders.numba_loop(problem, "e-OMM", lanes, None), contenders.engine(problem, "e-OMM", lanes)
            )
            table.append((axis, value, 1e9 * numba.seconds / n, 1e9 * fast.seconds / n))
            print(f"{axis} {value:,}: numba {table[-1][2]:.1f}, fast {table[-1][3]:.1f} ns an example", flush=True)
    with (folder / "growth.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("axis", "value", "numba ns an example", "fast ns an example"), *table])
    plt = pyplot()
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
    for panel, axis in zip(panels, ("examples", "features", "lanes"), strict=True):
        rows = [row for row in table if row[0] == axis]
        for column, label, style in ((2, "numba, all threads", "s--"), (3, "fast engine", "o-")):
            panel.loglog([row[1] for row in rows], [row[column] for row in rows], style, label=label)
        panel.set_xlabel(axis)
        panel.grid(alpha=0.3, which="both")
    panels[0].set_ylabel("ns an example")
    panels[0].legend(frameon=False)
    figure.suptitle("e-OMM, one pass over generated data, orders included")
    figure.savefig(folder / "growth.png", dpi=150)
    plt.close(figure)
    return ["## Growth\n", "![ns an example](growth.png)\n"]


def _generated(n: int, d: int) -> Problem:
    """Gaussian clouds moved apart along one direction, so that a margin of about half a deviation separates them."""
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(d) / np.sqrt(d)
    x = rng.standard_normal((n, d), np.float32)
    y = np.where(x @ direction > 0, 1, -1).astype(np.float32)
    return Problem("generated", (x + 0.5 * y[:, None] * direction).astype(np.float32), y, bias=False)
