"""What a lane or a solution has to say about itself, as bits that combine and words that advise.

Inside jit nothing can raise, and of a thousand lanes none should stop the others: each result carries an integer
status, 0 when all is well. `describe(status)` turns it into advice.
"""

import enum

import jax
import jax.numpy as jnp


class Status(enum.IntFlag):
    """Bits of a status; several can be set at once."""

    OK = 0
    DEGENERATE = 1
    CAPACITY = 2
    LOG_OVERFLOW = 4
    NOT_FINITE = 8
    NOT_SEPARABLE = 16
    NOT_CONVERGED = 32


_ADVICE = {
    Status.DEGENERATE: "the learner's certificate has shrunk to nothing, which separable data cannot cause: "
    "look for equal points of opposite label, or for a bias the learner cannot represent (see with_bias)",
    Status.CAPACITY: "the learner ran out of room for support points and its later numbers are not exact: "
    "raise its capacity",
    Status.LOG_OVERFLOW: "more events happened than the log has room for, the later ones are missing from it "
    "(counts are complete): raise Recording.events",
    Status.NOT_FINITE: "the learner's weights, or their squares, are no longer finite: "
    "rescale the data, or use float64",
    Status.NOT_SEPARABLE: "no hyperplane separates the two classes: remove the points that cannot be separated",
    Status.NOT_CONVERGED: "the requested tolerance was not reached, the certificate interval says what was: "
    "use float64, loosen tol, or raise the iteration limit",
}


def describe(status: int) -> str:
    """The meaning of a status in words, with what to do about it.

    Example:
        >>> describe(0)
        'ok'
    """
    bits = Status(int(status))
    return "; ".join(_ADVICE[bit] for bit in Status if bit & bits) or "ok"


def flag(condition: jax.Array, bit: Status) -> jax.Array:
    """`bit` as int32 where the condition holds, 0 elsewhere."""
    return jnp.where(condition, int(bit), 0).astype(jnp.int32)
