import os
import signal
import subprocess
import sys

import pytest

from omm_jax import cli, study

TOML = """
replicates = 20
lanes = 2
engine = "scan"
learners = ["ALMA"]
data = {source = "clusters", n = 60, d = 4}
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(TOML)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "study.toml").write_text(TOML)
    study.run(study.StudySpec.from_toml(folder / "study.toml"), folder / "out", progress=False)
    return folder / "out"


def command(*arguments, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "omm_jax.cli", "study", *map(str, arguments)], **options)


def test_a_study_from_the_shell_and_again(spec, tmp_path):
    for expected in ("20 lanes to run", "nothing left to run"):
        process = command("run", spec, "--out", tmp_path / "out", stderr=subprocess.PIPE, text=True)
        _, errors = process.communicate()
        assert process.returncode == 0 and expected in errors and "\r" not in errors
    assert study.status(tmp_path / "out").complete


def test_two_processes_of_two_devices_share_a_folder(tmp_path, spec, folder):
    port = 20000 + os.getpid() % 20000
    together = ["--devices", "2", "--coordinator", f"127.0.0.1:{port}", "--processes", "2", "--process-id"]
    processes = [command("run", spec, "--out", tmp_path / "out", *together, k) for k in (0, 1)]
    assert [process.wait() for process in processes] == [0, 0]
    assert study.status(tmp_path / "out").complete
    here, there = ({p.name: p.read_bytes() for p in (f / "chunks").iterdir()} for f in (tmp_path / "out", folder))
    assert here == there


def test_interrupting_a_run_is_clean(spec, tmp_path):
    spec.write_text(TOML.replace("replicates = 20", "replicates = 20000"))
    process = command("run", spec, "--out", tmp_path / "out", stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob("out/chunks/*.parquet")):
        signal.sigtimedwait([], 0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "interrupted; run the same command again to go on" in errors and "Traceback" not in errors
    assert study.status(tmp_path / "out").damaged == 0


def test_status(folder, tmp_path, capsys):
    assert cli.main(["study", "status", str(folder)]) == 0
    assert "10 of 10 chunks, 20 of 20 rows" in capsys.readouterr().out


def test_status_of_an_unfinished_or_damaged_study(folder, tmp_path, capsys):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", folder, copy], check=True)
    victim = sorted((copy / "chunks").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:50])
    assert cli.main(["study", "status", str(copy)]) == 3
    out = capsys.readouterr().out
    assert "9 of 10 chunks, 18 of 20 rows" in out and "1 damaged" in out


def test_export(folder, tmp_path, capsys):
    assert cli.main(["study", "export", str(folder), "--csv", str(tmp_path / "t.csv")]) == 0
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0].startswith("learner,setting,variant") and len(lines) == 21
    assert cli.main(["study", "export", str(folder), "--csv", "-"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status", "nowhere"], "there is no folder nowhere"),
        (["run", "nowhere.toml", "--out", "x"], "cannot read the study nowhere.toml"),
        (["export", "nowhere", "--csv", "-"], "there is no folder nowhere"),
    ],
)
def test_user_errors_are_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jax.config.update", lambda *_: None)
    assert cli.main(["study", *arguments]) == 1
    errors = capsys.readouterr().err
    assert message in errors and errors.count("\n") == 1 and not list(tmp_path.iterdir())


def test_a_missing_extra_is_named(folder, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for arguments in (["status"], ["report"], ["export", "--csv", "-"]):
        assert cli.main(["study", arguments[0], str(folder), *arguments[1:]]) == 1
        assert 'pip install "omm_jax[experiments]"' in capsys.readouterr().err


def test_a_read_only_folder_is_refused(spec, tmp_path, capsys, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    monkeypatch.setattr("jax.config.update", lambda *_: None)
    assert cli.main(["study", "run", str(spec), "--out", str(tmp_path / "out")]) == 1
    assert "cannot make the folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["study"], ["study", "run"], ["study", "run", "a", "--out", "b", "--devices", "0"]]
)
def test_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2 and "usage" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["study", "--help"], ["study", "run", "--help"]])
def test_help(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 0 and "study" in capsys.readouterr().out
