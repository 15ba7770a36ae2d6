"""The offline solver against a conic solver and against its own certificate, checked independently."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import omm_jax as omm
from experiments.conic import conic_max_margin
from omm_jax.status import Status

KINDS = ("plain", "duplicates", "collinear", "touching", "one a class", "wide", "lattice", "offset")


def problem(rng, kind):
    """A separable problem, 2 <= n <= 400 and 1 <= d <= 100."""
    d, n = int(rng.integers(1, 101)), int(rng.integers(2, 401))
    if kind == "one a class":
        n = 2
    if kind == "wide":
        d = int(rng.integers(20, 101))
        n = int(rng.integers(2, d))
    if kind == "touching":
        d, n = int(rng.integers(1, 15)), int(rng.integers(200, 401))
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    x = rng.normal(size=(n, d))
    if kind == "collinear":
        x = rng.normal(size=(n, 1)) * rng.normal(size=d)
    if kind == "lattice":
        x = rng.integers(-2, 3, size=(n, d)).astype(float)
    y = rng.permutation(np.where(np.arange(n) < max(1, n // 3), 1.0, -1.0))
    side = np.abs(x @ w)
    if kind == "touching":
        side[rng.random(n) < 0.7] = 0
    # Put every point on its side of the plane w.x = 0, at least the margin away.
    margin = {"touching": 1e-3, "lattice": 0.25}.get(kind, 0.2)
    x = x + (y * (side + margin) - x @ w)[:, None] * w
    if kind == "duplicates":
        again = np.concatenate([np.argsort(y)[[0, -1]], rng.integers(0, n, n - 2)])
        x, y = x[again], y[again]
    if kind == "offset":
        x = 10 ** rng.uniform(-3, 3) * (x + 100 * rng.normal(size=d))
    return x, y


def test_against_a_conic_solver_on_200_problems(x64):
    """Padded with repeated points and empty coordinates, which change nothing, so that one compilation serves all."""
    rng = np.random.default_rng(11)
    problems = [problem(rng, KINDS[k % len(KINDS)]) for k in range(200)]
    solve = jax.jit(omm.max_margin)
    for k, (x, y) in enumerate(problems):
        again = np.arange(400) % len(y)
        padded = np.pad(x[again], [(0, 0), (0, 100 - x.shape[1])])
        solution = solve(padded, y[again])
        gamma, _, _ = conic_max_margin(x, y)
        label = f"problem {k}, {KINDS[k % len(KINDS)]}, shape {x.shape}"
        assert solution.status == 0, label
        assert float(solution.gamma) == pytest.approx(gamma, rel=1e-8), label
        verification = omm.verify(padded, y[again], solution)
        assert verification.accepted, (label, verification)


@pytest.mark.parametrize("shape", [(2, 1), (3, 50)])
def test_unpadded_shapes(x64, shape, rng):
    n, d = shape
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    x = rng.normal(size=(n, d))
    x[:, 0] = y * (0.5 + np.abs(x[:, 0]))
    solution = omm.max_margin(x, y)
    assert float(solution.gamma) == pytest.approx(conic_max_margin(x, y)[0], rel=1e-8)
    assert omm.verify(x, y, solution).accepted
    assert float(omm.margin(x, y, solution.w, solution.b)) == pytest.approx(float(solution.lower), rel=1e-12)
    assert (np.asarray(solution.support.weight) > 0).all() and (np.diff(solution.support.row) > 0).all()


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 5))
    y = np.where(x[:, 0] + 0.5 * x[:, 1] > 0, 1.0, -1.0)
    x[:, 0] += 0.3 * y
    return x, y


def test_follows_translation_scale_and_label_flip(x64, cloud):
    x, y = cloud
    plain = omm.max_margin(x, y)
    shift = np.full(5, 1000.0)
    moved = omm.max_margin(x + shift, y)
    assert float(moved.gamma) == pytest.approx(float(plain.gamma), rel=1e-10)
    np.testing.assert_allclose(moved.v_pos, plain.v_pos + shift, rtol=1e-9)
    for factor in (2.0**-30, 2.0**30):
        scaled = omm.max_margin(factor * x, y)
        assert float(scaled.gamma) == pytest.approx(factor * float(plain.gamma), rel=1e-12)
        np.testing.assert_allclose(scaled.w, plain.w, atol=1e-9)
    flipped = omm.max_margin(x, -y)
    assert float(flipped.gamma) == pytest.approx(float(plain.gamma), rel=1e-9)
    np.testing.assert_allclose(flipped.w, -plain.w, atol=1e-8)


NORMS = {
    "quadratic": lambda: omm.quadratic(jnp.diag(jnp.arange(1.0, 6.0)) + 0.5),
    "p = 1.1": lambda: omm.lp(1.1),
    "p = 1.5": lambda: omm.lp(1.5),
    "p = 3": lambda: omm.lp(3.0),
    "p = 10": lambda: omm.lp(10.0),
}


@pytest.mark.parametrize("name", NORMS)
def test_other_norms_are_certified(x64, cloud, name):
    """The certificate proves the optimum whatever the norm: no other oracle is needed."""
    x, y = cloud
    norm = NORMS[name]()
    solution = omm.max_margin(x, y, norm=norm)
    verification = omm.verify(x, y, solution, norm=norm)
    assert solution.status == 0 and verification.accepted, verification
    assert verification.margin <= float(solution.gamma) * (1 + 1e-12)
    assert float(norm.dual(solution.w)) == pytest.approx(1, abs=1e-9)


def test_exponents_can_be_swept(x64, cloud):
    x, y = cloud
    ps = jnp.array([1.3, 2.0, 4.0])
    swept = jax.vmap(lambda p: omm.max_margin(x, y, norm=omm.lp(p)))(ps)
    assert not swept.status.any()
    assert float(swept.gamma[1]) == pytest.approx(float(omm.max_margin(x, y).gamma), rel=1e-9)
    assert (np.diff(swept.gamma) < 0).all(), "a larger p is a smaller norm"


def test_float32_says_what_it_reached(cloud):
    x, y = (part.astype(np.float32) for part in cloud)
    with jax.enable_x64(True):
        exact = float(omm.max_margin(x.astype(np.float64), y).gamma)
    single = omm.max_margin(x, y)
    assert single.w.dtype == np.float32 and single.status == 0
    assert float(single.gamma) == pytest.approx(exact, rel=1e-5)
    # Hulls so near each other that float32 cannot tell the direction: a wide interval and a status, no pretence.
    near = x.copy()
    near[:, 0] = 1e-4 * y
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0].astype(np.float32)
    near = omm.max_margin(near @ rotation, y)
    assert near.status == Status.NOT_CONVERGED
    assert 0 < float(near.lower) < float(near.upper) * (1 - 1e-5)


def test_a_tolerance_out_of_reach_is_reported(x64, cloud):
    x, y = cloud
    solution = omm.max_margin(x, y, tol=1e-30)
    assert solution.status == Status.NOT_CONVERGED or solution.lower >= solution.upper
    assert omm.verify(x, y, solution).accepted, "as near as rounding allows all the same"


def inseparable(rng):
    x = rng.normal(size=(60, 5))
    y = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)
    yield x, y
    x, y = x.copy(), np.where(x[:, 0] > 0, 1.0, -1.0)
    x[np.argmax(y)] = x[np.argmin(y)]
    yield x, y  # one point with both labels
    x = x.copy()
    x[:, 0] = 0.5 * y
    x[0] = x[np.flatnonzero(y != y[0])[:2]].mean(axis=0)
    yield x, y  # a point on a segment of the other class


@pytest.mark.parametrize("norm", [omm.l2, omm.lp(3.0)], ids=["l2", "p = 3"])
def test_inseparable_data_are_refused(x64, norm, rng):
    for x, y in inseparable(rng):
        with pytest.raises(ValueError, match="no hyperplane separates"):
            omm.max_margin(x, y, norm=norm)


def test_one_bad_problem_does_not_disturb_the_others(x64, cloud, rng):
    x, y = cloud
    bad = next(inseparable(rng))
    both = jax.vmap(omm.max_margin)(jnp.stack([x, bad[0]]), jnp.stack([y, bad[1]]))
    assert both.status[0] == 0 and both.status[1] & Status.NOT_SEPARABLE
    assert float(both.gamma[0]) == pytest.approx(float(omm.max_margin(x, y).gamma), rel=1e-12)


def test_verify_refuses_false_claims(x64, cloud):
    x, y = cloud
    true = omm.max_margin(x, y)
    assert omm.verify(x, y, true).accepted
    row, weight = (np.asarray(part) for part in true.support)
    false = {
        "another direction": true._replace(w=true.w.at[1].add(1e-3)),
        "another bias": true._replace(b=true.b + 1e-6),
        "points outside": true._replace(v_pos=true.v_pos + 1e-6),
        "weights that do not sum to 1": true._replace(support=omm.Support(row, weight * (1 - 1e-6))),
        "negative weights": true._replace(support=omm.Support(np.append(row, row), np.append(2 * weight, -weight))),
        "other rows": true._replace(support=omm.Support((row + 1) % len(y), weight)),
    }
    for name, claim in false.items():
        assert not omm.verify(x, y, claim).accepted, name
