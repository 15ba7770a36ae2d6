"""What every learner of the registry must do: shapes, dtypes, purity, one compilation, lanes that do not interfere."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from omm_jax.algorithm import Trigger, learner
from omm_jax.engine.lanes import Lanes

N, D = 40, 5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    w = rng.normal(size=D)
    x = rng.normal(size=(N, D))
    y = np.where(x @ w >= 0, 1.0, -1.0)
    return (x + 0.3 * y[:, None] * w).astype(np.float32), y.astype(np.float32)


@pytest.fixture(params=omm.ALGORITHMS)
def factory(request):
    return omm.ALGORITHMS[request.param]


def same(a, b):
    """Bitwise equality of two pytrees."""
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(np.asarray(p), np.asarray(q), equal_nan=p.dtype.kind == "f") for p, q in leaves)


def test_step_keeps_structure_and_dtype(factory, data):
    x, y = data
    algorithm = factory()
    for dtype in (jnp.float32, jnp.float16):
        state = algorithm.init(D, dtype)
        stepped = algorithm.step(state, (jnp.asarray(x[0], dtype), y[0]))
        assert jax.tree.structure(state) == jax.tree.structure(stepped)
        assert [leaf.dtype for leaf in jax.tree.leaves(state)] == [leaf.dtype for leaf in jax.tree.leaves(stepped)]
        w, b = algorithm.classifier(stepped)
        assert w.shape == (D,) and b.shape == () and w.dtype == dtype


def test_float64(x64, factory, data):
    x, y = (np.asarray(a, np.float64) for a in data)
    result = omm.run(factory(), x, y)
    assert result.w.dtype == result.b.dtype == result.margin.dtype == np.float64
    single = omm.run(factory(), x.astype(np.float32), y)
    assert single.w.dtype == single.margin.dtype == np.float32, "a float32 run stays float32 with x64 on"


def test_step_is_the_run(factory, data):
    """`run` is `step` under scan, and an example that does not fire leaves the state as it is, bit for bit."""
    x, y = data
    algorithm = factory()
    state = algorithm.init(D, jnp.float32)
    step = jax.jit(lambda algorithm, state, example: algorithm.step(state, example))
    updates = 0
    for example in zip(x, y, strict=True):
        new = step(algorithm, state, example)
        score = algorithm.score(state, algorithm.features(jnp.asarray(example[0])))
        if algorithm.threshold(state, example[1]).fires(example[1] * score):
            updates += 1
        else:
            assert same(new, state)
        state = new
    result = omm.run(algorithm, x, y)
    assert int(result.updates) == updates
    for a, b in zip(jax.tree.leaves(result.state), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_one_compilation_for_all_values(factory, data):
    """Calls with other data, orders and hyperparameters of the same shape trace nothing anew."""
    x, y = data
    traces = 0

    @jax.jit
    def mistakes(algorithm, x, y, order):
        nonlocal traces
        traces += 1
        return omm.run(algorithm, x, y, order).mistakes

    algorithm = factory()
    for k in range(3):
        changed = jax.tree.map(lambda leaf, k=k: leaf * (1 - 0.1 * k), algorithm)
        mistakes(changed, x * (1 + k), y, omm.order(0, k, N))
    assert traces == 1


def test_lanes_are_single_runs(factory, data):
    """A batch of orders gives each lane what it gives alone, tau, log and curve included."""
    x, y = data
    recording = omm.Recording(ticks=jnp.array([1, 10, N]), events=N)
    orders = jnp.stack([omm.order(3, r, N) for r in range(4)])
    batch = omm.run(factory(), x, y, orders, recording=recording)
    for r in range(4):
        alone = omm.run(factory(), x, y, orders[r], recording=recording)
        row = jax.tree.map(lambda leaf, r=r: leaf[r], batch)
        for name in ("mistakes", "updates", "tau", "status"):
            assert int(getattr(row, name)) == int(getattr(alone, name)), name
        assert np.array_equal(row.log.position, alone.log.position)
        assert np.array_equal(row.curve.mistakes, alone.curve.mistakes)
        np.testing.assert_allclose(row.w, alone.w, rtol=1e-4, atol=1e-5)


def _dressed(algorithm, shift):
    """A learner by itself, and as the combinators make it."""
    yield algorithm
    yield omm.translated(omm.with_bias(algorithm, -2.5), shift)
    if algorithm.scaled is not None:
        yield omm.translated(omm.with_bias(algorithm, 0.5, before_features=True), shift)


def _after(algorithm, x, y):
    """The state after some examples."""
    start = algorithm.init(x.shape[1], x.dtype)
    return jax.lax.scan(lambda state, example: (algorithm.step(state, example), None), start, (x, y))[0]


def test_promises_about_features_are_kept(x64, factory, data):
    """Engines rely on them: features are scaled examples, moved and extended; scores and distances are as promised."""
    x, y = (jnp.asarray(a, np.float64) for a in data)
    shift = jnp.linspace(-3.0, 4.0, D)
    for algorithm in _dressed(factory(), shift):
        features = jax.vmap(algorithm.features)(x)
        if algorithm.scaled is not None:
            scale = jax.vmap(algorithm.scaled.scale)(x)
            features_of = jax.vmap(algorithm.scaled.map)
            assert np.array_equal(features_of(x, scale), features)
            # At one scale, and for one scaled example: affine in what is left, with distances kept.
            one = jnp.full_like(scale, 0.7)
            middle = (features_of(x, one) + 3 * features_of(x[::-1], one)) / 4
            np.testing.assert_allclose(features_of((x + 3 * x[::-1]) / 4, one), middle, rtol=1e-13, atol=1e-13)
            ends = [features_of(x / factor, factor * jnp.ones_like(scale)) for factor in (1.0, 4.0)]
            middle = (2 * ends[0] + ends[1]) / 3
            np.testing.assert_allclose(features_of(x / 2, 2 * jnp.ones_like(scale)), middle, rtol=1e-13, atol=1e-13)
            moved = features_of(x + 1, one) - features_of(x, one)
            np.testing.assert_allclose(jnp.linalg.norm(moved, axis=1), 0.7 * np.sqrt(D), rtol=1e-12)
        if algorithm.same_score:
            state = _after(algorithm, x[:10], y[:10])
            w, b = algorithm.classifier(state)
            ratio = jax.vmap(algorithm.score, (None, 0))(state, features) / (x @ w + b)
            assert ratio[0] > 0
            np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
            np.testing.assert_allclose(
                jnp.linalg.norm(features - features[0], axis=1), jnp.linalg.norm(x - x[0], axis=1), rtol=1e-12
            )
        assert algorithm.same_score or algorithm.scaled is not None


@learner()
def _uneven(levels=(0.1, 0.4)):
    """A Perceptron with a level of its own for each label, whatever the state."""
    right = omm.perceptron()

    def threshold(w, y):
        return Trigger(jnp.where(y > 0, *(jnp.asarray(level, w.dtype) for level in levels)), y > 0)

    return right._replace(threshold=threshold, params=None, recipe=None)


@pytest.mark.parametrize("make", [*omm.ALGORITHMS.values(), _uneven], ids=[*omm.ALGORITHMS, "uneven"])
def test_what_the_kept_rule_leaves_out_is_found_again(make, data):
    """A rule kept from state to state says what the state does, for both labels, at every state of a run."""
    x, y = data
    algorithm = make()
    lanes = Lanes(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32)[None], algorithm), 1)
    whole = jax.jit(lambda state: lanes.whole(state, lanes.rule(state)))
    step = jax.jit(algorithm.step)
    state = algorithm.init(D, jnp.float32)
    for example in zip(x[:8], y[:8], strict=True):
        rule = jax.tree.map(lambda leaf: leaf[0], whole(jax.tree.map(lambda leaf: leaf[None], state)))
        triggers = [algorithm.threshold(state, jnp.float32(label)) for label in (-1, 1)]
        expected = [*algorithm.linear(state), *(t.level for t in triggers), *(t.inclusive for t in triggers)]
        for found, known in zip(jax.tree.leaves(rule), expected, strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-5, atol=1e-6)
        state = step(state, example)


def test_algorithm_is_a_pytree(factory):
    algorithm = factory()
    leaves, structure = jax.tree.flatten(algorithm)
    assert structure == jax.tree.structure(factory()), "equal structure, so that jit does not compile again"
    again = jax.tree.unflatten(structure, leaves)
    assert again.init(3) is not None
    named = jax.tree.map(lambda leaf: "name", algorithm)
    assert jax.tree.leaves(named) == ["name"] * len(leaves) and jax.tree.structure(named) == structure


def test_grid_is_one_compilation(data):
    """64 values of rho x 64 orders: one trace, and every cell is the run of its own."""
    x, y = data
    traces = 0

    def one(rho, order):
        nonlocal traces
        traces += 1
        return omm.run(omm.e_omm(rho), x, y, order)

    rhos = jnp.linspace(0, 1, 64)
    orders = jax.vmap(lambda r: omm.order(0, r, N))(jnp.arange(64))
    grid = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))
    result = grid(rhos, orders)
    assert result.mistakes.shape == (64, 64) and result.w.shape == (64, 64, D)
    grid(rhos**2, orders[::-1])
    assert traces == 1
    for i, j in ((0, 0), (63, 5), (31, 63)):
        alone = omm.run(omm.e_omm(rhos[i]), x, y, orders[j])
        assert int(alone.mistakes) == int(result.mistakes[i, j])
        assert int(alone.updates) == int(result.updates[i, j])
        assert int(alone.tau) == int(result.tau[i, j])


def test_data_sets_can_be_mapped_over(data):
    x, y = data
    scaled = jnp.stack([x, 2 * x, x + 1])
    result = jax.vmap(lambda x: omm.run(omm.pumma(), x, y))(scaled)
    for k in range(3):
        alone = omm.run(omm.pumma(), scaled[k], y)
        assert int(alone.updates) == int(result.updates[k])
        np.testing.assert_allclose(alone.w, result.w[k], rtol=1e-4, atol=1e-5)


def test_norms_can_be_swept(x64, data):
    x, y = (np.asarray(a, np.float64) for a in data)
    result = jax.vmap(lambda p: omm.run(omm.e_omm(norm=omm.lp(p)), x, y))(jnp.array([1.5, 2.0, 3.0]))
    plain = omm.run(omm.e_omm(), x, y)
    assert int(result.updates[1]) == int(plain.updates)
    np.testing.assert_allclose(result.margin[1], plain.margin, rtol=1e-9)


def test_the_library_sets_no_flag():
    """Importing it and running with it changes no jax option."""
    program = """
import jax, optax, chex, numpy as np
before = {name: getattr(jax.config, name, None) for name in jax.config.values}
import omm_jax
omm_jax.run(omm_jax.e_omm(), np.eye(2, dtype=np.float32), np.array([1.0, -1.0]))
after = {name: getattr(jax.config, name, None) for name in jax.config.values}
print([name for name in before if before[name] != after[name]])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
