"""n-OMM against a transcription that calls a conic solver after every update."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from experiments.conic import conic_max_margin
from omm_jax.status import Status

N, D = 120, 6


def transcription(x, y, rho=1.0):
    """The learner in its literal form: update positions, mistakes, final gamma, and the distance to the nearest tie."""
    kept, positions, mistakes, tie = [], [], 0, np.inf
    gamma, w, b = None, np.zeros(x.shape[1]), 1.0
    for t in range(len(y)):
        score = w @ x[t] + b
        mistakes += (score >= 0) != (y[t] > 0)
        if gamma is None:
            if any(y[k] == y[t] for k in kept):
                continue
        else:
            tie = min(tie, abs(y[t] * score - rho * gamma))
            if y[t] * score >= rho * gamma:
                continue
        kept.append(t)
        positions.append(t)
        if len(set(y[kept])) == 2:
            gamma, w, b = conic_max_margin(x[kept], y[kept])
        else:
            w, b = np.zeros(x.shape[1]), y[t]
    return positions, mistakes, gamma, tie


def streams(count):
    rng = np.random.default_rng(21)
    for _ in range(count):
        w = rng.normal(size=D)
        x = rng.normal(size=(N, D))
        y = np.where(x @ w + 0.3 >= 0, 1.0, -1.0)
        yield x + 0.1 * y[:, None] * w, y


@pytest.fixture(scope="module")
def data():
    x, y = (np.stack(part) for part in zip(*streams(10), strict=True))
    return x.reshape(-1, D), y.reshape(-1), np.arange(10 * N).reshape(10, N)


@pytest.mark.parametrize("rho", [1.0, 0.5, 0.0])
def test_equals_the_conic_transcription(x64, data, rho):
    x, y, orders = data
    result = omm.run(omm.n_omm(rho, capacity=64), x, y, orders, recording=omm.Recording(events=N), tau=False)
    for r, order in enumerate(orders):
        positions, mistakes, gamma, tie = transcription(x[order], y[order], rho)
        assert tie > 1e-7, "a stream with a near tie decides nothing: choose another seed"
        log = jax.tree.map(lambda leaf, r=r: np.asarray(leaf[r]), result.log)
        assert log.position[log.update].tolist() == positions
        assert int(result.mistakes[r]) == mistakes
        assert float(result.gamma[r]) == pytest.approx(gamma, rel=1e-7)
    assert not result.status.any()


def test_engines_agree_and_lanes_are_single_runs(x64, data):
    x, y, orders = data
    fast, scan = (
        omm.run(omm.n_omm(capacity=64), x, y, orders, engine=engine, tau=False) for engine in ("fast", "scan")
    )
    for a, b in zip(jax.tree.leaves(fast), jax.tree.leaves(scan), strict=True):
        np.testing.assert_array_equal(a, b)
    alone = omm.run(omm.n_omm(capacity=64), x, y, orders[3], engine="fast", tau=False)
    assert int(alone.updates) == int(fast.updates[3])
    np.testing.assert_allclose(alone.w, fast.w[3], atol=1e-12)


def test_heavy_states_run_in_turn_with_the_same_result(x64, data):
    """A capacity that makes lanes run one after the other changes nothing they do, mapped over rho and orders."""
    x, y, orders = data

    def runs(capacity):
        return jax.vmap(lambda rho: omm.run(omm.n_omm(rho, capacity=capacity), x, y, orders[:3], tau=False))(rhos)

    rhos = jnp.array([0.3, 1.0])
    light, heavy = runs(64), runs(4096)
    assert heavy.updates.shape == (2, 3)
    for name in ("mistakes", "updates", "status"):
        assert np.array_equal(getattr(heavy, name), getattr(light, name)), name
    np.testing.assert_allclose(heavy.w, light.w, atol=1e-12)
    np.testing.assert_allclose(heavy.gamma, light.gamma, rtol=1e-12)


def test_is_the_offline_solution_on_what_it_kept(x64, data):
    x, y, orders = data
    final = omm.run(omm.n_omm(capacity=64), x, y, orders, engine="scan", tau=False)
    for r in range(len(orders)):
        state = jax.tree.map(lambda leaf, r=r: leaf[r], final.state)
        used = np.asarray(state.label) != 0
        label = np.asarray(state.label, float)[used]
        points = np.asarray(state.points)[used] * label[:, None] + np.asarray(state.origin)
        gamma, w, b = conic_max_margin(points, label)
        assert used.sum() == int(final.updates[r])
        assert float(final.gamma[r]) == pytest.approx(gamma, rel=1e-8)
        np.testing.assert_allclose(final.w[r], w, atol=1e-6)
        assert float(final.b[r]) == pytest.approx(b, abs=1e-6)


def test_a_second_pass_keeps_nothing_twice(x64, data):
    """Every kept point is at gamma or beyond, and rounding must not make it fire again."""
    x, y, orders = data
    once = np.asarray(orders[0])
    many = np.tile(once, 6)
    result = omm.run(omm.n_omm(capacity=64), x, y, many, recording=omm.Recording(events=6 * N), tau=False)
    rows = np.asarray(result.log.row)[np.asarray(result.log.update)]
    assert len(set(rows.tolist())) == len(rows)
    assert result.status == 0
    # It ends at the maximum margin of the data it saw.
    assert float(result.gamma) == pytest.approx(conic_max_margin(x[once], y[once])[0], rel=1e-7)


def test_capacity_is_a_status_of_that_lane(x64, data):
    x, y, orders = data
    full = omm.run(omm.n_omm(capacity=64), x, y, orders, engine="scan", tau=False)
    few = int(np.min(full.updates))
    tight = omm.run(omm.n_omm(capacity=few), x, y, orders, recording=omm.Recording(events=N), tau=False)
    over = np.asarray(full.updates) > few
    assert over.any() and not over.all()
    assert (np.asarray(tight.status) == np.where(over, int(Status.CAPACITY), 0)).all()
    assert np.array_equal(np.asarray(tight.w)[~over], np.asarray(full.w)[~over])
    # A full lane stays with the exact classifier of the points it has room for.
    for r in np.flatnonzero(over):
        rows = np.asarray(tight.log.row[r])[np.asarray(tight.log.update[r])][:few]
        assert float(tight.gamma[r]) == pytest.approx(conic_max_margin(x[rows], y[rows])[0], rel=1e-8)


def test_memory_is_capacity_times_d():
    for capacity, d in ((64, 6), (64, 200), (512, 96)):
        state = jax.eval_shape(lambda capacity=capacity, d=d: omm.n_omm(capacity=capacity).init(d, jnp.float32))
        numbers = sum(leaf.size for leaf in jax.tree.leaves(state))
        assert numbers <= 4 * capacity * (d + 2)


def test_touching_hulls_are_degenerate(x64):
    x, y = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [2.0, 0.0]]), np.array([1.0, -1.0, 1.0, -1.0])
    result = omm.run(omm.n_omm(capacity=8), x, y)
    assert result.status & Status.DEGENERATE and float(result.gamma) == pytest.approx(0, abs=1e-12)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="capacity"):
        omm.n_omm(capacity=1)
    with pytest.raises(ValueError, match="rho"):
        omm.n_omm(1.5)
