"""The same passes by every means: a NumPy loop, numba, a plain scan, the two engines. They race in turn."""

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import omm_jax as omm
from experiments.bench.numba_loops import moved_rows, run_numba
from experiments.bench.numpy_loops import run_numpy
from omm_jax.engine.examples import Examples
from omm_jax.engine.fast import drive
from omm_jax.engine.lanes import Lanes
from omm_jax.engine.result import Recording
from omm_jax.metrics import smallest_signed_scores

# How often each contender has its turn, for how many seconds at least, and after how many in all it has no more turns.
_ROUNDS, _TURN, _ENOUGH = 4, 0.4, 5
# How many lanes an engine is given at a time (measured).
_TOGETHER = {"fast": 16, "scan": 64}
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


class Ready(NamedTuple):
    """A contender that has compiled what it needs."""

    call: Callable[[], Any]  # all its passes; returns the updates of each
    compile_seconds: float = 0.0
    megabytes: float = 0.0


def race(*contenders: Ready) -> list[Outcome]:
    """The best time of each, all of them in turn, so that a slow minute of the machine is slow for all.

    Short calls are made several times in a turn: threads of the one before may still spin, waiting for more work.
    """
    shortest, spent = [float("inf")] * len(contenders), [0.0] * len(contenders)
    updates: list[Any] = [None] * len(contenders)
    for _ in range(_ROUNDS):
        for k, contender in enumerate(contenders):
            if spent[k] > _ENOUGH:
                continue
            begin = now = time.perf_counter()
            while now - begin < _TURN:
                start, updates[k] = now, jax.block_until_ready(contender.call())
                now = time.perf_counter()
                shortest[k] = min(shortest[k], now - start)
            spent[k] += now - begin
    return [
        Outcome(seconds / np.size(done), float(np.mean(done)), contender.compile_seconds, contender.megabytes)
        for contender, seconds, done in zip(contenders, shortest, updates, strict=True)
    ]


def numpy_loop(problem: Problem, name: str) -> Ready:
    """The loop in Python and NumPy, one whole pass."""
    x = problem.plain_rows(name)
    order = np.random.default_rng(0).permutation(len(x))
    return Ready(lambda: run_numpy(name, x, problem.y, order)[1])


def numba_loop(problem: Problem, name: str, runs: int, threads: int | None) -> Ready:
    """The hand-written kernel, orders shuffled inside."""
    x = problem.plain_rows(name)
    start = time.perf_counter()
    run_numba(name, x, problem.y, np.arange(2), threads=threads)
    first = time.perf_counter() - start
    return Ready(lambda: run_numba(name, x, problem.y, np.arange(runs), threads=threads)[:, 1], first)


def numba_sweep(problem: Problem, name: str, values: np.ndarray, orders: np.ndarray) -> Ready:
    """The hand-written kernel over every value and order, orders given."""
    rows = np.tile(np.arange(len(orders)), len(values))
    parameters = np.repeat(values, len(orders))
    x = problem.plain_rows(name)
    run_numba(name, x, problem.y, rows[:2], parameters[:2], orders)
    return Ready(lambda: run_numba(name, x, problem.y, rows, parameters, orders)[:, 1])


def plain_scan(problem: Problem, name: str, lanes: int) -> Ready:
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

    return _ready(jax.vmap(one, (None, None, 0)), problem, lanes, 1, {})


def engine(problem: Problem, name: str, lanes: int, *, kind: str = "fast", tau: bool = False) -> Ready:
    """`run` over all CPU devices, orders generated inside, for a few lanes at a time: there they stay in the caches."""
    algorithm = problem.learner(name)

    def passes(x, y, replicates):
        def some(replicates):
            orders = omm.orders(0, replicates, x.shape[0])
            return omm.run(algorithm, x, y, orders, engine=kind, tau=tau).updates

        each = math.gcd(replicates.size, _TOGETHER[kind])
        return jax.lax.map(some, replicates.reshape(-1, each)).reshape(-1)

    return _ready(passes, problem, lanes, min(lanes, len(jax.devices())), omm.compiler_options())


def rounds(problem: Problem, name: str, lanes: int = 64) -> float:
    """How many sequential rounds the fast engine takes for a pass of 64 lanes; a scan takes one an example."""
    algorithm = problem.learner(name)

    @jax.jit
    def count(x, y):
        leaves = [jnp.asarray(leaf, x.dtype)[None] for leaf in jax.tree.leaves(algorithm)]
        batch = Lanes(jax.tree.unflatten(jax.tree.structure(algorithm), leaves), lanes)
        orders, rows = omm.orders(0, lanes, x.shape[0]), jnp.arange(lanes, dtype=jnp.int32)
        data = Examples.of(batch, x, y).without_table(batch)
        # All of it: XLA aborts on some loops in a kernel of whose results only this one is used.
        return drive(batch, data, orders, rows, Recording(), False)

    return float(count(problem.x, problem.y).rounds)


def engine_sweep(problem: Problem, factory: Any, values: Any, orders: np.ndarray) -> Ready:
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
        omm.place(tree, NamedSharding(mesh, spec))
        for tree, spec in zip((problem.x, problem.y, values, orders), specs, strict=True)
    ]
    return _compiled(program, placed, omm.compiler_options())


def numba_variants(problems: Sequence[Problem], shifts: np.ndarray, name: str, orders: np.ndarray) -> Ready:
    """The hand-written kernel over every moved data set, which it makes first, and order."""
    x, y, moves = problems[0].x, problems[0].y, shifts.astype(np.float32)
    coordinates = [np.float32(problem.coordinate(name) or 0) for problem in problems]

    def passes(rows: np.ndarray) -> np.ndarray:
        updates = []
        for shift, coordinate in zip(moves, coordinates, strict=True):
            moved = moved_rows(x, shift, coordinate, name == "ALMA")
            updates.append(run_numba(name, moved, y, rows, orders=orders)[:, 1])
        return np.concatenate(updates)

    passes(np.arange(1))
    return Ready(lambda: passes(np.arange(len(orders))))


def engine_variants(problems: Sequence[Problem], shifts: np.ndarray, name: str, orders: np.ndarray) -> Ready:
    """The fast engine over moved data sets, which are the first one moved by `shifts`, and the same orders.

    It is one sweep: a learner that is given one more coordinate on some of the data sets has a 0 there on the others.
    """
    coordinates = [problem.coordinate(name) for problem in problems]
    biased = any(coordinate is not None for coordinate in coordinates)

    def learner(value):
        algorithm = omm.ALGORITHMS[name]()
        algorithm = omm.with_bias(algorithm, value["coordinate"]) if biased else algorithm
        return omm.translated(algorithm, value["shift"])

    values = {"coordinate": np.array([coordinate or 0.0 for coordinate in coordinates]), "shift": shifts}
    return engine_sweep(problems[0], learner, values, orders)


def matmul_floor(problem: Problem, lanes: int) -> float:
    """Seconds a pass for scoring every example once by one matrix product for all lanes, on all cores."""

    def floor(x, y, replicates):
        w = jnp.ones((len(replicates), x.shape[1]), x.dtype) + replicates[:, None]
        return smallest_signed_scores(x, y, w, jnp.zeros(len(w), x.dtype))

    (outcome,) = race(_ready(floor, problem, lanes, len(jax.devices()), omm.compiler_options()))
    return outcome.seconds


def _mesh(devices: int) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("lanes",))


def _ready(passes: Any, problem: Problem, lanes: int, devices: int, options: dict[str, Any]) -> Ready:
    mesh = _mesh(devices)
    whole, cut = PartitionSpec(), PartitionSpec("lanes")
    program = jax.jit(jax.shard_map(passes, mesh=mesh, in_specs=(whole, whole, cut), out_specs=cut, check_vma=False))
    x, y = omm.place((problem.x, problem.y), NamedSharding(mesh, whole))
    replicates = jax.device_put(np.arange(lanes, dtype=np.int32), NamedSharding(mesh, cut))
    return _compiled(program, [x, y, replicates], options)


def _compiled(program: Any, arguments: Sequence[jax.Array], options: dict[str, Any]) -> Ready:
    start = time.perf_counter()
    compiled = program.lower(*arguments).compile(options)
    compiling = time.perf_counter() - start
    memory = compiled.memory_analysis()
    megabytes = (memory.temp_size_in_bytes + memory.output_size_in_bytes) / 1e6
    return Ready(lambda: compiled(*arguments), compiling, megabytes)
