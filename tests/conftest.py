"""Shared fixtures. The library sets no global flag, so tests that need float64 ask for it."""

import jax
import numpy as np
import pytest


@pytest.fixture
def x64():
    """float64 for the duration of one test."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)
