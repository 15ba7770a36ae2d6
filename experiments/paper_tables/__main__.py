"""Run the paper's experiment over many random orders and print its tables beside ours.

    python -m experiments.paper_tables [--replicates 1000]

n-OMM gets a tenth of the replicates, because it costs more. A stopped run goes on when the same command is given again.
"""

import argparse
from pathlib import Path

from experiments.runner import Plan, execute, use_all_cores
from omm_jax.study.files import write_whole


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=16, help="random orders of every cell (default 16)")
    parser.add_argument("--seed", type=int, default=0, help="of the orders (default 0)")
    parser.add_argument("--passes", type=int, nargs="+", default=[1, 5], choices=[1, 5], help="which tables (both)")
    parser.add_argument(
        "--every-variant",
        action="store_true",
        help="run translation-invariant learners on all ten variants, to see that they are",
    )
    parser.add_argument("--verify", type=int, metavar="ORDERS", help="check against NumPy transcriptions, slowly")
    parser.add_argument("--out", type=Path, default=Path("results/paper_tables"), help="folder of the results")
    arguments = parser.parse_args()
    if arguments.replicates < 2:
        parser.error(f"--replicates must be at least 2, got {arguments.replicates}")
    use_all_cores("float64")

    from experiments.paper_tables import analysis, report, verify
    from experiments.paper_tables.spec import runs

    settings = runs(tuple(sorted(set(arguments.passes))), arguments.every_variant)
    folder = arguments.out / f"seed-{arguments.seed}_float64"
    plan = Plan(settings, arguments.replicates, arguments.seed, "float64", folder)
    execute(plan)
    rows, invariances = analysis.cells(plan), analysis.invariance(plan)
    files = {
        "tables.md": report.markdown(rows, invariances),
        "tables.csv": report.table_csv(rows),
        "tables.txt": report.text(rows, invariances),
    }
    print(files["tables.txt"])
    for name, content in files.items():
        write_whole(arguments.out / name, content.encode())
        print(f"wrote {arguments.out / name}")
    if arguments.verify:
        verify.verify(plan, arguments.verify)


if __name__ == "__main__":
    main()
