"""Figures with their intervals: quantiles, means and paired differences of counts, by the bootstrap."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_RESAMPLES = 2000
_COVERAGE = 0.95


class Estimate(NamedTuple):
    """A figure and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def quantiles(values: np.ndarray, levels=LEVELS, seed: int = 0) -> list[Estimate]:
    """Quantiles of a sample of counts: the smallest count that at least a share q of the sample does not exceed.

    Args:
        values: the sample `[n]`.
        levels: the shares q.
        seed: of the resampling.

    Returns:
        An Estimate for each level.

    Example:
        >>> quantiles(np.array([3, 1, 2, 2]), levels=(0.5,))[0].value
        2.0
    """
    support, counts = np.unique(values, return_counts=True)
    # Resampling counts of the distinct values is resampling the values.
    samples = np.random.default_rng(seed).multinomial(counts.sum(), counts / counts.sum(), size=_RESAMPLES)
    tables = np.vstack([counts, samples]).cumsum(axis=1)
    needed = [max(1, int(np.ceil(level * counts.sum() - 1e-9))) for level in levels]
    found = [support[(tables < need).sum(axis=1)] for need in needed]
    return [_interval(each[0], each[1:]) for each in found]


def mean(values: np.ndarray, seed: int = 0) -> Estimate:
    """The mean of a sample of counts.

    Example:
        >>> mean(np.array([1, 2, 6])).value
        3.0
    """
    support, counts = np.unique(values, return_counts=True)
    samples = np.random.default_rng(seed).multinomial(counts.sum(), counts / counts.sum(), size=_RESAMPLES)
    return _interval(values.mean(), samples @ support / counts.sum())


def _interval(value: float, resampled: np.ndarray) -> Estimate:
    low, high = np.quantile(resampled, [(1 - _COVERAGE) / 2, (1 + _COVERAGE) / 2])
    return Estimate(float(value), float(low), float(high))


class Paired(NamedTuple):
    """One learner against another on the same orders.

    Attributes:
        mean: the mean difference of their counts.
        fewer: the share of orders on which the first has the smaller count.
        equal: the share of ties.
        pairs: how many orders both ran.
    """

    mean: Estimate
    fewer: float
    equal: float
    pairs: int


def paired(first: "pd.DataFrame", second: "pd.DataFrame", column: str = "mistakes", seed: int = 0) -> Paired:
    """The difference first - second of a count, replicate by replicate."""
    both = first.merge(second, on="replicate", suffixes=("_first", "_second"), validate="one_to_one")
    if both.empty:
        raise ValueError("the two have no replicate in common, there is nothing to pair")
    difference = (both[f"{column}_first"] - both[f"{column}_second"]).to_numpy()
    return Paired(mean(difference, seed), float((difference < 0).mean()), float((difference == 0).mean()), len(both))
