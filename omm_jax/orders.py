"""Random orders without sorting: a keyed bijection of 0..n-1, any entry of which costs the same few integer operations.

Entry t of replicate r is a function of (seed, r, pass, t) and of nothing else, so an order needs no memory, is the
same on every device and batch size, and a study can begin in its middle.

The positions are laid out on a grid of about sqrt(n) x sqrt(n) cells (the last row may be short). A round turns every
column of the grid by an amount hashed from (key, round, column), or mirrors and turns it; the next does the same to
every row. Each is a bijection of the cells that exist, so no cell is ever walked twice. Turning alone could not reach
odd permutations on grids of odd sides; mirroring can. Rows and columns fit in 16 bits, the width at which processors
multiply fastest.
"""

import functools
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
# Twice a side of the grid must fit in 16 bits.
_MOST = 2**30 - 2**16


def order(seed: ArrayLike, replicate: ArrayLike, n: int, passes: int = 1) -> jax.Array:
    """The order in which replicate r sees n examples: a fresh random permutation for every pass.

    Args:
        seed: the study's seed, an integer of at most 32 bits.
        replicate: which replicate, an integer of at most 32 bits.
        n: number of examples, at most 2^30 - 65536.
        passes: how many permutations to chain.

    Returns:
        Indices `[passes * n]`, int32.

    Example:
        >>> sorted(order(seed=0, replicate=7, n=5).tolist())
        [0, 1, 2, 3, 4]
    """
    if not 1 <= n <= _MOST:
        raise ValueError(f"order expects 1 <= n <= 2^30 - 65536 examples, got {n}")
    if passes < 1:
        raise ValueError(f"order expects at least one pass, got {passes}")
    index = jnp.arange(n, dtype=jnp.uint32)

    def permutation(pass_number: jax.Array) -> jax.Array:
        return permute(round_keys(seed, replicate, n, pass_number), n, index)

    return jax.vmap(permutation)(jnp.arange(passes, dtype=jnp.uint32)).reshape(passes * n)


def orders(seed: ArrayLike, replicates: ArrayLike, n: int, passes: int = 1) -> jax.Array:
    """The orders of several replicates, for `run`: `order` of each, in as little memory as they need.

    Args:
        seed: the study's seed, an integer of at most 32 bits.
        replicates: which replicates `[lanes]`; a number stands for that many, from 0 on.
        n: number of examples, at most 2^30 - 65536.
        passes: how many permutations to chain.

    Returns:
        Indices `[lanes, passes * n]`, uint16 if they fit, else int32.

    Example:
        >>> orders(seed=0, replicates=3, n=5).shape
        (3, 5)
    """
    if is_concrete(replicates) and np.ndim(replicates) == 0:
        replicates = np.arange(replicates)  # type: ignore[arg-type]
    if np.ndim(replicates) != 1 or np.size(replicates) == 0:
        raise ValueError(
            f"orders expects a number of replicates, at least 1, or a vector of them, got shape {np.shape(replicates)}"
        )
    return _orders(_word("seed", seed), _word("replicates", replicates), n=n, passes=passes)


@functools.partial(jax.jit, static_argnames=("n", "passes"))
def _orders(seed: jax.Array, replicates: jax.Array, n: int, passes: int) -> jax.Array:
    dtype = jnp.uint16 if n <= 2**16 else jnp.int32
    lanes = replicates.shape[0]
    # So many at a time as come out even: what is left over would be a second table.
    each = max(k for k in range(1, 65) if lanes % k == 0)
    some = jax.vmap(lambda replicate: order(seed, replicate, n, passes).astype(dtype))
    return jax.lax.map(some, replicates.reshape(-1, each)).reshape(lanes, passes * n)


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
    row, column = jnp.divmod(index.astype(jnp.uint32), jnp.uint32(columns))

    def turn_both(k: jax.Array, cell: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        row, column = cell
        # Column c has one cell more when it reaches into the short last row; the last row has `rest` cells.
        row = _turn(keys[2 * k], column, row, jnp.uint16(full_rows) + (column < rest).astype(jnp.uint16))
        length = jnp.where(row < full_rows, jnp.uint16(columns), jnp.uint16(rest))
        return row, _turn(keys[2 * k + 1], row, column, length)

    # A loop and not one long expression: compilers would compute its shared parts again and again.
    start = (row.astype(jnp.uint16), column.astype(jnp.uint16))
    row, column = jax.lax.fori_loop(0, keys.shape[0] // 2, turn_both, start)
    return (row.astype(jnp.uint32) * jnp.uint32(columns) + column.astype(jnp.uint32)).astype(jnp.int32)


def _turn(key: jax.Array, line: jax.Array, place: jax.Array, length: jax.Array) -> jax.Array:
    """Turn a place in 0..length-1 of a line by a hashed amount, after mirroring it if a hashed bit says so."""
    word = jnp.uint16
    hashed = ((line * word(0x9E37)) ^ (key >> 16).astype(word)) * word(0x85EB)
    hashed = ((hashed >> word(8)) ^ hashed ^ key.astype(word)) * word(0xCA6B)
    # Of hash/2^16 times the length, the whole part is the amount and the first bit after it says whether to mirror.
    product = hashed.astype(jnp.uint32) * length.astype(jnp.uint32)
    amount = (product >> 16).astype(word)
    mirror = word(0) - (product.astype(word) >> word(15))
    # place ^ mirror is place, or -1 - place modulo 2^16.
    turned = (place ^ mirror) + amount + (length & mirror)
    return jnp.minimum(turned, turned - length)


def _word(name: str, value: ArrayLike) -> jax.Array:
    if is_concrete(value):
        values = np.asarray(value)
        if not np.issubdtype(values.dtype, np.integer) or (values < 0).any() or (values >= 2**32).any():
            raise ValueError(f"{name} must be an integer in [0, 2^32), got {value}")
        value = values.astype(np.uint32)
    return jnp.asarray(value).astype(jnp.uint32)
