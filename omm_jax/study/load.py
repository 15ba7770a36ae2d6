"""Reads a study back as one tidy table."""

import io
import pathlib
from typing import TYPE_CHECKING, NamedTuple

from omm_jax.study.extras import need
from omm_jax.study.spec import StudyError
from omm_jax.study.store import Store

if TYPE_CHECKING:
    import pandas as pd


class Standing(NamedTuple):
    """How far a study in a folder is."""

    id: str
    chunks: int
    intact: int
    damaged: int
    rows: int
    rows_in_all: int

    @property
    def complete(self) -> bool:
        """Whether every chunk is there."""
        return self.intact == self.chunks


def status(folder: str | pathlib.Path) -> Standing:
    """How far the study in a folder is; every chunk is read and checked."""
    store = Store.open(folder)
    survey = store.survey()
    rows = sum(store.chunks[number].size for number in survey.intact)
    in_all = sum(chunk.size for chunk in store.chunks)
    return Standing(store.spec.id, len(store.chunks), len(survey.intact), len(survey.damaged), rows, in_all)


def load(folder: str | pathlib.Path, *, partial: bool = False) -> "pd.DataFrame":
    """The results of a study, one row per (learner, setting, variant, replicate), in the order of the plan.

    Args:
        folder: the study.
        partial: whether to take what is there of an unfinished study, instead of refusing it.

    Returns:
        Columns learner, setting and variant (in words), one `setting_<name>` for every hyperparameter and one
        `variant_<name>` for every parameter of the data, replicate, and the recorded counters. margin and gamma are nan
        and tau is -1 where there is none.

    Raises:
        StudyError: if chunks are missing or damaged.
    """
    need("pyarrow", "pandas")
    import pyarrow as pa
    import pyarrow.parquet as pq

    store = Store.open(folder)
    survey = store.survey()
    if (survey.missing or survey.damaged) and not partial:
        raise StudyError(
            f"{folder} is not complete: {len(survey.missing)} of {len(store.chunks)} chunks are missing, "
            f"{len(survey.damaged)} damaged; run the study again with the same folder to make them"
        )
    if not survey.intact:
        raise StudyError(f"{folder} holds no finished chunk yet")
    tables = [pq.read_table(io.BytesIO(path.read_bytes())) for _, path in sorted(survey.intact.items())]
    return pa.concat_tables(tables).replace_schema_metadata(None).to_pandas()
