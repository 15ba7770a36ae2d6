"""A learner somewhere along a stream, and the file it can be saved to."""

import json
import os
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from omm_jax.algorithm import Algorithm, State
from omm_jax.numerics import dot
from omm_jax.status import Status, flag

COUNTS = ("seen", "mistakes", "updates")


class Snapshot(NamedTuple):
    """A learner and its counters, to look at or to go on from.

    Attributes:
        state: the learner's state.
        seen: examples it has been shown.
        mistakes: predictions that were wrong.
        updates: examples that changed the state.
        w: weights of the classifier in force `[d]`, on raw examples.
        b: its bias.
        gamma: the margin the learner claims, nan if it claims none.
        status: bits of `Status`.
    """

    state: State
    seen: int
    mistakes: int
    updates: int
    w: jax.Array
    b: jax.Array
    gamma: jax.Array
    status: jax.Array


def snapshot(algorithm: Algorithm, state: State, seen: int = 0, mistakes: int = 0, updates: int = 0) -> Snapshot:
    """The snapshot of a state."""
    return Snapshot(state, seen, mistakes, updates, *_facts(algorithm, state))


@jax.jit
def _facts(algorithm: Algorithm, state: State) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    w, b = algorithm.classifier(state)
    finite = jnp.isfinite(b) & jnp.isfinite(dot(w, w))
    return w, b, algorithm.gamma(state), algorithm.status(state) | flag(~finite, Status.NOT_FINITE)


def save_snapshot(path: str | pathlib.Path, algorithm: Algorithm, taken: Snapshot) -> None:
    """Save a learner along a stream to one .npz file, which is replaced as a whole or not at all."""
    path = pathlib.Path(path)
    leaves = {f"state{k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(taken.state))}
    counts = {name: np.int64(getattr(taken, name)) for name in COUNTS}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            arrays: dict[str, Any] = {**counts, **leaves}
            np.savez(file, learner=json.dumps(_identity(algorithm)), w=np.asarray(taken.w), **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load_snapshot(path: str | pathlib.Path, algorithm: Algorithm) -> Snapshot:
    """The learner that `save_snapshot` saved.

    Raises:
        ValueError: if the file is damaged, or was saved from another learner, other hyperparameters included.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            saved = dict(arrays)
        learner, w, counts = str(saved["learner"]), saved["w"], [int(saved[name]) for name in COUNTS]
        leaves = [saved[f"state{k}"] for k in range(len(saved) - len(COUNTS) - 2)]
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is not an intact snapshot of a learner: delete it to begin anew") from error
    now = json.dumps(_identity(algorithm))
    if learner != now:
        raise ValueError(f"{path} was saved from another learner: from {learner}, now it is {now}")
    if w.dtype == np.float64 and jnp.zeros(0, float).dtype != np.float64:
        raise ValueError(f'{path} is in float64: call jax.config.update("jax_enable_x64", True) first')
    fresh = jax.eval_shape(lambda: algorithm.init(w.size, w.dtype))
    state = jax.tree.unflatten(jax.tree.structure(fresh), [jnp.asarray(leaf) for leaf in leaves])
    return snapshot(algorithm, state, *counts)


def _identity(value: Any) -> Any:
    """A learner as plain data: what made it, from what numbers."""
    if isinstance(value, Algorithm):
        if value.recipe is None:
            return {"norm": _identity(value.norm)}
        factory = f"{value.recipe.factory.__module__}.{value.recipe.factory.__qualname__}"
        static = {name: _identity(entry) for name, entry in value.recipe.static}
        return {"learner": factory, **static, **{name: _identity(entry) for name, entry in value.params.items()}}
    if isinstance(value, jax.Array | np.ndarray | np.generic | bool | int | float):
        return np.asarray(value).tolist()
    return {type(value).__name__: [_identity(leaf) for leaf in jax.tree.leaves(value)]}
