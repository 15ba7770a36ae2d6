"""A loop as one kernel on a CPU.

XLA compiles a program for a CPU to many small kernels and calls them one after the other. In the loops of the fast
engine, whose arrays are small, the calls take as long as the work. XLA can compile a function whole, with its loops and
branches, and does so of its own accord where a loop is tiny; here it is asked to. It does not know every operation
there, so it is asked only for loops made of those it is known to know, in releases the tests have run with. All else,
and every other platform, gets the plain loop. The numbers are the same.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jaxlib
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core

Tree = TypeVar("Tree")

_RELEASES = ("0.10.", "0.12.")
_OPERATIONS = frozenset(
    """
    abs add and argmax argmin broadcast_in_dim ceil clamp concatenate cond convert_element_type copy cumsum div
    dynamic_slice dynamic_update_slice eq exp exp2 expand_dims expm1 floor gather ge gt integer_pow iota is_finite jit
    le le_to log log1p lt lt_to max min mul ne neg not or pad pjit pow reduce_and reduce_max reduce_min reduce_or
    reduce_sum rem reshape rsqrt scan select_n sign slice split sqrt square squeeze stack sub tanh transpose while xor
    """.split()
)


def loop(
    unfinished: Callable[[Tree], jax.Array],
    advance: Callable[[Tree], Tree],
    start: Tree,
    otherwise: Callable[[], Tree] | None = None,
) -> Tree:
    """`jax.lax.while_loop`, on a CPU as one kernel if that is known to work; if not, plainly, or `otherwise()`."""
    leaves, structure = jax.tree.flatten(start)

    def plain(*leaves: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(jax.lax.while_loop(unfinished, advance, jax.tree.unflatten(structure, leaves)))

    program = jax.make_jaxpr(plain)(*leaves)
    arguments = [*program.consts, *leaves]
    if not (available() and _known(program.jaxpr, arguments)):
        return otherwise() if otherwise else jax.tree.unflatten(structure, plain(*leaves))

    @jax.jit
    def whole(*arguments: jax.Array) -> list[jax.Array]:
        consts = len(program.consts)
        results = jax.core.eval_jaxpr(program.jaxpr, arguments[:consts], *arguments[consts:])
        # The compiler stumbles over arguments that are not used, so each of them is.
        return [*results, sum(_first(argument) for argument in arguments)]

    def one_kernel(*arguments: jax.Array) -> list[jax.Array]:
        first, *others = whole(*jax.lax.optimization_barrier(arguments))
        return [set_xla_metadata(first, xla_cpu_small_call="true", inlineable="false"), *others[:-1]]

    def many_kernels(*arguments: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(otherwise()) if otherwise else whole(*arguments)[:-1]

    results = jax.lax.platform_dependent(*arguments, cpu=one_kernel, default=many_kernels)
    return jax.tree.unflatten(structure, results)


def compiler_options() -> dict[str, Any]:
    """What to give `jax.jit` as `compiler_options` for a program of your own that runs learners.

    On a CPU it asks for the widest vectors there are: of its own accord XLA keeps to those of 256 bits. Programs are
    faster by up to a fifth where there are wider ones. The numbers are the same, but for those of n-OMM, whose solver
    leaves the order of its additions to the compiler: they are as good.

    Example:
        >>> from omm_jax import ce_omm, run
        >>> x, y = jnp.array([[3.0], [-1.0]]), jnp.array([1.0, -1.0])
        >>> program = jax.jit(lambda x: run(ce_omm(), x, y).updates, compiler_options=compiler_options())
        >>> int(program(x))
        2
    """
    return {"xla_cpu_prefer_vector_width": 512} if jax.default_backend() == "cpu" else {}


def available() -> bool:
    """Whether loops can be one kernel at all, here and with this release."""
    return jax.default_backend() == "cpu" and jaxlib.__version__.startswith(_RELEASES)


def _first(array: jax.Array) -> jax.Array:
    """The first number of an array, as float32."""
    return jax.lax.slice(array, [0] * array.ndim, [1] * array.ndim).reshape(()).astype(jnp.float32)


def _known(program: core.Jaxpr, arguments: list[jax.Array]) -> bool:
    """Whether a program can be one kernel."""
    return all(jnp.size(argument) for argument in arguments) and _OPERATIONS.issuperset(_operations(program))


def _operations(program: core.Jaxpr) -> Iterator[str]:
    """The names of all operations of a program and of the programs inside it."""
    for equation in program.eqns:
        if not _matrix_by_vector(equation):
            yield equation.primitive.name
        for parameter in equation.params.values():
            yield from _inside(parameter)


def _matrix_by_vector(equation: core.JaxprEqn) -> bool:
    """Whether an operation is the product of a matrix and a vector, the only one there is code for in a kernel."""
    shapes = [getattr(operand.aval, "shape", ()) for operand in equation.invars]
    return equation.primitive.name == "dot_general" and [len(shape) for shape in shapes] == [2, 1]


def _inside(parameter: Any) -> Iterator[str]:
    for part in parameter if isinstance(parameter, tuple | list) else (parameter,):
        if isinstance(part, core.ClosedJaxpr):
            yield from _operations(part.jaxpr)
        elif isinstance(part, core.Jaxpr):
            yield from _operations(part)
