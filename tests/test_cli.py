import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from omm_jax import cli, study

TOML = """
replicates = 20
lanes = 2
engine = "scan"
learners = ["ALMA"]
data = {source = "npz", path = "PATH"}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a study and what it gives in this process."""
    home = tmp_path_factory.mktemp("cli")
    x = np.random.default_rng(3).normal(size=(60, 4))
    np.savez(home / "data.npz", x=x, y=np.where(x[:, 0] > 0.2, 1, -1))
    (home / "study.toml").write_text(TOML.replace("PATH", str(home / "data.npz")))
    study.run(study.StudySpec.from_toml(home / "study.toml"), home / "out", progress=False)
    return home


@pytest.fixture
def spec(home):
    return home / "study.toml"


@pytest.fixture
def folder(home):
    return home / "out"


@pytest.fixture
def no_flags(monkeypatch):
    """The command sets global flags, which a process of its own may and a test may not."""
    monkeypatch.setattr("jax.config.update", lambda *_: None)


def command(*arguments, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "omm_jax.cli", "study", *map(str, arguments)], **options)


def slurm(task: int) -> dict[str, str]:
    """What srun sets in the environment of one of two tasks on this machine, as far as JAX and the command look."""
    numbers = {"JOB_ID": os.getpid(), "NTASKS": 2, "STEP_NUM_TASKS": 2, "PROCID": task, "LOCALID": task}
    return {f"SLURM_{name}": str(value) for name, value in numbers.items()} | {"SLURM_STEP_NODELIST": "127.0.0.1"}


def test_two_processes_find_each_other_under_slurm_and_share_a_folder(tmp_path, spec, folder, no_flags, capsys):
    out = tmp_path / "out"
    pipe = {"stderr": subprocess.PIPE, "text": True}
    processes = [
        command("run", spec, "--out", out, "--devices", 2, env=os.environ | slurm(k), **pipe) for k in range(2)
    ]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0 and "10 lanes to run" in errors and "\r" not in errors
    assert sorted(path.name for path in out.glob("*.lock")) == ["runner-0-of-2.lock", "runner-1-of-2.lock"]
    assert study.status(out).complete
    here, there = ({p.name: p.read_bytes() for p in (f / "chunks").iterdir()} for f in (out, folder))
    assert here == there
    assert cli.main(["study", "run", str(spec), "--out", str(out)]) == 0
    assert "nothing left to run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ("--coordinator here:7 --processes 3 --process-id 2", {}, ("here:7", 3, 2)),
        ("", {"OMPI_COMM_WORLD_SIZE": "2"}, (None, None, None)),
        ("", {"SLURM_STEP_NUM_TASKS": "4"}, (None, None, None)),
        ("", {"SLURM_STEP_NUM_TASKS": "1"}, None),
        ("", {}, None),
    ],
)
def test_who_is_asked_for_the_other_processes(spec, folder, monkeypatch, no_flags, arguments, environment, expected):
    asked = []
    monkeypatch.setattr("jax.distributed.initialize", lambda *given: asked.append(given))
    for name in cli._TASKS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["study", "run", str(spec), "--out", str(folder), "--quiet", *arguments.split()]) == 0
    assert asked == ([expected] if expected else [])


def test_processes_that_do_not_find_each_other_are_told(spec, tmp_path, monkeypatch, no_flags, capsys):
    # More tasks than one, by a launcher that JAX does not know.
    for name in [name for name in os.environ if name.startswith(("SLURM_", "OMPI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    for arguments, message in (([], "did not find each other"), (["--processes", "2"], "go together")):
        assert cli.main(["study", "run", str(spec), "--out", str(tmp_path / "out"), *arguments]) == 1
        errors = capsys.readouterr().err
        assert message in errors and "--coordinator, --processes and --process-id" in errors


def test_interrupting_a_run_is_clean(spec, tmp_path):
    long = tmp_path / "long.toml"
    long.write_text(spec.read_text().replace("replicates = 20", "replicates = 200000"))
    process = command("run", long, "--out", tmp_path / "out", stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob("out/chunks/*.parquet")):
        signal.sigtimedwait([], 0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "interrupted; run the same command again to go on" in errors and "Traceback" not in errors
    assert study.status(tmp_path / "out").damaged == 0


def test_an_interrupt_that_was_forgotten_comes_again():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)]
    forgotten = False
    with pytest.raises(KeyboardInterrupt), cli._insistent_interrupts():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.sigtimedwait([], 10)
        except KeyboardInterrupt:
            forgotten = True
        signal.sigtimedwait([], 10)
    assert forgotten
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)] == handlers
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


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
def test_user_errors_are_one_line(arguments, message, tmp_path, monkeypatch, no_flags, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["study", *arguments]) == 1
    errors = capsys.readouterr().err
    assert message in errors and errors.count("\n") == 1 and not list(tmp_path.iterdir())


def test_a_missing_extra_is_named(folder, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for arguments in (["status"], ["report"], ["export", "--csv", "-"]):
        assert cli.main(["study", arguments[0], str(folder), *arguments[1:]]) == 1
        assert 'pip install "omm_jax[experiments]"' in capsys.readouterr().err


def test_a_read_only_folder_is_refused(spec, tmp_path, capsys, monkeypatch, no_flags):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
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
