"""The generated streams have the geometry they state, and do to the learners what the theory says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from omm_jax.data import bad_perceptron, clusters, orthogonal_adversary

NORMS = {
    "l2": lambda: omm.l2,
    "lp1.5": lambda: omm.lp(1.5),
    "lp3": lambda: omm.lp(3.0),
    "quadratic": lambda: omm.quadratic(np.diag([1, 4, 0.5, 2])),
}


def norms_of(norm, vectors):
    return np.asarray(jax.vmap(norm.value)(jnp.asarray(vectors)))


def diameter(norm, x, y):
    largest = 0.0
    for label in (1, -1):
        points = np.asarray(x)[np.asarray(y) == label]
        if len(points) == 0:
            continue
        largest = max(largest, norms_of(norm, (points[:, None] - points[None]).reshape(-1, points.shape[1])).max())
    return largest


@pytest.mark.parametrize(
    "name, r, ratio, positives",
    [
        ("l2", 0.3, None, 10),
        ("l2", 50.0, 30.0, 1),
        ("lp1.5", 1.2, 2.0, 3),
        ("lp3", 7.0, 0.7, 39),
        ("quadratic", 1.2, 2.0, 3),
    ],
)
def test_clusters_have_exactly_the_prescribed_shape(x64, name, r, ratio, positives):
    norm = NORMS[name]()
    key = jax.random.key(3)
    sample = clusters(key, 40, 4, margin=0.7, r=r, radius_ratio=ratio, positives=positives, norm=norm)
    assert sample.x.dtype == np.float64 and sample.x.shape == (40, 4)
    assert (np.asarray(sample.y) > 0).sum() == positives
    best = omm.max_margin(sample.x, sample.y, norm=norm)
    np.testing.assert_allclose([best.lower, best.upper, sample.margin], 0.7, rtol=2e-9)
    np.testing.assert_allclose(float(omm.margin(sample.x, sample.y, sample.w, sample.b, norm)), 0.7, rtol=1e-12)
    np.testing.assert_allclose(float(norm.dual(sample.w)), 1, rtol=1e-12)
    sizes = omm.geometry(sample.x, sample.y, norm=norm, gamma=sample.margin)
    np.testing.assert_allclose([sizes.D, diameter(norm, sample.x, sample.y)], 0.7 * r, rtol=1e-12)
    np.testing.assert_allclose(sizes.r, r, rtol=1e-12)
    radius = float(sizes.D_bar)
    np.testing.assert_allclose([radius, float(sample.radius)], radius if ratio is None else ratio * 0.7 * r, rtol=1e-12)


def test_clusters_are_pure_and_vmapped_over_keys_and_numbers():
    keys, ratios = jax.random.split(jax.random.key(0), 8), jnp.linspace(0.2, 9, 8)
    many = jax.vmap(lambda key, r: clusters(key, 12, 3, r=r, radius_ratio=6.0))(keys, ratios)
    one = clusters(keys[5], 12, 3, r=ratios[5], radius_ratio=6.0)
    again = clusters(keys[5], 12, 3, r=ratios[5], radius_ratio=6.0)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), one, again)))
    np.testing.assert_allclose(many.x[5], one.x, rtol=1e-5, atol=1e-5)
    assert (np.ptp(np.asarray(many.x), axis=0) > 0).all()
    assert one.x.dtype == np.float32


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(n=2, d=3), "n >= 3"),
        (dict(n=5, d=1), "d >= 2"),
        (dict(n=5, d=2, positives=5), "both classes"),
        (dict(n=5, d=2, margin=0.0), "margin > 0"),
        (dict(n=5, d=2, r=-1.0), "r > 0"),
        (dict(n=5, d=2, r=1.0, radius_ratio=1.4), "at least 1/2"),
    ],
)
def test_clusters_refuse_what_cannot_be(arguments, words):
    with pytest.raises(ValueError, match=words):
        clusters(jax.random.key(0), **arguments)


@pytest.mark.parametrize("c", [4.0, 16.0])
def test_bad_perceptron_in_exact_arithmetic(c):
    sample = bad_perceptron(c)
    steps = int((c**2 + 4 / c**2 + 5) / (2 * (1 + 1 / c**2)))
    assert sample.order.shape == (steps,)
    result = omm.run(omm.perceptron(), sample.x, sample.y, sample.order, engine="scan", tau=False)
    assert int(result.updates) == steps
    # The odd steps are ties: +1 is right under sign(0) = +1, so only the even ones are mistakes.
    assert int(result.mistakes) == steps // 2
    # One more round: the guarantee of the paper ends where the stream does, or at most two steps later.
    longer = jnp.arange(steps + 8, dtype=jnp.int32) % 2 * 2
    assert int(omm.run(omm.perceptron(), sample.x, sample.y, longer, engine="scan", tau=False).updates) <= steps + 2
    for rho in (0.0, 0.5, 1.0):
        assert int(omm.run(omm.e_omm(rho), sample.x, sample.y, sample.order, engine="scan", tau=False).mistakes) <= 2
    np.testing.assert_allclose(diameter(omm.l2, sample.x, sample.y), sample.diameter, rtol=1e-6)
    np.testing.assert_allclose(norms_of(omm.l2, sample.x).max(), sample.radius, rtol=1e-6)
    assert float(omm.margin(sample.x, sample.y, sample.w, sample.b)) == float(sample.margin) == 1


def test_the_mistake_bound_of_bad_perceptron_ends_in_5_and_not_in_3(x64):
    c = 8.0
    sample = bad_perceptron(c)
    bound = (sample.diameter / sample.margin * sample.radius / sample.diameter) ** 2
    np.testing.assert_allclose(bound, c**2 + 4 / c**2 + 5, rtol=1e-14)
    assert abs(float(bound) - (c**2 + 4 / c**2 + 3)) > 1.9


def test_bad_perceptron_refuses_an_r_that_breaks_the_argument():
    with pytest.raises(ValueError, match="r >= 2/c"):
        bad_perceptron(4.0, 0.4)
    with pytest.raises(ValueError, match="c > 0"):
        bad_perceptron(-1.0)
    wide = bad_perceptron(4.0, 3.0)
    result = omm.run(omm.perceptron(), wide.x, wide.y, wide.order, engine="scan", tau=False)
    assert int(result.updates) == wide.order.shape[0]


@pytest.mark.parametrize("name", omm.ALGORITHMS)
def test_the_orthogonal_adversary_forces_d_mistakes_out_of_everyone(name):
    d = 9
    # OMM and PUMMA meet scores that are 0 but for rounding, and two programs may round them to different sides.
    exact = "MM" not in name or "ROMMA" in name
    algorithm = omm.ALGORITHMS[name]()

    @jax.jit
    def play():
        sample = orthogonal_adversary(algorithm, d)

        def again(state, t):
            w, b = algorithm.classifier(state)
            return algorithm.step(state, (sample.x[t], sample.y[t])), w @ sample.x[t] + b

        return sample, jax.lax.scan(again, algorithm.init(d), sample.order)[1]

    sample, score = play()
    # Never right by more than the rounding of a tie.
    assert float((sample.y * score).max()) <= 1e-6
    mistakes = int(((score >= 0) != (sample.y > 0)).sum())
    assert mistakes == d if exact else mistakes >= 4
    signed = sample.y * (sample.x @ sample.w + sample.b)
    np.testing.assert_allclose(signed / omm.l2.value(sample.w), 1 / np.sqrt(d), rtol=1e-6)
    np.testing.assert_allclose(diameter(omm.l2, sample.x, sample.y), np.sqrt(2), rtol=1e-6)


def test_a_bias_lets_the_margin_of_unequal_classes_exceed_1_over_root_d():
    sample = orthogonal_adversary(omm.e_omm(), 7)
    positive, negative = sample.x[sample.y > 0], sample.x[sample.y < 0]
    assert {len(positive), len(negative)} == {3, 4}
    with_bias = float(omm.l2.value(positive.mean(0) - negative.mean(0))) / 2
    np.testing.assert_allclose(with_bias, np.sqrt(1 / 3 + 1 / 4) / 2, rtol=1e-6)
    assert with_bias > float(sample.margin)
    with pytest.raises(ValueError, match="d >= 3"):
        orthogonal_adversary(omm.e_omm(), 2)
