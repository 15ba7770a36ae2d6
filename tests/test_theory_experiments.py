"""The experiments on the theory run, and their analyses read only what was saved."""

import numpy as np
import pytest

import omm_jax as omm
from experiments import bounds_vs_runs, perceptron_gap, rho_sweep
from experiments.rows import load_columns, save_rows


def test_rows_come_back_as_they_were(tmp_path):
    rows = [{"name": "a", "count": 3, "share": 0.25}, {"name": "b", "count": -1, "share": float("nan")}]
    save_rows(tmp_path / "deep" / "rows.csv", rows)
    columns = load_columns(tmp_path / "deep" / "rows.csv")
    assert columns["name"] == ["a", "b"] and columns["count"] == [3, -1]
    assert columns["share"][0] == 0.25 and np.isnan(columns["share"][1])


def test_perceptron_gap(tmp_path, monkeypatch, capsys):
    some = {name: omm.ALGORITHMS[name] for name in ("e-OMM", "Perceptron")}
    monkeypatch.setattr(omm, "ALGORITHMS", some)
    rows = list(perceptron_gap.run(quick=True))
    for row in rows:
        if row["learner"] == "Perceptron":
            assert row["updates"] == row["steps"] and row["mistakes"] == row["steps"] // 2
            assert row["updates"] <= row["order"] <= 3 * row["updates"]
        else:
            assert row["mistakes"] <= row["omm_bound"] == 2
    save_rows(tmp_path / "perceptron_gap.csv", rows)
    perceptron_gap.analyse(tmp_path)
    assert "257 / 514" in capsys.readouterr().out
    assert (tmp_path / "perceptron_gap.png").stat().st_size > 10_000


def test_bounds_vs_runs(tmp_path, capsys):
    rows = list(bounds_vs_runs.run(quick=True))
    assert all(row["m_bar"] <= row["m"] <= row["bound"] <= row["worst_bound"] for row in rows)
    assert all(row["kept"] for row in rows) and max(row["m"] for row in rows) > 10
    save_rows(tmp_path / "bounds_vs_runs.csv", rows)
    bounds_vs_runs.analyse(tmp_path)
    assert "kept in 400 of them" in capsys.readouterr().out
    assert (tmp_path / "bounds_vs_runs.svg").exists()


def test_the_analysis_of_a_rho_sweep(tmp_path, capsys):
    rows = [
        {"rho": rho, "replicate": k, "mistakes": 9 - k, "updates": 10, "margin": float("nan") if rho == 0 else rho / 2}
        for rho in (0.0, 0.5, 1.0)
        for k in range(3)
    ]
    save_rows(tmp_path / "rho_sweep.csv", rows)
    rho_sweep.analyse(tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[-3:]] == [
        ["0.00", "8.0", "10", "0.000"],
        ["0.50", "8.0", "10", "0.250"],
        ["1.00", "8.0", "10", "0.500"],
    ]


def test_a_command_names_itself(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["rho_sweep", "--help"])
    with pytest.raises(SystemExit):
        rho_sweep.main(rho_sweep.__doc__, rho_sweep.NAME, rho_sweep.run, rho_sweep.analyse)
    assert "python -m experiments.rho_sweep" in capsys.readouterr().out
