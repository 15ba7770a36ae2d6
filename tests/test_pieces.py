"""Vectors in two pieces: the same numbers as on whole vectors, and learners that never put them together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from omm_jax.engine.kernel import _operations
from omm_jax.engine.pieces import Pieces, in_pieces, is_pieces, join

HOMOGENEOUS = ("ROMMA", "a-ROMMA", "Perceptron", "ALMA", "PA-I")


def _cut(vector):
    whole = vector.shape[0] - vector.shape[0] % 16
    return Pieces(vector[:whole], vector[whole:])


def _same(one, other):
    for a, b in zip(jax.tree.leaves(join(one)), jax.tree.leaves(join(other)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def _learner(name):
    algorithm = omm.n_omm(capacity=8) if name == "n-OMM" else omm.ALGORITHMS[name]()
    return omm.with_bias(algorithm, 1.5) if name in HOMOGENEOUS else algorithm


@pytest.mark.parametrize("name", omm.ALGORITHMS)
@pytest.mark.parametrize("d", (16, 19, 33))
def test_a_learner_does_the_same_with_vectors_in_pieces(name, d):
    algorithm = _learner(name)
    rng = np.random.default_rng(3)
    init, features, update, linear = map(
        in_pieces, (lambda: algorithm.init(d, jnp.float32), algorithm.features, algorithm.update, algorithm.linear)
    )
    whole, cut = algorithm.init(d, jnp.float32), init()
    for _ in range(4):
        x, y = jnp.asarray(rng.normal(size=d), jnp.float32), jnp.asarray(rng.choice([-1.0, 1.0]), jnp.float32)
        f = algorithm.features(x)
        f_cut = features(_cut(x) if d % 16 else x)
        _same(f, f_cut)
        whole, cut = algorithm.update(whole, f, y), update(cut, f_cut, y)
        _same(whole, cut)
        _same(algorithm.linear(whole), linear(cut))
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(cut, is_leaf=is_pieces), strict=True):
        assert is_pieces(b) == (a.ndim == 1 and a.size > 16 and a.size % 16 > 0)


@pytest.mark.parametrize("name", ("ce-OMM", "e-OMM", "PUMMA", *HOMOGENEOUS))
def test_a_learner_never_puts_pieces_together(name):
    algorithm = _learner(name)
    # Without a bias of their own, vectors of 97 coordinates; else 100.
    d = 96 if name in HOMOGENEOUS else 100
    state = in_pieces(lambda: algorithm.init(d, jnp.float32))()
    x = jnp.ones(d) if d == 96 else _cut(jnp.ones(d))

    def step(state, x, y):
        f = in_pieces(algorithm.features)(x)
        score = in_pieces(algorithm.score)(state, f)
        return in_pieces(algorithm.update)(state, f, y), score

    assert "concatenate" not in set(_operations(jax.make_jaxpr(step)(state, x, jnp.ones(())).jaxpr))


@jax.custom_jvp
def _twice(vector):
    return 2 * vector


_twice.defjvp(lambda primals, tangents: (_twice(*primals), 2 * tangents[0]))


@jax.custom_vjp
def _half(vector):
    return vector / 2


_half.defvjp(lambda vector: (_half(vector), None), lambda _, cotangent: (cotangent / 2,))


@pytest.mark.parametrize(
    "function",
    (
        lambda v: jnp.sort(v)[::-1],
        lambda v: jnp.cumsum(v) + v[15] * v[16],
        lambda v: v[10:20] * v[20:].sum(),
        lambda v: jnp.where(v > 0, v, 0) @ jnp.arange(23.0),
        lambda v: jax.lax.cond(v[0] > 0, jnp.exp, jnp.negative, v),
        lambda v: jax.lax.scan(lambda carry, x: (carry + x, carry * v), 0.0, v),
        lambda v: _twice(v) + _half(v),
        lambda v: jnp.concatenate([v[1:], jnp.stack([v[3]])]),
        lambda v: jnp.concatenate([jnp.zeros(9), v[:7], v[16:]]),
        lambda v: (jnp.outer(v, v), v.astype(bool), jnp.full(17, v[2]), v[2], jnp.arange(18)),
        lambda v: jax.grad(lambda v: jnp.sum(jnp.maximum(v, 0) ** 2))(v),
    ),
)
def test_any_function_has_the_same_results_on_pieces(function):
    vector = jnp.asarray(np.random.default_rng(0).normal(size=23), jnp.float32)
    results = in_pieces(function)(_cut(vector))
    _same(function(vector), results)
    for leaf in jax.tree.leaves(results, is_leaf=is_pieces):
        assert is_pieces(leaf) or leaf.ndim != 1 or leaf.shape[0] <= 16
