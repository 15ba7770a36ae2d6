"""The Adult data set, packed: the paper's separable set without a download.

The data are the UCI Adult data set (Barry Becker and Ronny Kohavi, 1996, https://doi.org/10.24432/C5XW20), licensed
CC BY 4.0; see ADULT.md beside this file for what was changed. `adult.npz` holds the 45,222 rows without a missing
value as integer codes, `adult_fit.npz` the linear separator that decides which rows the separable set keeps, and the
support points of that set's maximum-margin classifier. `build_adult.py` rebuilds both.
"""

import functools
from importlib import resources
from typing import NamedTuple

import numpy as np

from omm_jax.data.dataset import Dataset

TABLE_FILE, FIT_FILE = "adult.npz", "adult_fit.npz"
BAND = 0.01  # rows nearer than this to the separator, or on its wrong side, are left out


class Table(NamedTuple):
    """The complete rows as integers.

    Attributes:
        numeric: six columns by name, each `[n]`.
        codes: eight columns of category numbers by name, each `[n]`, uint8.
        categories: the names of the categories of each of those columns, in alphabetical order.
        positive: whether the income is above 50K, `[n]` bool.
    """

    numeric: dict[str, np.ndarray]
    codes: dict[str, np.ndarray]
    categories: dict[str, list[str]]
    positive: np.ndarray


class Fit(NamedTuple):
    """What was fitted to the data, stored because fitting takes minutes.

    Attributes:
        w: weights of the separator `[96]`.
        b: its bias.
        support_rows: rows of the separable set that carry its maximum-margin classifier `[k]`.
        support_weights: their convex weights, which sum to 1 in each class `[k]`.
    """

    w: np.ndarray
    b: float
    support_rows: np.ndarray
    support_weights: np.ndarray


def adult() -> Dataset:
    """The separable set of the paper before its transformations: 35,508 examples, 9,626 of them positive, 96 features.

    The rows of `adult_features()` that lie on the right side of the stored separator and at least 0.01 away from it.

    Returns:
        Dataset(x `[35508, 96]`, y `[35508]`), float64, read-only.

    Example:
        >>> x, y = adult()
        >>> x.shape, int((y > 0).sum())
        ((35508, 96), 9626)
    """
    return _separable()


def adult_features() -> tuple[Dataset, list[str]]:
    """All complete rows as standardised features, and the names of the features.

    Six numeric columns, then one dummy a category, the alphabetically first of each column left out; every feature has
    mean 0 and population deviation 1.

    Returns:
        (Dataset(x `[45222, 96]`, y `[45222]`), names).
    """
    return _features()


def separable(data: Dataset, w: np.ndarray, b: float) -> Dataset:
    """The examples on the right side of the separator (w, b) and at least `BAND` away from it."""
    distance = data.y * (data.x @ w + b) / np.linalg.norm(w)
    keep = distance >= BAND
    return Dataset(data.x[keep], data.y[keep])


def featurise(table: Table) -> tuple[Dataset, list[str]]:
    """The standardised features of a table."""
    columns, names = list(table.numeric.values()), list(table.numeric)
    for name, codes in table.codes.items():
        for code, category in list(enumerate(table.categories[name]))[1:]:
            columns.append(codes == code)
            names.append(f"{name}_{category}")
    x = np.empty((len(table.positive), len(columns)))
    for k, column in enumerate(columns):
        values = column.astype(np.float64)
        x[:, k] = (values - values.mean()) / values.std()
    return Dataset(x, np.where(table.positive, 1.0, -1.0)), names


def load_table() -> Table:
    """The packed table."""
    packed = _load(TABLE_FILE)
    numeric = {key.removeprefix("numeric/"): packed[key] for key in packed if key.startswith("numeric/")}
    codes = {key.removeprefix("codes/"): packed[key] for key in packed if key.startswith("codes/")}
    categories = {name: packed[f"categories/{name}"].tolist() for name in codes}
    n = len(next(iter(codes.values())))
    return Table(numeric, codes, categories, np.unpackbits(packed["positive"], count=n).astype(bool))


def load_fit() -> Fit:
    """The stored separator and support points."""
    packed = _load(FIT_FILE)
    return Fit(packed["w"], float(packed["b"]), packed["support_rows"], packed["support_weights"])


def _load(name: str) -> dict[str, np.ndarray]:
    with resources.files("omm_jax.data").joinpath(name).open("rb") as file, np.load(file) as packed:
        return dict(packed)


@functools.cache
def _features() -> tuple[Dataset, list[str]]:
    data, names = featurise(load_table())
    return _read_only(data), names


@functools.cache
def _separable() -> Dataset:
    fit = load_fit()
    return _read_only(separable(_features()[0], fit.w, fit.b))


def _read_only(data: Dataset) -> Dataset:
    for array in data:
        array.flags.writeable = False
    return data
