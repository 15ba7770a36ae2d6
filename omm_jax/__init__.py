"""omm_jax: a batched simulator for online large-margin linear classification."""

import jax as _jax
import jaxlib as _jaxlib

from omm_jax.compat import check_jax as _check_jax

_check_jax(_jax.__version__)
_check_jax(_jaxlib.__version__)

from omm_jax import data  # noqa: E402
from omm_jax.algorithm import Algorithm, Scaled, Trigger, learner, translated, with_bias  # noqa: E402
from omm_jax.algorithms import (  # noqa: E402
    ALGORITHMS,
    aggressive_romma,
    alma,
    ce_omm,
    e_omm,
    gradient_learner,
    n_omm,
    online_gradient_descent,
    passive_aggressive,
    passive_aggressive_1,
    passive_aggressive_2,
    perceptron,
    pumma,
    romma,
)
from omm_jax.bounds import (  # noqa: E402
    guarantee_table,
    guarantees,
    largest_gamma_3,
    least_violating_r,
    margin_bound,
    margin_order,
    mistake_bound,
    mistake_order,
    violation_bound,
)
from omm_jax.certificate import Verification, verify  # noqa: E402
from omm_jax.checks import Report, check_run  # noqa: E402
from omm_jax.engine import Recording, Result, compiler_options, run  # noqa: E402
from omm_jax.geometry import Geometry, geometry  # noqa: E402
from omm_jax.kappa import kappa, kappa0, kappa0_bracket  # noqa: E402
from omm_jax.maxmargin import MaxMargin, Support, max_margin  # noqa: E402
from omm_jax.metrics import margin  # noqa: E402
from omm_jax.norms import l2, lp, quadratic  # noqa: E402
from omm_jax.orders import order, orders  # noqa: E402
from omm_jax.placement import place  # noqa: E402
from omm_jax.segment import segment  # noqa: E402
from omm_jax.snapshot import Snapshot, load_snapshot, save_snapshot  # noqa: E402
from omm_jax.status import Status, describe  # noqa: E402
from omm_jax.stream import batches_of, run_stream  # noqa: E402
from omm_jax.violations import Counts, violation_counts  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Counts",
    "Geometry",
    "MaxMargin",
    "Recording",
    "Report",
    "Result",
    "Scaled",
    "Snapshot",
    "Status",
    "Support",
    "Trigger",
    "Verification",
    "aggressive_romma",
    "alma",
    "batches_of",
    "ce_omm",
    "check_run",
    "compiler_options",
    "data",
    "describe",
    "e_omm",
    "geometry",
    "gradient_learner",
    "guarantee_table",
    "guarantees",
    "kappa",
    "kappa0",
    "kappa0_bracket",
    "l2",
    "largest_gamma_3",
    "learner",
    "least_violating_r",
    "load_snapshot",
    "lp",
    "margin",
    "margin_bound",
    "margin_order",
    "max_margin",
    "mistake_bound",
    "mistake_order",
    "n_omm",
    "online_gradient_descent",
    "order",
    "orders",
    "passive_aggressive",
    "passive_aggressive_1",
    "passive_aggressive_2",
    "perceptron",
    "place",
    "pumma",
    "quadratic",
    "romma",
    "run",
    "run_stream",
    "save_snapshot",
    "segment",
    "translated",
    "verify",
    "violation_bound",
    "violation_counts",
    "with_bias",
]
