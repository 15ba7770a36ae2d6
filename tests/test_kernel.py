"""Loops as one kernel: the same numbers, asked for where it is known to work and nowhere else."""

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from omm_jax.engine import kernel

REQUEST = "xla_cpu_small_call"
# With other releases there is nothing to test but that all goes on as before.
asked = pytest.mark.skipif(not kernel.available(), reason="this release of jaxlib is not asked for one kernel")


def _power(square, vector):
    """Multiply a matrix with a vector until it is long."""

    def advance(carry):
        count, vector = carry
        return count + 1, square(vector)

    start = (jnp.zeros((), jnp.int32), vector)
    return kernel.loop(lambda carry: jnp.sum(carry[1]) < 1e6, advance, start)


@asked
def test_a_loop_of_known_operations_is_one_kernel_with_the_same_numbers():
    known = jax.jit(lambda vector: _power(lambda v: v * 1.5 + v / 3, vector)).lower(jnp.arange(5.0))
    assert REQUEST in known.as_text()
    compiled = known.compile()
    assert REQUEST in compiled.as_text()
    count, vector, expected = 0, np.arange(5, dtype=np.float32), np.arange(5, dtype=np.float32)
    while expected.sum() < 1e6:
        expected, count = expected * np.float32(1.5) + expected / np.float32(3), count + 1
    steps, result = compiled(vector)
    assert steps == count
    assert np.allclose(result, expected, rtol=1e-5)


def test_other_operations_get_the_plain_loop_or_what_the_caller_says():
    matrix = jnp.eye(5) * 2
    for double in (lambda v: jnp.sort(2 * v), lambda v: (jnp.stack([v, v]) @ matrix)[1]):
        program = jax.jit(lambda vector, double=double: _power(double, vector)).lower(jnp.arange(5.0))
        assert REQUEST not in program.as_text()
        assert program.compile()(jnp.arange(5.0))[0] == 17  # 10 * 2^17 is the first above a million
    start = jnp.arange(3.0)
    assert kernel.loop(lambda v: v[0] < 1, jnp.sort, start, lambda: start + 7)[0] == 7


@asked
@pytest.mark.parametrize("columns", [1, 15, 97, 1024])
@pytest.mark.parametrize("rows", [1, 4, 16, 64])
def test_a_matrix_times_a_vector_can_be_in_a_kernel(rows, columns, rng):
    matrix, vector = rng.normal(size=(rows, columns)).astype(np.float32), rng.normal(size=columns).astype(np.float32)

    def products(matrix, vector):
        def advance(carry):
            count, total = carry
            return count + 1, total + matrix @ (vector * count)

        return kernel.loop(lambda carry: carry[0] < 4, advance, (jnp.zeros((), jnp.int32), jnp.zeros(rows)))

    program = jax.jit(products).lower(matrix, vector)
    assert REQUEST in program.as_text()
    assert np.allclose(program.compile()(matrix, vector)[1], 6.0 * matrix.astype(float) @ vector, rtol=1e-3, atol=1e-3)


@asked
@pytest.mark.parametrize("name", ["ce-OMM", "e-OMM", "ROMMA", "a-ROMMA", "PUMMA", "Perceptron", "ALMA"])
def test_every_learner_runs_as_one_kernel_with_all_that_can_be_recorded(name):
    x, y, orders = jnp.ones((300, 5)), jnp.ones(300), jnp.zeros((3, 300), jnp.int32)
    recording = omm.Recording(ticks=jnp.array([1, 2]), events=4)
    run = jax.jit(lambda x, y, o: omm.run(omm.ALGORITHMS[name](), x, y, o, engine="fast", recording=recording))
    assert REQUEST in run.lower(x, y, orders).as_text()


def test_a_learner_with_a_matrix_product_runs_all_the_same(rng):
    x, y = rng.normal(size=(300, 5)), np.where(rng.random(300) < 0.5, 1, -1)
    algorithm = omm.e_omm(norm=omm.quadratic(np.diag([1.0, 2.0, 3.0, 4.0, 5.0])))
    scan, fast = (omm.run(algorithm, x, y, engine=engine) for engine in ("scan", "fast"))
    assert scan.updates == fast.updates
    assert np.array_equal(scan.state.v_pos, fast.state.v_pos)


def test_shapes_and_constants_that_the_compiler_could_stumble_over():
    """In a process of its own: where the compiler stumbles it takes the process with it."""
    script = """
        import jax, jax.numpy as jnp, numpy as np, omm_jax as omm
        rng = np.random.default_rng(0)
        for d in (1, 15, 16, 33):
            x, y = rng.normal(size=(60, d)).astype(np.float32), np.where(np.arange(60) % 3 > 0, 1, -1)
            x += y[:, None]
            orders = rng.integers(0, 60, (2, 700))
            every = [omm.e_omm(0.5), omm.with_bias(omm.alma())][d % 2 :]
            for algorithm in every:
                scan = omm.run(algorithm, x, y, orders, engine="scan")
                for lanes in (slice(None), 0):
                    # Data, order and hyperparameters are constants of the program.
                    fast = jax.jit(lambda: omm.run(algorithm, x, y, orders[lanes], engine="fast"))()
                    assert (fast.updates == scan.updates[lanes]).all(), (d, algorithm)
                    assert (fast.tau == scan.tau[lanes]).all(), (d, algorithm)
                # Lanes that share an order, shorter than a stretch and longer.
                if d not in (1, 33):
                    continue
                order = orders[0, : 3 if d == 1 else 130]
                shifts = np.outer(np.arange(3), np.ones(d)).astype(np.float32)
                moved = lambda shift: omm.translated(algorithm, shift)
                one = lambda shift, engine: omm.run(moved(shift), x, y, order, engine=engine, tau=False).updates
                fast, scan = (jax.vmap(lambda shift: one(shift, engine))(shifts) for engine in ("fast", "scan"))
                assert (fast == scan).all(), (d, algorithm)
        print("all compiled")
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert result.stdout == "all compiled\n", result.stderr[-2000:]
