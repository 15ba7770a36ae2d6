"""Streams larger than memory: a learner over batches from a file or any iterable, state in, state out.

Examples are shown one after the other by the reference engine's own code, whatever the batches they come in, so the
counts and the state are those of one run over the concatenation.
"""

import pathlib
from collections.abc import Iterable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from omm_jax.algorithm import Algorithm, State
from omm_jax.engine.examples import Examples
from omm_jax.engine.lanes import Lanes
from omm_jax.engine.result import Recording
from omm_jax.engine.scan import begin, show
from omm_jax.snapshot import Snapshot, load_snapshot, save_snapshot, snapshot

Batch = tuple[ArrayLike, ArrayLike]


def run_stream(
    algorithm: Algorithm,
    batches: Iterable[Batch],
    *,
    start: Snapshot | None = None,
    block: int = 4096,
    checkpoint: str | pathlib.Path | None = None,
    every: int = 64,
) -> Snapshot:
    """Show a learner a stream of batches, holding two blocks of it in memory.

    Args:
        algorithm: the learner.
        batches: pairs (x `[k, d]`, y `[k]`), k as it comes.
        start: where to go on from, with batches that begin after `start.seen` examples.
        block: examples put on the device at a time. It changes the speed and nothing else.
        checkpoint: a file to save the learner to, every `every` blocks and at the end. If it is there already the run
            goes on from it, passing over the examples it had seen, so the same call finishes what a killed one began.
        every: blocks between saves.

    Returns:
        The learner after the last example.

    Raises:
        ValueError: for bad batches, or a checkpoint of another learner.

    Example:
        >>> from omm_jax.algorithms import perceptron
        >>> x, y = np.array([[1.0], [-2.0], [3.0]], np.float32), np.array([1, -1, 1])
        >>> end = run_stream(perceptron(), batches_of(x, y, size=2))
        >>> end.seen, end.mistakes, end.updates
        (3, 0, 1)
    """
    if block < 1 or every < 1:
        raise ValueError(f"block and every must be at least 1, got {block} and {every}")
    if checkpoint is not None and pathlib.Path(checkpoint).exists():
        if start is not None:
            raise ValueError(f"both a start and the checkpoint {checkpoint} are there: pass one of them")
        start = load_snapshot(checkpoint, algorithm)
        batches = _pass_over(batches, start.seen)
    now = start
    for number, (x, y, count) in enumerate(_blocks(batches, block, None if start is None else start.w)):
        if now is None:
            now = snapshot(algorithm, algorithm.init(x.shape[1], x.dtype))
        state, mistakes, updates = _show_block(algorithm, now.state, x, y, count)
        # Python integers: a stream may be longer than 2^31 examples.
        now = now._replace(
            state=state,
            seen=now.seen + count,
            mistakes=now.mistakes + int(mistakes),
            updates=now.updates + int(updates),
        )
        if checkpoint is not None and (number + 1) % every == 0:
            save_snapshot(checkpoint, algorithm, now)
    if now is None:
        raise ValueError("the stream is empty: it must yield at least one batch of examples")
    end = snapshot(algorithm, now.state, now.seen, now.mistakes, now.updates)
    if checkpoint is not None:
        save_snapshot(checkpoint, algorithm, end)
    return end


def batches_of(x: ArrayLike, y: ArrayLike, size: int = 4096, start: int = 0) -> Iterator[Batch]:
    """Batches of `size` rows of two arrays, from row `start` on; memory-mapped ones are read as they are needed.

    Example:
        >>> [len(y) for _, y in batches_of(np.zeros((5, 2)), np.ones(5), size=2)]
        [2, 2, 1]
    """
    n = np.shape(y)[0]
    if np.shape(x)[0] != n:
        raise ValueError(f"x has {np.shape(x)[0]} examples and y has {n} labels: pass one label for each row of x")
    for first in range(start, n, size):
        yield x[first : first + size], y[first : first + size]  # type: ignore[index]


@jax.jit
def _show_block(
    algorithm: Algorithm, state: State, x: jax.Array, y: jax.Array, count: jax.Array
) -> tuple[State, jax.Array, jax.Array]:
    """The state after the first `count` rows of a block, and the mistakes and updates among them."""
    # One lane, in the precision of the data: a hyperparameter must not promote it.
    leaves, structure = jax.tree.flatten(algorithm)
    leaves = [jnp.asarray(leaf).astype(x.dtype)[None] for leaf in leaves]
    lanes = Lanes(jax.tree.unflatten(structure, leaves), 1)
    state = jax.tree.map(lambda leaf: leaf[None], state)
    now = begin(lanes, x, Recording(), tau=False)
    now = now._replace(state=state, rule=lanes.rule(state))
    data, active = Examples.of(lanes, x, y), jnp.ones(1, bool)

    def advance(row, now):
        row = jnp.full(1, row, jnp.int32)
        return show(lanes, data, now, row, row, active)

    now = jax.lax.fori_loop(0, count, advance, now)
    return jax.tree.map(lambda leaf: leaf[0], now.state), now.mistakes[0], now.updates[0]


def _pass_over(batches: Iterable[Batch], skip: int) -> Iterator[Batch]:
    for x, y in batches:
        passed = min(skip, np.shape(y)[0])
        skip -= passed
        yield (x[passed:], y[passed:]) if passed else (x, y)  # type: ignore[index]
    if skip:
        raise ValueError(f"the stream ends {skip} examples before the place the checkpoint had reached")


def _blocks(
    batches: Iterable[Batch], size: int, like: jax.Array | None
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Batches poured into blocks of `size` rows, with the number of rows filled: all, but for the last block.

    `like` is a vector of the length and the dtype that the examples must have, if that is known.
    """
    d, dtype = (None, None) if like is None else (like.size, like.dtype)
    x_block = y_block = np.zeros(0)
    count = 0
    for number, (x, y) in enumerate(batches):
        x, y = np.asarray(x), np.asarray(y)
        _check_batch(number, x, y, d)
        if dtype is None:
            d, dtype = x.shape[1], jnp.zeros(0, x.dtype).dtype
        done = 0
        while done < len(y):
            if count == 0:
                # New ones every time: the device may still be reading the last.
                x_block, y_block = np.zeros((size, x.shape[1]), dtype), np.zeros(size, dtype)
            taken = min(size - count, len(y) - done)
            x_block[count : count + taken] = x[done : done + taken]
            y_block[count : count + taken] = y[done : done + taken]
            count, done = count + taken, done + taken
            if count == size:
                yield x_block, y_block, count
                count = 0
    if count:
        yield x_block, y_block, count


def _check_batch(number: int, x: np.ndarray, y: np.ndarray, d: int | None) -> None:
    where = f"batch {number} of the stream"
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise ValueError(f"{where} must be (x [k, d], y [k]), got shapes {x.shape} and {y.shape}")
    if d is not None and x.shape[1] != d:
        raise ValueError(f"{where} has {x.shape[1]} features, the learner has seen examples of {d}")
    if x.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"{where}: x must be float32 or float64, got {x.dtype}")
    if not np.isfinite(x).all():
        raise ValueError(f"{where} has NaN or infinite features: remove or impute them")
    if not np.isin(y, (-1, 1)).all():
        raise ValueError(f"{where}: labels must be +1 and -1, got {np.unique(y)[:5]}")
