"""The host boundary: bad input is refused in words before anything is compiled."""

import numpy as np
from jax.typing import ArrayLike

from omm_jax.numerics import is_concrete


def check_data(x: ArrayLike, y: ArrayLike) -> None:
    """Raise ValueError unless x `[n, d]` and y `[n]` are a two-class data set. What is traced cannot be looked at.

    Refused: a wrong rank, no points, lengths that differ, non-floating features, NaN or infinite features, labels other
    than +1 and -1, one class only.
    """
    if np.ndim(x) != 2:
        raise ValueError(f"x must be a matrix [n, d] of n examples, got shape {np.shape(x)}: one row an example")
    if np.ndim(y) != 1:
        raise ValueError(f"y must be a vector [n] of labels, got shape {np.shape(y)}: pass y.ravel() if it is a column")
    n, d = np.shape(x)
    if n == 0 or d == 0:
        raise ValueError(f"the data set is empty: x has shape {(n, d)}, at least one point a class is needed")
    if np.shape(y)[0] != n:
        raise ValueError(f"x has {n} examples and y has {np.shape(y)[0]} labels: pass one label for each row of x")
    dtype = np.asarray(x).dtype if is_concrete(x) else x.dtype  # type: ignore[union-attr]
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(
            f"x must be float32 or float64, got {dtype}: pass x.astype(np.float32), or np.float64 after "
            'jax.config.update("jax_enable_x64", True)'
        )
    if is_concrete(x):
        finite = np.isfinite(np.asarray(x)).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"x has NaN or infinite features in {int((~finite).sum())} of {n} rows, the first is row "
                f"{int(np.argmin(finite))}: remove or impute them"
            )
    if is_concrete(y):
        _check_labels(np.asarray(y))


def _check_labels(y: np.ndarray) -> None:
    found = np.unique(y)
    if set(found.tolist()) == {0, 1} or y.dtype == bool:
        raise ValueError("labels must be +1 and -1, got 0 and 1: pass 2 * y - 1")
    if not np.isin(found, (-1, 1)).all():
        shown = ", ".join(str(value) for value in found[:5])
        raise ValueError(f"labels must be +1 and -1, got {shown}{', ...' if len(found) > 5 else ''}: map them first")
    if len(found) == 1:
        raise ValueError(f"only the class {int(found[0]):+d} is present: a margin needs points of both classes")


def check_order(order: ArrayLike, n: int) -> None:
    """Raise ValueError unless `order` `[t]` or `[lanes, t]` holds integers in [0, n)."""
    if np.ndim(order) not in (1, 2):
        raise ValueError(f"order must have shape [t] or [lanes, t], got {np.shape(order)}")
    if 0 in np.shape(order):
        raise ValueError(f"order is empty, got shape {np.shape(order)}: it lists the examples to show, one index each")
    dtype = np.asarray(order).dtype if is_concrete(order) else order.dtype  # type: ignore[union-attr]
    if not np.issubdtype(dtype, np.integer):
        raise ValueError(f"order must hold integer indices into the data set, got {dtype}")
    if is_concrete(order):
        values = np.asarray(order)
        low, high = int(values.min()), int(values.max())
        if low < 0 or high >= n:
            raise ValueError(f"order must lie in [0, {n}), got indices from {low} to {high}: n is the number of rows")
