"""The comparison of the engines finds them the same, and would find it if they were not."""

import numpy as np
import pytest

import omm_jax as omm
from experiments.engine_agreement import report, trials
from experiments.engine_agreement.streams import ADULT, GENERATED, LEARNERS, SETTINGS, streams, sweep

CLOSE = trials.plan(1024, ("float32",), ("e-OMM",), ("near ties", "aimed"), (False,))
PERCEPTRON = trials.plan(256, ("float64",), ("Perceptron",), ("aimed",), (False,))


def test_the_engines_agree_where_scores_are_close():
    rows, partings = trials.execute(CLOSE)
    assert [(row["orders"], row["lanes"]) for row in rows] == [("own", 256)] * 2
    aimed = [row for row in rows if row["data"] == "aimed"]
    assert all(row["close_updates"] >= row["lanes"] // 8 for row in aimed)  # points aimed at the states of the lanes
    assert report.well(rows, partings)
    # In float32 lanes may part at such points; one in a hundred is far more than do.
    assert len(partings) <= 5
    words = report.text(rows, partings)
    assert "512 lanes of their own orders" in words and words.endswith("All is well.")


def test_an_engine_that_lets_close_calls_pass_is_caught(monkeypatch):
    run = omm.run

    def hasty(algorithm, x, *arguments, engine, **others):
        if engine == "fast":
            usual = algorithm.threshold

            def threshold(state, y):
                return omm.Trigger(usual(state, y).level - 100 * np.finfo(x.dtype).eps, True)

            algorithm = algorithm._replace(threshold=threshold, params=None, recipe=None)
        return run(algorithm, x, *arguments, engine=engine, **others)

    monkeypatch.setattr(omm, "run", hasty)
    rows, partings = trials.execute(PERCEPTRON)
    assert [row["lanes_that_decide_otherwise"] for row in rows] == [64]
    assert len(partings) == 64 and all(parting["distance"] < report.WITHIN for parting in partings)
    assert not report.well(rows, partings)
    words = report.text(rows, partings)
    assert "64 decide otherwise (100.000%)" in words and words.endswith("The engines do NOT agree.")
    # In float32 lanes may part, but only where the call was close.
    in_float32 = [[entry | {"dtype": "float32"} for entry in entries] for entries in (rows, partings)]
    assert report.well(*in_float32)
    assert not report.well(in_float32[0], [in_float32[1][0] | {"distance": 3.0}])


def test_the_default_plan_has_10_000_lanes_of_every_learner():
    plan = trials.plan(10_000)
    for learner in LEARNERS:
        own = [trial for trial in plan if trial.learner == learner and not trial.shared]
        for dtype in ("float64", "float32"):
            assert {trial.data for trial in own if trial.dtype == dtype} == {*ADULT, *GENERATED}
        sizes = {trial.data: trial.chunk * len(trial.firsts) for trial in own if trial.dtype == "float64"}
        assert sum(sizes.values()) >= 10_000 and sum(sizes[name] for name in ADULT) >= 1000


@pytest.mark.parametrize("learner", LEARNERS)
def test_adult_streams_are_what_the_paper_ran(learner):
    plain, hardest = (streams(name, learner, "float32", 50) for name in ADULT)
    homogeneous = learner in ("ROMMA", "a-ROMMA", "Perceptron", "ALMA")
    assert "coordinate" not in (plain.algorithm.params or {})
    assert ("coordinate" in (hardest.algorithm.params or {})) == homogeneous
    assert plain.orders(3, 2).shape == (2, 50)
    np.testing.assert_array_equal(plain.orders(3, 2)[1], hardest.orders(4, 1)[0])
    assert len(sweep(learner, plain)[1]) == SETTINGS
