"""Which lanes are compared, and their comparison on every CPU device."""

import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax

from experiments.engine_agreement.compare import Tally, compare
from experiments.engine_agreement.streams import ADULT, ADULT_LENGTH, GENERATED, LEARNERS, LENGTH, SETTINGS, streams
from omm_jax.study.progress import Progress

# Lanes at once: their logs have room for every example of their streams.
_ADULT_LANES, _GENERATED_LANES = 64, 256


class Trial(NamedTuple):
    """One learner on one data set in one precision: what one compiled program of each engine can run."""

    dtype: str
    learner: str
    data: str
    shared: bool  # sixteen settings over each order, or an order for every lane
    lanes: int

    @property
    def chunk(self) -> int:
        """Lanes to run at once."""
        at_most, lanes = (_ADULT_LANES if self.data in ADULT else _GENERATED_LANES), SETTINGS
        while lanes < min(at_most, self.lanes):
            lanes *= 2
        return lanes

    @property
    def firsts(self) -> range:
        """The first lane of every chunk."""
        return range(0, self.lanes, self.chunk)


def plan(
    lanes: int,
    dtypes: Sequence[str] = ("float64", "float32"),
    learners: Sequence[str] = LEARNERS,
    data: Sequence[str] = (*ADULT, *GENERATED),
    shared: Sequence[bool] = (False, True),
) -> list[Trial]:
    """The trials in which every learner has at least so many float64 lanes with orders of their own.

    A tenth of them is on the Adult data, half as many in float32 because they take the time. Lanes that share orders
    come on top, a sixteenth as many orders.
    """

    def count(dtype: str, name: str, share: bool) -> int:
        wanted = 0.9 * lanes / len(GENERATED)
        if name in ADULT:
            wanted = (0.1 if dtype == "float64" else 0.05) * lanes / len(ADULT)
        return math.ceil(wanted / (SETTINGS if share else 1))

    return [
        Trial(dtype, learner, name, share, count(dtype, name, share))
        for dtype in dtypes
        for name in data
        for share in shared
        for learner in learners
    ]


def execute(trials: Sequence[Trial], length: int | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Make the comparisons of a plan, one precision after the other, showing progress.

    Args:
        trials: the plan.
        length: cut the orders to so many examples.

    Returns:
        One row a trial, and one for every lane that parted ways.
    """
    rows, partings = [], []
    devices = jax.local_devices()
    streams_length = {True: min(ADULT_LENGTH, length or ADULT_LENGTH), False: min(LENGTH, length or LENGTH)}

    def examples(trial: Trial) -> int:
        """Of a chunk, the unit of progress."""
        return trial.chunk * streams_length[trial.data in ADULT]

    bar, lock = (
        Progress(sum(len(trial.firsts) * examples(trial) for trial in trials), unit="examples"),
        threading.Lock(),
    )
    bar.say_once(f"both engines over the same orders, {len(devices)} device(s)")

    def done(trial: Trial) -> None:
        with lock:
            bar.advance(examples(trial), f"{trial.dtype} {trial.learner}, {trial.data}")

    before = jax.config.jax_enable_x64
    try:
        for dtype in dict.fromkeys(trial.dtype for trial in trials):
            jax.config.update("jax_enable_x64", dtype == "float64")
            queue = iter(_jobs([trial for trial in trials if trial.dtype == dtype]))
            with ThreadPoolExecutor(len(devices)) as pool:
                workers = [pool.submit(_work, device, queue, length, done) for device in devices]
                found = dict(pair for worker in workers for pair in worker.result())
            for trial in [trial for trial in trials if trial in found]:
                rows.append(_row(trial, found[trial]))
                partings += _partings(trial, found[trial])
            # The programs of both precisions together would be more than a process can map.
            jax.clear_caches()
    finally:
        jax.config.update("jax_enable_x64", before)
    bar.close()
    return rows, partings


def _jobs(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials that share their programs together, so that each is compiled once; the long ones first."""
    jobs: dict[Any, list[Trial]] = {}
    for trial in trials:
        jobs.setdefault((trial.data not in ADULT, trial.shared, trial.learner), []).append(trial)
    return [jobs[key] for key in sorted(jobs)]


def _work(
    device: jax.Device, queue: Iterator[list[Trial]], length: int | None, done: Any
) -> list[tuple[Trial, list[Tally]]]:
    """Take jobs from the queue until there are none, and run them on a device."""
    found = []
    for trial in itertools.chain.from_iterable(queue):
        with jax.default_device(device):
            of = streams(trial.data, trial.learner, trial.dtype, length)
            tallies = []
            for first in trial.firsts:
                tallies.append(compare(trial.learner, of, trial.shared, first, trial.chunk))
                done(trial)
        found.append((trial, tallies))
    return found


def _row(trial: Trial, tallies: list[Tally]) -> dict[str, Any]:
    distances = [parting.distance for tally in tallies for parting in tally.partings]
    return {
        "dtype": trial.dtype,
        "learner": trial.learner,
        "data": trial.data,
        "orders": "shared" if trial.shared else "own",
        "lanes": sum(tally.lanes for tally in tallies),
        "updates": sum(tally.updates for tally in tallies),
        "close_updates": sum(tally.close for tally in tallies),
        "lanes_that_decide_otherwise": sum(tally.decided for tally in tallies),
        "lanes_with_other_bits": sum(tally.numbers for tally in tallies),
        "largest_distance": max(distances, default=float("nan")),
    }


def _partings(trial: Trial, tallies: list[Tally]) -> list[dict[str, Any]]:
    about = {"dtype": trial.dtype, "learner": trial.learner, "data": trial.data}
    about["orders"] = "shared" if trial.shared else "own"
    return [
        about | parting._replace(lane=first + parting.lane)._asdict()
        for first, tally in zip(trial.firsts, tallies, strict=True)
        for parting in tally.partings
    ]
