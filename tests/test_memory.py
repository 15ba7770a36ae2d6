"""What compiled runs need besides their arguments: it grows neither with the stream nor with lanes times examples."""

import functools

import jax
import jax.numpy as jnp
import pytest

import omm_jax as omm

LANES, D = 64, 16


def _own_orders(engine, x, y, orders):
    return omm.run(omm.e_omm(), x, y, orders, engine=engine)


def _shared_orders(engine, x, y, orders):
    settings = LANES // orders.shape[0]
    return jax.vmap(lambda rho: omm.run(omm.e_omm(rho), x, y, orders, engine=engine))(jnp.linspace(0, 1, settings))


def _memory(program, n, d, orders, t):
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((n, d), (n,))]
    return jax.jit(program).lower(*shapes, jax.ShapeDtypeStruct((orders, t), jnp.uint16)).compile().memory_analysis()


@pytest.mark.parametrize(
    ("program", "engine", "orders"),
    [(_own_orders, "fast", LANES), (_shared_orders, "fast", LANES // 16)],
)
def test_the_order_is_all_that_grows_with_the_stream_and_the_data_with_n(program, engine, orders):
    program = functools.partial(program, engine)
    base = _memory(program, 2000, D, orders, 2000)
    more = _memory(program, 20_000, D, orders, 200_000)
    assert more.argument_size_in_bytes - base.argument_size_in_bytes == 2 * orders * 198_000 + 4 * (D + 1) * 18_000
    # Room for two more copies of the data and for a counter of 4 bytes an example of the stream, 3.1 MB. Something of
    # the size of lanes times examples would take 4.6 MB in the data set, and 12.7 MB in the stream at a byte each.
    room = 2 * 4 * D * 18_000 + 4 * 198_000
    assert more.temp_size_in_bytes - base.temp_size_in_bytes <= room
    assert base.output_size_in_bytes == more.output_size_in_bytes


def test_10_000_lanes_on_data_of_the_size_of_adult_stay_under_2_gigabytes():
    memory = _memory(functools.partial(_own_orders, "fast"), 35_508, 96, 10_000, 35_508)
    assert memory.argument_size_in_bytes > 710_000_000  # the orders
    assert memory.argument_size_in_bytes + memory.temp_size_in_bytes + memory.output_size_in_bytes < 2_000_000_000
    # And making the orders.
    orders = jax.jit(lambda replicates: omm.orders(0, replicates, 35_508))
    memory = orders.lower(jax.ShapeDtypeStruct((10_000,), jnp.uint32)).compile().memory_analysis()
    assert memory.output_size_in_bytes + memory.temp_size_in_bytes < 1_000_000_000
