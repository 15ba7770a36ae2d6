"""The paper's transformations: what they promise about margin, bias and diameter, checked on the moved points."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sparse

import omm_jax as omm
from omm_jax.data import Dataset, Variant, bias_control, feature_scaling, margin_normalisation
from omm_jax.data.paper import _diameter


def largest_distance(points):
    return max(float(np.linalg.norm(points - point, axis=1).max()) for point in points)


def class_diameter(x, y):
    return max(largest_distance(x[y > 0]), largest_distance(x[y < 0]))


def conic_solution(x, y):
    """(w of norm 1, b, gamma, v+, v-) of the maximum-margin problem, by an interior point method."""
    n, d = x.shape
    quadratic = sparse.block_diag([sparse.eye(d), sparse.csc_matrix((1, 1))]).tocsc()
    constraints = sparse.csc_matrix(-y[:, None] * np.hstack([x, np.ones((n, 1))]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(n)]
    solver = clarabel.DefaultSolver(quadratic, np.zeros(d + 1), constraints, -np.ones(n), cones, settings)
    solution = solver.solve()
    w, b = np.array(solution.x[:d]), solution.x[d]
    size, dual = np.linalg.norm(w), np.array(solution.z)
    v_pos = dual[y > 0] @ x[y > 0] / dual[y > 0].sum()
    v_neg = dual[y < 0] @ x[y < 0] / dual[y < 0].sum()
    return w / size, b / size, 1 / size, v_pos, v_neg


@pytest.fixture(scope="module")
def variant():
    rng = np.random.default_rng(5)
    y = np.where(rng.random(120) < 0.3, 1.0, -1.0)
    x = rng.normal(size=(120, 6)) * 3 + 4
    x[:, 0] += 11 * y
    *_, v_pos, v_neg = conic_solution(x, y)
    return Variant.from_certificates(Dataset(x, y), v_pos, v_neg, class_diameter(x, y))


def agrees_with_the_solver(variant):
    w, b, gamma, v_pos, v_neg = conic_solution(variant.x, variant.y)
    np.testing.assert_allclose(variant.w, w, atol=1e-6)
    np.testing.assert_allclose([variant.b, variant.gamma], [b, gamma], atol=1e-6)
    np.testing.assert_allclose(variant.v_pos - variant.v_neg, v_pos - v_neg, atol=1e-5)
    np.testing.assert_allclose(variant.D, class_diameter(variant.x, variant.y), rtol=1e-12)
    np.testing.assert_allclose(variant.D_bar, np.linalg.norm(variant.x, axis=1).max(), rtol=1e-12)


def test_margin_normalisation(variant):
    agrees_with_the_solver(variant)
    moved = margin_normalisation(variant, 2.5)
    assert moved.gamma == 2.5 and moved.b == variant.b and moved.D == variant.D
    agrees_with_the_solver(moved)


def test_bias_control(variant):
    moved = bias_control(variant)
    assert moved.b == 0 and moved.gamma == variant.gamma and moved.D == variant.D
    agrees_with_the_solver(moved)


@pytest.mark.parametrize("theta", [0.0, 0.25, 1.0, 3.0])
def test_feature_scaling(variant, theta):
    moved = feature_scaling(variant, theta)
    assert (moved.b, moved.gamma, moved.D) == (variant.b, variant.gamma, variant.D)
    agrees_with_the_solver(moved)
    along = np.sqrt(variant.D_bar**2 - (variant.x[np.linalg.norm(variant.x, axis=1).argmax()] @ variant.w) ** 2)
    assert moved.D_bar >= np.hypot(variant.D_bar, theta * along) * (1 - 1e-12)


def test_they_compose(variant):
    agrees_with_the_solver(feature_scaling(bias_control(margin_normalisation(variant)), 0.5))
    agrees_with_the_solver(bias_control(feature_scaling(margin_normalisation(variant), 0.5)))


def test_bad_arguments_are_refused(variant):
    with pytest.raises(ValueError, match="positive margin, got 0"):
        margin_normalisation(variant, 0)
    with pytest.raises(ValueError, match="theta >= 0, got -1"):
        feature_scaling(variant, -1)


def test_the_diameter_is_exact():
    rng = np.random.default_rng(0)
    for scale in (1.0, 30.0):
        points = rng.normal(size=(700, 5))
        points[:3] *= scale
        np.testing.assert_allclose(_diameter(points), largest_distance(points), rtol=1e-12)


@pytest.mark.parametrize("zero_bias", [True, False])
def test_paper_variants_have_the_papers_figures(zero_bias):
    printed = (0.9666, 1.2082, 1.4498, 1.6914, 1.9331) if zero_bias else (0.9658, 1.2072, 1.4486, 1.6901, 1.9315)
    for theta, ratio in zip(omm.data.PAPER_THETAS, printed, strict=True):
        variant = omm.data.paper_variant(theta, zero_bias)
        assert round(variant.D, 4) == 220.4355
        assert round(variant.D_bar / variant.D, 4) == ratio
        assert round(variant.b, 4) == (0 if zero_bias else -0.2848)
        # The certificate interval, from the moved points: both ends are the margin 1.
        scores = variant.x @ variant.w
        positive = variant.y > 0
        lower = (scores[positive].min() - scores[~positive].max()) / 2
        upper = np.linalg.norm(variant.v_pos - variant.v_neg) / 2
        np.testing.assert_allclose([lower, upper], 1, atol=1e-9)
        np.testing.assert_allclose(variant.b, -(scores[positive].min() + scores[~positive].max()) / 2, atol=1e-9)


def test_the_margin_before_normalisation():
    assert round(omm.data.adult_variant().gamma, 9) == 0.016223098
