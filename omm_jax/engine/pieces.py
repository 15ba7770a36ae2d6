"""Vectors in two pieces: whole vector registers, and the rest.

A row of 97 numbers begins anywhere in a register and lies across cache lines, and loops over it have a tail. As 96 and
1 both are arrays of their own, and rows of the first begin where registers do. A learner is written for vectors:
`in_pieces` takes the program of its function and applies every operation piece by piece. What cannot be done so is done
on the whole vector, and the numbers are the same either way.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core

from omm_jax.numerics import WIDTH

_ELEMENTWISE = frozenset(
    """
    abs add and ceil convert_element_type copy div eq exp floor ge gt integer_pow is_finite le log lt max min mul ne neg
    not or pow rsqrt select_n sign sqrt square sub xor
    """.split()
)
# Operations that call a program, and which of their parameters that is.
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}


class Pieces(NamedTuple):
    """Vectors `[..., k]` as two arrays, if k is more than a register has and does not fill some."""

    whole: jax.Array  # [..., k - k % 16]
    rest: jax.Array  # [..., k % 16]


Vectors = jax.Array | Pieces


def in_pieces(function: Callable) -> Callable:
    """The function with vectors `[k]` in pieces: in its results, and in arguments that come so."""

    def on_pieces(*arguments: Any) -> Any:
        parts, structure = jax.tree.flatten(arguments, is_leaf=is_pieces)

        def flat(*leaves: jax.Array) -> Any:
            return function(*jax.tree.unflatten(structure, leaves))

        closed, shape = jax.make_jaxpr(flat, return_shape=True)(*map(_described, parts))
        results = _evaluate(closed.jaxpr, closed.consts, parts)
        return jax.tree.unflatten(jax.tree.structure(shape), map(_cut, results))

    return on_pieces


def join(tree: Any) -> Any:
    """The tree with whole vectors."""
    return jax.tree.map(lambda part: _joined(part) if is_pieces(part) else part, tree, is_leaf=is_pieces)


def is_pieces(part: Any) -> bool:
    """Whether this is a vector in pieces: a leaf for who does not look inside."""
    return isinstance(part, Pieces)


def _joined(pieces: Sequence[jax.Array]) -> jax.Array:
    return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces, axis=-1)


def _where_to_cut(shape: Sequence[int]) -> int:
    """Where a vector of this shape is cut, 0 if it is not."""
    return shape[0] - shape[0] % WIDTH if len(shape) == 1 and shape[0] > WIDTH and shape[0] % WIDTH else 0


def _cut(part: Any) -> Any:
    """In pieces, if it is a vector to be cut."""
    at = 0 if is_pieces(part) else _where_to_cut(jnp.shape(part))
    return Pieces(part[:at], part[at:]) if at else part


def _described(part: Any) -> jax.ShapeDtypeStruct:
    if is_pieces(part):
        return jax.ShapeDtypeStruct((part.whole.size + part.rest.size,), part.whole.dtype)
    return jax.ShapeDtypeStruct(jnp.shape(part), jnp.result_type(part))


def _evaluate(program: core.Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """The results of a program whose values may be in pieces."""
    known: dict[Any, Any] = dict(zip([*program.constvars, *program.invars], [*consts, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else known[atom]

    for equation in program.eqns:
        known.update(zip(equation.outvars, _apply(equation, [read(atom) for atom in equation.invars]), strict=True))
    return [read(atom) for atom in program.outvars]


def _apply(equation: core.JaxprEqn, inputs: list[Any]) -> list[Any]:
    """The results of one operation."""
    name, params = equation.primitive.name, equation.params
    if name in _CALLS:
        called = params[_CALLS[name]]
        return _evaluate(called.jaxpr, called.consts, inputs)
    pieces = _by_pieces(equation, inputs)
    if pieces is not None:
        return [pieces]
    results = equation.primitive.bind(*map(join, inputs), **params)
    return list(results) if equation.primitive.multiple_results else [results]


def _by_pieces(equation: core.JaxprEqn, inputs: list[Any]) -> Vectors | None:
    """The result of an operation that can be done piece by piece, or on one piece."""
    name, params = equation.primitive.name, equation.params
    shape: tuple[int, ...] = getattr(equation.outvars[0].aval, "shape", ())
    at = _where_to_cut(shape)
    if at and name in _ELEMENTWISE:
        # All have the same shape, or are numbers.
        cut = [_cut(part) for part in inputs]
        first, second = ([part[piece] if is_pieces(part) else part for part in cut] for piece in (0, 1))
        return Pieces(equation.primitive.bind(*first, **params), equation.primitive.bind(*second, **params))
    if at and name == "broadcast_in_dim" and _described(inputs[0]).ndim == 0:
        return Pieces(jnp.broadcast_to(inputs[0], at), jnp.broadcast_to(inputs[0], shape[0] - at))
    if at and name == "concatenate":
        parts = [piece for part in inputs for piece in (part if is_pieces(part) else [part])]
        for count in range(1, len(parts)):
            if sum(part.size for part in parts[:count]) == at:
                return Pieces(_joined(parts[:count]), _joined(parts[count:]))
    if name == "slice" and is_pieces(inputs[0]) and params["strides"] is None:
        (start,), (end,), (whole, rest) = params["start_indices"], params["limit_indices"], inputs[0]
        if end <= whole.size:
            return jax.lax.slice_in_dim(whole, start, end)
        if start >= whole.size:
            return jax.lax.slice_in_dim(rest, start - whole.size, end - whole.size)
    return None
