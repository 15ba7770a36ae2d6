"""`run`: the one way to run a learner over an order, alone or under jit and vmap."""

import functools
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm
from omm_jax.engine import kernel
from omm_jax.engine.examples import Examples
from omm_jax.engine.fast import run_fast
from omm_jax.engine.lanes import Lanes
from omm_jax.engine.result import Recording, Result
from omm_jax.engine.scan import run_scan
from omm_jax.engine.shared import run_shared, sharing_pays
from omm_jax.engine.turns import run_in_turn
from omm_jax.metrics import smallest_signed_scores
from omm_jax.validation import check_data, check_order

Engine = Literal["auto", "fast", "scan"]
_ENGINES = {"fast": run_fast, "scan": run_scan}
# Shorter streams are over before the fast engine's longer compilation pays.
_LONG = 256
# Numbers in the state of a heavy learner.
_HEAVY = 16_384
# How many lanes the fast engine runs at a time on a CPU, and numbers in all their states (measured; for speed only).
_LANES, _NUMBERS = 4, 2_048


def run(
    algorithm: Algorithm,
    x: ArrayLike,
    y: ArrayLike,
    order: ArrayLike | None = None,
    *,
    engine: Engine = "auto",
    recording: Recording | None = None,
    tau: bool = True,
) -> Result:
    """Show a learner the examples of a data set in the given order, and say how it did.

    It can be jitted, and vmapped over orders and over hyperparameters, in any nesting: mapped axes become lanes of one
    batched program, compiled once for a learner.

    Args:
        algorithm: the learner.
        x: examples `[n, d]`, float32 or float64; the run has that precision.
        y: labels `[n]`, +1 or -1.
        order: indices into the data set `[t]`, any length, repetitions allowed; or `[lanes, t]`, one run a row. The
            default shows every example once, as they stand. Indices of 16 bits (`order.astype("uint16")`) take half
            the memory.
        engine: "scan" is the definition, "fast" makes the same decisions and skips what is inert, "auto" chooses.
        recording: what to record on the way.
        tau: whether to find tau; without it tau is -1 and the run does less.

    Returns:
        A Result; its fields have a leading `[lanes]` if the order has.

    Raises:
        ValueError: for bad data or a bad order, saying what to do. Traced values cannot be checked.

    Example:
        >>> from omm_jax.algorithms import e_omm
        >>> x, y = jnp.array([[3.0], [-1.0], [2.0]]), jnp.array([1.0, -1.0, 1.0])
        >>> result = run(e_omm(), x, y)
        >>> int(result.mistakes), int(result.updates), float(result.margin), int(result.tau)
        (1, 3, 1.5, 2)
    """
    check_data(x, y)
    x = jnp.asarray(x)
    n = x.shape[0]
    if order is None:
        order = jnp.arange(n, dtype=jnp.int32)
    check_order(order, n)
    order = jnp.asarray(order)
    if engine not in ("auto", *_ENGINES):
        raise ValueError(f"engine must be one of {['auto', *_ENGINES]}, got {engine!r}")
    single = order.ndim == 1
    result = _run(algorithm, x, jnp.asarray(y), jnp.atleast_2d(order), recording or Recording(), engine, tau)
    return jax.tree.map(lambda leaf: leaf[0], result) if single else result


@functools.partial(jax.jit, static_argnames=("engine", "tau"))
def _run(
    algorithm: Algorithm, x: jax.Array, y: jax.Array, table: jax.Array, recording: Recording, engine: Engine, tau: bool
) -> Result:
    lanes = table.shape[0]
    # One precision throughout, that of the data: a hyperparameter must not promote it.
    leaves, structure = jax.tree.flatten(algorithm)
    leaves = [jnp.asarray(leaf).astype(x.dtype)[None] for leaf in leaves]
    if engine == "auto":
        engine = "fast" if table.shape[1] >= _LONG else "scan"

    def batched(leaves, settings, x, y, table, rows, ticks) -> Result:
        chosen = Recording(ticks, recording.events)
        every = Lanes(jax.tree.unflatten(structure, leaves), _count(leaves))
        result = _run_lanes(engine, every, settings, Examples.of(every, x, y), table, rows, chosen, tau)
        # One matrix product for all lanes, however they were run.
        smallest = smallest_signed_scores(x, y, result.w, result.b)
        return result._replace(margin=jnp.where(smallest > 0, smallest / every.take(settings).dual(result.w), jnp.nan))

    rows = jnp.arange(lanes, dtype=jnp.int32)
    # Orders of 8 or 16 bits stay so: the table is what takes the memory.
    table = table if table.dtype.itemsize < 4 else table.astype(jnp.int32)
    return _as_lanes(batched)(leaves, jnp.zeros_like(rows), x, y.astype(x.dtype), table, rows, recording.ticks)


def _run_lanes(
    engine: Engine,
    every: Lanes,
    settings: jax.Array,
    data: Examples,
    table: jax.Array,
    rows: jax.Array,
    recording: Recording,
    tau: bool,
) -> Result:
    """Run all lanes over their orders, as many at a time as is best. `every` has a lane a setting."""
    lanes = every.take(settings)
    numbers = _state_size(lanes.algorithm, data.x)
    native, size, each = _ENGINES[engine], _group(engine, numbers), lanes.lanes // table.shape[0]
    in_kernel = engine == "fast" and kernel.available()
    if in_kernel and each > 1 and numbers <= _HEAVY:
        native, size, data = run_in_turn, each, data.with_scaling(every)
    elif in_kernel and each == 1:
        data = data.without_table(every)
    elif engine == "fast" and sharing_pays(lanes, data, table.shape[0]):
        native, size = run_shared, lanes.lanes
    data = data.take(settings)

    def some(index: jax.Array) -> Result:
        return native(lanes.take(index), data.take(index), table, rows[index], recording, tau)

    if each == 1:
        return _in_groups(some, jnp.arange(lanes.lanes), size)
    # Lanes of one order next to each other.
    index = jnp.argsort(rows, stable=True)
    result = _in_groups(some, index, size)
    return jax.tree.map(lambda leaf: jnp.zeros_like(leaf).at[index].set(leaf), result)


def _in_groups(some: Callable[[jax.Array], Result], index: jax.Array, size: int) -> Result:
    """The result of the lanes of `index`, `some` of them, `size` at most, at a time."""
    lanes = index.shape[0]
    groups = -(-lanes // size)
    if groups == 1:
        return some(index)
    each = -(-lanes // groups)
    # Where the groups do not come out even, the last lane is run again.
    index = index[jnp.minimum(jnp.arange(groups * each), lanes - 1)].reshape(groups, each)
    result = jax.lax.map(some, index)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:lanes], result)


def _group(engine: Engine, numbers: int) -> int:
    """How many lanes with so many numbers in their states to run at a time: few on a CPU, so that caches hold them."""
    if jax.default_backend() != "cpu":
        return 2**30
    if engine == "fast" and kernel.available():
        return min(_LANES, max(1, _NUMBERS // max(1, numbers)))
    return 64 if numbers <= _HEAVY else 1


def _state_size(algorithm: Algorithm, x: jax.Array) -> int:
    """How many numbers the state of one lane has."""
    alone = jax.tree.map(lambda leaf: leaf[0], algorithm)
    state = jax.eval_shape(lambda: alone.init(x.shape[1], x.dtype))
    return sum(leaf.size for leaf in jax.tree.leaves(state))


def _count(leaves: list[jax.Array]) -> int:
    """How many settings hyperparameters `[settings, ...]` have; one that all settings share is `[1, ...]`."""
    return max((leaf.shape[0] for leaf in leaves), default=1)


def _add_axis(leaf: jax.Array, mapped: bool, size: int, settings: int) -> jax.Array:
    """A hyperparameter for `size` times as many settings."""
    if not mapped:
        if leaf.shape[0] == 1:
            return leaf
        leaf = leaf[None]
    leaf = jnp.broadcast_to(leaf, (size, settings, *leaf.shape[2:]))
    return leaf.reshape(size * settings, *leaf.shape[2:])


def _as_lanes(batched):
    """Make vmap of a batched run add lanes to it, instead of batching its loops and running both sides of its ifs."""
    mapped = custom_vmap(batched)

    @mapped.def_vmap
    def rule(size, is_mapped, leaves, settings, x, y, table, rows, ticks):
        leaves_mapped, settings_mapped, *data_mapped, table_mapped, rows_mapped, ticks_mapped = is_mapped
        if any(jax.tree.leaves([data_mapped, ticks_mapped])):
            # Another data set for every entry: nothing to share, one after the other.
            arguments = (leaves, settings, x, y, table, rows, ticks)
            moving = [a for a, m in zip(jax.tree.leaves(arguments), jax.tree.leaves(is_mapped), strict=True) if m]

            def one(moving):
                moving = iter(moving)
                return mapped(*jax.tree.map(lambda a, m: next(moving) if m else a, arguments, tuple(is_mapped)))

            result = jax.lax.map(one, moving)
        else:
            lanes = rows.shape[-1]
            rows = rows if rows_mapped else jnp.broadcast_to(rows, (size, lanes))
            settings = settings if settings_mapped else jnp.broadcast_to(settings, (size, lanes))
            if table_mapped:
                orders = table.shape[1]
                rows = rows + orders * jnp.arange(size, dtype=jnp.int32)[:, None]
                table = table.reshape(size * orders, -1)
            if any(leaves_mapped):
                each = _count([leaf[0] if m else leaf for leaf, m in zip(leaves, leaves_mapped, strict=True)])
                settings = settings + each * jnp.arange(size, dtype=jnp.int32)[:, None]
                leaves = [_add_axis(leaf, m, size, each) for leaf, m in zip(leaves, leaves_mapped, strict=True)]
            result = mapped(leaves, settings.reshape(-1), x, y, table, rows.reshape(-1), ticks)
            result = jax.tree.map(lambda leaf: leaf.reshape(size, lanes, *leaf.shape[1:]), result)
        return result, jax.tree.map(lambda _: True, result)

    return mapped
