"""The whole program can be lowered for CUDA from a machine without one: nothing in it belongs to one platform."""

import jax
import jax.numpy as jnp
import pytest
from jax import export

import omm_jax as omm


def _one_pass(algorithm, x, y, replicates):
    orders = jax.vmap(lambda r: omm.order(0, r, x.shape[0], passes=2))(replicates)
    return omm.run(algorithm, x, y, orders, engine="fast", recording=omm.Recording(events=8))


def _sweep(algorithm, x, y, replicates):
    order = omm.order(0, 1, x.shape[0])
    return jax.vmap(lambda rho: omm.run(omm.e_omm(rho), x, y, order, engine="fast"))(jnp.linspace(0, 1, 4))


@pytest.mark.parametrize("name", omm.ALGORITHMS)
def test_every_learner_lowers_for_cuda(name):
    _lower(_one_pass, omm.ALGORITHMS[name]())


def test_sweeps_over_a_shared_order_lower_for_cuda():
    _lower(_sweep, omm.e_omm())


def _lower(function, algorithm):
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((5000, 20), (5000,))]
    replicates = jax.ShapeDtypeStruct((16,), jnp.int32)
    exported = export.export(jax.jit(lambda *a: function(algorithm, *a)), platforms=["cuda"])(*shapes, replicates)
    assert exported.platforms == ("cuda",)
    # CUDA's own library calls have cu* or __gpu targets; anything of LAPACK or the CPU must not be there.
    module = exported.mlir_module()
    assert "lapack" not in module and "_cpu" not in module  # nor the request for one kernel, xla_cpu_small_call
