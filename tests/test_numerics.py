"""The inner product whose order of additions is fixed."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omm_jax.numerics import dot

# Around the lengths at which a chunk, a second and a fourth chain begin.
LENGTHS = (1, 3, 15, 16, 17, 31, 32, 48, 63, 64, 97, 127, 128, 200, 1029)


@pytest.mark.parametrize("d", LENGTHS)
def test_dot_is_the_inner_product(d):
    a, b = np.random.default_rng(d).normal(size=(2, d)).astype(np.float32)
    exact = math.fsum(float(p) * float(q) for p, q in zip(a, b, strict=True))
    size = math.fsum(abs(float(p) * float(q)) for p, q in zip(a, b, strict=True))
    # No sum of it has more terms than chunks, and the tree and the rest have a few: far fewer than d roundings.
    assert abs(float(dot(jnp.asarray(a), jnp.asarray(b))) - exact) <= (d / 64 + 12) * np.finfo(np.float32).eps * size


@pytest.mark.parametrize("d", LENGTHS)
def test_dot_is_the_same_number_alone_and_in_a_batch(d):
    a, b = np.random.default_rng(d).normal(size=(2, 64, d)).astype(np.float32)
    alone = [jax.jit(dot)(*pair) for pair in zip(a, b, strict=True)]
    for size in (2, 7, 64):
        np.testing.assert_array_equal(jax.jit(jax.vmap(dot))(a[:size], b[:size]), alone[:size])
