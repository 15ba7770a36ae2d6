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


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Programs compiled for one module are of no use to the next, and hundreds of them take gigabytes."""
    yield
    jax.clear_caches()


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)
