"""How many mistakes over thousands of random orders, and which learner beats which on the same order, by how much.

    python -m experiments.mistake_distributions [--replicates 10000]

One pass over the Adult data, theta = 0 and b* = 0, float32; n-OMM gets a tenth of the orders. Writes the quantiles, the
paired comparisons and a figure. A stopped run goes on when the same command is given again.
"""

import argparse
import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.runner import Plan, execute, load, use_all_cores
from experiments.style import LOOKS, pyplot, save
from omm_jax.study.files import write_whole

QUANTILES = (0.005, 0.05, 0.25, 0.5, 0.75, 0.95, 0.995)


class Pair(NamedTuple):
    """Two learners on the same orders: shares of the orders where the first has fewer, as many, more mistakes.

    `difference` is the mean of second minus first, `error` its standard error, `quantiles` are those of `QUANTILES`.
    """

    first: str
    second: str
    orders: int
    fewer: float
    equal: float
    more: float
    difference: float
    error: float
    quantiles: tuple[float, ...]


def compare(first: str, second: str, mistakes: dict[str, np.ndarray]) -> Pair:
    """Compare two learners order by order."""
    orders = min(len(mistakes[first]), len(mistakes[second]))
    gain = mistakes[second][:orders].astype(int) - mistakes[first][:orders]
    shares = [float(np.mean(share)) for share in (gain > 0, gain == 0, gain < 0)]
    quantiles = tuple(float(q) for q in np.quantile(gain, QUANTILES))
    return Pair(first, second, orders, *shares, float(gain.mean()), float(gain.std() / np.sqrt(orders)), quantiles)


def sentence(pair: Pair) -> str:
    """A comparison in words."""
    low, high = pair.quantiles[1], pair.quantiles[-2]
    return (
        f"{pair.first} makes fewer mistakes than {pair.second} in {100 * pair.fewer:.1f} % of {pair.orders:,} orders, "
        f"as many in {100 * pair.equal:.1f} %, more in {100 * pair.more:.1f} %; on average {pair.difference:+.2f} +- "
        f"{pair.error:.2f} in its favour, between {low:+.0f} and {high:+.0f} in nine orders out of ten."
    )


def tables(mistakes: dict[str, np.ndarray]) -> tuple[str, str]:
    """(quantiles, pairs) as CSV."""
    quantiles, pairs = io.StringIO(), io.StringIO()
    writer = csv.writer(quantiles, lineterminator="\n")
    writer.writerow(["learner", "orders", "mean", "deviation", *(f"q{q:g}" for q in QUANTILES)])
    for name, counts in mistakes.items():
        spread = [f"{q:g}" for q in np.quantile(counts, QUANTILES, method="inverted_cdf")]
        writer.writerow([name, len(counts), f"{counts.mean():.4f}", f"{counts.std():.4f}", *spread])
    writer = csv.writer(pairs, lineterminator="\n")
    head = ["first", "second", "orders", "fewer", "equal", "more", "mean_difference", "standard_error"]
    writer.writerow([*head, *(f"q{q:g}" for q in QUANTILES)])
    for first in mistakes:
        for second in mistakes:
            if first != second:
                *numbers, spread = compare(first, second, mistakes)
                writer.writerow(
                    [f"{n:.6g}" if isinstance(n, float) else n for n in numbers] + [f"{q:g}" for q in spread]
                )
    return quantiles.getvalue(), pairs.getvalue()


def draw(mistakes: dict[str, np.ndarray]) -> Any:
    """Distributions of all learners, the paired difference of e-OMM and PUMMA, and who beats whom."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(12.4, 4.3), layout="constrained", width_ratios=[1.25, 1, 1.1])
    names = sorted(mistakes, key=lambda name: np.median(mistakes[name]))
    for row, name in enumerate(names):
        counts, look = mistakes[name], LOOKS[name]
        values, numbers = np.unique(counts, return_counts=True)
        height = 0.85 * numbers / numbers.max()
        axes[0].fill_between(values + 1, row, row + height, step="mid", color=look.color, alpha=0.75, linewidth=0)
        axes[0].plot([np.median(counts) + 1] * 2, [row, row + 0.85], color="black", linewidth=1)
        axes[0].text(np.quantile(counts, 0.998) * 1.12 + 2.2, row + 0.2, f"{np.median(counts):.0f}", fontsize=8)
    axes[0].set_xscale("log")
    ticks = [0, 1, 2, 5, 10, 20, 50, 100]
    axes[0].set_xticks([tick + 1 for tick in ticks], [str(tick) for tick in ticks])
    axes[0].set_xticks([], minor=True)
    axes[0].set_yticks(np.arange(len(names)) + 0.3, names)
    axes[0].set_xlabel("mistakes in one pass (line and number: median)")
    axes[0].set_title(f"{max(map(len, mistakes.values())):,} random orders")

    pair = compare("e-OMM", "PUMMA", mistakes)
    gain = mistakes["PUMMA"][: pair.orders].astype(int) - mistakes["e-OMM"][: pair.orders]
    values, numbers = np.unique(gain, return_counts=True)
    colours = np.where(values > 0, LOOKS["e-OMM"].color, np.where(values < 0, LOOKS["PUMMA"].color, "0.6"))
    axes[1].bar(values, 100 * numbers / len(gain), color=colours, width=0.85)
    axes[1].xaxis.get_major_locator().set_params(integer=True)
    axes[1].set_xlabel("mistakes of PUMMA minus those of e-OMM")
    axes[1].set_ylabel("% of orders")
    axes[1].set_title("How often does e-OMM beat PUMMA?")
    shares = (("e-OMM fewer", pair.fewer), ("as many", pair.equal), ("PUMMA fewer", pair.more))
    lines = [*(f"{name}: {100 * share:.1f} %" for name, share in shares), f"mean {pair.difference:+.2f}"]
    axes[1].text(0.02, 0.97, "\n".join(lines), transform=axes[1].transAxes, ha="left", va="top")

    matrix = np.array([[np.nan if a == b else 100 * compare(a, b, mistakes).fewer for b in names] for a in names])
    axes[2].imshow(matrix, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    axes[2].grid(False)
    for (row, column), value in np.ndenumerate(matrix):
        if not np.isnan(value):
            shown = "<0.1" if 0 < value < 0.1 else ">99.9" if 99.9 < value < 100 else f"{value:.3g}"
            axes[2].text(
                column, row, shown, ha="center", va="center", fontsize=7, color="black" if value > 55 else "white"
            )
    axes[2].set_xticks(range(len(names)), names, rotation=40, ha="right")
    axes[2].set_yticks(range(len(names)), names)
    axes[2].set_title("% of orders where row beats column")
    return figure


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=10_000, help="random orders (default 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of the orders (default 0)")
    parser.add_argument("--out", type=Path, default=Path("results/mistake_distributions"), help="folder of the results")
    arguments = parser.parse_args()
    use_all_cores("float32")

    from experiments.paper_tables.spec import LEARNERS, Setting

    settings = [Setting(learner, 0.0, True, 1) for learner in LEARNERS]
    plan = Plan(settings, arguments.replicates, arguments.seed, "float32", arguments.out / f"seed-{arguments.seed}")
    execute(plan)
    mistakes = {setting.learner: load(plan, setting)["mistakes"] for setting in settings}
    for name, content in zip(("quantiles.csv", "pairs.csv"), tables(mistakes), strict=True):
        write_whole(arguments.out / name, content.encode())
        print(f"wrote {arguments.out / name}")
    save(draw(mistakes), arguments.out, "mistake_distributions")
    print(sentence(compare("e-OMM", "PUMMA", mistakes)))


if __name__ == "__main__":
    main()
