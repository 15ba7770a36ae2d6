"""Engines that run a learner over a stream: one `run`, one Result."""

from omm_jax.engine.kernel import compiler_options
from omm_jax.engine.result import Curve, EventLog, Recording, Result
from omm_jax.engine.run import run

__all__ = ["Curve", "EventLog", "Recording", "Result", "compiler_options", "run"]
