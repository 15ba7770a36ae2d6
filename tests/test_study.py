import dataclasses
import io
import os
import signal
import subprocess
import sys
import types

import jax
import numpy as np
import pytest

import omm_jax as omm
from omm_jax import study
from omm_jax.study import StudyError, StudySpec
from omm_jax.study.plan import fit_lanes, plan
from omm_jax.study.progress import Progress, duration
from omm_jax.study.runner import _work, batches, build
from omm_jax.study.sources import HOMOGENEOUS, OWN_BIAS, SOURCES, equip

DATA = {"source": "clusters", "n": 60, "d": 4}


def small(**changes) -> StudySpec:
    fields = {
        "learners": {"e-OMM": {"rho": [0.0, 0.5]}, "Perceptron": {}},
        "data": DATA,
        "replicates": 5,
        "passes": 2,
        "lanes": 4,
        "engine": "scan",
    }
    return StudySpec(**(fields | changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "out"
    summary = study.run(small(), folder, progress=False)
    assert summary.complete and summary.lanes == 15
    return folder


class TestSpec:
    def test_equal_specs_hash_alike_however_they_were_written(self, tmp_path):
        path = tmp_path / "s.toml"
        path.write_text(
            'replicates = 5\npasses = 2\nlanes = 4\nengine = "scan"\n[learners.e-OMM]\nrho = [0, 0.5]\n'
            '[learners.Perceptron]\n[data]\nd = 4.0\nsource = "clusters"\nn = 60\n'
        )
        written = StudySpec.from_toml(path)
        assert written == small() and hash(written) == hash(small()) and written.id == small().id
        assert StudySpec.from_json(small().to_json()) == small()
        assert StudySpec.from_dict(small().to_dict()) == small()

    @pytest.mark.parametrize(
        "change",
        [
            {"seed": 1},
            {"replicates": 6},
            {"passes": 1},
            {"lanes": 8},
            {"dtype": "float64"},
            {"record": ("mistakes",)},
            {"data": DATA | {"draw": 1}},
            {"learners": {"e-OMM": {"rho": [0.0, 0.25]}, "Perceptron": {}}},
            {"learners": {"Perceptron": {}, "e-OMM": {"rho": [0.0, 0.5]}}},
        ],
    )
    def test_every_part_is_in_the_id(self, change):
        assert small(**change).id != small().id

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"learners": ["e-OM"]}, "unknown learner 'e-OM'"),
            ({"learners": []}, "list of names"),
            ({"learners": {"e-OMM": {"rho": [0.0, 2.0]}}}, r"rho=2\): rho must lie in"),
            ({"learners": {"e-OMM": {"row": 1}}}, "unknown parameter 'row'"),
            ({"learners": {"e-OMM": {"rho": []}}}, "no values"),
            ({"learners": {"e-OMM": {"rho": [0.5, 0.5]}}}, "twice"),
            ({"learners": {"e-OMM": {"rho": float("nan")}}}, "finite"),
            ({"learners": {"ROMMA": {"bias": "maybe"}}}, "bias must be"),
            ({"data": {"n": 3}}, "with a source"),
            ({"data": "iris"}, "unknown data source"),
            ({"data": {"source": "npz"}}, "needs 'path'"),
            ({"data": {"source": "clusters", "m": 3}}, "unknown parameter 'm'"),
            ({"replicates": 0}, "replicates must be an integer"),
            ({"replicates": 2.5}, "replicates must be an integer"),
            ({"seed": 2**32}, "seed must be"),
            ({"dtype": "float16"}, "dtype must be"),
            ({"record": ("mistake",)}, "record must list"),
            ({"title": 3}, "title must be a string"),
        ],
    )
    def test_bad_specs_are_refused_in_words(self, change, message):
        with pytest.raises(StudyError, match=message):
            small(**change)

    def test_bad_files_are_refused_with_their_name(self, tmp_path):
        path = tmp_path / "s.toml"
        for text, message in (("a = ", "not TOML"), ("lane = 3", "unknown key 'lane'"), ("seed = 3", "lacks")):
            path.write_text(text)
            with pytest.raises(StudyError, match=f"s.toml.*{message}"):
                StudySpec.from_toml(path)
        with pytest.raises(StudyError, match="cannot read"):
            StudySpec.from_toml(tmp_path / "absent.toml")

    def test_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            small().seed = 3


class TestPlan:
    def test_every_replicate_of_every_cell_is_in_exactly_one_chunk(self):
        spec = small(replicates=11, data=DATA | {"d": [3, 4]})
        rows = [(c.cell, r) for c in plan(spec, 4) for r in range(c.first, c.first + c.size)]
        assert len(rows) == len(set(rows)) == 2 * 3 * 11
        assert [chunk.number for chunk in plan(spec, 4)] == list(range(18))

    def test_lanes_fit_the_memory(self):
        spec = small(lanes=0, replicates=1000, memory=1)
        assert fit_lanes(spec, n=30_000, d=10) == 4
        assert fit_lanes(spec, n=10**7, d=10) == 1
        assert fit_lanes(small(lanes=0, replicates=3), n=60, d=4) == 4
        # n-OMM keeps its support points, so fewer of it fit.
        heavy = dataclasses.replace(spec, learners=["n-OMM"])
        assert fit_lanes(heavy, n=1000, d=100) < fit_lanes(spec, n=1000, d=100)
        assert fit_lanes(small(lanes=12), n=10**9, d=10) == 12

    def test_a_batch_is_of_one_learner_and_one_structure(self):
        learners = {"ALMA": {"p": [2, 3, 4]}, "Perceptron": {}}
        found = [
            [dict(chunk.cell.setting).get("p") for chunk in batch]
            for batch in batches(plan(small(learners=learners), 4), 3)
        ]
        assert found == [[2, 2], [3, 3, 4], [4], [None, None]]

    def test_a_process_does_its_share_and_then_what_others_left(self):
        chunks = plan(small(learners=["Perceptron"], replicates=40), 4)
        done: set[int] = set()
        store = types.SimpleNamespace(chunks=chunks, numbers=lambda: set(done))
        work = _work(store, list(chunks[0::2]), 2, 2)
        assert [chunk.number for chunk in next(work)] == [0, 2]
        # Chunk 4 was made by someone else in the meantime, and so were 1, 3 and 9; what was begun here is not repeated.
        done |= {4, 1, 3, 9}
        assert [[chunk.number for chunk in batch] for batch in work] == [[6, 8], [7, 5]]
        assert list(_work(store, [], 1, 2)) == []


class TestRun:
    def test_rows_are_those_of_bare_runs(self, finished):
        table = study.load(finished)
        x, y = (lambda p: (p.x, p.y))(build(small(), small().variants[0]))
        orders = np.stack([omm.order(0, r, 60, passes=2) for r in range(5)])
        for rho in (0.0, 0.5):
            result = omm.run(omm.e_omm(rho), x, y, orders)
            rows = table[table["setting_rho"] == rho]
            assert rows["replicate"].tolist() == list(range(5))
            for name in ("mistakes", "updates", "tau", "status"):
                np.testing.assert_array_equal(rows[name], getattr(result, name), err_msg=name)
            for name in ("margin", "gamma"):
                np.testing.assert_allclose(rows[name], getattr(result, name), rtol=1e-5, err_msg=name)

    def test_the_table_is_tidy(self, finished):
        table = study.load(finished)
        assert list(table.columns) == [
            *("learner", "setting", "variant", "setting_rho", "variant_d", "variant_n", "replicate"),
            *("mistakes", "updates", "margin", "tau", "gamma", "status"),
        ]
        assert not table.duplicated(["learner", "setting", "variant", "replicate"]).any()
        assert set(table["variant"]) == {"d=4 n=60"} and set(table["setting"]) == {"rho=0", "rho=0.5", ""}
        assert table.loc[table["learner"] == "Perceptron", "setting_rho"].isna().all()

    def test_only_what_is_recorded_is_stored(self, tmp_path):
        study.run(small(learners=["Perceptron"], record=("updates",)), tmp_path, progress=False)
        assert "updates" in study.load(tmp_path) and "tau" not in study.load(tmp_path)

    def test_running_again_does_nothing(self, finished):
        before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")}
        assert study.run(small(), finished, progress=False).lanes == 0
        assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")}

    def test_float64_needs_its_flag(self, tmp_path):
        with pytest.raises(StudyError, match="jax_enable_x64"):
            study.run(small(dtype="float64"), tmp_path)

    def test_data_from_a_file_in_float64(self, tmp_path, rng, x64):
        x = rng.normal(size=(40, 3))
        np.savez(tmp_path / "d.npz", x=x, y=np.where(x[:, 0] > 0, 1, -1))
        data = {"source": "npz", "path": str(tmp_path / "d.npz")}
        spec = small(dtype="float64", data=data, learners=["Perceptron"], record=("updates", "margin"))
        assert build(spec, spec.variants[0]).biased
        study.run(spec, tmp_path / "good", progress=False)
        assert study.load(tmp_path / "good")["margin"].dtype == np.float64
        np.savez(tmp_path / "d.npz", x=x, y=np.ones(40))
        build.cache_clear()
        with pytest.raises(StudyError, match="only the class"):
            study.run(spec, tmp_path / "out")
        np.savez(tmp_path / "d.npz", a=x)
        with pytest.raises(StudyError, match="arrays x and y"):
            study.run(spec, tmp_path / "out")

    def test_adult_is_built_in(self):
        problem = SOURCES["adult"](theta=0.5, zero_bias=False)
        assert problem.x.shape == (35508, 96) and problem.biased
        assert problem.margin == pytest.approx(1) and problem.radius / problem.diameter == pytest.approx(
            1.4486, abs=1e-4
        )

    def test_learners_without_bias_get_one_where_the_data_has_one(self):
        assert sorted([*OWN_BIAS, *HOMOGENEOUS]) == sorted(omm.ALGORITHMS)
        for name, coordinate in (("ROMMA", -7.0), ("a-ROMMA", -7.0), ("Perceptron", 1.0), ("ALMA", 1.0)):
            learner = omm.ALGORITHMS[name]()
            assert equip(name, learner, False, 7.0) is learner
            features = equip(name, learner, True, 7.0).features(jax.numpy.array([3.0, 4.0]))
            assert features.shape == (3,) and features[2] == coordinate
        assert equip("e-OMM", omm.e_omm(), True, 7.0).features(jax.numpy.ones(2)).shape == (2,)


class TestProgress:
    def test_a_log_file_gets_whole_lines_now_and_then(self):
        out, now = io.StringIO(), [0.0]
        bar = Progress(1000, out, clock=lambda: now[0])
        for _ in range(100):
            now[0] += 1.0
            bar.advance(10, "e-OMM rho=1")
        bar.close()
        lines = out.getvalue().splitlines()
        assert "\r" not in out.getvalue() and len(lines) == 11
        assert lines[4] == " 50.0 %  500/1,000 lanes  10 lanes/s  left 50.0 s  e-OMM rho=1"
        assert lines[-1] == "1,000 lanes in 1 min 40 s, 10 lanes/s"

    def test_a_terminal_gets_a_bar(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        out, now = Terminal(), [0.0]
        bar = Progress(8, out, clock=lambda: now[0])
        now[0] = 2.0
        bar.advance(4)
        assert out.getvalue().startswith("\r") and "[############............]  50.0 %" in out.getvalue()
        assert "\n" not in out.getvalue()

    def test_durations(self):
        assert duration(59.94) == "59.9 s" and duration(3599) == "59 min 59 s"


SCRIPT = """
import sys, jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[2]))
from omm_jax import study
study.run(study.StudySpec.from_json(sys.argv[3]), sys.argv[1], progress=False)
"""


def chunks_of(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "chunks").iterdir()}


def test_same_bytes_with_more_devices_and_after_a_kill(tmp_path):
    problem = build(small(), small().variants[0])
    np.savez(tmp_path / "d.npz", x=problem.x, y=problem.y)
    data = {"source": "npz", "path": str(tmp_path / "d.npz")}
    spec = small(replicates=400, learners={"e-OMM": {"rho": [0.0, 0.5]}}, data=data)
    study.run(spec, tmp_path / "one", progress=False)
    # Four devices are killed when they have written some chunks, and one goes on.
    killed = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(killed), "4", spec.to_json()])
    while process.poll() is None and len(list(killed.glob("chunks/*.parquet"))) < 60:
        signal.sigtimedwait([], 0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    left = study.status(killed)
    assert 60 <= left.intact < 200 == left.chunks and left.damaged == 0
    assert study.run(spec, killed, progress=False).complete
    assert chunks_of(killed) == chunks_of(tmp_path / "one")
