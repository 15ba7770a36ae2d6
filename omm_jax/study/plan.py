"""How a study is cut: a fixed list of chunks, each one cell and at most `lanes` replicates of it.

The list depends on the spec alone, never on devices, processes or what is already done.
"""

from typing import NamedTuple

import jax
import numpy as np

from omm_jax.study.spec import Cell, StudySpec, make

_LANES_AT_MOST = 128
_COPIES = 8


class Chunk(NamedTuple):
    """The replicates `first` to `first + size - 1` of one cell; `number` is its place in the plan."""

    number: int
    cell: Cell
    first: int
    size: int


def plan(spec: StudySpec, lanes: int) -> tuple[Chunk, ...]:
    """All chunks of a study, in the order of its rows.

    Example:
        >>> spec = StudySpec(learners=["ROMMA", "PUMMA"], data="clusters", replicates=5)
        >>> [(chunk.cell.learner, chunk.first, chunk.size) for chunk in plan(spec, lanes=4)]
        [('ROMMA', 0, 4), ('ROMMA', 4, 1), ('PUMMA', 0, 4), ('PUMMA', 4, 1)]
    """
    starts = range(0, spec.replicates, lanes)
    pieces = [(cell, first, min(lanes, spec.replicates - first)) for cell in spec.cells() for first in starts]
    return tuple(Chunk(number, *piece) for number, piece in enumerate(pieces))


def fit_lanes(spec: StudySpec, n: int, d: int) -> int:
    """The lanes of an executable: the spec's own number, or the largest power of two that its memory allows.

    A lane holds its order (an index an example) and its state, with the copies that an update makes of it.
    """
    if spec.lanes:
        return spec.lanes
    state = max(_state_bytes(cell, d, spec.dtype) for cell in spec.cells())
    lane = 4 * n * spec.passes + _COPIES * (state + d * np.dtype(spec.dtype).itemsize)
    lanes = 1
    while 2 * lanes <= min(_LANES_AT_MOST, spec.memory * 2**20 // lane) and lanes < spec.replicates:
        lanes *= 2
    return lanes


def _state_bytes(cell: Cell, d: int, dtype: str) -> int:
    """The size of a learner's state on examples of d features and a bias."""
    leaves = jax.tree.leaves(jax.eval_shape(lambda: make(cell).init(d + 1, dtype)))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
