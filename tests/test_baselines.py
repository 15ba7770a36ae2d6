"""PA, PA-I, PA-II and gradient learners against literal NumPy float64 transcriptions."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import omm_jax as omm

C = 0.05


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 6))
    y = np.where(x @ rng.normal(size=6) + 0.3 * rng.normal(size=300) > 0, 1.0, -1.0)
    return x, y


def numpy_pa(x, y, variant, c):
    w, updates, mistakes = np.zeros(x.shape[1]), 0, 0
    for point, label in zip(x, y, strict=True):
        score = w @ point
        mistakes += (score >= 0) != (label > 0)
        loss = max(0.0, 1 - label * score)
        if loss == 0:
            continue
        if variant == "PA":
            tau = loss / (point @ point)
        elif variant == "PA-I":
            tau = min(c, loss / (point @ point))
        else:
            tau = loss / (point @ point + 1 / (2 * c))
        w = w + tau * label * point
        updates += 1
    return w, updates, mistakes


@pytest.mark.parametrize("variant", ["PA", "PA-I", "PA-II"])
def test_the_passive_aggressive_family(x64, stream, variant):
    x, y = stream
    algorithm = omm.ALGORITHMS[variant](*([] if variant == "PA" else [C]))
    result = omm.run(algorithm, x, y, tau=False, engine="scan")
    w, updates, mistakes = numpy_pa(x, y, variant, C)
    np.testing.assert_allclose(result.w, w, rtol=1e-11, atol=1e-13)
    assert (int(result.updates), int(result.mistakes)) == (updates, mistakes)
    assert mistakes > 10 and updates > 90


@pytest.mark.parametrize("variant", ["PA-I", "PA-II"])
def test_pa_is_the_limit_of_infinite_aggressiveness(x64, stream, variant):
    limit = omm.run(omm.ALGORITHMS[variant](np.inf), *stream, tau=False, engine="scan")
    np.testing.assert_allclose(
        limit.w, omm.run(omm.passive_aggressive(), *stream, tau=False, engine="scan").w, rtol=1e-12
    )


def test_the_aggressiveness_is_a_number_that_can_be_swept(x64, stream):
    x, y = stream
    grid = jnp.array([0.01, 0.1, 1.0])
    swept = jax.vmap(lambda c: omm.run(omm.passive_aggressive_1(c), x, y, tau=False, engine="scan").w)(grid)
    for c, w in zip(grid, swept, strict=True):
        np.testing.assert_allclose(w, numpy_pa(x, y, "PA-I", float(c))[0], rtol=1e-11, atol=1e-13)
    with pytest.raises(ValueError, match="C must lie in"):
        omm.passive_aggressive_1(0.0)


def test_a_point_at_the_origin_does_not_make_pa_nan():
    algorithm = omm.passive_aggressive()
    assert algorithm.update(jnp.ones(2), jnp.zeros(2), 1.0).tolist() == [1.0, 1.0]


def numpy_gradient(x, y, loss, rate, momentum):
    w, velocity, updates = np.zeros(x.shape[1]), np.zeros(x.shape[1]), 0
    for point, label in zip(x, y, strict=True):
        signed = label * (w @ point)
        if loss == "hinge":
            if signed >= 1:
                continue  # the velocity stands still as well
            gradient = -label * point
        else:
            gradient = -label * point / (1 + np.exp(signed))
        velocity = gradient + momentum * velocity
        w = w - rate * velocity
        updates += 1
    return w, updates


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_gradient_learners(x64, stream, loss):
    x, y = stream
    made = omm.gradient_learner(optax.sgd(0.05, momentum=0.5), loss)
    swept = omm.gradient_learner(optax.sgd, loss, learning_rate=0.05, momentum=0.5)
    w, updates = numpy_gradient(x, y, loss, 0.05, 0.5)
    for algorithm in (made, swept):
        result = omm.run(algorithm, x, y, tau=False, engine="scan")
        np.testing.assert_allclose(result.w, w, rtol=1e-10, atol=1e-12)
        assert int(result.updates) == updates
    assert updates == len(y) if loss == "logistic" else updates < len(y)


def test_the_gradient_step_is_the_gradient_of_the_loss(x64, rng):
    losses = {"hinge": lambda a: jnp.maximum(0, 1 - a), "logistic": lambda a: jnp.logaddexp(0, -a)}
    w, f = jnp.asarray(rng.normal(size=4)), jnp.asarray(0.1 * rng.normal(size=4))
    for name, loss in losses.items():
        algorithm = omm.gradient_learner(optax.sgd(1.0), name)
        state = algorithm.init(4)._replace(w=w)
        expected = -jax.grad(lambda w, loss=loss: loss(-1.0 * w @ f))(w)
        np.testing.assert_allclose(algorithm.update(state, f, -1.0).w - w, expected, rtol=1e-9, atol=1e-14)


def test_ogd_and_a_sweep_of_learning_rates_with_bias(x64, stream):
    x, y = stream
    rates = jnp.array([0.01, 0.1, 0.7])
    result = jax.vmap(
        lambda rate: omm.run(omm.with_bias(omm.online_gradient_descent(rate)), x, y, tau=False, engine="scan")
    )(rates)
    extended = np.column_stack([x, np.ones(len(x))])
    for rate, w, b in zip(rates, result.w, result.b, strict=True):
        expected, _ = numpy_gradient(extended, y, "hinge", float(rate), 0.0)
        np.testing.assert_allclose(np.append(w, b), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("optimizer", [optax.adam, optax.adagrad])
def test_any_optax_optimizer_runs_in_the_precision_of_the_data(stream, optimizer):
    x, y = (a.astype(np.float32) for a in stream)
    result = omm.run(omm.gradient_learner(optimizer, "logistic", learning_rate=0.05), x, y, tau=False, engine="scan")
    assert result.w.dtype == np.float32 and int(result.mistakes) < len(y) // 3


def test_gradient_learner_refuses_what_it_cannot_use():
    with pytest.raises(ValueError, match="loss must be one of"):
        omm.gradient_learner(optax.sgd(0.1), "squared")
    with pytest.raises(ValueError, match=r"not optax.sgd\(0.1\)"):
        omm.gradient_learner(optax.sgd(0.1), learning_rate=0.2)
    with pytest.raises(ValueError, match="optax optimiser"):
        omm.gradient_learner(0.1)
