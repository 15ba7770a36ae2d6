"""The pictures of a report: each function draws one figure from rows of a study."""

from typing import TYPE_CHECKING

import numpy as np

from omm_jax.study.statistics import Paired

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")

_UPRIGHT = 8  # labels that fit side by side
_WRITTEN = 48  # cells of a heat map that have room for their numbers


def colour(number: int) -> str:
    """The colour of the curve of this number."""
    return COLOURS[number % len(COLOURS)]


def distributions(groups: "list[tuple[str, str, pd.DataFrame]]") -> "Figure":
    """Histogram and empirical distribution function of mistakes; groups are (name, colour, rows)."""
    figure, (left, right) = _figure(1, 2)
    values = {name: rows["mistakes"].to_numpy() for name, _, rows in groups}
    everything = np.concatenate(list(values.values()))
    wide = everything.max() > 50 * max(1.0, float(np.median(everything)))
    low, high = everything.min(), everything.max() + 1
    if wide:
        # Counts are whole: bins of one count first, then about an eighth wider each, so that none stands out.
        edges = [float(low)]
        while edges[-1] < high:
            edges.append(max(edges[-1] + 1, edges[-1] * 9 // 8))
    else:
        width = max(1, round((high - low) / 60))
        edges = (np.arange(low, high + width, width) - 0.5).tolist()
    for name, shade, _ in groups:
        left.hist(values[name], edges, histtype="stepfilled", color=shade, alpha=0.18)
        left.hist(values[name], edges, histtype="step", color=shade, linewidth=1.4, label=name)
        right.ecdf(values[name], color=shade, linewidth=1.6, label=name)
    for axes in (left, right):
        axes.set_xlabel("mistakes")
        if wide:
            axes.set_xscale("symlog", linthresh=1)
    left.set_ylabel("replicates")
    right.set_ylabel("share of replicates with at most as many")
    right.set_ylim(0, 1.02)
    _legend(right, len(groups))
    return figure


def margins(groups: "list[tuple[str, str, pd.DataFrame]]", best: float | None) -> "Figure":
    """The margin of the final classifier against the updates it took; `best` is the maximum margin, if known."""
    figure, (axes,) = _figure(1, 1)
    for name, shade, rows in groups:
        positive = rows[rows["margin"].notna()]
        share = len(positive) / len(rows)
        marks = positive.sample(min(len(positive), 1000), random_state=0)
        label = name if share == 1 else f"{name} ({share:.0%} of replicates)"
        axes.scatter(marks["updates"], marks["margin"], s=9, color=shade, alpha=0.45, linewidths=0, label=label)
    if best is not None:
        axes.axhline(best, color="black", linewidth=0.8, linestyle="--")
        axes.annotate("maximum margin", (0.01, best), xycoords=("axes fraction", "data"), va="bottom", fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("updates")
    axes.set_ylabel("margin on the whole data set, where positive")
    _legend(axes, len(groups), markerscale=2.0)
    return figure


def differences(pairs: list[tuple[str, str, Paired]], reference: str) -> "Figure":
    """Mean paired differences of mistakes to a reference, with their intervals."""
    figure, (axes,) = _figure(1, 1, height=0.9 + 0.34 * len(pairs))
    for place, (_, shade, pair) in enumerate(pairs):
        value, low, high = pair.mean
        axes.plot([low, high], [place, place], color=shade, linewidth=2.2)
        axes.plot([value], [place], "o", color=shade)
    axes.axvline(0, color="black", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(pairs)), [name for name, _, _ in pairs])
    axes.invert_yaxis()
    axes.margins(y=0.15)
    ends = [end for _, _, pair in pairs for end in pair.mean]
    low, high = min(0.0, *ends), max(0.0, *ends)
    if max(high, -low) > 100:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(2 * low - 0.3, 2 * high + 0.3)
    axes.set_xlabel(f"mistakes more than {reference} on the same order, mean and 95 % interval")
    return figure


def sweep(rows: "pd.DataFrame", x: str, name: str, by: str, title: str) -> "Figure":
    """Median mistakes, updates and margin along a parameter, with the middle half, one line for each value of `by`."""
    columns = [column for column in ("mistakes", "updates", "margin") if column in rows]
    figure, panels = _figure(1, len(columns), width=4.3 * len(columns))
    for axes, column in zip(panels, columns, strict=True):
        for number, (which, group) in enumerate(rows.groupby(by, sort=False)):
            along = group.groupby(x)[column].quantile([0.25, 0.5, 0.75]).unstack()
            along = along.dropna()
            axes.fill_between(along.index, along[0.25], along[0.75], color=colour(number), alpha=0.18, linewidth=0)
            axes.plot(along.index, along[0.5], "o-", color=colour(number), markersize=3.5, label=str(which) or "all")
        axes.set_xlabel(name)
        axes.set_ylabel(column)
        highest = rows[column].max()
        if column != "margin" and highest > 50 * max(1.0, rows[column].median()):
            axes.set_yscale("symlog", linthresh=1)
        elif highest > 0:
            axes.set_ylim(bottom=0)
    figure.suptitle(title, fontsize=10)
    _legend(panels[0], rows[by].nunique())
    return figure


def heat(rows: "pd.DataFrame", x: str, y: str, names: tuple[str, str], title: str) -> "Figure":
    """Median mistakes and median margin over two parameters."""
    columns = [column for column in ("mistakes", "margin") if column in rows]
    figure, panels = _figure(1, len(columns), width=5.2 * len(columns), height=3.6)
    for axes, column in zip(panels, columns, strict=True):
        table = rows.pivot_table(index=y, columns=x, values=column, aggfunc="median", dropna=False)
        image = axes.imshow(table.to_numpy(), origin="lower", aspect="auto", cmap="viridis")
        axes.set_xticks(range(table.shape[1]), [f"{value:g}" for value in table.columns])
        if table.shape[1] > _UPRIGHT:
            axes.tick_params(axis="x", rotation=45)
        axes.set_yticks(range(table.shape[0]), [f"{value:g}" for value in table.index])
        axes.set_xlabel(names[0])
        axes.set_ylabel(names[1])
        axes.set_title(f"median {column}", fontsize=9)
        axes.grid(False)
        figure.colorbar(image, ax=axes)
        if table.size <= _WRITTEN:
            middle = np.mean(image.get_clim())
            for (row, place), value in np.ndenumerate(table.to_numpy()):
                shade = "black" if value > middle else "white"
                axes.text(place, row, f"{value:.3g}", color=shade, ha="center", va="center", fontsize=9)
    figure.suptitle(title, fontsize=10)
    return figure


def bounds(rows: list[tuple[str, str, float, float, float]]) -> "Figure":
    """Realised mistakes (median and largest) beside the bound; rows are (name, colour, median, largest, bound)."""
    figure, (axes,) = _figure(1, 1, height=0.9 + 0.34 * len(rows))
    for place, (_, shade, median, largest, bound) in enumerate(rows):
        axes.plot([max(median, 0.5), max(largest, 0.5)], [place, place], color=shade, linewidth=2.2)
        axes.plot([max(median, 0.5)], [place], "o", color=shade)
        axes.plot([bound], [place], "|", color="black", markersize=14, markeredgewidth=2)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.invert_yaxis()
    axes.margins(y=0.15)
    axes.set_xlabel("mistakes: median (dot) to largest (end of line), and the bound (black bar)")
    return figure


def _figure(rows: int, columns: int, width: float = 9.5, height: float = 3.8) -> "tuple[Figure, list[Axes]]":
    # Figures of their own, not pyplot's: no global state, no display, nothing to close.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(np.atleast_1d(figure.subplots(rows, columns)).ravel())
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8)
    return figure, panels


def _legend(axes: "Axes", entries: int, markerscale: float = 1.0) -> None:
    if entries > 1:
        axes.legend(fontsize=8, frameon=False, ncols=1 if entries < 9 else 2, markerscale=markerscale)
