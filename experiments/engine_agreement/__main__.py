"""Does the fast engine decide as the reference engine does? Lane by lane, event by event, for seven learners.

    python -m experiments.engine_agreement [--lanes 10000] [--quick] [--out DIR]

Both engines run over the same random orders: of the Adult data, plain and in its hardest variant, and of generated
sets full of scores that equal a learner's level or miss it by a rounding error. In float64 every update, mistake, tau
and bit of the result must be the same; in float32 the lanes that part ways are counted, and where each of them parts
is compared with the rounding bound (k + 8) eps (|w| max|f| + |b|) of a score. The exit code says whether all is well.
"""

import argparse
import sys
from pathlib import Path

from experiments.runner import use_all_cores


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=10_000, help="float64 lanes a learner, at least (10,000)")
    parser.add_argument("--quick", action="store_true", help="200 lanes, 2,000 Adult examples, no shared orders")
    parser.add_argument("--out", type=Path, default=Path("results/engine_agreement"), help="folder of the tables")
    arguments = parser.parse_args()
    if arguments.lanes < 1:
        parser.error(f"--lanes must be at least 1, got {arguments.lanes}")
    use_all_cores("float64")

    from experiments.engine_agreement import report, trials
    from experiments.rows import save_rows

    if arguments.quick:
        plan = trials.plan(min(arguments.lanes, 200), data=("Adult hardest", "aimed"), shared=(False,))
    else:
        plan = trials.plan(arguments.lanes)
    rows, partings = trials.execute(plan, 2000 if arguments.quick else None)
    print(report.text(rows, partings))
    save_rows(arguments.out / "engine_agreement.csv", rows)
    if partings:
        save_rows(arguments.out / "partings.csv", partings)
    return 0 if report.well(rows, partings) else 1


if __name__ == "__main__":
    sys.exit(main())
