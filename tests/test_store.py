import errno
import json
import os
import pathlib
import subprocess
import threading

import numpy as np
import pytest

from omm_jax import study
from omm_jax.study import StudyError, StudySpec, files
from omm_jax.study.store import Store, describe, encode

SPEC = StudySpec(learners={"e-OMM": {"rho": [0.0, 0.5]}, "ROMMA": {}}, data="clusters", replicates=10, lanes=4)
PROFILE = [{"variant": "", "n": 60, "d": 4, "sha256": "abc"}]


def rows(chunk):
    """Counters that can be told apart: a function of the chunk and the row."""
    numbers = 100 * chunk.number + np.arange(chunk.size)
    integers = {name: numbers.astype(np.int32) for name in ("mistakes", "updates", "tau", "status")}
    return integers | {name: numbers.astype(np.float32) / 8 for name in ("margin", "gamma")}


def new_store(folder) -> Store:
    return Store.create(folder, describe(SPEC, SPEC.lanes, PROFILE))


def fill(store: Store) -> Store:
    for number in store.survey().missing:
        store.write(store.chunks[number], rows(store.chunks[number]))
    store.seal()
    return store


@pytest.fixture
def store(tmp_path):
    return fill(new_store(tmp_path / "out"))


def table_of(store):
    return study.load(store.folder)


def test_what_is_written_is_read_back(store):
    table = table_of(store)
    assert len(table) == 30 and len(store.chunks) == 9
    expected = np.concatenate([rows(chunk)["mistakes"] for chunk in store.chunks])
    np.testing.assert_array_equal(table["mistakes"], expected)
    np.testing.assert_array_equal(table["replicate"], np.tile(np.arange(10), 3))


def test_bytes_depend_on_the_arguments_alone(store):
    chunk = store.chunks[3]
    first, second = (encode(SPEC, dict(store.manifest), chunk, rows(chunk)) for _ in range(2))
    assert first == second == store.survey().intact[3].read_bytes()


def test_the_manifest_says_what_made_it(store):
    manifest = json.loads((store.folder / "manifest.json").read_text())
    assert StudySpec.from_dict(manifest["spec"]) == SPEC and manifest["id"] == SPEC.id
    assert set(manifest["versions"]) == {"omm_jax", "jax", "jaxlib"} and manifest["backend"] == "cpu"
    assert "XLA_FLAGS" in manifest["flags"] and len(manifest["checksums"]) == 9


def test_another_study_other_data_or_other_versions_are_refused(store):
    other = StudySpec(learners=["ROMMA"], data="clusters", replicates=10)
    with pytest.raises(StudyError, match="holds another study"):
        Store.create(store.folder, describe(other, 4, PROFILE))
    with pytest.raises(StudyError, match="other data"):
        Store.create(store.folder, describe(SPEC, 4, [PROFILE[0] | {"sha256": "abd"}]))
    versions = describe(SPEC, 4, PROFILE)
    versions["versions"] = versions["versions"] | {"jax": "0.0.1"}
    with pytest.raises(StudyError, match=r"other versions .*0\.0\.1"):
        Store.create(store.folder, versions)


def truncate(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


def rename(path: pathlib.Path) -> None:
    path.rename(path.with_name("00000001" + path.name[8:]))


@pytest.mark.parametrize("damage", [truncate, flip, empty, rename, pathlib.Path.unlink])
def test_damaged_chunks_are_found_and_made_again(store, damage):
    before = table_of(store)
    victim = store.survey().intact[4]
    content = victim.read_bytes()
    damage(victim)
    standing = study.status(store.folder)
    assert standing.intact == 8 and standing.damaged == (damage is not pathlib.Path.unlink) and not standing.complete
    with pytest.raises(StudyError, match="1 of 9 chunks are missing"):
        table_of(store)
    again = Store.open(store.folder)
    for path in again.survey().damaged:
        path.unlink()
    fill(again)
    assert victim.read_bytes() == content
    assert table_of(store).equals(before)


def test_every_flipped_byte_is_found(store):
    path = store.survey().intact[0]
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        assert 0 in store.survey().missing


@pytest.mark.parametrize("damage", [pathlib.Path.unlink, truncate, flip, empty])
def test_a_lost_manifest_comes_back(store, damage):
    before, path = table_of(store), store.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    damage(path)
    assert table_of(store).equals(before)
    again = new_store(store.folder)
    again.seal()
    assert json.loads(path.read_text()) == manifest


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(StudyError, match="no folder"):
        study.load(tmp_path / "absent")
    with pytest.raises(StudyError, match="holds no study"):
        study.load(tmp_path)
    new_store(tmp_path)
    with pytest.raises(StudyError, match="not complete"):
        study.load(tmp_path)
    with pytest.raises(StudyError, match="no finished chunk"):
        study.load(tmp_path, partial=True)


def test_part_of_a_study_can_be_read(tmp_path):
    store = new_store(tmp_path)
    for number in (2, 5):
        store.write(store.chunks[number], rows(store.chunks[number]))
    assert study.load(tmp_path, partial=True)["replicate"].tolist() == [8, 9, 8, 9]


@pytest.mark.parametrize("kind", [errno.ENOSPC, errno.EROFS])
def test_a_failed_write_says_so_and_leaves_nothing(tmp_path, monkeypatch, kind):
    store = new_store(tmp_path)

    def fail(handle):
        raise OSError(kind, os.strerror(kind))

    monkeypatch.setattr(files.os, "fsync", fail)
    message = "the disk is full" if kind == errno.ENOSPC else "cannot be written"
    with pytest.raises(StudyError, match=message):
        store.write(store.chunks[0], rows(store.chunks[0]))
    monkeypatch.undo()
    assert list((tmp_path / "chunks").iterdir()) == []
    assert len(table_of(fill(store))) == 30


def test_leftovers_of_killed_writers_are_removed_and_those_of_living_ones_are_not(tmp_path, monkeypatch):
    store = new_store(tmp_path)
    with monkeypatch.context() as patch:
        # The writer is stopped between its write and its rename, with no chance to tidy up.
        patch.setattr(pathlib.Path, "replace", lambda *_: None)
        patch.setattr(pathlib.Path, "unlink", lambda *_, **__: None)
        store.write(store.chunks[0], rows(store.chunks[0]))
    (living,) = (tmp_path / "chunks").iterdir()
    ended = subprocess.Popen(["true"])
    ended.wait()
    killed = living.with_name(living.name.replace(f".{os.getpid()}.", f".{ended.pid}."))
    killed.write_bytes(living.read_bytes())
    assert store.survey() == ({}, [], list(range(9)))
    new_store(tmp_path)
    assert living.exists() and not killed.exists()


def test_two_writers_never_lose_or_double_a_row(store, tmp_path):
    before = table_of(store)
    folder = tmp_path / "shared"
    stores = [new_store(folder) for _ in range(4)]
    threads = [threading.Thread(target=fill, args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert study.load(folder).equals(before)
    assert sorted(path.name for path in (folder / "chunks").iterdir()) == sorted(
        path.name for path in (store.folder / "chunks").iterdir()
    )


def test_a_second_runner_is_told_about_the_first(tmp_path):
    path = tmp_path / "runner.lock"
    with (
        files.locked(path),
        pytest.raises(StudyError, match=f"process {os.getpid()} on .* is at work"),
        files.locked(path),
    ):
        pass
    with files.locked(path):
        pass
