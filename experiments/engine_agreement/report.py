"""The comparison in words."""

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
# A screen's score and the deciding one may each be wrong by the rounding bound.
WITHIN = 2.0


def well(rows: Sequence[Row], partings: Sequence[Row]) -> bool:
    """Whether float64 lanes are all the same, and float32 lanes part only within rounding of a level."""
    same = all(row["lanes_that_decide_otherwise"] + row["lanes_with_other_bits"] == 0 for row in _of(rows, "float64"))
    return same and all(parting["distance"] <= WITHIN for parting in partings)


def text(rows: Sequence[Row], partings: Sequence[Row]) -> str:
    """A table of every trial, and what it comes to."""
    columns = ("lanes", "updates", "close_updates", "lanes_that_decide_otherwise", "lanes_with_other_bits")
    lines = [
        "Scan engine against fast engine. Close: updates at a score within the rounding bound of the level.",
        f"{'':8s}{'learner':12s}{'data':15s}{'orders':8s}{'lanes':>8s}{'updates':>14s}{'close':>12s}"
        f"{'other decisions':>17s}{'other bits':>12s}",
    ]
    for row in rows:
        lanes, updates, close, decisions, bits = (row[column] for column in columns)
        lines.append(
            f"{row['dtype']:8s}{row['learner']:12s}{row['data']:15s}{row['orders']:8s}{lanes:8,}{updates:14,}{close:12,}"
            f"{decisions:17,}{bits:12,}"
        )
    for dtype in ("float64", "float32"):
        lines += ["", *_words(dtype, _of(rows, dtype), _of(partings, dtype))] if _of(rows, dtype) else []
    lines.append("All is well." if well(rows, partings) else "The engines do NOT agree.")
    return "\n".join(lines)


def _words(dtype: str, rows: Sequence[Row], partings: Sequence[Row]) -> list[str]:
    lines = []
    for learner in dict.fromkeys(row["learner"] for row in rows):
        mine = [row for row in rows if row["learner"] == learner]
        own, shared = (sum(row["lanes"] for row in mine if row["orders"] == kind) for kind in ("own", "shared"))
        different = sum(row["lanes_that_decide_otherwise"] for row in mine)
        bits = sum(row["lanes_with_other_bits"] for row in mine)
        verdict = "all the same, bit for bit"
        if different or bits:
            verdict = (
                f"{different:,} decide otherwise ({different / (own + shared):.3%}), {bits:,} more have other bits"
            )
        lines.append(
            f"{dtype} {learner:11s}{own:7,} lanes of their own orders, {shared:5,} of shared ones, "
            f"{sum(row['updates'] for row in mine):12,} updates: {verdict}"
        )
    if not partings:
        lines.append(f"{dtype}: no lane parts ways")
    else:
        distances = [parting["distance"] for parting in partings]
        lines.append(
            f"{dtype}: {len(partings):,} lanes part, each at an example whose signed score is at most "
            f"{max(distances):.3g} rounding bounds from its level (up to {WITHIN:g} is rounding)"
        )
    return lines


def _of(rows: Sequence[Row], dtype: str) -> list[Row]:
    return [row for row in rows if row["dtype"] == dtype]
