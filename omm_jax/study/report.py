"""A study as one HTML page that needs nothing else, and its pictures as PNG files beside it."""

import base64
import html
import io
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

from omm_jax.bounds import guarantees
from omm_jax.status import describe
from omm_jax.study import files, plots
from omm_jax.study.extras import need
from omm_jax.study.load import load, status
from omm_jax.study.spec import StudyError, StudySpec, label
from omm_jax.study.statistics import LEVELS, Estimate, paired, quantiles
from omm_jax.study.store import Store

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_CURVES = 8  # as many as a picture can carry

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1020px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; margin-bottom: 0.2em } h2 { margin-top: 2em; border-bottom: 1px solid #ddd; font-size: 1.25em }
h3 { font-size: 1.05em; margin-bottom: 0.3em } p.note { color: #555; margin: 0.3em 0 }
table { border-collapse: collapse; margin: 0.7em 0; font-size: 0.88em; font-variant-numeric: tabular-nums }
th, td { padding: 0.22em 0.6em; text-align: right; white-space: nowrap; border-bottom: 1px solid #eee }
th { border-bottom: 1px solid #999 }
th:first-child, td:first-child { text-align: left } td small { color: #777; display: block }
div.wide { overflow-x: auto } img { max-width: 100%; height: auto }
p.warn { background: #fff4dd; border-left: 4px solid #e69f00; padding: 0.5em 0.8em }
"""


def report(folder: str | pathlib.Path, to: str | pathlib.Path | None = None, *, partial: bool = False) -> pathlib.Path:
    """Write the report of a study.

    Args:
        folder: the study.
        to: where report.html and the pictures go, `folder/report` unless given.
        partial: whether to report what is there of an unfinished study.

    Returns:
        The path of report.html.

    Raises:
        StudyError: if the study is not complete, or kept no mistakes to report on.
    """
    need("matplotlib", "pandas")
    store = Store.open(folder)
    table = load(folder, partial=partial)
    if not {"mistakes", "updates"} <= set(table.columns):
        raise StudyError("a report needs the columns mistakes and updates: add them to the study's record")
    page = _Page(pathlib.Path(to) if to is not None else pathlib.Path(folder) / "report")
    table["cell"] = (table["learner"] + " " + table["setting"]).str.strip()
    varied = {name for name, values in store.spec.data[1] if len(values) > 1}
    short = {label(v): label(tuple(entry for entry in v if entry[0] in varied)) for v in store.spec.variants}
    table["which"] = table["variant"].map(short)
    # A colour for every curve if they can be told apart; else for every learner, of which one setting is shown.
    by = "cell" if table["cell"].nunique() <= _CURVES else "learner"
    shades = {name: plots.colour(number) for number, name in enumerate(table[by].unique())}
    table["colour"] = table[by].map(shades)

    standing = status(folder)
    _head(page, store, table, standing.complete)
    for profile in store.manifest["data"]:
        rows = table[table["variant"] == profile["variant"]]
        if len(rows):
            _variant(page, rows, profile, store.spec)
    _sweeps(page, table, store.spec)
    return page.save(store.spec.title or "Study " + store.spec.id)


class _Page:
    """A page being written, and the pictures it shows."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.parts = folder, list[str]()
        self.pictures: dict[str, bytes] = {}

    def add(self, tag: str, text: str, kind: str = "") -> None:
        name = f' class="{kind}"' if kind else ""
        self.parts.append(f"<{tag}{name}>{html.escape(text)}</{tag}>")

    def table(self, header: list[str], rows: list[list[str]]) -> None:
        """A table; cells may hold markup, so their text must be escaped already."""
        lines = ["<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in header) + "</tr>"]
        lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
        self.parts.append('<div class="wide"><table>' + "".join(lines) + "</table></div>")

    def picture(self, name: str, figure: "Figure", words: str) -> None:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
        unique = f"{len(self.pictures) + 1:02d}-{name}.png"
        self.pictures[unique] = buffer.getvalue()
        data = base64.b64encode(buffer.getvalue()).decode()
        self.parts.append(f'<img alt="{html.escape(words)}" src="data:image/png;base64,{data}">')

    def save(self, title: str) -> pathlib.Path:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StudyError(f"cannot make the folder {self.folder}: {error.strerror}") from error
        for name, content in self.pictures.items():
            files.write_whole(self.folder / name, content)
        head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
        body = "\n".join([f"<h1>{html.escape(title)}</h1>", *self.parts])
        path = self.folder / "report.html"
        page = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'
        files.write_whole(path, page.encode())
        return path


def _head(page: _Page, store: Store, table: "pd.DataFrame", complete: bool) -> None:
    spec, manifest = store.spec, store.manifest
    learners = ", ".join(name for name, _ in spec.learners)
    passes = "1 pass" if spec.passes == 1 else f"{spec.passes:,} passes"
    page.add("p", f"{learners} on {spec.data[0]}: {spec.replicates:,} random orders, {passes}, {spec.dtype}.")
    versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    page.add("p", f"{len(table):,} rows; study {spec.id}, seed {spec.seed}, {versions}, {manifest['backend']}.", "note")
    if not complete:
        page.add("p", "The study is not complete: this is a report of the rows that are there.", "warn")
    if "status" in table and (troubled := table[table["status"] != 0]).shape[0]:
        for bits, rows in troubled.groupby("status"):
            cells = ", ".join(sorted(set(rows["cell"])))
            page.add("p", f"{len(rows):,} rows of {cells}: {describe(int(bits))}.", "warn")
    page.add(
        "p",
        "All learners saw the same orders. Intervals in brackets are 95 % bootstrap intervals over replicates.",
        "note",
    )


def _variant(page: _Page, rows: "pd.DataFrame", profile: dict[str, Any], spec: StudySpec) -> None:
    page.add("h2", f"Data: {spec.data[0]} {profile['variant']}".strip())
    known = {"γ*": profile["margin"], "D": profile["diameter"], "largest norm": profile["radius"]}
    shape = [f"{profile['n']:,} examples", f"{profile['d']} features"]
    page.add("p", ", ".join(shape + [f"{name} = {value:.4g}" for name, value in known.items() if value]), "note")
    cells = [(name, group["colour"].iloc[0], group) for name, group in rows.groupby("cell", sort=False)]
    _quantile_table(page, cells)
    shown = cells
    if len(cells) > _CURVES:
        # Of every learner the setting with the smallest mean, as many learners as fit.
        best = rows.groupby(["learner", "cell"], sort=False)["mistakes"].mean().groupby("learner", sort=False).idxmin()
        names = {cell for _, cell in best}
        shown = [cell for cell in cells if cell[0] in names][:_CURVES]
        page.add("p", "The pictures show each learner at its setting with the fewest mistakes on average.", "note")
    page.add("h3", "Mistakes")
    page.picture("mistakes", plots.distributions(shown), f"histogram and ECDF of mistakes, {profile['variant']}")
    _differences(page, shown)
    if "margin" in rows and rows["margin"].notna().any():
        page.add("h3", "Margin against updates")
        page.picture("margin", plots.margins(shown, profile["margin"]), f"margin against updates, {profile['variant']}")
    _bounds(page, shown, profile)


def _quantile_table(page: _Page, cells: list) -> None:
    header = ["learner", *(f"{level:.0%}" for level in LEVELS), "largest", "median updates"]
    extra = [name for name in ("margin", "tau") if name in cells[0][2]]
    header += ["margin > 0", "median margin"] if "margin" in extra else []
    header += ["median τ"] if "tau" in extra else []
    lines = []
    for name, _, rows in cells:
        line = [html.escape(name)]
        line += [_show(estimate) for estimate in quantiles(rows["mistakes"].to_numpy())]
        line += [f"{rows['mistakes'].max():,}", f"{rows['updates'].median():,.0f}"]
        if "margin" in extra:
            positive = rows["margin"].dropna()
            line += [f"{len(positive) / len(rows):.1%}", f"{positive.median():.4g}" if len(positive) else "none"]
        if "tau" in extra:
            reached = rows.loc[rows["tau"] >= 0, "tau"]
            line.append(f"{reached.median():,.0f}" if len(reached) else "none")
        lines.append(line)
    page.add("h3", "Quantiles of mistakes")
    page.table(header, lines)


def _differences(page: _Page, cells: list) -> None:
    if len(cells) < 2:
        return
    reference = min(cells, key=lambda cell: cell[2]["mistakes"].mean())
    pairs = [(name, shade, paired(rows, reference[2])) for name, shade, rows in cells if name != reference[0]]
    page.add("h3", f"Paired differences to {reference[0]}, order by order")
    page.table(
        ["learner", "mean difference", "fewer mistakes", "as many", "more", "orders"],
        [
            [
                html.escape(name),
                _show(pair.mean, ".2f"),
                f"{pair.fewer:.1%}",
                f"{pair.equal:.1%}",
                f"{max(0.0, 1 - pair.fewer - pair.equal):.1%}",
                f"{pair.pairs:,}",
            ]
            for name, _, pair in pairs
        ],
    )
    page.picture("differences", plots.differences(pairs, reference[0]), f"paired differences to {reference[0]}")


def _bounds(page: _Page, cells: list, profile: dict[str, Any]) -> None:
    if profile["margin"] is None or profile["diameter"] is None:
        return
    promised = {row.learner: row for row in guarantees(profile["diameter"], profile["radius"], profile["margin"])}
    promised["ce-OMM"] = promised["e-OMM"]
    lines, drawn = [], []
    for name, shade, rows in cells:
        row = promised.get(rows["learner"].iloc[0])
        if row is None or (profile["biased"] and not row.bias) or not np.isfinite(row.mistakes):
            continue
        median, largest = float(rows["mistakes"].median()), int(rows["mistakes"].max())
        bound = f"{row.mistakes:,.0f}" if row.exact else f"order {row.mistakes:,.0f}"
        times = row.mistakes / max(largest, 1)
        ratio = f"{times:,.0f}" if times >= 100 else f"{times:.3g}"
        lines.append([html.escape(name), f"{median:,.0f}", f"{largest:,}", bound, ratio])
        drawn.append((name, shade, median, float(largest), row.mistakes))
    if lines:
        page.add("h3", "Bounds beside what happened")
        page.table(["learner", "median mistakes", "largest", "bound", "bound / largest"], lines)
        page.add("p", '"order": an order of magnitude, without its constant.', "note")
        page.picture("bounds", plots.bounds(drawn), f"bounds beside realised mistakes, {profile['variant']}")


def _sweeps(page: _Page, table: "pd.DataFrame", spec: StudySpec) -> None:
    def swept(grid) -> list[str]:
        return [n for n, values in grid if len(values) > 1 and not any(isinstance(v, bool | str) for v in values)]

    axes = swept(spec.data[1])
    sections: list[tuple[str, Any, str]] = []
    for name, grid in spec.learners:
        rows = table[table["learner"] == name]
        along = swept(grid)
        for parameter in along:
            figure = plots.sweep(rows, f"setting_{parameter}", parameter, "which", name)
            sections.append(("sweep", figure, f"{name} along {parameter}"))
        pairs = [(f"setting_{a}", f"setting_{b}", a, b) for k, a in enumerate(along) for b in along[k + 1 :]]
        pairs += [(f"setting_{a}", f"variant_{b}", a, b) for a in along for b in axes]
        for x, y, first, second in pairs:
            sections.append(
                ("heat", plots.heat(rows, x, y, (first, second), name), f"{name} over {first} and {second}")
            )
    for parameter in axes if table["cell"].nunique() <= _CURVES else ():
        figure = plots.sweep(table, f"variant_{parameter}", parameter, "cell", f"{spec.data[0]}: {parameter}")
        sections.append(("sweep", figure, f"all learners along {parameter}"))
    if sections:
        page.add("h2", "Sweeps")
        page.add("p", "Medians over replicates; bands are the middle half.", "note")
    for kind, figure, words in sections:
        page.add("h3", words)
        page.picture(kind, figure, words)


def _show(estimate: Estimate, form: str = ",.0f") -> str:
    return f"{estimate.value:{form}} <small>[{estimate.low:{form}}, {estimate.high:{form}}]</small>"
