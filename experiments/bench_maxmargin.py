"""The maximum-margin solver and n-OMM against a conic solver, on Adult, side by side in one run.

    python -m experiments.bench_maxmargin [--orders 32] [--devices 2]

Compilation is timed apart; every figure is the best of a few repetitions, but for the conic solver's, which run once.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

import omm_jax as omm
from experiments.conic import conic_max_margin

REPETITIONS = 3
# The conic solver's own default; tighter takes it longer.
CONIC_TOLERANCE = (1e-8,)


def conic_n_omm(x: np.ndarray, y: np.ndarray, order: np.ndarray) -> tuple[int, float]:
    """n-OMM with a conic solver at each update: updates and final gamma. Scores are computed once an update."""
    x, y = x[order], y[order]
    second = int(np.argmax(y != y[0]))
    kept, updates, position = [0, second], 2, second + 1
    while True:
        gamma, w, b = conic_max_margin(x[kept], y[kept], CONIC_TOLERANCE)
        fires = y[position:] * (x[position:] @ w + b) < gamma * (1 - 1e-9)
        if not fires.any():
            return updates, gamma
        position += int(np.argmax(fires))
        kept.append(position)
        updates, position = updates + 1, position + 1


def best(function: Callable, *arguments) -> tuple[float, float, object]:
    """Seconds of the first call, of the best of the later ones, and the result."""
    times = []
    for _ in range(1 + REPETITIONS):
        start = time.perf_counter()
        result = jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return times[0] - min(times[1:]), min(times[1:]), result


def row(what: str, seconds: float, compile_seconds: float | None, ratio: float | None) -> None:
    """One line of the table."""
    compiled = "-" if compile_seconds is None else f"{compile_seconds:.1f} s"
    print(
        f"{what:<58}{seconds * 1e3:>10.1f} ms{compiled:>10}{'-' if ratio is None else f'{ratio:.1f} x':>10}", flush=True
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--orders", type=int, default=32, help="orders in the batch")
    parser.add_argument("--devices", type=int, default=2, help="CPU devices the batch is spread over")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", options.devices)

    adult = omm.data.adult()
    print(f"Adult, {adult.x.shape[0]} x {adult.x.shape[1]}, float64, best of {REPETITIONS}\n")
    print(f"{'':<58}{'time':>13}{'compile':>10}{'ratio':>10}")

    start = time.perf_counter()
    conic_max_margin(adult.x, adult.y, CONIC_TOLERANCE)
    conic = time.perf_counter() - start
    row("whole problem, conic solver", conic, None, None)
    x, y = jnp.asarray(adult.x), jnp.asarray(adult.y, float)
    compiled, seconds, solution = best(omm.max_margin, x, y)
    row("whole problem, max_margin", seconds, compiled, conic / seconds)
    checked = omm.verify(adult.x, adult.y, solution)
    print(
        f"  gamma {float(solution.gamma):.12g}, verified gap {checked.gap:.1e}, "
        f"{len(solution.support.row)} support points"
    )
    compiled, seconds, _ = best(omm.geometry, x, y)
    row("diameters of the classes, geometry", seconds, compiled, None)

    variant = omm.data.paper_variant(zero_bias=False)
    x, y, n = jnp.asarray(variant.x), jnp.asarray(variant.y, float), len(variant.y)
    orders = omm.orders(0, options.orders, n)
    start = time.perf_counter()
    updates, gamma = conic_n_omm(variant.x, np.asarray(y), np.asarray(orders[0]))
    conic = time.perf_counter() - start
    row("n-OMM, one pass, conic solver at each update", conic, None, None)

    def passes(x: jax.Array, y: jax.Array, orders: jax.Array) -> omm.Result:
        return omm.run(omm.n_omm(), x, y, orders, tau=False)._replace(state=None)

    compiled, alone, result = best(jax.jit(passes), x, y, orders[:1])
    row("n-OMM, one pass", alone, compiled, conic / alone)
    mesh = jax.make_mesh((options.devices,), ("lanes",), axis_types=(AxisType.Auto,))
    whole, cut = PartitionSpec(), PartitionSpec("lanes")
    spread = jax.jit(jax.shard_map(passes, mesh=mesh, in_specs=(whole, whole, cut), out_specs=cut, check_vma=False))
    compiled, seconds, _ = best(spread, x, y, orders)
    per_order = seconds / options.orders
    row(
        f"n-OMM, {options.orders} orders on {options.devices} devices, per order",
        per_order,
        compiled,
        conic / per_order,
    )
    print(
        f"  order 0: {int(result.updates[0])} updates, gamma {float(result.gamma[0]):.9f} "
        f"(conic solver: {updates}, {gamma:.9f}); a batch costs {per_order / alone:.2f} of one alone per order"
    )


if __name__ == "__main__":
    main()
