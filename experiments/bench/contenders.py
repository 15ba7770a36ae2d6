"""The same passes by every means: a NumPy loop, numba, a plain scan, the two engines. Each returns seconds a pass."""

import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import omm_jax as omm
from experiments.bench.numba_loops import PARAMETERS, run_numba
from experiments.bench.numpy_loops import run_numpy
from omm_jax.engine.examples import Examples
from omm_jax.engine.fast import drive
from omm_jax.engine.lanes import Lanes
from omm_jax.engine.result import Recording
from omm_jax.metrics import smallest_signed_scores

LEARNERS = ("ce-OMM", "e-OMM", "ROMMA", "a-ROMMA", "PUMMA", "Perceptron", "ALMA")


class Problem(NamedTuple):
    """A data set and how the homogeneous learners get their bias on it."""

    name: str
    x: np.ndarray  # [n, d], float32
    y: np.ndarray  # [n]
    bias: bool

    def learner(self, name: str) -> omm.Algorithm:
        """The learner with the paper's settings for this data set."""
        algorithm = omm.ALGORITHMS[name]()
        coordinate = self.coordinate(name)
        return algorithm if coordinate is None else omm.with_bias(algorithm, coordinate)

    def coordinate(self, name: str) -> float | None:
        """The constant coordinate a homogeneous learner is shown, None for the others."""
        if not self.bias or name in ("ce-OMM", "e-OMM", "PUMMA"):
            return None
        return -float(np.linalg.norm(self.x, axis=1).max()) if "ROMMA" in name else 1.0

    def plain_rows(self, name: str) -> np.ndarray:
        """The rows a hand-written loop works on: normalised for ALMA, then with the constant coordinate."""
        x = self.x / np.linalg.norm(self.x, axis=1, keepdims=True) if name == "ALMA" else self.x
        coordinate = self.coordinate(name)
        if coordinate is not None:
            x = np.concatenate([x, np.full((len(x), 1), coordinate)], axis=1)
        return np.ascontiguousarray(x, np.float32)


class Outcome(NamedTuple):
    """What a contender took and did."""

    seconds: float  # a pass
    updates: float  # a pass
    compile_seconds: float = 0.0
    megabytes: float = 0.0  # that the program needs besides its arguments


def best_of(times: int, function: Any) -> tuple[float, Any]:
    """The shortest time of some calls, and what the last returned."""
    shortest, result = float("inf"), None
    for _ in range(times):
        start = time.perf_counter()
        result = jax.block_until_ready(function())
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, result


def numpy_loop(problem: Problem, name: str) -> Outcome:
    """The loop in Python and NumPy, one whole pass."""
    x = problem.plain_rows(name)
    order = np.random.default_rng(0).permutation(len(x))
    start = time.perf_counter()
    _, updates = run_numpy(name, x, problem.y, order)
    return Outcome(time.perf_counter() - start, float(updates))


def numba_loop(problem: Problem, name: str, runs: int, threads: int | None) -> Outcome:
    """The hand-written kernel, orders shuffled inside."""
    x = problem.plain_rows(name)
    start = time.perf_counter()
    run_numba(name, x, problem.y, np.arange(2), threads=threads)
    first = time.perf_counter() - start
    seconds, counts = best_of(2, lambda: run_numba(name, x, problem.y, np.arange(runs), threads=threads))
    return Outcome(seconds / runs, float(counts[:, 1].mean()), first)


def numba_sweep(problem: Problem, name: str, values: np.ndarray, orders: np.ndarray) -> Outcome:
    """The hand-written kernel over every value and order, orders given."""
    rows = np.tile(np.arange(len(orders)), len(values))
    parameters = np.repeat(values, len(orders))
    arguments = (name, problem.plain_rows(name), problem.y)
    run_numba(*arguments, rows[:2], parameters[:2], orders)
    seconds, counts = best_of(2, lambda: run_numba(*arguments, rows, parameters, orders))
    return Outcome(seconds / len(rows), float(counts[:, 1].mean()))


def plain_scan(problem: Problem, name: str, lanes: int) -> Outcome:
    """What a user of JAX would write: vmap of lax.scan of one step, on one device."""
    algorithm, d = problem.learner(name), problem.x.shape[1]

    def one(x, y, replicate):
        def step(carry, i):
            state, updates = carry
            f = algorithm.features(x[i])
            fires = algorithm.threshold(state, y[i]).fires(y[i] * algorithm.score(state, f))
            changed = algorithm.update(state, f, y[i])
            state = jax.tree.map(lambda new, old: jnp.where(fires, new, old), changed, state)
            return (state, updates + fires), None

        order = omm.order(0, replicate, x.shape[0])
        (_, updates), _ = jax.lax.scan(step, (algorithm.init(d, x.dtype), jnp.int32(0)), order)
        return updates

    return _timed(jax.vmap(one, (None, None, 0)), problem, lanes, 1)


def engine(problem: Problem, name: str, lanes: int, *, kind: str = "fast", tau: bool = False) -> Outcome:
    """`run` over all CPU devices, orders generated inside."""
    algorithm = problem.learner(name)

    def passes(x, y, replicates):
        orders = omm.orders(0, replicates, x.shape[0])
        return omm.run(algorithm, x, y, orders, engine=kind, tau=tau).updates

    return _timed(passes, problem, lanes, min(lanes, len(jax.devices())))


def rounds(problem: Problem, name: str, lanes: int = 64) -> float:
    """How many sequential rounds the fast engine takes for a pass of 64 lanes; a scan takes one an example."""
    algorithm = problem.learner(name)

    @jax.jit
    def count(x, y):
        leaves = [jnp.asarray(leaf, x.dtype)[None] for leaf in jax.tree.leaves(algorithm)]
        batch = Lanes(jax.tree.unflatten(jax.tree.structure(algorithm), leaves), lanes)
        orders, rows = omm.orders(0, lanes, x.shape[0]), jnp.arange(lanes, dtype=jnp.int32)
        return drive(batch, Examples.of(batch, x, y), orders, rows, Recording(), False).rounds

    return float(count(problem.x, problem.y))


def engine_sweep(problem: Problem, factory: Any, values: Any, orders: np.ndarray) -> Outcome:
    """The fast engine over every value (the leading axis of a tree of arrays) and order; orders over the devices."""

    def sweep(x, y, values, orders):
        one = functools.partial(omm.run, engine="fast", tau=False)
        inner = jax.vmap(lambda value, order: one(factory(value), x, y, order), (None, 0))
        return jax.vmap(inner, (0, None), out_axes=1)(values, orders).updates

    mesh = _mesh(len(jax.devices()))
    whole, cut = PartitionSpec(), PartitionSpec("lanes")
    specs = (whole, whole, whole, cut)
    program = jax.jit(jax.shard_map(sweep, mesh=mesh, in_specs=specs, out_specs=cut, check_vma=False))
    values = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), values)
    placed = [
        jax.device_put(tree, NamedSharding(mesh, spec))
        for tree, spec in zip((problem.x, problem.y, values, orders), specs, strict=True)
    ]
    start = time.perf_counter()
    compiled = program.lower(*placed).compile()
    compiling = time.perf_counter() - start
    jax.block_until_ready(compiled(*placed))
    seconds, updates = best_of(2, lambda: compiled(*placed))
    return Outcome(seconds / updates.size, float(np.mean(updates)), compiling, _megabytes(compiled))


def numba_variants(problems: Sequence[Problem], name: str, orders: np.ndarray) -> Outcome:
    """The hand-written kernel over every moved data set and order."""
    values = np.array([PARAMETERS[name]])
    outcomes = [numba_sweep(problem, name, values, orders) for problem in problems]
    return Outcome(*(float(np.mean([outcome[k] for outcome in outcomes])) for k in (0, 1)))


def engine_variants(problems: Sequence[Problem], shifts: np.ndarray, name: str, orders: np.ndarray) -> Outcome:
    """The fast engine over moved data sets, which are the first one moved by `shifts`, and the same orders.

    Learners that are given one more coordinate on some of the data sets take two programs. One whose scores are not
    those of the raw examples (ALMA) is run on one moved data set after the other.
    """
    outcomes, sizes = [], []
    for bias in (False, True):
        chosen = [k for k, problem in enumerate(problems) if (problem.coordinate(name) is not None) == bias]
        if not chosen:
            continue
        base = problems[0]._replace(bias=bias)
        coordinates = np.array([problems[k].coordinate(name) or 0.0 for k in chosen])

        def learner(value, bias=bias):
            algorithm = omm.ALGORITHMS[name]()
            algorithm = omm.with_bias(algorithm, value["coordinate"]) if bias else algorithm
            return omm.translated(algorithm, value["shift"])

        if omm.ALGORITHMS[name]().same_score:
            outcome = engine_sweep(base, learner, {"coordinate": coordinates, "shift": shifts[chosen]}, orders)
        else:
            each = [
                engine_sweep(problems[k], lambda _, k=k: problems[k].learner(name), np.zeros(1), orders) for k in chosen
            ]
            outcome = Outcome(*np.mean(each, axis=0))
        outcomes.append(outcome)
        sizes.append(len(chosen))
    return Outcome(*np.average(outcomes, axis=0, weights=sizes))


def matmul_floor(problem: Problem, lanes: int) -> float:
    """Seconds a pass for scoring every example once by one matrix product for all lanes, on all cores."""

    def floor(x, y, replicates):
        w = jnp.ones((len(replicates), x.shape[1]), x.dtype) + replicates[:, None]
        return smallest_signed_scores(x, y, w, jnp.zeros(len(w), x.dtype))

    return _timed(floor, problem, lanes, len(jax.devices())).seconds


def _mesh(devices: int) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("lanes",))


def _timed(passes: Any, problem: Problem, lanes: int, devices: int) -> Outcome:
    mesh = _mesh(devices)
    whole, cut = PartitionSpec(), PartitionSpec("lanes")
    program = jax.jit(jax.shard_map(passes, mesh=mesh, in_specs=(whole, whole, cut), out_specs=cut, check_vma=False))
    x, y = (jax.device_put(array, NamedSharding(mesh, whole)) for array in (problem.x, problem.y))
    replicates = jax.device_put(np.arange(lanes, dtype=np.int32), NamedSharding(mesh, cut))
    start = time.perf_counter()
    compiled = program.lower(x, y, replicates).compile()
    compiling = time.perf_counter() - start
    jax.block_until_ready(compiled(x, y, replicates))
    seconds, result = best_of(2, lambda: compiled(x, y, replicates))
    return Outcome(seconds / lanes, float(np.mean(result)), compiling, _megabytes(compiled))


def _megabytes(compiled: Any) -> float:
    memory = compiled.memory_analysis()
    return (memory.temp_size_in_bytes + memory.output_size_in_bytes) / 1e6
