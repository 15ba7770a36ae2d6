"""The paper's tables as a picture: mistakes, margin and tau against theta, with the spread over random orders.

    python -m experiments.paper_figure [--passes 5]

Reads what `python -m experiments.paper_tables` wrote (give the same --replicates), and runs nothing.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from experiments.paper_tables.analysis import Cell, Comparison, cells
from experiments.paper_tables.spec import LEARNERS
from experiments.runner import Plan
from experiments.style import LOOKS, pyplot, save

_TITLES = {
    "mistakes": "mistakes m",
    "margin": "margin of the final classifier",
    "tau": "tau: first separation of all data",
}


def _place(comparison: Comparison | None, part: str, none: float) -> float:
    if comparison is None:
        return none if part == "printed" else np.nan
    value = getattr(comparison, part)
    return none if np.isnan(value) else value


def draw(rows: list[Cell], passes: int) -> Any:
    """The figure of one table: rows mistakes, margin, tau; columns b* = 0 and b* = -0.2848."""
    plt = pyplot()
    table = [cell for cell in rows if cell.setting.passes == passes]
    learners = [name for name in LEARNERS if any(cell.setting.learner == name for cell in table)]
    never = 35_508 * passes * 1.6
    figure, axes = plt.subplots(3, 2, figsize=(8.2, 9.2), sharex=True, sharey="row", layout="constrained")
    for column, zero_bias in enumerate((True, False)):
        for k, learner in enumerate(learners):
            group = [c for c in table if c.setting.learner == learner and c.setting.zero_bias == zero_bias]
            group.sort(key=lambda cell: cell.setting.theta)
            theta = np.array([cell.setting.theta for cell in group])
            # Learners that move alike would hide each other's marks.
            shifted = theta + (k - (len(learners) - 1) / 2) * 0.012
            look = LOOKS[learner]
            for axis, name in zip(axes[:, column], _TITLES, strict=True):
                none = {"mistakes": np.nan, "margin": 0.0, "tau": never}[name]
                # What was not looked for has no place at all.
                low, middle, high, printed = (
                    np.array([_place(getattr(cell, name), part, none) for cell in group])
                    for part in ("low", "median", "high", "printed")
                )
                axis.fill_between(theta, low, high, color=look.color, alpha=0.16, linewidth=0)
                axis.plot(theta, middle, color=look.color, linestyle=look.line, linewidth=1.6, label=learner)
                size = 9 if look.marker == "*" else 6.5 if look.marker in "PX" else 5.5
                mark = {"color": look.color, "markersize": size, "markeredgecolor": "white", "markeredgewidth": 0.5}
                axis.plot(shifted, printed, look.marker, **mark)
        axes[0, column].set_title("b* = 0" if zero_bias else "b* = -0.2848")
        axes[2, column].set_xlabel("theta (feature scaling)")
        axes[2, column].axhline(never, color="0.5", linewidth=0.6)
        axes[2, column].text(1.06, never * 1.12, "never", ha="right", color="0.4", fontsize=8)
        axes[1, column].text(1.06, -0.045, "none", ha="right", color="0.4", fontsize=8)
    for axis, (name, title) in zip(axes[:, 0], _TITLES.items(), strict=True):
        axis.set_ylabel(title)
        if name != "margin":
            axis.set_yscale("log")
    axes[1, 0].set_ylim(-0.07, 1.03)
    axes[2, 0].set_xticks([0, 0.25, 0.5, 0.75, 1])
    counts = sorted({cell.replicates for cell in table if cell.setting.learner != "n-OMM"})
    handles = [
        plt.Line2D([], [], color=LOOKS[name].color, linestyle=LOOKS[name].line, marker=LOOKS[name].marker, label=name)
        for name in learners
    ]
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    exact = max((cell.replicates for cell in table if cell.setting.learner == "n-OMM"), default=0)
    figure.legend(handles=handles, loc="outside upper center", ncols=4, handlelength=3.2)
    figure.supxlabel(
        f"Lines: median, bands: 5-95 % over {number} random orders{f' (n-OMM {exact:,})' if exact else ''}, "
        f"{passes} pass{'es' if passes > 1 else ''}. "
        "Marks: the paper's values.",
        fontsize=8,
    )
    return figure


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=1, choices=[1, 5], help="which table (default 1)")
    parser.add_argument("--replicates", type=int, default=16, help="as given to paper_tables (default 16)")
    parser.add_argument("--seed", type=int, default=0, help="as given to paper_tables (default 0)")
    parser.add_argument("--results", type=Path, default=Path("results/paper_tables"), help="folder of paper_tables")
    arguments = parser.parse_args()
    folder = arguments.results / f"seed-{arguments.seed}_float64"
    rows = cells(Plan((), arguments.replicates, arguments.seed, "float64", folder))
    if not any(cell.setting.passes == arguments.passes for cell in rows):
        parser.error(f"no results in {folder}: run python -m experiments.paper_tables with the same options first")
    save(draw(rows, arguments.passes), arguments.results, f"paper_figure_{arguments.passes}_pass")


if __name__ == "__main__":
    main()
