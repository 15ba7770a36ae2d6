"""`python -m experiments.bench`: the fast engine against what people would use instead, in one run.

Prints a table, and writes it with its figures to results/bench. With --quick, fewer orders and no growth plots.
"""

import argparse
import os
import platform
from pathlib import Path

import jax
import numpy as np

FOLDER = Path("results/bench")


def main() -> None:
    """Parse, run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m experiments.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="256 orders, Adult only, no growth plots")
    parser.add_argument("--devices", type=int, default=os.cpu_count() or 1, help="CPU devices (default: one a core)")
    parser.add_argument("--data", choices=("plain", "hard"), help="one data set only")
    parser.add_argument("--only", choices=("orders", "sweeps", "growth"), help="one part only")
    options = parser.parse_args()
    # Before jax looks at the machine.
    jax.config.update("jax_num_cpu_devices", options.devices)
    from experiments.bench import growth, tables

    FOLDER.mkdir(parents=True, exist_ok=True)
    lanes = 256 if options.quick else 1024
    lines = [f"# Benchmark\n\n{_machine()}, {options.devices} devices, jax {jax.__version__}, float32, one pass.\n"]
    for problem in _problems():
        if options.data not in (None, problem.name):
            continue
        if options.only in (None, "orders"):
            lines += tables.independent(problem, lanes, FOLDER)
        if options.only in (None, "sweeps") and problem.name == "plain":
            lines += tables.sweeps(problem, 32 if options.quick else 128, 8)
            lines += tables.variants(*_variants(), 8)
    if options.only == "growth" or (options.only is None and not options.quick):
        lines += growth.plots(FOLDER)
    (FOLDER / "bench.md").write_text("\n".join(lines) + "\n")
    print(f"written to {FOLDER}/")


def _problems():
    from experiments.bench.contenders import Problem
    from omm_jax.data import paper_variant

    for name, theta, zero_bias in (("plain", 0.0, True), ("hard", 1.0, False)):
        variant = paper_variant(theta, zero_bias)
        yield Problem(name, np.asarray(variant.x, np.float32), np.asarray(variant.y, np.float32), not zero_bias)


def _variants():
    """The ten variants, and how far each is moved from the first."""
    from experiments.bench.contenders import Problem
    from omm_jax.data import PAPER_THETAS, paper_variant

    problems, shifts = [], []
    for zero_bias in (True, False):
        for theta in PAPER_THETAS:
            variant = paper_variant(theta, zero_bias)
            name = f"{theta:g}, {zero_bias}"
            problems.append(
                Problem(name, np.asarray(variant.x, np.float32), np.asarray(variant.y, np.float32), not zero_bias)
            )
            shifts.append(variant.v_pos - paper_variant(0.0, True).v_pos)
    return problems, np.array(shifts)


def _machine() -> str:
    model, cpuinfo = platform.processor() or "CPU", Path("/proc/cpuinfo")
    if cpuinfo.exists():
        named = [line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = named[0] if named else model
    return f"{model}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
