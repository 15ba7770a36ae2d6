"""Tables of an experiment on disk: a CSV file of rows, and the command line that two-part experiments share."""

import argparse
import csv
import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from omm_jax.study.files import write_whole

Row = Mapping[str, Any]


def save_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows that share their keys, whole or not at all."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{v:.9g}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.getvalue().encode())
    print(f"wrote {path}")


def load_columns(path: Path) -> dict[str, list[Any]]:
    """The columns of a file of rows; what reads as a number is one."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {key: [_number(row[key]) for row in rows] for key in rows[0]}


def main(doc: str, name: str, run: Callable[[bool], Iterable[Row]], analyse: Callable[[Path], None]) -> None:
    """The command line: run and save unless --analyse, then read what was saved and analyse it."""
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results") / name, help="folder for the table and the figures")
    parser.add_argument("--quick", action="store_true", help="a smaller version, in seconds")
    parser.add_argument("--analyse", action="store_true", help="do not run, read what is there")
    arguments = parser.parse_args()
    if not arguments.analyse:
        save_rows(arguments.out / f"{name}.csv", run(arguments.quick))
    analyse(arguments.out)


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
