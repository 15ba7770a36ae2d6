"""The paper's cells in our distributions over random orders; reads files, runs nothing."""

from typing import NamedTuple

import numpy as np

import omm_jax as omm
from experiments.paper_tables.spec import INVARIANT, Printed, Setting, printed
from experiments.runner import Plan, load

# A printed value is inside if at least this share of our replicates is as small and as large: the central 99.9 %.
_TAIL = 0.0005
# With fewer orders a value beyond all of ours is no news.
_ENOUGH = 100


class Comparison(NamedTuple):
    """One printed number and our distribution of it; none is nan.

    Attributes:
        printed: the paper's value.
        median: ours.
        low: our 5 % quantile.
        high: our 95 % quantile.
        percentile: place of the printed value in our distribution, ties counted half.
        inside: whether it lies in the central 99.9 %.
    """

    printed: float
    median: float
    low: float
    high: float
    percentile: float
    inside: bool


class Cell(NamedTuple):
    """A row of the tables: the paper's and ours."""

    setting: Setting
    D_bar_over_D: float
    replicates: int
    mistakes: Comparison
    margin: Comparison
    tau: Comparison | None  # None if it was not looked for
    updates: float
    seconds: float
    printed: Printed

    @property
    def judged(self) -> bool:
        """Whether there are orders enough to call a printed value out of place."""
        return self.replicates >= _ENOUGH


def compare(value: float | None, sample: np.ndarray, worst: float = np.nan) -> Comparison:
    """Place a printed value in a sample.

    Args:
        value: what the paper has, None for a dash.
        sample: our replicates, nan where there is nothing.
        worst: what a dash and a nan count as when they are ordered: -inf or +inf.
    """
    ordered = np.where(np.isnan(sample), worst, sample)
    place = worst if value is None else value
    below, equal = np.mean(ordered < place), np.mean(ordered == place)
    inside = below + equal >= _TAIL and 1 - below >= _TAIL
    quantiles = [float(np.quantile(ordered, q, method="inverted_cdf")) for q in (0.5, 0.05, 0.95)]
    shown = [q if np.isfinite(q) else np.nan for q in quantiles]
    return Comparison(np.nan if value is None else value, *shown, 100 * float(below + equal / 2), bool(inside))


def cells(plan: Plan) -> list[Cell]:
    """All rows of the tables for which there are runs, in the paper's order."""
    rows = []
    for row in printed():
        # The setting's own runs, or those of the one that stands for it if they are more.
        found = (load(plan, row.setting), load(plan, row.setting.source))
        runs = max(found, key=lambda columns: len(columns.get("mistakes", ())))
        if not runs:
            continue
        variant = omm.data.paper_variant(row.setting.theta, row.setting.zero_bias)
        rows.append(
            Cell(
                row.setting,
                variant.D_bar / variant.D,
                len(runs["mistakes"]),
                compare(row.mistakes, runs["mistakes"].astype(float)),
                # The paper prints two decimals.
                compare(row.margin, np.round(runs["margin"], 2), -np.inf),
                compare(row.tau, np.where(runs["tau"] < 0, np.nan, runs["tau"]), np.inf) if "tau" in runs else None,
                float(np.median(runs["updates"])),
                float(np.median(runs["seconds_per_pass"])),
                row,
            )
        )
    return rows


class Invariance(NamedTuple):
    """How a translation-invariant learner did on the variants it was run on."""

    learner: str
    passes: int
    variants: int
    replicates: int
    different: int  # replicates whose mistakes or tau are not the same in all variants
    largest_margin_difference: float


def invariance(plan: Plan) -> list[Invariance]:
    """Whether moving the data changes nothing, replicate by replicate, where there are runs on several variants."""
    found = []
    for learner in INVARIANT:
        for passes in sorted({row.setting.passes for row in printed()}):
            of = [row.setting for row in printed() if row.setting.learner == learner and row.setting.passes == passes]
            runs = [run for run in (load(plan, setting) for setting in of) if run]
            if len(runs) < 2:
                continue
            count = min(len(run["mistakes"]) for run in runs)
            same = np.ones(count, bool)
            for run in runs[1:]:
                for name in ("mistakes", "tau"):
                    same &= run[name][:count] == runs[0][name][:count]
            margins = np.stack([np.nan_to_num(run["margin"][:count]) for run in runs])
            spread = float(np.ptp(margins, axis=0).max())
            found.append(Invariance(learner, passes, len(runs), count, int((~same).sum()), spread))
    return found


def judged(rows: list[Cell]) -> list[tuple[Cell, str]]:
    """All printed numbers that have orders enough of ours, with the names of their columns; dashes are not numbers."""
    return [
        (cell, name)
        for cell in rows
        for name in ("mistakes", "margin", "tau")
        if cell.judged and getattr(cell, name) is not None and not np.isnan(getattr(cell, name).printed)
    ]


def outside(rows: list[Cell]) -> list[tuple[Cell, str]]:
    """Those of `judged` that lie outside our central 99.9 %."""
    return [(cell, name) for cell, name in judged(rows) if not getattr(cell, name).inside]
