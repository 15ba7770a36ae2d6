"""The README's Python runs as it stands, in one go from the top; its study is one, its commands are known."""

import re
from pathlib import Path

from omm_jax import cli
from omm_jax.study import StudySpec

README = Path(__file__).parents[1] / "README.md"


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(blocks) >= 3
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)


def test_the_study_is_a_study(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", README.read_text(), re.S)
    path = tmp_path / "study.toml"
    path.write_text(text)
    spec = StudySpec.from_toml(path)
    cells = [(cell.learner, dict(cell.setting), dict(cell.variant)) for cell in spec.cells()]
    assert spec.replicates == 1000 and spec.data[0] == "adult" and len(cells) == 8
    assert ("e-OMM", {"rho": 0.5}, {"theta": 1}) in cells and ("Perceptron", {}, {"theta": 0}) in cells


def test_the_commands_are_known():
    commands = re.findall(r"^omm-jax (.*?) *(?:#.*)?$", README.read_text(), re.M)
    assert len(commands) >= 4
    for command in commands:
        cli._parser().parse_args(command.split())


def test_linked_files_exist():
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", README.read_text())
    assert links and not [link for link in links if not (README.parent / link).exists()]
