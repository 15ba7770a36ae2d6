"""The few numerical primitives that every learner and engine shares."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

# One vector register of float32 on the widest common CPUs; a power of two.
WIDTH = 16


def dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """Inner product of two vectors `[d]`: 16 partial sums over the chunks of the vectors, then a tree of halves.

    The order of the additions is written out, so that every engine, batch size and precision setting computes the same
    number (decisions hang on ties), and compilers need no licence to reorder for using their vector registers.
    """
    d = a.shape[0]
    whole = d - d % WIDTH
    # A compiler may round a product and the sum it goes into once instead of twice, or not, as it finds them. Where two
    # products would be added, either may be the one; so the first goes into a sum with a zero, where it is the same.
    zero, parts = 0 * a[0], []
    if whole:
        products = [a[i : i + WIDTH] * b[i : i + WIDTH] for i in range(0, whole, WIDTH)]
        parts.append(fold(add_up(zero, products)))
    # The rest in ever smaller powers of two: filling it up with zeros would cost more than it is.
    width = WIDTH // 2
    while whole < d:
        if d - whole >= width:
            parts.append(fold(a[whole : whole + width] * b[whole : whole + width] + zero))
            whole += width
        width //= 2
    return functools.reduce(jnp.add, parts)


def add_up(zero: ArrayLike, terms: Sequence[jax.Array]) -> jax.Array:
    """The sum of some arrays, of many in two or four chains, so that additions need not all wait for each other.

    Every chain begins with `zero`.
    """
    count = 1 if len(terms) < 4 else 2 if len(terms) < 8 else 4
    chains = [functools.reduce(jnp.add, terms[k::count], jnp.asarray(zero)) for k in range(count)]
    while len(chains) > 1:
        chains = [a + b for a, b in zip(chains[::2], chains[1::2], strict=True)]
    return chains[0]


def fold(sums: jax.Array) -> jax.Array:
    """The sum over a last axis whose length is a power of two, as a tree of halves."""
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = sums[..., :half] + sums[..., half:]
    return sums[..., 0]


def safe_divide(a: ArrayLike, b: ArrayLike) -> jax.Array:
    """a / b, and 0 where b is 0 (finite gradients included)."""
    nonzero = jnp.asarray(b) != 0
    return jnp.where(nonzero, a / jnp.where(nonzero, b, 1), 0)


def divide(vector: jax.Array, number: jax.Array) -> jax.Array:
    """A vector divided by a number, 0 if that is 0: multiplied by the inverse, as compilers do of their own accord.

    They do it or not as they find the vector, long or short, alone or in a batch, and the last places differ.
    """
    return vector * safe_divide(1, number)


def is_concrete(value: object) -> bool:
    """Whether `value` is a number that can be looked at now, not a tracer."""
    return not isinstance(value, jax.core.Tracer)
