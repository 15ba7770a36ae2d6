"""What a study is: learners x settings x variants of a data set x replicates, as a frozen value with an id.

A spec is plain data, the same from Python and from a TOML file. A list of values is swept, a single value is fixed:

    replicates = 1000
    seed = 0

    [data]
    source = "clusters"
    d = [10, 100]

    [learners.e-OMM]
    rho = [0.0, 0.5, 1.0]

    [learners.Perceptron]

All learners see the same orders: replicate r of one is to be compared with replicate r of another.
"""

import dataclasses
import hashlib
import inspect
import itertools
import json
import pathlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import jax

from omm_jax.algorithms import ALGORITHMS
from omm_jax.study.sources import SOURCES

COUNTERS = ("mistakes", "updates", "margin", "tau", "gamma", "status")
Scalar = bool | int | float | str
Grid = tuple[tuple[str, tuple[Scalar, ...]], ...]
Setting = tuple[tuple[str, Scalar], ...]


class StudyError(ValueError):
    """A study that cannot be made, run or read as asked; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One learner at one setting on one variant of the data: what all replicates of it share."""

    learner: str
    setting: Setting
    variant: Setting


@dataclasses.dataclass(frozen=True)
class StudySpec:
    """A Monte Carlo study, frozen and hashable.

    Attributes:
        learners: names of `omm_jax.ALGORITHMS`, or a mapping from name to {hyperparameter: value or values}. The
            hyperparameter `bias` is known to all homogeneous learners: "auto" appends a coordinate where the data has
            a biased separator, true always, false never.
        data: {"source": name, parameter: value or values}; several values make variants.
        replicates: random orders of every cell.
        passes: fresh permutations every replicate sees.
        seed: of the orders, an integer of at most 32 bits.
        dtype: "float32" or "float64".
        engine: of `omm_jax.run`.
        record: which columns to keep; without "tau" the runs do less.
        lanes: replicates that one executable runs at once, 0 to fit them to `memory`. Rounding can depend on it and on
            nothing else of how the work is cut, so it belongs to the spec.
        memory: MiB that one executable may use for its orders and states.
        title: for the report.

    Example:
        >>> spec = StudySpec(learners={"e-OMM": {"rho": [0, 1]}}, data={"source": "clusters"}, replicates=10)
        >>> [dict(cell.setting) for cell in spec.cells()]
        [{'rho': 0}, {'rho': 1}]
        >>> spec == StudySpec.from_json(spec.to_json())
        True
    """

    learners: Any
    data: Any
    replicates: int
    passes: int = 1
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float32"
    engine: str = "auto"
    record: tuple[str, ...] = COUNTERS
    lanes: int = 0
    memory: int = 512
    title: str = ""

    def __post_init__(self):
        for name, value in (("learners", _learners(self.learners)), ("data", _data(self.data))):
            object.__setattr__(self, name, value)
        if isinstance(self.record, str) or not set(self.record) <= set(COUNTERS) or not self.record:
            raise StudyError(f"record must list some of {', '.join(COUNTERS)}; got {self.record!r}")
        object.__setattr__(self, "record", tuple(name for name in COUNTERS if name in self.record))
        whole = {"replicates": (1, 2**32), "passes": (1, 2**31), "seed": (0, 2**32), "lanes": (0, 2**20)}
        for name, (low, high) in (*whole.items(), ("memory", (1, 2**24))):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value < high:
                raise StudyError(f"{name} must be an integer in [{low}, {high}), got {value!r}")
        if self.dtype not in ("float32", "float64"):
            raise StudyError(f'dtype must be "float32" or "float64", got {self.dtype!r}')
        for name in ("engine", "title"):
            if not isinstance(getattr(self, name), str):
                raise StudyError(f"{name} must be a string, got {getattr(self, name)!r}")

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> "StudySpec":
        """The spec of a parsed TOML or JSON table."""
        known = {field.name: field.default for field in dataclasses.fields(cls)}
        unknown, missing = table.keys() - known, {"learners", "data", "replicates"} - table.keys()
        if unknown:
            raise StudyError(f"unknown key {_names(unknown)} in the study; known are {_names(known)}")
        if missing:
            raise StudyError(f"the study lacks {_names(missing)}; it needs learners, data and replicates")
        return cls(**table)

    @classmethod
    def from_json(cls, text: str) -> "StudySpec":
        """The spec that `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_toml(cls, path: str | pathlib.Path) -> "StudySpec":
        """The spec in a TOML file."""
        try:
            table = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))
            return cls.from_dict(table)
        except OSError as error:
            raise StudyError(f"cannot read the study {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise StudyError(f"{path} is not TOML: {error}") from error
        except StudyError as error:
            raise StudyError(f"{path}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Plain tables and lists, as in a TOML file."""
        table = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        table["learners"] = {name: {key: list(values) for key, values in grid} for name, grid in self.learners}
        table["data"] = {"source": self.data[0]} | {key: list(values) for key, values in self.data[1]}
        table["record"] = list(self.record)
        return table

    def to_json(self) -> str:
        """The canonical text: equal specs have equal texts."""
        table = self.to_dict()
        # Learners keep their order, which is the order of the rows; everything else is sorted.
        table["learners"] = dict(table["learners"])
        ordered = {key: table[key] for key in sorted(table)}
        return json.dumps(ordered, separators=(",", ":"), allow_nan=False)

    @property
    def id(self) -> str:
        """The study's id: a hash of everything in the spec."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @property
    def variants(self) -> tuple[Setting, ...]:
        """The variants of the data, in the order they run."""
        return tuple(_product(self.data[1]))

    def cells(self) -> tuple[Cell, ...]:
        """Everything but the replicates, in the order of the rows: variants, learners, settings."""
        return tuple(
            Cell(name, setting, variant)
            for variant in self.variants
            for name, grid in self.learners
            for setting in _product(grid)
        )

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of all hyperparameters, and those of all parameters of the data, sorted."""
        settings = {name for _, grid in self.learners for name, _ in grid}
        return tuple(sorted(settings)), tuple(name for name, _ in self.data[1])


def label(setting: Setting) -> str:
    """A setting in one line: "alpha=0.7 p=2".

    Example:
        >>> label((("alpha", 0.7), ("p", 2)))
        'alpha=0.7 p=2'
    """
    return " ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in setting)


def make(cell: Cell) -> Any:
    """The Algorithm of a cell, without its bias coordinate."""
    return ALGORITHMS[cell.learner](**{name: value for name, value in cell.setting if name != "bias"})


def _learners(given: Any) -> tuple[tuple[str, Grid], ...]:
    if isinstance(given, tuple) and all(isinstance(entry, tuple) for entry in given):
        given = {name: dict(grid) for name, grid in given}
    if isinstance(given, Sequence) and not isinstance(given, str):
        given = {name: {} for name in given}
    if not isinstance(given, Mapping) or not given:
        raise StudyError(f"learners must be a list of names or a table of learners, got {given!r}")
    learners = []
    for name, table in given.items():
        if name not in ALGORITHMS:
            raise StudyError(f"unknown learner {name!r}; known are {', '.join(ALGORITHMS)}")
        if not isinstance(table, Mapping):
            raise StudyError(f"learner {name} must be a table of hyperparameters, got {table!r}")
        grid = _grid(f"learner {name}", table, [*inspect.signature(ALGORITHMS[name]).parameters, "bias"])
        for setting in _product(grid):
            if dict(setting).get("bias", "auto") not in ("auto", True, False):
                raise StudyError(f'learner {name}: bias must be "auto", true or false, got {dict(setting)["bias"]!r}')
            try:
                with jax.ensure_compile_time_eval():
                    make(Cell(name, setting, ()))
            except (ValueError, TypeError) as error:
                raise StudyError(f"learner {name} ({label(setting)}): {error}") from error
        learners.append((name, grid))
    return tuple(learners)


def _data(given: Any) -> tuple[str, Grid]:
    if isinstance(given, tuple) and len(given) == 2:
        given = {"source": given[0]} | dict(given[1])
    if isinstance(given, str):
        given = {"source": given}
    if not isinstance(given, Mapping) or "source" not in given:
        raise StudyError(f'data must be a table with a source, such as {{source = "clusters"}}; got {given!r}')
    source = given["source"]
    if source not in SOURCES:
        raise StudyError(f"unknown data source {source!r}; known are {', '.join(SOURCES)}")
    signature = inspect.signature(SOURCES[source])
    grid = _grid(
        f"data {source}", {key: value for key, value in given.items() if key != "source"}, list(signature.parameters)
    )
    lacking = [
        name
        for name, p in signature.parameters.items()
        if p.default is inspect.Parameter.empty and name not in dict(grid)
    ]
    if lacking:
        raise StudyError(f"data {source} needs {_names(lacking)}")
    return source, grid


def _grid(where: str, table: Mapping[str, Any], known: Sequence[str]) -> Grid:
    grid = []
    for name in sorted(table):
        if name not in known:
            raise StudyError(f"{where}: unknown parameter {name!r}; known are {_names(known)}")
        values = table[name] if isinstance(table[name], list | tuple) else [table[name]]
        if not values:
            raise StudyError(f"{where}: {name} has no values")
        plain = tuple(_scalar(where, name, value) for value in values)
        if len(set(map(repr, plain))) < len(plain):
            raise StudyError(f"{where}: {name} lists a value twice: {values}")
        grid.append((name, plain))
    return tuple(grid)


def _scalar(where: str, name: str, value: Any) -> Scalar:
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise StudyError(f"{where}: {name} must be finite, got {value}")
    if not isinstance(value, bool | int | float | str):
        raise StudyError(f"{where}: {name} must be numbers, booleans or strings, got {value!r}")
    # 1 and 1.0 are the same study.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _product(grid: Grid) -> Iterator[Setting]:
    names = [name for name, _ in grid]
    for values in itertools.product(*(values for _, values in grid)):
        yield tuple(zip(names, values, strict=True))


def _names(names) -> str:
    return ", ".join(repr(name) for name in names)
