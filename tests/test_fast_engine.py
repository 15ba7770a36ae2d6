"""The fast engine makes the reference engine's decisions: the same events at the same places, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm

LENGTH = 48


def _learners():
    chosen = {name: factory() for name, factory in omm.ALGORITHMS.items() if name != "n-OMM"}
    for name in ("ROMMA", "a-ROMMA", "Perceptron", "ALMA"):
        chosen[f"{name} with bias"] = omm.with_bias(omm.ALGORITHMS[name](), -2.5 if "ROMMA" in name else 1.0)
    return chosen


LEARNERS = _learners()


def _data(kind: str, dtype):
    """Small sets on which streams repeat rows, so that ties between scores and levels are everywhere."""
    rng = np.random.default_rng(5)
    if kind == "gaussian":
        x = rng.standard_normal((40, 19))
    elif kind == "integers":  # exact ties
        x = rng.integers(-2, 3, (40, 19)).astype(float)
    else:  # "near-ties": a few points, copies of them moved by a rounding error or two
        x = np.repeat(rng.standard_normal((8, 19)), 5, axis=0)
        x *= 1 + rng.integers(-2, 3, x.shape) * np.finfo(dtype).eps
    y = np.where(x @ rng.standard_normal(x.shape[1]) + 0.3 > 0, 1, -1)
    y[:2] = 1, -1
    return jnp.asarray(x, dtype), jnp.asarray(y, dtype)


def _assert_same(one, other):
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
        assert np.array_equal(a, b, equal_nan=np.issubdtype(a.dtype, np.inexact)), jax.tree_util.keystr(path)


@pytest.mark.parametrize("name", LEARNERS)
def test_same_events_as_the_reference_in_every_lane(name, x64):
    orders = np.random.default_rng(1).integers(0, 40, (3500, LENGTH))
    recording = omm.Recording(ticks=jnp.array([5, 20, LENGTH]), events=LENGTH)
    for kind in ("gaussian", "integers", "near-ties"):
        x, y = _data(kind, np.float64)
        reference = omm.run(LEARNERS[name], x, y, orders, engine="scan", recording=recording)
        fast = omm.run(LEARNERS[name], x, y, orders, engine="fast", recording=recording)
        assert reference.updates.sum() > 5000
        _assert_same(reference, fast)
