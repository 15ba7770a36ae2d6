"""Results on disk: one Parquet file a chunk, whose name carries its checksum, and a manifest that says what they are.

    folder/manifest.json
    folder/chunks/00000012-<sha256 of the file>.parquet

A chunk is committed by one rename, data and checksum together, so a killed runner leaves it whole or absent, and two
runners that make the same chunk write the same bytes under the same name. Every chunk also carries the manifest, which
is how a lost one comes back.
"""

import hashlib
import io
import json
import os
import pathlib
import platform
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from omm_jax.study import files
from omm_jax.study.extras import need
from omm_jax.study.plan import Chunk, plan
from omm_jax.study.spec import COUNTERS, StudyError, StudySpec, label

FORMAT = 1
_NAME = re.compile(r"(\d{8})-([0-9a-f]{64})\.parquet")
# What must not change while a study is being made: any of it may change the numbers.
_BINDING = ("format", "id", "lanes", "data", "versions", "backend")

_FLAGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl")


class Survey(NamedTuple):
    """What a folder holds: the intact chunk files by number, the damaged files, and the numbers still to be made."""

    intact: dict[int, pathlib.Path]
    damaged: list[pathlib.Path]
    missing: list[int]


class Store:
    """The folder of one study.

    Attributes:
        folder: where.
        manifest: what is in it, as plain data.
        spec: the study.
        chunks: its plan.
    """

    def __init__(self, folder: str | pathlib.Path, manifest: dict[str, Any]):
        self.folder = pathlib.Path(folder)
        self.manifest = manifest
        self.spec = StudySpec.from_dict(manifest["spec"])
        self.chunks = plan(self.spec, manifest["lanes"])

    @classmethod
    def create(cls, folder: str | pathlib.Path, manifest: dict[str, Any]) -> "Store":
        """Begin a study in a folder, or go on with it.

        Raises:
            StudyError: if the folder holds another study, or the same one made by other versions or from other data.
        """
        need("pyarrow")
        folder = pathlib.Path(folder)
        try:
            (folder / "chunks").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StudyError(f"cannot make the folder {folder}: {error.strerror}") from error
        files.sweep(folder)
        files.sweep(folder / "chunks")
        present, intact = _find_manifest(folder)
        if present is not None:
            _compare(folder, present, manifest)
        store = cls(folder, present or manifest)
        if not intact:
            store._write_manifest()
        return store

    @classmethod
    def open(cls, folder: str | pathlib.Path) -> "Store":
        """The study in a folder, to read. A lost manifest is read from the chunks."""
        need("pyarrow")
        folder = pathlib.Path(folder)
        if not folder.is_dir():
            raise StudyError(f"there is no folder {folder}")
        manifest, _ = _find_manifest(folder)
        if manifest is None:
            raise StudyError(
                f"{folder} holds no study: it has no intact manifest.json and no intact chunk to restore one from"
            )
        return cls(folder, manifest)

    def survey(self) -> Survey:
        """Read every chunk file and check it against its checksum."""
        intact: dict[int, pathlib.Path] = {}
        damaged = []
        sealed = self.manifest.get("checksums", {})
        for path in sorted((self.folder / "chunks").glob("*.parquet")):
            match = _NAME.fullmatch(path.name)
            number = int(match[1]) if match else -1
            expected = sealed.get(str(number), match[2]) if match else ""
            known = match is not None and number < len(self.chunks) and match[2] == expected
            try:
                if known and number not in intact and _checksum(path.read_bytes()) == expected:
                    intact[number] = path
                else:
                    damaged.append(path)
            except FileNotFoundError:
                # Another process has just removed it as damaged.
                continue
        missing = [chunk.number for chunk in self.chunks if chunk.number not in intact]
        return Survey(intact, damaged, missing)

    def numbers(self) -> set[int]:
        """The numbers of the chunks that are there, by their names alone."""
        return {int(path.name[:8]) for path in (self.folder / "chunks").glob("????????-*.parquet")}

    def write(self, chunk: Chunk, columns: Mapping[str, np.ndarray]) -> None:
        """Commit the rows of a chunk: `columns` are the counters of the spec's record, each `[chunk.size]`."""
        content = encode(self.spec, self.manifest, chunk, columns)
        files.write_whole(self.folder / "chunks" / f"{chunk.number:08d}-{_checksum(content)}.parquet", content)

    def seal(self) -> None:
        """Write the checksums of all chunks into the manifest, once none is missing."""
        survey = self.survey()
        if not survey.missing:
            checksums = {str(number): path.name[9:73] for number, path in sorted(survey.intact.items())}
            if checksums != self.manifest.get("checksums"):
                self.manifest = self.manifest | {"checksums": checksums}
                self._write_manifest()

    def _write_manifest(self) -> None:
        body = {key: value for key, value in self.manifest.items() if key != "checksum"}
        body["checksum"] = _checksum(_canonical(body))
        files.write_whole(self.folder / "manifest.json", json.dumps(body, indent=1).encode() + b"\n")


def describe(spec: StudySpec, lanes: int, data: list[dict[str, Any]]) -> dict[str, Any]:
    """The manifest of a study on this machine; `data` describes every variant."""
    need("pyarrow")
    import jax
    import jaxlib
    import pyarrow

    import omm_jax

    return {
        "format": FORMAT,
        "id": spec.id,
        "spec": spec.to_dict(),
        "lanes": lanes,
        "data": data,
        "versions": {"omm_jax": omm_jax.__version__, "jax": jax.__version__, "jaxlib": jaxlib.__version__},
        "backend": jax.default_backend(),
        "platform": {
            "machine": platform.machine(),
            "system": platform.system(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "pyarrow": pyarrow.__version__,
            "device": jax.devices()[0].device_kind,
        },
        "flags": {"XLA_FLAGS": os.environ.get("XLA_FLAGS", "")} | {name: getattr(jax.config, name) for name in _FLAGS},
    }


def encode(spec: StudySpec, manifest: dict[str, Any], chunk: Chunk, columns: Mapping[str, np.ndarray]) -> bytes:
    """A chunk as the bytes of a Parquet file, a function of its arguments alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count, cell = chunk.size, chunk.cell
    table: dict[str, Any] = {"learner": pa.array([cell.learner] * count)}
    table["setting"] = pa.array([label(cell.setting)] * count)
    table["variant"] = pa.array([label(cell.variant)] * count)
    for prefix, values, names in zip(("setting", "variant"), (cell.setting, cell.variant), spec.names(), strict=True):
        for name in names:
            table[f"{prefix}_{name}"] = _constant(dict(values).get(name), _kind(spec, prefix, name), count)
    table["replicate"] = pa.array(np.arange(chunk.first, chunk.first + count, dtype=np.int64))
    for name in COUNTERS:
        if name in spec.record:
            table[name] = pa.array(np.asarray(columns[name]))
    carried = {key: value for key, value in manifest.items() if key not in ("checksum", "checksums")}
    metadata = {"omm_jax": _canonical(carried).decode(), "chunk": str(chunk.number)}
    sink = io.BytesIO()
    pq.write_table(
        pa.table(table).replace_schema_metadata(metadata), sink, compression="zstd", version="2.6", store_schema=True
    )
    return sink.getvalue()


def _kind(spec: StudySpec, prefix: str, name: str) -> Any:
    """The Arrow type of a parameter's column: the same in every chunk."""
    import pyarrow as pa

    grids = [grid for _, grid in spec.learners] if prefix == "setting" else [spec.data[1]]
    values = [value for grid in grids for value in dict(grid).get(name, ())]
    if all(isinstance(value, bool) for value in values):
        return pa.bool_()
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return pa.float64()
    return pa.string()


def _constant(value: Any, kind: Any, count: int) -> Any:
    import pyarrow as pa

    if value is None:
        return pa.nulls(count, kind)
    if kind == pa.string():
        value = value if isinstance(value, str) else json.dumps(value)
    return pa.array([value] * count, kind)


def _find_manifest(folder: pathlib.Path) -> tuple[dict[str, Any] | None, bool]:
    """The manifest of a folder, from a chunk if its file is lost or damaged, and whether the file is intact."""
    path = folder / "manifest.json"
    if path.exists():
        try:
            body = json.loads(path.read_bytes())
            checksum = body.pop("checksum")
        except (ValueError, KeyError, AttributeError):
            checksum = None
        if checksum is not None and checksum == _checksum(_canonical(body)):
            return _check_format(folder, body), True
    for chunk in sorted((folder / "chunks").glob("*.parquet")):
        match, content = _NAME.fullmatch(chunk.name), chunk.read_bytes()
        if match and _checksum(content) == match[2]:
            import pyarrow.parquet as pq

            return _check_format(folder, json.loads(pq.read_schema(io.BytesIO(content)).metadata[b"omm_jax"])), False
    return None, False


def _check_format(folder: pathlib.Path, body: dict[str, Any]) -> dict[str, Any]:
    if body.get("format") != FORMAT:
        raise StudyError(f"{folder} has store format {body.get('format')}, this omm_jax reads {FORMAT}")
    return body


def _compare(folder: pathlib.Path, present: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key in _BINDING:
        if present[key] == json.loads(_canonical(wanted[key])):
            continue
        if key == "id":
            raise StudyError(
                f"{folder} holds another study ({present[key]}, this one is {wanted[key]}): "
                "choose another folder, or run the spec it was made from"
            )
        raise StudyError(
            f"{folder} was begun with other {key} ({present[key]}, now {wanted[key]}), which may change the numbers: "
            "go on with what it was begun with, or choose another folder"
        )


def _canonical(value: Any) -> bytes:
    # Not sorted: the order of the learners is the order of the rows.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
