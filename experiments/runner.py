"""Runs settings over replicates in fixed chunks of lanes, on every CPU device, and keeps each chunk in a file.

A chunk is one setting and a fixed number of consecutive replicates. Its file is written whole or not at all and never
changes, so a run that was stopped goes on where it was, and asking for more replicates adds chunks. Replicate r sees
the same order in every setting.
"""

import functools
import io
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import omm_jax as omm
from experiments.paper_tables.spec import Setting, make
from omm_jax.study.files import write_whole
from omm_jax.study.progress import Progress

LANES_AT_MOST = 32
COLUMNS = ("mistakes", "updates", "margin", "tau", "status")
_CUT, _WHOLE = PartitionSpec("lanes"), PartitionSpec()


class Plan(NamedTuple):
    """What to run and where to keep it.

    Attributes:
        settings: what to run.
        replicates: how many replicates of a one-pass setting; see `wanted`.
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
        """How many replicates of a setting: a tenth for n-OMM, a quarter for several passes, because they cost more."""
        share = 10 if setting.learner == "n-OMM" else 4 if setting.passes > 1 else 1
        return max(2, self.replicates // share)

    def lanes(self, setting: Setting) -> int:
        """Replicates in a chunk of a setting. Not a matter of the machine: last bits may depend on it."""
        lanes = 1
        while lanes < LANES_AT_MOST and 4 * lanes <= self.wanted(setting):
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
    """Make the chunks of a plan that are not there yet, showing progress."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    mesh = Mesh(np.array(jax.local_devices()), ("lanes",))
    todo = sorted(_missing(plan, mesh.size), key=lambda batch: (batch.setting.passes, batch.firsts[0]))
    if not todo:
        return
    bar = Progress(sum(batch.cost(plan) for batch in todo))
    bar.say_once(f"{plan.dtype}, {mesh.size} device(s); results in {plan.folder}")
    programs = _Programs(mesh, plan)
    programs.prepare([batch.setting for batch in todo])
    stage = _Stage(mesh, plan)
    for batch in todo:
        setting, lanes = batch.setting, plan.lanes(batch.setting)
        program, arguments = programs.of(setting), jax.block_until_ready(stage.arguments(batch))
        start = time.perf_counter()
        columns = jax.device_get(program(*arguments))
        seconds = (time.perf_counter() - start) / (mesh.size * lanes * setting.passes)
        for place, first in enumerate(batch.firsts):
            rows = slice(place * lanes, (place + 1) * lanes)
            arrays = {name: column[rows] for name, column in columns.items()}
            _write(plan.path(setting, first), arrays | {"seconds_per_pass": np.float64(seconds)})
        bar.advance(batch.cost(plan), setting.name.replace("_", " "))
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


class _Batch(NamedTuple):
    """Chunks of one setting that run side by side, one a device."""

    setting: Setting
    firsts: list[int]

    def cost(self, plan: Plan) -> int:
        """Passes to run, the unit of progress."""
        return len(self.firsts) * plan.lanes(self.setting) * self.setting.passes


def _missing(plan: Plan, devices: int) -> list[_Batch]:
    batches = []
    for setting in plan.settings:
        firsts = [first for first in plan.firsts(setting) if not plan.path(setting, first).exists()]
        batches += [_Batch(setting, firsts[k : k + devices]) for k in range(0, len(firsts), devices)]
    return batches


class _Stage:
    """Keeps the data of the last variant and the last orders on the devices: the next batch mostly needs the same."""

    def __init__(self, mesh: Mesh, plan: Plan):
        self.plan, self.size = plan, mesh.size
        self.whole, self.cut = NamedSharding(mesh, _WHOLE), NamedSharding(mesh, _CUT)
        self.data = functools.lru_cache(maxsize=1)(self._data)
        self.orders = functools.lru_cache(maxsize=1)(self._orders)

    def arguments(self, batch: _Batch) -> tuple[Any, ...]:
        """The learner, the examples, the labels and the orders of a batch."""
        setting, lanes = batch.setting, self.plan.lanes(batch.setting)
        variant, x, y = self.data(setting.theta, setting.zero_bias)
        # A short batch is filled up with its last chunk.
        firsts = batch.firsts + batch.firsts[-1:] * (self.size - len(batch.firsts))
        replicates = tuple(first + k for first in firsts for k in range(lanes))
        return make(setting, variant), x, y, self.orders(replicates, setting.passes)

    def _data(self, theta: float, zero_bias: bool) -> tuple[omm.data.Variant, jax.Array, jax.Array]:
        variant = omm.data.paper_variant(theta, zero_bias)
        arrays = variant.x.astype(self.plan.dtype), variant.y.astype(self.plan.dtype)
        return variant, *jax.device_put(arrays, self.whole)

    def _orders(self, replicates: tuple[int, ...], passes: int) -> jax.Array:
        numbers = jax.device_put(np.array(replicates, np.uint32), self.cut)
        return jax.device_put(_orders(self.plan.seed, numbers, len(omm.data.adult().y), passes), self.cut)


class _Programs:
    """One executable for each learner, with or without a bias coordinate, and number of passes."""

    def __init__(self, mesh: Mesh, plan: Plan):
        self.mesh, self.plan, self.compiled = mesh, plan, {}

    def key(self, setting: Setting) -> tuple[Any, ...]:
        variant = omm.data.paper_variant(setting.theta, setting.zero_bias)
        return (
            jax.tree.structure(make(setting, variant)),
            setting.engine,
            setting.tau,
            setting.passes,
            self.plan.lanes(setting),
        )

    def prepare(self, settings: Sequence[Setting]) -> None:
        """Compile what the settings need, as many at once as there are devices: it is a good part of a short run."""
        needed = {self.key(setting): setting for setting in settings}
        with ThreadPoolExecutor(self.mesh.size) as pool:
            self.compiled = dict(zip(needed, pool.map(self._compile, needed.values()), strict=True))

    def of(self, setting: Setting) -> Any:
        return self.compiled[self.key(setting)]

    def _compile(self, setting: Setting) -> Any:
        variant = omm.data.paper_variant(setting.theta, setting.zero_bias)
        whole, cut = NamedSharding(self.mesh, _WHOLE), NamedSharding(self.mesh, _CUT)
        (n, d), dtype, lanes = variant.x.shape, self.plan.dtype, self.plan.lanes(setting)
        shapes = (
            make(setting, variant),
            jax.ShapeDtypeStruct((n, d), dtype, sharding=whole),
            jax.ShapeDtypeStruct((n,), dtype, sharding=whole),
            jax.ShapeDtypeStruct((lanes * self.mesh.size, n * setting.passes), np.int32, sharding=cut),
        )

        def local(algorithm, x, y, orders):
            result = omm.run(algorithm, x, y, orders, engine=setting.engine, tau=setting.tau)
            return {name: getattr(result, name) for name in COLUMNS if name != "tau" or setting.tau}

        specs = (_WHOLE, _WHOLE, _WHOLE, _CUT)
        sharded = jax.shard_map(local, mesh=self.mesh, in_specs=specs, out_specs=_CUT, check_vma=False)
        return jax.jit(sharded).lower(*shapes).compile()


@functools.partial(jax.jit, static_argnames=("n", "passes"))
def _orders(seed: int, replicates: jax.Array, n: int, passes: int) -> jax.Array:
    return jax.vmap(lambda replicate: omm.order(jnp.uint32(seed), replicate, n, passes))(replicates)


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_whole(path, buffer.getvalue())
