"""Studies: Monte Carlo runs described by a spec, run in chunks that survive anything, stored as Parquet."""

from omm_jax.study.load import Standing, load, status
from omm_jax.study.report import report
from omm_jax.study.runner import Summary, run
from omm_jax.study.spec import StudyError, StudySpec

__all__ = ["Standing", "StudyError", "StudySpec", "Summary", "load", "report", "run", "status"]
