"""Runs settings over replicates in fixed chunks of lanes, on every CPU device, and keeps each chunk in a file.

A chunk is one setting and a fixed number of consecutive replicates. Its file is written whole or not at all and never
changes, so a run that was stopped goes on where it was, and asking for more replicates adds chunks. Replicate r sees
the same order in every setting.
"""

import functools
import io
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import omm_jax as omm
from experiments.paper_tables.spec import Setting, make
from omm_jax.placement import aligned
from omm_jax.study.files import write_whole
from omm_jax.study.progress import Progress

LANES_AT_MOST = 64
COLUMNS = ("mistakes", "updates", "margin", "tau", "status")


class Plan(NamedTuple):
    """What to run and where to keep it.

    Attributes:
        settings: what to run.
        replicates: how many of every setting, a tenth of it for n-OMM.
        seed: of the orders.
        dtype: "float64" or "float32".
        folder: where the chunks go.
    """

    settings: Sequence[Setting]
    replicates: int
    seed: int
    dtype: str
    folder: Path

    def wanted(self, setting: Setting) -> int:
        """How many replicates of a setting: a tenth for n-OMM, because they cost more."""
        return max(2, self.replicates // 10) if setting.learner == "n-OMM" else self.replicates

    def lanes(self, setting: Setting) -> int:
        """Replicates in a chunk of a setting. Not a matter of the machine: last bits may depend on it."""
        lanes = 1
        while lanes < min(LANES_AT_MOST, self.wanted(setting)):
            lanes *= 2
        return lanes

    def firsts(self, setting: Setting) -> range:
        """The first replicates of the chunks of a setting."""
        return range(0, self.wanted(setting), self.lanes(setting))

    def path(self, setting: Setting, first: int) -> Path:
        """The file of a chunk."""
        return self.folder / f"{setting.name}_{first:06d}+{self.lanes(setting)}.npz"


def use_all_cores(dtype: str) -> None:
    """Set JAX up for an experiment: one CPU device a core, and the precision. Before anything else of JAX."""
    if dtype == "float64":
        jax.config.update("jax_enable_x64", True)
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)


def execute(plan: Plan) -> None:
    """Make the chunks of a plan that are not there yet, showing progress.

    Every device takes one program after the other and runs all of its chunks: so each is compiled once.
    """
    plan.folder.mkdir(parents=True, exist_ok=True)
    jobs = _jobs(plan)
    if not jobs:
        return
    devices = jax.local_devices()
    bar = Progress(sum(job.cost(plan) for job in jobs))
    bar.say_once(f"{plan.dtype}, {len(devices)} device(s); results in {plan.folder}")
    lock = threading.Lock()

    def done(chunk: _Chunk) -> None:
        with lock:
            bar.advance(chunk.cost(plan), chunk.setting.name.replace("_", " "))

    queue = iter(jobs)
    with ThreadPoolExecutor(len(devices)) as pool:
        for worker in [pool.submit(_work, plan, device, queue, done) for device in devices]:
            worker.result()
    bar.close()


def load(plan: Plan, setting: Setting) -> dict[str, np.ndarray]:
    """The columns of a setting over its replicates, from the files alone; empty if there are none.

    Returns:
        `COLUMNS` by name, each `[replicates]` (no tau where it was not looked for), and `seconds_per_pass` of every
        chunk.
    """
    chunks = []
    for file in (plan.path(setting, first) for first in plan.firsts(setting)):
        if not file.exists():
            break
        with np.load(file) as arrays:
            chunks.append(dict(arrays))
    if not chunks:
        return {}
    present = [name for name in COLUMNS if name in chunks[0]]
    columns = {name: np.concatenate([chunk[name] for chunk in chunks])[: plan.wanted(setting)] for name in present}
    return columns | {"seconds_per_pass": np.array([float(chunk["seconds_per_pass"]) for chunk in chunks])}


class _Chunk(NamedTuple):
    setting: Setting
    first: int

    def cost(self, plan: Plan) -> int:
        """Passes to run, the unit of progress."""
        return plan.lanes(self.setting) * self.setting.passes


class _Job(NamedTuple):
    """The chunks that one compiled program can run."""

    chunks: list[_Chunk]

    def cost(self, plan: Plan) -> int:
        return sum(chunk.cost(plan) for chunk in self.chunks)


def _jobs(plan: Plan) -> list[_Job]:
    """What is missing, few passes first, then the large jobs, so that the devices end together."""
    missing = [
        _Chunk(setting, first)
        for setting in plan.settings
        for first in plan.firsts(setting)
        if not plan.path(setting, first).exists()
    ]
    jobs: dict[Any, _Job] = {}
    for chunk in sorted(missing, key=lambda chunk: chunk.first):
        setting = chunk.setting
        key = setting.learner, setting.biased, setting.tau, setting.passes
        jobs.setdefault(key, _Job([])).chunks.append(chunk)
    return sorted(jobs.values(), key=lambda job: (job.chunks[0].setting.passes, -job.cost(plan)))


def _work(plan: Plan, device: jax.Device, queue: Iterator[_Job], done: Any) -> None:
    """Run jobs of the queue on a device until there are none."""

    @functools.lru_cache(maxsize=1)
    def data(theta: float, zero_bias: bool) -> tuple[omm.data.Variant, jax.Array, jax.Array]:
        variant, *arrays = _on_host(theta, zero_bias, plan.dtype)
        return variant, *jax.device_put(arrays, device)

    @functools.lru_cache(maxsize=1)
    def orders(first: int, lanes: int, passes: int) -> jax.Array:
        replicates = jax.device_put(np.arange(first, first + lanes, dtype=np.uint32), device)
        return _orders(np.uint32(plan.seed), replicates, n=len(omm.data.adult().y), passes=passes)

    for job in queue:
        program = None
        for setting, first in job.chunks:
            lanes = plan.lanes(setting)
            variant, x, y = data(setting.theta, setting.zero_bias)
            order = jax.block_until_ready(orders(first, lanes, setting.passes))
            algorithm = make(setting, variant)
            if program is None:
                program = _program.lower(algorithm, x, y, order, tau=setting.tau).compile()
            start = time.perf_counter()
            columns = jax.device_get(program(algorithm, x, y, order))
            seconds = (time.perf_counter() - start) / (lanes * setting.passes)
            _write(plan.path(setting, first), columns | {"seconds_per_pass": np.float64(seconds)})
            done(_Chunk(setting, first))


@functools.lru_cache(maxsize=2)
def _on_host(theta: float, zero_bias: bool, dtype: str) -> tuple[omm.data.Variant, np.ndarray, np.ndarray]:
    """A variant, and its arrays where all devices can share them."""
    variant = omm.data.paper_variant(theta, zero_bias)
    return variant, *aligned((variant.x.astype(dtype), variant.y.astype(dtype)))


@functools.partial(jax.jit, static_argnames=("n", "passes"))
def _orders(seed: jax.Array, replicates: jax.Array, n: int, passes: int) -> jax.Array:
    return jax.vmap(lambda replicate: omm.order(seed, replicate, n, passes))(replicates)


@functools.partial(jax.jit, static_argnames="tau")
def _program(algorithm: omm.Algorithm, x: jax.Array, y: jax.Array, orders: jax.Array, tau: bool) -> dict[str, Any]:
    result = omm.run(algorithm, x, y, orders, tau=tau)
    return {name: getattr(result, name) for name in COLUMNS if name != "tau" or tau}


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_whole(path, buffer.getvalue())
