"""Runs the chunks of a study that are not there yet, on every local device, and commits them one by one.

One executable runs `lanes` lanes on each device of a mesh, so a chunk's numbers do not depend on how many devices or
processes there are. The next chunks are already running while the last ones are written.
"""

import dataclasses
import functools
import hashlib
import itertools
import math
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import omm_jax
from omm_jax.algorithm import Algorithm
from omm_jax.study import files
from omm_jax.study.plan import Chunk, fit_lanes
from omm_jax.study.progress import Progress
from omm_jax.study.sources import SOURCES, Problem, equip
from omm_jax.study.spec import Setting, StudyError, StudySpec, label, make
from omm_jax.study.store import Store, Survey, describe
from omm_jax.validation import check_data

_CUT, _WHOLE = PartitionSpec("lanes"), PartitionSpec()


class Summary(NamedTuple):
    """What a runner did: rows it made, seconds it took (compilation included), chunks that were damaged."""

    lanes: int
    seconds: float
    damaged: int
    complete: bool


def run(
    spec: StudySpec,
    folder: str | pathlib.Path,
    *,
    devices: Sequence[jax.Device] | None = None,
    progress: bool = True,
) -> Summary:
    """Run a study, or what is left of it, into a folder.

    It can be stopped at any moment, by any means, and run again. Under `jax.distributed` every process makes its share
    and writes it to the same folder.

    Args:
        spec: the study.
        folder: where its results go; made if need be.
        devices: of this process, all unless given.
        progress: whether to report progress on standard error.

    Returns:
        A Summary.

    Raises:
        StudyError: if the study or the folder is not fit; the message says what to do.
    """
    started = time.monotonic()
    if spec.dtype == "float64" and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise StudyError(
            'this study is in float64: call jax.config.update("jax_enable_x64", True) before anything else of JAX'
        )
    devices = list(devices or jax.local_devices())
    process, processes = jax.process_index(), jax.process_count()
    profiles = [profile(build(spec, variant), variant) for variant in spec.variants]
    lanes = fit_lanes(spec, max(each["n"] for each in profiles), max(each["d"] for each in profiles))
    store = Store.create(folder, describe(spec, lanes, profiles))
    with files.locked(store.folder / f"runner-{process}-of-{processes}.lock"):
        survey = store.survey()
        for path in survey.damaged:
            path.unlink(missing_ok=True)
        missing = [store.chunks[number] for number in survey.missing]
        mine = [chunk for chunk in missing if chunk.number % processes == process]
        bar = Progress(sum(chunk.size for chunk in mine)) if progress else None
        if bar:
            bar.say_once(_headline(store, survey, bar.total, len(devices)))
        launch = _Launcher(store, devices)
        made = 0
        running: tuple[list[Chunk], Any] | None = None
        for batch in _work(store, mine, processes, len(devices)):
            launched = batch, launch(batch)
            if bar and running is None:
                bar.say_once(f"first chunk running after {time.monotonic() - started:.1f} s of data and compilation")
            if running:
                _collect(store, *running, bar)
            running = launched
            made += sum(chunk.size for chunk in batch)
        if running:
            _collect(store, *running, bar)
        if bar and made:
            bar.close()
        store.seal()
    return Summary(made, time.monotonic() - started, len(survey.damaged), "checksums" in store.manifest)


def _work(store: Store, mine: list[Chunk], processes: int, size: int) -> Iterator[list[Chunk]]:
    """What this process is to run: its share; then, from the end, what the others have not come to.

    So processes finish together. At worst the last chunks are made twice, and come out the same. When a process dies
    JAX ends the others sooner or later; what they have made until then stays.
    """
    if processes == 1:
        yield from batches(mine, size)
        return
    taken: set[int] = set()
    for todo in (mine, store.chunks[::-1]):
        while True:
            there = store.numbers() | taken
            batch = next(batches([chunk for chunk in todo if chunk.number not in there], size), None)
            if batch is None:
                break
            taken |= {chunk.number for chunk in batch}
            yield batch


def batches(chunks: Sequence[Chunk], size: int) -> Iterator[list[Chunk]]:
    """At most `size` chunks at a time, those of one batch of one learner on one variant of the data."""
    for _, group in itertools.groupby(chunks, key=lambda chunk: (chunk.cell.variant, chunk.cell.learner)):
        alike = itertools.groupby(group, key=lambda chunk: jax.tree.structure(make(chunk.cell)))
        for _, same in alike:
            while batch := list(itertools.islice(same, size)):
                yield batch


@functools.lru_cache(maxsize=1)
def build(spec: StudySpec, variant: Setting) -> Problem:
    """One variant of a study's data, in the study's precision, checked."""
    source = spec.data[0]
    try:
        problem = SOURCES[source](**dict(variant))
        x, y = np.asarray(problem.x, spec.dtype), np.asarray(problem.y, spec.dtype)
        check_data(x, y)
    except (ValueError, TypeError, OSError) as error:
        raise StudyError(f"data {source} ({label(variant)}): {error}") from error
    return dataclasses.replace(problem, x=x, y=y)


def profile(problem: Problem, variant: Setting) -> dict[str, Any]:
    """What a manifest says of a variant: enough to see that the data is still the same, and to evaluate bounds."""
    digest = hashlib.sha256(problem.x.tobytes())
    digest.update(problem.y.tobytes())
    n, d = problem.x.shape
    known = {"margin": problem.margin, "diameter": problem.diameter, "radius": problem.radius}
    numbers = {name: value if math.isfinite(value) else None for name, value in known.items()}
    return {
        "variant": label(variant),
        "n": n,
        "d": d,
        "biased": problem.biased,
        **numbers,
        "sha256": digest.hexdigest(),
    }


class _Launcher:
    """Starts batches of chunks on a mesh of devices; keeps the data of one variant on them."""

    def __init__(self, store: Store, devices: Sequence[jax.Device]):
        self.spec, self.lanes = store.spec, store.manifest["lanes"]
        self.mesh = Mesh(np.array(devices), ("lanes",))
        self.variant: Setting | None = None

    def __call__(self, batch: list[Chunk]) -> dict[str, jax.Array]:
        """The counters of the batch's lanes, each `[devices * lanes]`, on their way."""
        spec, size = self.spec, self.mesh.size
        if self.variant != batch[0].cell.variant:
            self.variant = batch[0].cell.variant
            self.problem = build(spec, self.variant)
            everywhere = NamedSharding(self.mesh, _WHOLE)
            self.x, self.y = omm_jax.place((self.problem.x, self.problem.y), everywhere)
        # A short batch is filled up with its last chunk, a short chunk with replicates past its end.
        filled = batch + batch[-1:] * (size - len(batch))
        algorithms = [self._algorithm(chunk) for chunk in filled]
        algorithm = jax.tree.map(lambda *leaves: np.asarray(leaves, spec.dtype), *algorithms)
        replicates = np.concatenate([chunk.first + np.arange(self.lanes) for chunk in filled]).astype(np.uint32)
        orders = _orders(np.uint32(spec.seed), replicates, mesh=self.mesh, n=len(self.problem.y), passes=spec.passes)
        program = _program()
        return program(algorithm, self.x, self.y, orders, mesh=self.mesh, engine=spec.engine, record=spec.record)

    def _algorithm(self, chunk: Chunk) -> Algorithm:
        bias = dict(chunk.cell.setting).get("bias", "auto")
        biased = self.problem.biased if bias == "auto" else bool(bias)
        return equip(chunk.cell.learner, make(chunk.cell), biased, self.problem.radius)


@functools.partial(jax.jit, static_argnames=("mesh", "n", "passes"))
def _orders(seed, replicates, *, mesh: Mesh, n: int, passes: int) -> jax.Array:
    """The orders of the replicates, where their lanes will run. A program of its own: one for all learners."""

    def local(seed: jax.Array, replicates: jax.Array) -> jax.Array:
        return jax.vmap(lambda replicate: omm_jax.order(seed, replicate, n, passes))(replicates)

    return jax.shard_map(local, mesh=mesh, in_specs=(_WHOLE, _CUT), out_specs=_CUT, check_vma=False)(seed, replicates)


@functools.cache
def _program() -> Callable[..., dict[str, jax.Array]]:
    """The program of a batch. Made when it is wanted: an import must not look for devices."""
    return jax.jit(_run, static_argnames=("mesh", "engine", "record"), compiler_options=omm_jax.compiler_options())


def _run(algorithm, x, y, orders, *, mesh: Mesh, engine: Any, record: tuple[str, ...]) -> dict[str, jax.Array]:
    """Every device runs its lanes; nothing is exchanged."""

    def local(algorithm: Algorithm, x: jax.Array, y: jax.Array, orders: jax.Array) -> dict[str, jax.Array]:
        # A device runs one chunk at a time, so all its lanes share one setting and the features that follow from it.
        algorithm = jax.tree.map(lambda leaf: leaf[0], algorithm)
        result = omm_jax.run(algorithm, x, y, orders, engine=engine, tau="tau" in record)
        return {name: getattr(result, name) for name in record}

    shards = jax.shard_map(local, mesh=mesh, in_specs=(_CUT, _WHOLE, _WHOLE, _CUT), out_specs=_CUT, check_vma=False)
    return shards(algorithm, x, y, orders)


def _collect(store: Store, batch: list[Chunk], counters: dict[str, jax.Array], bar: Progress | None) -> None:
    lanes = store.manifest["lanes"]
    arrays = jax.device_get(counters)
    for place, chunk in enumerate(batch):
        rows = slice(place * lanes, place * lanes + chunk.size)
        store.write(chunk, {name: array[rows] for name, array in arrays.items()})
        if bar:
            bar.advance(chunk.size, f"{chunk.cell.learner} {label(chunk.cell.setting)}".strip())


def _headline(store: Store, survey: Survey, total: int, devices: int) -> str:
    chunks = f"{len(store.chunks)} chunks of {store.manifest['lanes']} lanes"
    words = [f"study {store.spec.id}: {chunks}, {devices} device(s)"]
    if survey.damaged:
        words.append(f"{len(survey.damaged)} damaged chunk(s) will be made again")
    if survey.intact:
        words.append(f"{len(survey.intact)} chunk(s) are there already")
    words.append(f"{total:,} lanes to run" if total else "nothing left to run")
    return "; ".join(words)
