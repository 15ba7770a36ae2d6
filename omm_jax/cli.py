"""The command `omm-jax`: studies from the shell.

Exit codes: 0 done, 1 the study or its folder is not fit (the message says why), 2 wrong usage, 3 not complete yet,
130 interrupted.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import NoReturn

EXAMPLE = """\
a study is a TOML file; lists are swept, everything else is fixed:

    replicates = 1000
    seed = 0

    [data]
    source = "adult"            # or "clusters", or "npz" with path = "file.npz"
    theta = [0.0, 1.0]
    zero_bias = true

    [learners.e-OMM]
    rho = [0.0, 0.5, 1.0]

    [learners.Perceptron]

run it with "omm-jax study run study.toml --out results"; the same command goes on where a stopped one ended.
exit codes: 0 done, 1 error in the study or its folder, 2 wrong usage, 3 not complete yet, 130 interrupted
"""

# How many processes the launcher started, as Slurm's srun and Open MPI's mpirun say it; JAX finds the rest by itself.
_TASKS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    from omm_jax.study.extras import MissingExtraError
    from omm_jax.study.spec import StudyError

    try:
        with _insistent_interrupts():
            return options.function(options)
    except KeyboardInterrupt:
        again = f" run the same command again to go on into {options.out}" if "out" in options else ""
        print(f"\ninterrupted;{again or ' nothing was changed'}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (StudyError, MissingExtraError, OSError) as error:
        print(f"omm-jax: {error}", file=sys.stderr)
        return 1


@contextlib.contextmanager
def _insistent_interrupts() -> Iterator[None]:
    """Repeat an interrupt every second until it is heeded.

    Where Python happens to be in a callback or a destructor an exception is printed and forgotten, and the study would
    go on.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler and hasattr(signal, "setitimer")
    if not ours or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> NoReturn:
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGALRM)}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="omm-jax", description="Online large-margin classification studies.")
    study = top.add_subparsers(required=True, metavar="study").add_parser(
        "study",
        help="run a study, look how far it is, report it, export it",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = study.add_subparsers(required=True, metavar="command")

    run = commands.add_parser("run", help="run a study, or what is left of it", epilog=EXAMPLE)
    run.formatter_class = argparse.RawDescriptionHelpFormatter
    run.add_argument("spec", type=pathlib.Path, metavar="SPEC", help="TOML file that describes the study")
    run.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR", help="folder of the results")
    run.add_argument("--devices", type=_count, metavar="N", help="CPU devices to run on (default: two a core)")
    run.add_argument("--quiet", action="store_true", help="no progress on standard error")
    group = run.add_argument_group(
        "several processes", "found by itself under srun and mpirun; elsewhere give all three"
    )
    group.add_argument("--coordinator", metavar="HOST:PORT", help="address of process 0")
    group.add_argument("--processes", type=_count, metavar="P", help="how many processes there are")
    group.add_argument("--process-id", type=int, metavar="K", help="which one this is, from 0")
    run.set_defaults(function=_run)

    for name, function, words in (
        ("status", _status, "say how far a study is, and check every chunk"),
        ("report", _report, "write report.html and its pictures"),
        ("export", _export, "write all rows as one CSV table"),
    ):
        command = commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
        command.add_argument("folder", type=pathlib.Path, metavar="DIR", help="folder of a study")
        command.set_defaults(function=function)
        if name != "status":
            command.add_argument("--partial", action="store_true", help="take what is there of an unfinished study")
        if name == "report":
            command.add_argument("--to", type=pathlib.Path, metavar="DIR", help="where to (default: DIR/report)")
        if name == "export":
            command.add_argument(
                "--csv", required=True, metavar="FILE", help="CSV file to write, - for standard output"
            )
    return top


def _run(options: argparse.Namespace) -> int:
    import jax

    from omm_jax import study
    from omm_jax.study.spec import StudyError, StudySpec

    by_hand = (options.coordinator, options.processes, options.process_id)
    if any(value is not None for value in by_hand) and None in by_hand:
        raise StudyError("--coordinator, --processes and --process-id go together: give all three or none")
    # This process is the command's own, so here global flags may be set; the library sets none. Devices come first:
    # whatever computes, and reading a spec does, settles them.
    jax.config.update("jax_num_cpu_devices", options.devices or 2 * (os.cpu_count() or 1))
    if by_hand[0] is not None or any(int(os.environ.get(name, 1)) > 1 for name in _TASKS):
        try:
            jax.distributed.initialize(*by_hand)
        except (ValueError, RuntimeError) as error:
            raise StudyError(
                f"the processes of this run did not find each other ({error}): "
                "give --coordinator, --processes and --process-id to each"
            ) from error
    spec = StudySpec.from_toml(options.spec)
    jax.config.update("jax_enable_x64", spec.dtype == "float64")
    summary = study.run(spec, options.out, progress=not options.quiet)
    if not summary.complete:
        print("this process has done its share; others are still at work", file=sys.stderr)
    return 0


def _status(options: argparse.Namespace) -> int:
    from omm_jax import study

    standing = study.status(options.folder)
    print(f"study {standing.id}: {standing.intact} of {standing.chunks} chunks, ", end="")
    print(f"{standing.rows:,} of {standing.rows_in_all:,} rows")
    if standing.damaged:
        print(f"{standing.damaged} damaged chunk file(s): run the study again to make them again")
    return 0 if standing.complete else 3


def _export(options: argparse.Namespace) -> int:
    from omm_jax import study

    table = study.load(options.folder, partial=options.partial)
    table.to_csv(sys.stdout if options.csv == "-" else options.csv, index=False)
    return 0


def _report(options: argparse.Namespace) -> int:
    from omm_jax import study

    print(study.report(options.folder, options.to, partial=options.partial))
    return 0


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
