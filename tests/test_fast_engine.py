"""The fast engine makes the reference engine's decisions: the same events at the same places, bit for bit."""

import itertools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from omm_jax.algorithm import Algorithm, Trigger, learner
from omm_jax.engine import kernel

LENGTH = 48


def _learners():
    names = ("ce-OMM", "e-OMM", "ROMMA", "PUMMA", "Perceptron")
    chosen = {name: omm.ALGORITHMS[name]() for name in names}
    for name, coordinate in (("a-ROMMA", -2.5), ("ALMA", 1.0)):
        chosen[f"{name} with bias"] = omm.with_bias(omm.ALGORITHMS[name](), coordinate)
    return chosen


LEARNERS = _learners()


def _data(kind: str, dtype):
    """Small sets on which streams repeat rows, so that ties between scores and levels are everywhere."""
    rng = np.random.default_rng(5)
    if kind == "gaussian":
        x = rng.standard_normal((40, 19))
    elif kind == "integers":  # exact ties
        x = rng.integers(-2, 3, (40, 19)).astype(float)
    else:  # "near-ties": a few points, copies of them moved by a rounding error or two
        x = np.repeat(rng.standard_normal((8, 19)), 5, axis=0)
        x *= 1 + rng.integers(-2, 3, x.shape) * np.finfo(dtype).eps
    y = np.where(x @ rng.standard_normal(x.shape[1]) + 0.3 > 0, 1, -1)
    y[:2] = 1, -1
    return jnp.asarray(x, dtype), jnp.asarray(y, dtype)


def _assert_same(one, other):
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
        assert np.array_equal(a, b, equal_nan=np.issubdtype(a.dtype, np.inexact)), jax.tree_util.keystr(path)


@pytest.mark.parametrize("name", LEARNERS)
def test_same_events_as_the_reference_in_every_lane(name, x64):
    orders = np.random.default_rng(1).integers(0, 40, (3500, LENGTH))
    recording = omm.Recording(ticks=jnp.array([5, 20, LENGTH]), events=LENGTH)
    for kind in ("gaussian", "integers", "near-ties"):
        x, y = _data(kind, np.float64)
        reference = omm.run(LEARNERS[name], x, y, orders, engine="scan", recording=recording)
        fast = omm.run(LEARNERS[name], x, y, orders, engine="fast", recording=recording)
        assert reference.updates.sum() > 5000
        _assert_same(reference, fast)


def _sweep(algorithm, axes, x, y, orders, engine, orders_inside):
    recording = omm.Recording(ticks=jnp.array([7, 90]), events=100)

    def one(algorithm, order):
        return omm.run(algorithm, x, y, order, engine=engine, recording=recording)

    if orders_inside:
        mapped = jax.vmap(jax.vmap(one, (None, 0)), (axes, None))
    else:
        mapped = jax.vmap(jax.vmap(one, (axes, None)), (None, 0))
    return jax.jit(mapped)(algorithm, orders)


def _without_kernels(monkeypatch):
    """As on another platform, for programs that have not been traced yet."""
    monkeypatch.setattr(kernel, "available", lambda: False)


@pytest.mark.parametrize("d", (16, 32, 37, 48, 64, 97))
def test_states_are_the_same_to_the_last_bit_with_vectors_of_any_length(d):
    """Compilers round products and sums as they find them: how many there are is part of that."""
    rng = np.random.default_rng(d)
    x = rng.standard_normal((500, d)).astype(np.float32)
    y = np.where(x[:, 0] + 0.3 > 0, 1, -1).astype(np.float32)
    runs = [omm.run(omm.e_omm(0.5), x, y, omm.orders(0, 2, 500), engine=engine) for engine in ("scan", "fast")]
    _assert_same(*runs)


@pytest.mark.parametrize("kernels", [True, False])
def test_sweeps_over_shared_orders_are_the_same_runs(kernels, monkeypatch):
    """In a kernel lanes that update often go a few abreast, others take turns; elsewhere rows are scored for all."""
    settings, length = 21, 399
    if not kernels:
        _without_kernels(monkeypatch)
    x, y = _data("gaussian", np.float32)
    orders = np.random.default_rng(3).integers(0, len(y), (2, length)).astype(np.int32)
    algorithm = omm.aggressive_romma(jnp.linspace(1, 0, settings))
    reference = _sweep(algorithm, 0, x, y, orders, "scan", orders_inside=True)
    assert reference.updates.shape == (settings, 2)
    assert (reference.updates[0] < length // 20).all() and (reference.updates[-8:] > length // 6).all()
    fast = _sweep(algorithm, 0, x, y, orders, "fast", orders_inside=kernels)
    _assert_same(reference, fast if kernels else jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), fast))


def test_a_learner_that_scales_looks_ahead_in_orders_of_its_own(x64):
    """So seldom does it update that most examples are ruled out by the scores of raw rows, scaled and moved."""
    x, y = _data("gaussian", np.float64)
    orders = np.random.default_rng(3).integers(0, len(y), (6, 2000)).astype(np.int32)
    algorithm = omm.translated(omm.with_bias(omm.alma(alpha=0.95), 1.0), np.linspace(-0.2, 0.3, x.shape[1]))
    recording = omm.Recording(events=600)
    runs = [omm.run(algorithm, x, y, orders, engine=engine, recording=recording) for engine in ("scan", "fast")]
    _assert_same(*runs)
    assert (20 < runs[0].updates).all() and (runs[0].updates < 2000 // 7).all()


def test_lanes_abreast_are_shown_the_last_example_once():
    """They are shown two at a time, and of an odd number one is left over."""
    x, y = _data("gaussian", np.float32)
    orders = np.random.default_rng(3).integers(0, len(y), (2, 300)).astype(np.int32)
    algorithm = _always(jnp.linspace(1e6, 2e6, 9))
    for length in (299, 300):
        assert (_sweep(algorithm, 0, x, y, orders[:, :length], "fast", True).updates == length).all()


@learner()
def _always(level) -> Algorithm:
    """A Perceptron that asks for a margin it never has: it updates on every example."""
    return omm.perceptron()._replace(threshold=lambda w, y: Trigger(jnp.asarray(level, w.dtype), True))


def test_settings_that_change_the_features_are_the_same_runs():
    x, y = _data("gaussian", np.float32)
    orders = np.random.default_rng(3).integers(0, len(y), (2, 100)).astype(np.int32)
    algorithm = omm.with_bias(omm.romma(), -jnp.arange(1.0, 6.0))
    _assert_same(*(_sweep(algorithm, 0, x, y, orders, engine, True) for engine in ("scan", "fast")))


def test_lanes_of_an_order_need_not_have_the_settings_of_another():
    """Maps over settings and orders together, and over settings once more: no grid, still lanes that share orders."""
    x, y = _data("gaussian", np.float32)
    orders = np.random.default_rng(3).integers(0, len(y), (3, 100)).astype(np.int32)
    shifts = jnp.asarray(np.random.default_rng(4).normal(size=(3, x.shape[1])), x.dtype)

    def one(coordinate, shift, order, engine):
        algorithm = omm.translated(omm.with_bias(omm.alma(), coordinate, before_features=True), shift)
        return omm.run(algorithm, x, y, order, engine=engine, tau=False)

    def mapped(engine):
        together = jax.vmap(lambda coordinate, shift, order: one(coordinate, shift, order, engine), (None, 0, 0))
        return jax.jit(jax.vmap(together, (0, None, None)))(jnp.array([0.0, 1.0]), shifts, orders)

    _assert_same(mapped("scan"), mapped("fast"))


def test_learners_with_and_without_a_bias_in_one_sweep_are_the_same_runs():
    """A coordinate of 0 is none: so the paper's ten variants are one sweep."""
    x, y = _data("gaussian", np.float32)
    orders = np.random.default_rng(3).integers(0, len(y), (2, 300)).astype(np.int32)
    for plain in (omm.romma(), omm.alma()):

        def one(coordinate, order, plain=plain):
            return omm.run(omm.with_bias(plain, coordinate), x, y, order, engine="fast", tau=False)

        both = jax.vmap(jax.vmap(one, (None, 0)), (0, None))(jnp.array([0.0, -2.0]), orders)
        for k, algorithm in enumerate((plain, omm.with_bias(plain, -2.0))):
            alone = omm.run(algorithm, x, y, orders, engine="scan", tau=False)
            _assert_same((alone.mistakes, alone.updates), (both.mistakes[k], both.updates[k]))
            # One coordinate more is another order of additions.
            assert np.allclose(alone.w, both.w[k], rtol=1e-3, atol=1e-5)


@learner()
def _reluctant(level=-0.5):
    """A Perceptron that lets small mistakes pass, and whose levels are not numbers once it has seen enough."""

    def threshold(state, y):
        return Trigger(jnp.where(state[1] > 3, jnp.nan, jnp.asarray(level, state[0].dtype)), True)

    return Algorithm(
        init=lambda d, dtype=None: (jnp.ones(d, dtype), jnp.zeros((), jnp.int32)),
        features=lambda x: x,
        linear=lambda state: (state[0], jnp.zeros((), state[0].dtype)),
        threshold=threshold,
        update=lambda state, f, y: (state[0] + y * f, state[1] + 1),
        classifier=lambda state: (state[0], jnp.zeros((), state[0].dtype)),
    )


def test_mistakes_without_updates_and_levels_that_are_not_numbers():
    x, y = _data("gaussian", np.float32)
    orders = np.random.default_rng(4).integers(0, len(y), (20, 150))
    recording = omm.Recording(events=150)
    results = [omm.run(_reluctant(), x, y, orders, engine=engine, recording=recording) for engine in ("scan", "fast")]
    assert (results[0].mistakes > results[0].updates).any()
    _assert_same(*results)


def test_orders_of_16_bits_are_the_same_runs():
    x, y = _data("gaussian", np.float32)
    orders = np.random.default_rng(4).integers(0, len(y), (4, 60))
    reference = omm.run(omm.romma(), x, y, orders.astype("int32"), engine="scan")
    for engine in ("scan", "fast"):
        _assert_same(reference, omm.run(omm.romma(), x, y, orders.astype("uint16"), engine=engine))


@pytest.mark.parametrize("length", [1, 5])
def test_streams_shorter_than_any_block(length):
    x, y = _data("gaussian", np.float32)
    orders = np.random.default_rng(4).integers(0, len(y), (4, length))
    _assert_same(*(omm.run(omm.e_omm(), x, y, orders, engine=engine) for engine in ("scan", "fast")))


def test_on_the_adult_data_the_events_are_those_of_the_reference():
    variant = omm.data.paper_variant(theta=1.0, zero_bias=False)
    rows = np.random.default_rng(0).permutation(len(variant.y))[:1500]
    x, y = jnp.asarray(variant.x[rows], jnp.float32), jnp.asarray(variant.y[rows], jnp.float32)
    orders = jax.jit(jax.vmap(lambda r: omm.order(0, r, len(rows))))(jnp.arange(30))
    recording = omm.Recording(events=1500)
    for algorithm in (omm.e_omm(), omm.with_bias(omm.aggressive_romma(), -variant.D_bar)):
        _assert_same(
            *(omm.run(algorithm, x, y, orders, engine=engine, recording=recording) for engine in ("scan", "fast"))
        )


@pytest.mark.parametrize(
    ("name", "settings", "kernels"),
    [
        ("a-ROMMA with bias", 16, False),
        ("a-ROMMA with bias", 4, True),
        ("ALMA with bias", 4, True),
    ],
)
def test_a_translated_learner_is_the_learner_on_translated_data(name, settings, kernels, x64, monkeypatch):
    """All shifts over the same orders, whose rows are fetched once, against every moved data set by itself."""
    if not kernels:
        _without_kernels(monkeypatch)
    x, y = _data("near-ties", np.float64)
    sizes = np.repeat([0, 1, 30, 1000], settings // 4)[:, None]
    shifts = jnp.asarray(np.random.default_rng(3).normal(size=(settings, x.shape[1])) * sizes)
    orders = np.random.default_rng(4).integers(0, len(y), (3, 1200))
    algorithm, recording = LEARNERS[name], omm.Recording(events=1200)

    def together(recording=None, tau=True):
        def moved(shift, order):
            return omm.run(omm.translated(algorithm, shift), x, y, order, engine="fast", recording=recording, tau=tau)

        return jax.vmap(jax.vmap(moved, (None, 0)), (0, None))(shifts, orders)

    # Without a log, lanes that take turns do not compute scores again that leave no doubt.
    loud, silent = together(recording, tau=False), together()
    on_moved = jax.jit(lambda x: omm.run(algorithm, x, y, orders, engine="scan", recording=recording))
    for k, shift in enumerate(shifts):
        alone = on_moved(x + shift)
        for result, field in itertools.product((loud, silent), ("mistakes", "updates", "status", "state")):
            _assert_same(getattr(alone, field), jax.tree.map(operator.itemgetter(k), getattr(result, field)))
        _assert_same(alone.log, jax.tree.map(operator.itemgetter(k), loud.log))
        _assert_same(alone.tau, silent.tau[k])


def test_points_aimed_at_the_level_of_a_learner_that_scales_are_decided_alike(x64):
    """Points on both sides of the level, ever closer: screening in other terms must not rule out one that fires."""
    rng = np.random.default_rng(8)
    d, base = 19, 40
    shifts = jnp.asarray(rng.normal(size=(2, d)) * np.array([[1.0], [200.0]]))
    points, labels = jnp.asarray(rng.normal(size=(base, d))), jnp.asarray(rng.choice([-1.0, 1.0], base))
    away = jnp.asarray([sign * 2.0**-k for k in range(30, 54) for sign in (-1, 1)])

    def learner(shift):
        return omm.translated(omm.with_bias(omm.alma(), 1.0), shift)

    @jax.jit
    def aim(shift, ends):
        """Points on the line between two, near where they begin to fire in the state after the base stream."""
        algorithm = learner(shift)
        start = algorithm.init(d, points.dtype)
        state, _ = jax.lax.scan(lambda state, example: (algorithm.step(state, example), None), start, (points, labels))

        def fires(x):
            return algorithm.threshold(state, 1.0).fires(algorithm.score(state, algorithm.features(x)))

        def halve(_, pair):
            inert, firing = pair
            middle = (inert + firing) / 2
            hit = fires(middle)
            return jnp.where(hit, inert, middle), jnp.where(hit, middle, firing)

        useful = ~fires(ends[0]) & fires(ends[1])
        inert, _ = jax.lax.fori_loop(0, 80, halve, (ends[0], ends[1]))
        return useful, inert + away[:, None] * (ends[1] - ends[0])

    aimed = []
    for shift in shifts:
        useful, near = jax.vmap(aim, (None, 0))(shift, jnp.asarray(rng.normal(size=(400, 2, d)) * 300))
        aimed.append(near[np.flatnonzero(useful)[0]])
    x = jnp.concatenate([points, *aimed])
    y = jnp.concatenate([labels, jnp.ones(2 * len(away))])
    # The stream that leads to the states, then one point aimed at one of them.
    last = base + np.arange(2 * len(away))[:, None]
    orders = np.concatenate([np.tile(np.arange(base), (len(last), 1)), last], axis=1)

    def run(engine):
        def one(shift, order):
            return omm.run(learner(shift), x, y, order, engine=engine, tau=False)

        return jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))(shifts, orders).updates

    reference = run("scan")
    for k in range(2):  # all that are far enough from rounding fire on the one side and do not on the other
        mine = reference[k].reshape(2, -1, 2)[k]
        np.testing.assert_array_equal((mine[:, 1] - mine[:, 0])[:10], 1)
    np.testing.assert_array_equal(run("fast"), reference)
