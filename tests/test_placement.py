"""Data on devices: one copy for all CPU devices, of any dtype and shape."""

import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

import omm_jax as omm


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint16", "int64"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (5, 3)])
def test_placed_arrays_are_those_of_device_put(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    placed = omm.place({"array": array}, jax.devices()[0])["array"]
    expected = jax.device_put(array, jax.devices()[0])
    assert placed.dtype == expected.dtype and placed.shape == expected.shape
    np.testing.assert_array_equal(placed, expected)


def test_placed_arrays_do_not_follow_later_changes():
    array = np.zeros(1000, np.float32)
    placed = omm.place(array)
    array[:] = 1
    assert not np.any(placed)


def test_cpu_devices_share_one_copy():
    script = """
        import jax
        jax.config.update("jax_num_cpu_devices", 2)
        import numpy as np, omm_jax as omm
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("lanes",))
        everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        for dtype in (np.float32, np.float64, np.uint16):
            for size in (1_000, 1_000_000):
                placed = omm.place(np.arange(size).astype(dtype), everywhere)
                assert len({shard.data.unsafe_buffer_pointer() for shard in placed.addressable_shards}) == 1
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
