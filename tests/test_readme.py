"""The README's Python runs as it stands, in one go from the top."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(blocks) >= 3
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)


def test_linked_files_exist():
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", README.read_text())
    assert links and not [link for link in links if not (README.parent / link).exists()]
