"""Orders: bijections, reproducible piece by piece, and statistically those of uniform permutations."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from omm_jax.orders import permute, round_keys


@functools.lru_cache
def _orders(n: int, replicates: int, seed: int = 7) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(lambda r: omm.order(seed, r, n)))(jnp.arange(replicates)))


@functools.lru_cache
def _places(n: int, replicates: int, count: int, stride: int) -> np.ndarray:
    """Where the first `count` of the indices 0, stride, 2 stride, ... go, in many replicates `[replicates, count]`."""
    index = jnp.arange(count, dtype=jnp.uint32) * stride

    def one(r):
        return permute(round_keys(3, r, n), n, index)

    return np.asarray(jax.jit(jax.vmap(one))(jnp.arange(replicates)))


def _deviation(observed: np.ndarray, expected: np.ndarray | float) -> float:
    """Chi-square as a number of standard deviations."""
    degrees = observed.size - 1
    return float((((observed - expected) ** 2 / expected).sum() - degrees) / np.sqrt(2 * degrees))


@pytest.mark.parametrize("n", [*range(1, 14), 36, 37, 97, 4096, 4097, 35508, 65536, 1 << 20])
def test_every_index_comes_once(n):
    assert np.array_equal(np.sort(_orders(n, 3), axis=1), np.broadcast_to(np.arange(n), (3, n)))


def test_an_entry_depends_on_seed_replicate_pass_and_place_only():
    n = 1000
    whole = np.asarray(omm.order(5, 9, n, passes=3))
    alone = np.asarray(permute(round_keys(5, 9, n, 2), n, jnp.arange(300, 340)))
    assert np.array_equal(whole[2 * n + 300 : 2 * n + 340], alone)
    batched = jax.vmap(lambda r: omm.order(5, r, n, passes=3))(jnp.arange(4, 12))
    assert np.array_equal(np.asarray(batched)[5], whole)
    assert not np.array_equal(whole[:n], whole[n : 2 * n])
    assert not np.array_equal(whole, np.asarray(omm.order(6, 9, n, passes=3)))


@pytest.mark.parametrize(("n", "replicates"), [(2, 40_000), (3, 60_000), (4, 100_000), (5, 200_000)])
def test_all_outcomes_of_small_sets_are_equally_likely(n, replicates):
    ranks = _orders(n, replicates) @ n ** np.arange(n)
    expected = np.sort([np.array(p) @ n ** np.arange(n) for p in itertools.permutations(range(n))])
    outcomes, counts = np.unique(ranks, return_counts=True)
    assert np.array_equal(outcomes, expected)
    assert abs(_deviation(counts, replicates / math.factorial(n))) < 4.5


# Cells of one row of the grid (stride 1), of one column (stride sqrt n), and scattered.
@pytest.mark.parametrize("n", [5000, 35508])
@pytest.mark.parametrize("stride", [1, "column", 17])
def test_places_of_pairs_and_triples_are_uniform_and_independent(n, stride):
    replicates, columns = 200_000, math.isqrt(n - 1) + 1
    places = _places(n, replicates, 8, columns if stride == "column" else stride)
    fine = places * 512 // n
    expected = np.diff(np.ceil(np.arange(513) * n / 512)) / n * replicates
    for k in range(8):
        assert abs(_deviation(np.bincount(fine[:, k], minlength=512), expected)) < 4.5
    # By rows and by columns of the grid, where a weak hash would show.
    for cell in (lambda place: place * 20 // n, lambda place: place % columns * 20 // columns):
        share = np.bincount(cell(np.arange(n))) / n
        for i, j in itertools.combinations(range(4), 2):
            joint = np.bincount(cell(places[:, i]) * 20 + cell(places[:, j]), minlength=400)
            assert abs(_deviation(joint, np.outer(share, share).ravel() * replicates)) < 4.5
    coarse = places * 8 // n
    triple = np.bincount(coarse[:, :3] @ np.array([64, 8, 1]), minlength=512)
    assert abs(_deviation(triple, replicates / 512)) < 5


@pytest.mark.parametrize("n", [5000, 35508])
def test_whole_orders_look_like_uniform_permutations(n):
    replicates = 1500
    orders = _orders(n, replicates)
    columns = math.isqrt(n - 1) + 1
    place = np.arange(n)
    # Counts that are Poisson of mean 1 (up to 1/n) for a uniform permutation: fixed points, and steps of a given size.
    counts = [(orders == place).sum(axis=1), (orders[:-1] == orders[1:]).sum(axis=1)]
    for lag, step in ((1, 1), (1, -1), (1, columns), (columns, 1), (columns, columns), (2, 1), (columns + 1, 1)):
        counts.append((orders[:, lag:] - orders[:, :-lag] == step).sum(axis=1) * n / (n - lag) * n / (n - abs(step)))
    for count in counts:
        assert abs(count.mean() - 1) < 4.5 / np.sqrt(len(count))
        assert abs(count.var() - 1) < 4.5 * np.sqrt(3 / len(count))
    # Rank correlation of place and value, of neighbours, and of values a grid row apart: mean 0, variance 1/n.
    ranks = (orders - (n - 1) / 2) / np.sqrt((n**2 - 1) / 12)
    for lag in (None, 1, columns):
        if lag is None:
            correlation = ranks @ ((place - (n - 1) / 2) / np.sqrt((n**2 - 1) / 12)) / np.sqrt(n)
        else:
            correlation = np.einsum("rt,rt->r", ranks[:, lag:], ranks[:, :-lag]) / np.sqrt(n)
        assert abs(correlation.mean()) < 4.5 / np.sqrt(replicates)
        assert abs(correlation.var() - 1) < 4.5 * np.sqrt(2 / replicates)


def test_cycles_and_parity_are_those_of_uniform_permutations():
    n, replicates = 5000, 1500
    cycles = np.array([_cycles(order) for order in _orders(n, replicates)])
    harmonic = (1 / np.arange(1, n + 1)).sum()
    variance = harmonic - (1 / np.arange(1, n + 1) ** 2).sum()
    assert abs(cycles.mean() - harmonic) < 4.5 * np.sqrt(variance / replicates)
    assert abs(cycles.var() / variance - 1) < 4.5 * np.sqrt(2 / replicates)
    odd = ((n - cycles) % 2).sum()
    assert abs(odd - replicates / 2) < 4.5 * np.sqrt(replicates) / 2


def _cycles(order: np.ndarray) -> int:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(order)
    return connected_components(coo_array((np.ones(n), (np.arange(n), order)), shape=(n, n)), directed=False)[0]


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="n <= 2"):
        omm.order(0, 0, 2**30)
    with pytest.raises(ValueError, match="at least one pass"):
        omm.order(0, 0, 5, passes=0)
    with pytest.raises(ValueError, match="seed must be an integer"):
        omm.order(-1, 0, 5)


def test_orders_are_the_order_of_every_replicate():
    table = omm.orders(3, 40, 23, passes=2)
    assert table.dtype == np.uint16 and table.shape == (40, 46)
    np.testing.assert_array_equal(table, jax.vmap(lambda r: omm.order(3, r, 23, 2))(jnp.arange(40)))
    np.testing.assert_array_equal(omm.orders(3, np.array([7, 30]), 23, passes=2), table[np.array([7, 30])])
    assert omm.orders(0, 1, 2**16 + 1).dtype == np.int32
    with pytest.raises(ValueError, match="vector"):
        omm.orders(0, np.zeros((2, 2), int), 5)
    with pytest.raises(ValueError, match="replicates must be an integer"):
        omm.orders(0, [0.5], 5)
