"""Checks of hyperparameters when they are made, for values that can be looked at (tracers pass)."""

import numpy as np
from jax.typing import ArrayLike

from omm_jax.numerics import is_concrete


def check_range(name: str, value: ArrayLike, low: float, high: float, *, open_low: bool = False) -> None:
    """Raise ValueError unless every entry of `value` lies in [low, high] (or (low, high] if `open_low`)."""
    if not is_concrete(value):
        return
    values = np.asarray(value)
    inside = (values > low if open_low else values >= low) & (values <= high)
    if not inside.all():
        interval = f"{'(' if open_low else '['}{low:g}, {high:g}]"
        raise ValueError(f"{name} must lie in {interval}, got {value}")
