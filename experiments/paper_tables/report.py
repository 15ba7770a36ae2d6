"""The tables as text, Markdown and CSV."""

import csv
import io
import math
import textwrap

from experiments.paper_tables.analysis import Cell, Comparison, Invariance, judged, outside
from experiments.paper_tables.spec import INVARIANT

_HEADER = ("learner", "m", "ours", "%", "margin", "ours", "%", "tau", "ours", "%", "updates", "ms/pass")
_LEGEND = (
    "m: mistakes; margin: of the final classifier on all data; tau: examples seen when it first separated all data. "
    "First the paper's value, then our median [5 %, 95 %] over random orders, then the percentile of the paper's value "
    "in our distribution; ! marks a printed value outside the central 99.9 % of at least 100 orders (up to 2,000: "
    "beyond all of ours), - is none, a blank was not looked for. ms/pass: wall time of a batch over its passes, on "
    "one core while all are busy."
)


def text(rows: list[Cell], invariances: list[Invariance]) -> str:
    """The comparison for a terminal; learners that no translation touches are shown once."""
    blocks = []
    for passes in sorted({cell.setting.passes for cell in rows}):
        table = [cell for cell in rows if cell.setting.passes == passes]
        title = f"{'One pass' if passes == 1 else f'{passes} passes'} over the data, {_count(table)}"
        blocks.append(f"{title}\n{'=' * len(title)}")
        for name, group in _groups(table):
            lines = [[cell.setting.learner, *_fields(cell)] for cell in group]
            blocks.append(f"{name}\n{_align([list(_HEADER), *lines])}")
    legend = textwrap.fill(_LEGEND, 118)
    return "\n\n".join([*blocks, legend, "\n".join(_summary(rows, invariances))]) + "\n"


def markdown(rows: list[Cell], invariances: list[Invariance]) -> str:
    """The tables as the paper sets them, every learner on every variant."""
    parts = ["# The paper's tables and ours\n", _LEGEND + "\n"]
    for passes in sorted({cell.setting.passes for cell in rows}):
        table = [cell for cell in rows if cell.setting.passes == passes]
        parts.append(f"## {'One pass' if passes == 1 else f'{passes} passes'} ({_count(table)})\n")
        for key in dict.fromkeys((cell.setting.theta, cell.setting.zero_bias) for cell in table):
            group = [cell for cell in table if (cell.setting.theta, cell.setting.zero_bias) == key]
            parts.append(f"### {_variant(group[0])}\n")
            parts.append("| " + " | ".join((*_HEADER, "paper s")) + " |\n|" + "---|" * (len(_HEADER) + 1))
            for cell in group:
                fields = [cell.setting.learner, *_fields(cell), f"{cell.printed.seconds:.2f}"]
                parts.append("| " + " | ".join(fields) + " |")
            parts.append("")
    return "\n".join([*parts, *_summary(rows, invariances)]) + "\n"


def table_csv(rows: list[Cell]) -> str:
    """All cells, one a line."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    quantities = ("mistakes", "margin", "tau")
    kinds = ("paper", "median", "q05", "q95", "percentile", "inside")
    names = [f"{quantity}_{kind}" for quantity in quantities for kind in kinds]
    head = ["passes", "learner", "theta", "zero_bias", "D_bar_over_D", "replicates"]
    writer.writerow([*head, *names, "updates_median", "seconds_per_pass", "seconds_paper"])
    for cell in rows:
        setting = cell.setting
        first = [setting.passes, setting.learner, setting.theta, setting.zero_bias, f"{cell.D_bar_over_D:.6f}"]
        values = [_number(value) for name in quantities for value in getattr(cell, name) or [math.nan] * len(kinds)]
        last = [_number(cell.updates), f"{cell.seconds:.6f}", cell.printed.seconds]
        writer.writerow([*first, cell.replicates, *values, *last])
    return buffer.getvalue()


def _groups(table: list[Cell]):
    """Invariant learners once, then every variant with the others."""
    first = table[0].setting
    once = [
        cell
        for cell in table
        if cell.setting.learner in INVARIANT
        and (cell.setting.theta, cell.setting.zero_bias) == (first.theta, first.zero_bias)
    ]
    if once:
        yield "All ten variants alike (translation invariant)", once
    rest = [cell for cell in table if cell.setting.learner not in INVARIANT]
    for key in dict.fromkeys((cell.setting.zero_bias, cell.setting.theta) for cell in sorted(rest, key=_order)):
        group = [cell for cell in rest if (cell.setting.zero_bias, cell.setting.theta) == key]
        yield _variant(group[0]), group


def _order(cell: Cell) -> tuple[bool, float]:
    return not cell.setting.zero_bias, cell.setting.theta


def _variant(cell: Cell) -> str:
    bias = "b* = 0" if cell.setting.zero_bias else "b* = -0.2848"
    return f"{bias}, theta = {cell.setting.theta:g}, D_bar/D = {cell.D_bar_over_D:.4f}"


def _count(table: list[Cell]) -> str:
    counts = {cell.replicates for cell in table if cell.setting.learner != "n-OMM"}
    words = f"{min(counts):,}" if len(counts) == 1 else f"{min(counts):,} to {max(counts):,}"
    exact = {cell.replicates for cell in table if cell.setting.learner == "n-OMM"}
    return f"{words} random orders" + (f" (n-OMM {max(exact):,})" if exact else "")


def _fields(cell: Cell) -> list[str]:
    forms = ((cell.mistakes, ",.0f"), (cell.margin, ".2f"), (cell.tau, ",.0f"))
    fields = [field for comparison, form in forms for field in _triple(comparison, form, cell.judged)]
    return [*fields, f"{cell.updates:,.0f}", f"{1000 * cell.seconds:.{0 if cell.seconds >= 0.01 else 1}f}"]


def _triple(comparison: Comparison | None, form: str, judged: bool) -> tuple[str, str, str]:
    if comparison is None:
        return "-", "", ""

    def show(value: float) -> str:
        return "-" if math.isnan(value) else format(value, form)

    ends = comparison.low, comparison.high
    spread = "" if all(math.isnan(end) for end in ends) else f" [{show(ends[0])}, {show(ends[1])}]"
    mark = "!" if judged and not comparison.inside else ""
    return show(comparison.printed), show(comparison.median) + spread, f"{comparison.percentile:.1f}{mark}"


def _number(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if isinstance(value, float) and math.isnan(value) else f"{value:g}"


def _align(lines: list[list[str]]) -> str:
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(field.rjust(width) for field, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


def _stray(cell: Cell, name: str) -> str:
    place = "all variants" if cell.setting.learner in INVARIANT else _variant(cell)
    value, spread, _ = _triple(getattr(cell, name), ".2f" if name == "margin" else ",.0f", True)
    passes = f"{cell.setting.passes} pass{'es' if cell.setting.passes > 1 else ''}"
    return f"- {cell.setting.learner}, {passes}, {place}: {name} {value}, ours {spread}"


def _summary(rows: list[Cell], invariances: list[Invariance]) -> list[str]:
    strays, numbers = outside(rows), judged(rows)
    words = [f"{len(rows)} of 160 rows compared."]
    if numbers:
        mistakes = [cell for cell in rows if cell.judged]
        words.append(
            f"{len(numbers) - len(strays)} of {len(numbers)} printed numbers lie in the central 99.9 % of ours "
            f"(mistakes: {sum(cell.mistakes.inside for cell in mistakes)} of {len(mistakes)})"
            + (". Outside:" if strays else ".")
        )
    # A learner that no translation touches is listed once.
    words += dict.fromkeys(_stray(cell, name) for cell, name in strays)
    if not all(cell.judged for cell in rows):
        words.append("Cells with fewer than 100 orders are not judged: use --replicates 1000.")
    for line in invariances:
        verdict = "the same" if line.different == 0 else f"NOT the same in {line.different} of them"
        words.append(
            f"{line.learner}, {line.passes} pass(es): mistakes and tau of {line.replicates:,} replicates on "
            f"{line.variants} variants are {verdict}; margins differ by at most {line.largest_margin_difference:.1e}."
        )
    return words
