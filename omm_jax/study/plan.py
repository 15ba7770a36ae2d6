"""How a study is cut: a fixed list of chunks, each one cell and at most `lanes` replicates of it.

The list depends on the spec alone, never on devices, processes or what is already done.
"""

from typing import NamedTuple

from omm_jax.study.spec import Cell, StudySpec

_LANES_AT_MOST = 128


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

    A lane holds its order (an index an example) and a few vectors of the size of an example.
    """
    if spec.lanes:
        return spec.lanes
    item = 4 if spec.dtype == "float32" else 8
    lane = 4 * n * spec.passes + 64 * d * item
    lanes = 1
    while 2 * lanes <= min(_LANES_AT_MOST, spec.memory * 2**20 // lane) and lanes < spec.replicates:
        lanes *= 2
    return lanes
