"""The two tables: independent orders, and sweeps over shared orders."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import omm_jax as omm
from experiments.bench import contenders
from experiments.bench.contenders import LEARNERS, Outcome, Problem

_COLUMNS = (
    "learner", "updates", "NumPy loop", "numba 1", "numba all", "plain scan", "scan", "fast", "fast + tau",
    "fast / numba all", "plain scan / fast", "NumPy / fast", "rounds", "compile s", "MB",
)  # fmt: skip


_SWEEP = ("sweep", "updates", "numba all", "fast", "numba all / fast", "compile s", "MB")


def independent(problem: Problem, lanes: int, folder: Path) -> list[str]:
    """Every learner over independent orders, order generation included; milliseconds a pass."""
    rows = []
    for name in LEARNERS:
        loop, single, every, plain, scan, fast, tau = contenders.race(
            contenders.numpy_loop(problem, name),
            contenders.numba_loop(problem, name, lanes, 1),
            contenders.numba_loop(problem, name, lanes, None),
            contenders.plain_scan(problem, name, lanes),
            contenders.engine(problem, name, lanes, kind="scan"),
            contenders.engine(problem, name, lanes),
            contenders.engine(problem, name, lanes, tau=True),
        )
        times = [1e3 * outcome.seconds for outcome in (loop, single, every, plain, scan, fast, tau)]
        ratios = [every.seconds / fast.seconds, plain.seconds / fast.seconds, loop.seconds / fast.seconds]
        turns = contenders.rounds(problem, name)
        rows.append([name, fast.updates, *times, *ratios, turns, fast.compile_seconds, fast.megabytes])
        print(f"{problem.name} {name}: fast {times[5]:.2f} ms, numba {times[2]:.2f} ms a pass", flush=True)
    mean = np.exp(np.mean(np.log([row[9:12] for row in rows]), axis=0))
    with (folder / f"{problem.name}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([_COLUMNS, *rows])
    floor = 1e3 * contenders.matmul_floor(problem, lanes)
    n, d = problem.x.shape
    lines = [
        f"## Adult, {problem.name}: {n:,} x {d}, {lanes:,} independent orders\n",
        "Milliseconds a pass, orders included; the last columns are ratios, sequential rounds a pass (a scan has "
        f"{n:,}), and compile time and memory of the fast engine. Scoring every example once by one matrix product, "
        f"the floor, takes {floor:.3f} ms a pass.\n",
        _line(_COLUMNS),
        _line("---" for _ in _COLUMNS),
        *(_line(_cell(value) for value in row) for row in rows),
        _line(["geometric mean", *[""] * 8, *(_cell(value) for value in mean), "", "", ""]),
        "",
    ]
    print("\n".join(lines), flush=True)
    return lines


def sweeps(problem: Problem, settings: int, count: int) -> list[str]:
    """Many settings over the same orders; milliseconds a pass."""
    orders = np.asarray(omm.orders(0, count, problem.x.shape[0]).astype(np.int32))
    lines = [f"## {settings} settings over {count} shared orders\n", _line(_SWEEP), _line("---" for _ in _SWEEP)]
    for title, name, factory, values in (
        ("e-OMM, rho on [0, 1]", "e-OMM", omm.e_omm, np.linspace(0, 1, settings)),
        ("PUMMA, delta on [0.01, 1]", "PUMMA", omm.pumma, np.linspace(0.01, 1, settings)),
    ):
        loop = contenders.numba_sweep(problem, name, values, orders)
        fast = contenders.engine_sweep(problem, factory, values, orders)
        lines.append(_sweep_line(title, *contenders.race(loop, fast)))
    lines.append("")
    print("\n".join(lines), flush=True)
    return lines


def variants(problems: Sequence[Problem], shifts: np.ndarray, count: int) -> list[str]:
    """All learners over moved data sets and the same orders; milliseconds a pass."""
    orders = np.asarray(omm.orders(0, count, problems[0].x.shape[0]).astype(np.int32))
    lines = [
        f"## {len(problems)} translated variants over {count} shared orders\n",
        "Both begin with the first variant and the translations: numba makes the data sets, the engine needs none.\n",
        _line(_SWEEP),
        _line("---" for _ in _SWEEP),
    ]
    seconds = []
    for name in LEARNERS:
        loop, fast = contenders.race(
            contenders.numba_variants(problems, shifts, name, orders),
            contenders.engine_variants(problems, shifts, name, orders),
        )
        lines.append(_sweep_line(name, loop, fast))
        seconds.append([loop.seconds, fast.seconds])
    by_numba, by_engine = np.sum(seconds, axis=0)
    mean = np.exp(np.mean(np.log(seconds), axis=0))
    together = [1e3 * by_numba, 1e3 * by_engine, by_numba / by_engine]
    lines.append(_line(["all of them", "", *map(_cell, together), "", ""]))
    lines.append(_line(["geometric mean", "", "", "", _cell(mean[0] / mean[1]), "", ""]))
    lines.append("")
    print("\n".join(lines), flush=True)
    return lines


def _sweep_line(title: str, loop: Outcome, fast: Outcome) -> str:
    cells = [fast.updates, 1e3 * loop.seconds, 1e3 * fast.seconds, loop.seconds / fast.seconds]
    return _line([title, *map(_cell, [*cells, fast.compile_seconds, fast.megabytes])])


def _line(cells) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.2f}"
