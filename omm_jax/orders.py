"""Random orders without sorting: a keyed bijection of 0..n-1, any entry of which costs the same few integer operations.

Entry t of replicate r is a function of (seed, r, pass, t) and of nothing else, so an order needs no memory, is the
same on every device and batch size, and a study can begin in its middle.

The positions are laid out on a grid of about sqrt(n) x sqrt(n) cells (the last row may be short). A round turns every
column of the grid by an amount hashed from (key, round, column), or mirrors and turns it; the next does the same to
every row. Each is a bijection of the cells that exist, so no cell is ever walked twice. Turning alone could not reach
odd permutations on grids of odd sides; mirroring can.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32
from jax.typing import ArrayLike

from omm_jax.numerics import is_concrete

# Chosen by measurement, see tests/test_orders.py: all n! outcomes are equally likely for small n, and pairs, triples,
# displacements, cycles and fixed points are those of uniform permutations for large n.
_ROUNDS = 12
_ROUNDS_SMALL = 48
_SMALL = 4096


def order(seed: ArrayLike, replicate: ArrayLike, n: int, passes: int = 1) -> jax.Array:
    """The order in which replicate r sees n examples: a fresh random permutation for every pass.

    Args:
        seed: the study's seed, an integer of at most 32 bits.
        replicate: which replicate, an integer of at most 32 bits.
        n: number of examples, below 2^31.
        passes: how many permutations to chain.

    Returns:
        Indices `[passes * n]`, int32.

    Example:
        >>> sorted(order(seed=0, replicate=7, n=5).tolist())
        [0, 1, 2, 3, 4]
    """
    if not 1 <= n < 2**31:
        raise ValueError(f"order expects 1 <= n < 2^31 examples, got {n}")
    if passes < 1:
        raise ValueError(f"order expects at least one pass, got {passes}")
    index = jnp.arange(n, dtype=jnp.uint32)

    def permutation(pass_number: jax.Array) -> jax.Array:
        return permute(round_keys(seed, replicate, n, pass_number), n, index)

    return jax.vmap(permutation)(jnp.arange(passes, dtype=jnp.uint32)).reshape(passes * n)


def round_keys(seed: ArrayLike, replicate: ArrayLike, n: int, pass_number: ArrayLike = 0) -> jax.Array:
    """The keys of one permutation, one uint32 a round: the Threefry hash of (pass, round) under (seed, replicate)."""
    rounds = _ROUNDS if n > _SMALL else _ROUNDS_SMALL
    key = jnp.stack([_word("seed", seed), _word("replicate", replicate)])
    counts = [jnp.full(rounds, _word("pass", pass_number)), jnp.arange(rounds, dtype=jnp.uint32)]
    return threefry_2x32(key, jnp.concatenate(counts))[:rounds]


def permute(keys: jax.Array, n: int, index: jax.Array) -> jax.Array:
    """Where the permutation of these keys sends each index in 0..n-1 (any shape), int32."""
    columns = math.isqrt(n - 1) + 1
    full_rows, rest = divmod(n, columns)
    # Column c has one cell more when it reaches into the short last row; the last row has `rest` cells.
    row, column = jnp.divmod(index.astype(jnp.uint32), jnp.uint32(columns))
    for k in range(keys.shape[0]):
        if k % 2 == 0:
            length = jnp.uint32(full_rows) + (column < rest).astype(jnp.uint32)
            row = _turn(_mix(column + keys[k]), row, length, full_rows + 1)
        else:
            length = jnp.where(row < full_rows, jnp.uint32(columns), jnp.uint32(rest))
            column = _turn(_mix(row + keys[k]), column, length, columns)
    return (row * jnp.uint32(columns) + column).astype(jnp.int32)


def _turn(hashed: jax.Array, place: jax.Array, length: jax.Array, longest: int) -> jax.Array:
    """Turn a place in 0..length-1 by a hashed amount, after mirroring it if the lowest hashed bit says so."""
    bits = 32 - longest.bit_length()
    amount = ((hashed >> jnp.uint32(32 - bits)) * length) >> jnp.uint32(bits)
    mirrored = jnp.where((hashed & 1) == 1, length - 1 - place, place)
    turned = mirrored + amount
    return jnp.where(turned >= length, turned - length, turned)


def _word(name: str, value: ArrayLike) -> jax.Array:
    if is_concrete(value):
        values = np.asarray(value)
        if not np.issubdtype(values.dtype, np.integer) or (values < 0).any() or (values >= 2**32).any():
            raise ValueError(f"{name} must be an integer in [0, 2^32), got {value}")
        value = values.astype(np.uint32)
    return jnp.asarray(value).astype(jnp.uint32)


def _mix(word: jax.Array) -> jax.Array:
    """A 32-bit finaliser: every input bit reaches every output bit."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * jnp.uint32(0x846CA68B)
    return word ^ (word >> 16)
