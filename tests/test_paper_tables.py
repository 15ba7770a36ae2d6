"""The paper's experiment: its cells, its runner, its comparison, on data small enough for a test."""

import math

import jax
import numpy as np
import pytest

import omm_jax as omm
from experiments import mistake_distributions, runner
from experiments.paper_tables import analysis, report, verify
from experiments.paper_tables.spec import INVARIANT, LEARNERS, Setting, make, printed, runs
from experiments.runner import Plan, execute, load


def test_the_printed_tables_are_complete():
    rows = printed()
    assert len(rows) == len({row.setting for row in rows}) == 160
    assert {row.setting.learner for row in rows} == set(LEARNERS)
    found = {row.setting: row for row in rows}
    alma = found[Setting("ALMA", 1.0, False, 5)]
    assert (alma.mistakes, alma.margin, alma.tau, alma.D_bar_over_D) == (23840, None, None, 1.9315)
    assert found[Setting("Perceptron", 0.5, False, 1)].margin == 0.03


def test_what_is_run_covers_every_printed_cell():
    once, everywhere = runs(), runs(every_variant=True)
    assert {row.setting.source for row in printed()} == set(once)
    assert len(once) == 4 * 10 * 2 + 3 * 2 + 1
    assert len(everywhere) == 7 * 10 * 2 + 10


def test_bias_coordinates_are_the_papers(x64):
    variant = omm.data.paper_variant(0.5, zero_bias=False)
    for learner in set(LEARNERS) & set(omm.ALGORITHMS):
        algorithm = make(Setting(learner, 0.5, False, 1), variant)
        if learner in INVARIANT:
            continue
        last = float(algorithm.features(np.ones(96))[-1])
        assert last == pytest.approx(-variant.D_bar if "ROMMA" in learner else 1.0)
        assert make(Setting(learner, 0.5, True, 1), variant).features(np.ones(96)).shape == (96,)


def test_a_printed_value_is_placed_among_ours():
    sample = np.array([1.0, 2.0, 2.0, 5.0])
    assert analysis.compare(2, sample).percentile == 50.0
    assert analysis.compare(2, sample)[1:4] == (2.0, 1.0, 5.0)
    assert analysis.compare(5, sample).inside and not analysis.compare(6, sample).inside
    assert not analysis.compare(0.5, sample).inside
    # A dash is worse than any number: the smallest margin, the largest tau.
    some_none = np.array([math.nan, 0.1, 0.2, math.nan])
    assert analysis.compare(None, some_none, -np.inf).percentile == 25.0
    assert analysis.compare(None, some_none, np.inf).percentile == 75.0
    assert not analysis.compare(None, sample, -np.inf).inside
    assert math.isnan(analysis.compare(0.1, some_none, -np.inf).low)


def test_translation_changes_nothing_on_the_real_data(x64, tmp_path):
    """Mistakes and tau of every translation-invariant learner, order by order, in float64."""
    settings = [
        Setting(learner, theta, zero_bias, 1)
        for learner in ("ce-OMM", "e-OMM", "PUMMA")
        for theta, zero_bias in ((0.0, True), (1.0, False))
    ]
    plan = Plan(settings, 8, 0, "float64", tmp_path)
    execute(plan)
    lines = analysis.invariance(plan)
    assert [line.learner for line in lines] == ["ce-OMM", "e-OMM", "PUMMA"]
    assert all(line.different == 0 and line.replicates == 8 for line in lines)


SOME = [
    Setting("ROMMA", 0.25, False, 1),
    Setting("ALMA", 0.0, False, 1),
    Setting("Perceptron", 1.0, True, 1),
    Setting("e-OMM", 0.0, True, 1),
    Setting("e-OMM", 0.0, True, 5),
]


@pytest.fixture(scope="module")
def tiny():
    """The experiment on 60 points instead of 35,508, in float64."""
    rng = np.random.default_rng(3)
    y = np.where(rng.random(60) < 0.4, 1.0, -1.0)
    x = rng.normal(size=(60, 4))
    x[:, 0] += 4 * y

    def small_variant(theta=0.0, zero_bias=True):
        moved = x + theta * np.array([0.0, 20.0, 0.0, 0.0]) + (0.0 if zero_bias else 0.7)
        radius = float(np.linalg.norm(moved, axis=1).max())
        w = np.array([1.0, 0.0, 0.0, 0.0])
        return omm.data.Variant(moved, y, w, 0.0, 1.0, w, -w, 9.0, radius)

    jax.config.update("jax_enable_x64", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(omm.data, "paper_variant", small_variant)
        patch.setattr(omm.data, "adult", lambda: omm.data.Dataset(x, y))
        yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="module")
def plan(tiny, tmp_path_factory):
    """Some settings, run."""
    plan = Plan(SOME, 80, 1, "float64", tmp_path_factory.mktemp("chunks"))
    execute(plan)
    return plan


def test_runs_agree_with_the_transcriptions(plan, capsys):
    stream = jax.jit(omm.order, static_argnums=(2, 3))
    for setting in SOME:
        columns = load(plan, setting)
        assert len(columns["mistakes"]) == 80
        assert (columns["status"] == 0).all()
        variant = omm.data.paper_variant(setting.theta, setting.zero_bias)
        for replicate in range(8):
            order = np.asarray(stream(1, replicate, 60, setting.passes))
            mistakes, updates = verify.literal_counts(setting, variant, order)
            assert mistakes == columns["mistakes"][replicate], setting
            # After an update e-OMM has the point exactly at its level: when it comes again, rounding decides.
            if setting.passes == 1:
                assert updates == columns["updates"][replicate], setting
    assert verify.verify(plan, 4)
    assert "all means agree" in capsys.readouterr().out


def test_a_lost_chunk_is_made_again_and_nothing_else(plan):
    setting = SOME[2]
    before = load(plan, setting)
    plan.path(setting, plan.lanes(setting)).unlink()
    kept = {path: path.stat().st_mtime_ns for path in plan.folder.iterdir()}
    assert len(load(plan, setting)["mistakes"]) == plan.lanes(setting)
    execute(plan)
    after = load(plan, setting)
    for name in runner.COLUMNS:
        np.testing.assert_array_equal(before[name], after[name])
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())


def test_the_report_shows_every_cell_that_was_run(plan):
    rows = analysis.cells(plan)
    # e-OMM stands for all ten variants, in both tables.
    assert len(rows) == 3 + 10 + 10
    text = report.text(rows, analysis.invariance(plan))
    assert "80 random orders" in text and "23 of 160 rows compared" in text
    assert report.markdown(rows, []).count("| e-OMM |") == 20
    lines = report.table_csv(rows).splitlines()
    assert len(lines) == 24 and all(line.count(",") == lines[0].count(",") for line in lines)


def test_invariance_is_seen_and_its_lack_too(tiny, tmp_path):
    settings = [
        Setting(name, theta, zero_bias, 1) for name in ("e-OMM",) for theta, zero_bias in ((0.0, True), (1.0, False))
    ]
    plan = Plan(settings, 8, 0, "float64", tmp_path)
    execute(plan)
    (line,) = analysis.invariance(plan)
    assert (line.variants, line.replicates, line.different) == (2, 8, 0) and line.largest_margin_difference < 1e-9
    path = plan.path(settings[1], 0)
    with np.load(path) as arrays:
        spoiled = dict(arrays)
    spoiled["tau"] = spoiled["tau"] + 1
    np.savez(path, **spoiled)
    (line,) = analysis.invariance(plan)
    assert line.different == plan.lanes(settings[1])


def test_paired_comparisons():
    mistakes = {"e-OMM": np.array([3, 5, 4, 1]), "PUMMA": np.array([5, 5, 3, 4, 9])}
    pair = mistake_distributions.compare("e-OMM", "PUMMA", mistakes)
    assert (pair.orders, pair.fewer, pair.equal, pair.more, pair.difference) == (4, 0.5, 0.25, 0.25, 1.0)
    assert "fewer mistakes than PUMMA in 50.0 % of 4 orders" in mistake_distributions.sentence(pair)
    quantiles, pairs = mistake_distributions.tables(mistakes)
    assert quantiles.splitlines()[1].startswith("e-OMM,4,3.25") and len(pairs.splitlines()) == 3
