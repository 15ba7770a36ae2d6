"""What running lanes as a study costs: against the bare engine, in memory, and until the first chunk runs.

    python -m experiments.study_bench [--replicates 1024] [--devices 2]

Bare means the same lanes of the same learners on the same devices, orders included, with nothing checked, stored or
reported. Both are timed after compilation, in turns, and the medians compared: the time on the clock, and the CPU time,
which other work on the machine disturbs less.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

import omm_jax as omm
from omm_jax import study
from omm_jax.data import paper_variant

LEARNERS = ("ce-OMM", "e-OMM")
LANES = 128


def bare(replicates: int):
    """A function that runs all lanes of the study without the study."""
    devices = jax.local_devices()
    mesh = Mesh(np.array(devices), ("lanes",))
    variant = paper_variant()
    x, y = np.asarray(variant.x, np.float32), np.asarray(variant.y, np.float32)
    whole, cut = PartitionSpec(), PartitionSpec("lanes")
    x, y = omm.place((x, y), jax.sharding.NamedSharding(mesh, whole))

    def shard(function, specs):
        program = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=cut, check_vma=False)
        return jax.jit(program, compiler_options=omm.compiler_options())

    orders = shard(lambda r: jax.vmap(lambda r: omm.order(0, r, x.shape[0]))(r), (cut,))
    run = shard(lambda a, x, y, o: omm.run(a, x, y, o)._replace(state=None), (whole, whole, whole, cut))
    step = LANES * len(devices)

    def all_lanes() -> None:
        results = []
        for name in LEARNERS:
            algorithm = jax.tree.map(np.float32, omm.ALGORITHMS[name]())
            for first in range(0, replicates, step):
                numbers = (first + np.arange(step)).astype(np.uint32)
                results.append(run(algorithm, x, y, orders(numbers)))
                if len(results) > 1:
                    jax.block_until_ready(results[-2])
        jax.block_until_ready(results)

    return all_lanes


def timed(function) -> tuple[float, float]:
    """Seconds a call takes, and those of all cores."""
    started, busy = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - started, time.process_time() - busy


class Memory(threading.Thread):
    """Samples the resident memory of this process while a study runs."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.stop = list[float](), threading.Event()

    def run(self):
        """Sample ten times a second."""
        while not self.stop.wait(0.1):
            pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
            self.samples.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def first_chunk(devices: int, work: pathlib.Path) -> tuple[float, float]:
    """Seconds from the command to its first committed chunk, and those the study itself reports until it runs."""
    (work / "one.toml").write_text(
        f'replicates = {devices}\nlanes = 1\nlearners = ["e-OMM"]\ndata = {{source = "adult"}}\n'
    )
    started = time.perf_counter()
    arguments = ["study", "run", str(work / "one.toml"), "--out", str(work / "one"), "--devices", str(devices)]
    done = subprocess.run([sys.executable, "-m", "omm_jax.cli", *arguments], capture_output=True, text=True, check=True)
    line = next(line for line in done.stderr.splitlines() if line.startswith("first chunk"))
    return time.perf_counter() - started, float(line.split("after ")[1].split(" s")[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1024)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)
    lanes = options.replicates * len(LEARNERS)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        whole, reported = first_chunk(options.devices, work)
        print(f"first chunk: running {reported:.1f} s after the imports, committed {whole:.1f} s after the command")
        spec = study.StudySpec(learners=LEARNERS, data="adult", replicates=options.replicates, lanes=LANES)
        warm = study.StudySpec(learners=LEARNERS, data="adult", replicates=LANES, lanes=LANES)
        without = bare(options.replicates)
        study.run(warm, work / "warm", progress=False)
        without()
        seconds: dict[str, list[tuple[float, float]]] = {"bare": [], "study": []}
        for number in range(options.rounds):
            seconds["bare"].append(timed(without))
            folder = work / str(number)
            memory = Memory()
            memory.start()
            seconds["study"].append(timed(lambda folder=folder: study.run(spec, folder, progress=False)))
            memory.stop.set()
            samples = memory.samples
            tenth = max(1, len(samples) // 10)
            first, last = max(samples[:tenth]), max(samples[-tenth:])
            print(f"round {number}: memory {first:.0f} MiB in the first tenth, {last:.0f} MiB in the last")
    medians = {
        kind: [statistics.median(column) for column in zip(*rows, strict=True)] for kind, rows in seconds.items()
    }
    for kind, (clock, busy) in medians.items():
        rounds = " ".join(f"{value:.2f}" for value, _ in seconds[kind])
        print(f"{kind}: {clock:.2f} s ({rounds}), {busy:.2f} s of CPU, {lanes / clock:,.0f} lanes/s")
    clock, busy = (after / before - 1 for after, before in zip(medians["study"], medians["bare"], strict=True))
    print(f"overhead of the study: {clock:+.1%} on the clock, {busy:+.1%} of CPU, on {lanes:,} lanes")


if __name__ == "__main__":
    main()
