"""Rebuild the packed Adult files from the raw UCI files: `python -m omm_jax.data.build_adult RAW_DIR`.

RAW_DIR holds `adult.data` and `adult.test` as UCI distributes them; their sha256 is checked. The same input gives the
same bytes. The maximum-margin classifier of the separable set is solved again; the stored separator is kept, and
`--refit` fits it again with scikit-learn (two to three minutes) and says how far the result is from the stored one.
"""

import argparse
import hashlib
import io
import time
import zipfile
from pathlib import Path

import jax
import numpy as np

from omm_jax.data.adult import FIT_FILE, TABLE_FILE, Fit, Table, featurise, load_fit, separable
from omm_jax.data.dataset import Dataset
from omm_jax.maxmargin import max_margin

SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
)
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


def read_raw(folder: Path) -> Table:
    """The complete rows of the raw files, training file first.

    Raises:
        ValueError: if a file is not the one UCI distributes.
    """
    rows = []
    for name, expected in SHA256.items():
        content = (folder / name).read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != expected:
            raise ValueError(f"{name} has sha256 {found}, expected {expected}: fetch the original UCI Adult file")
        for line in content.decode("ascii").splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == len(COLUMNS) + 1 and "?" not in fields:
                rows.append(fields)
    text = {column: [row[k] for row in rows] for k, column in enumerate(COLUMNS)}
    numeric, codes, categories = {}, {}, {}
    for name in COLUMNS:
        if name in NUMERIC:
            integers = np.array([int(value) for value in text[name]])
            numeric[name] = integers.astype(np.min_scalar_type(int(integers.max())))
        else:
            # np.unique sorts, and its inverse is the category number.
            found_names, inverse = np.unique(np.array(text[name]), return_inverse=True)
            codes[name], categories[name] = inverse.astype(np.uint8), found_names.tolist()
    # The labels of the test file end in a dot.
    positive = np.array([row[-1].rstrip(".") == ">50K" for row in rows])
    return Table({name: numeric[name] for name in NUMERIC}, codes, categories, positive)


def pack_table(table: Table) -> bytes:
    """The bytes of `adult.npz`."""
    arrays = {f"numeric/{name}": column for name, column in table.numeric.items()}
    arrays |= {f"codes/{name}": column for name, column in table.codes.items()}
    arrays |= {f"categories/{name}": np.array(names) for name, names in table.categories.items()}
    return pack(arrays | {"positive": np.packbits(table.positive)})


def pack_fit(fit: Fit) -> bytes:
    """The bytes of `adult_fit.npz`."""
    return pack({name: np.asarray(value) for name, value in fit._asdict().items()})


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a compressed .npz without time stamps: equal arrays give equal bytes (for one zlib)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(entry, content.getvalue(), compresslevel=9)
    return buffer.getvalue()


def fit_separator(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The linear support vector classifier whose sides and band make the separable set."""
    try:
        from sklearn.svm import SVC
    except ImportError as error:
        raise ImportError('refitting the separator needs scikit-learn: pip install "omm_jax[dev]"') from error
    model = SVC(kernel="linear", C=0.01, class_weight="balanced").fit(x, y)
    return model.coef_[0], float(model.intercept_[0])


def solve_support(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Rows and weights of the support points of a data set's maximum-margin classifier; needs float64 in JAX."""
    solution = max_margin(*data)
    print(f"margin of the separable set in [{float(solution.lower):.12f}, {float(solution.upper):.12f}]")
    return np.asarray(solution.support.row, np.int32), np.asarray(solution.support.weight, np.float64)


def _refit(data: Dataset, fit: Fit) -> None:
    print("refitting the separator (two to three minutes)", flush=True)
    start = time.perf_counter()
    w, b = fit_separator(*data)
    size = np.linalg.norm(fit.w)
    stored, found = separable(data, fit.w, fit.b), separable(data, w, b)
    cosine = w @ fit.w / (np.linalg.norm(w) * size)
    print(f"fitted in {time.perf_counter() - start:.0f} s: |w| = {np.linalg.norm(w):.6f}, b = {b:.6f}")
    print(f"stored:            |w| = {size:.6f}, b = {fit.b:.6f}")
    print(f"distance |w - stored w| / |w| = {np.linalg.norm(w - fit.w) / size:.1e}, b - stored b = {b - fit.b:+.1e},")
    print(f"1 - cosine = {1 - cosine:.1e}; separable set: {len(found.y)} rows, stored one {len(stored.y)}")
    print("the two sets are " + ("the same" if np.array_equal(found.x, stored.x) else "NOT the same"))


def _write(path: Path, content: bytes) -> None:
    same = path.exists() and path.read_bytes() == content
    if not same:
        temporary = path.with_suffix(".partial")
        temporary.write_bytes(content)
        temporary.replace(path)
    print(f"{path.name}: {len(content):,} bytes, {'unchanged' if same else 'written'}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw_dir", type=Path, help="folder with adult.data and adult.test")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="where to write (default: the package)")
    parser.add_argument("--refit", action="store_true", help="fit the separator again and compare")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    table = read_raw(arguments.raw_dir)
    data, names = featurise(table)
    print(f"{len(table.positive):,} complete rows, {int(table.positive.sum()):,} positive, {len(names)} features")
    arguments.out.mkdir(parents=True, exist_ok=True)
    _write(arguments.out / TABLE_FILE, pack_table(table))
    fit = load_fit()
    rows, weights = solve_support(separable(data, fit.w, fit.b))
    # Where only the rounding of the solver is another, what is stored stays.
    if not (np.array_equal(rows, fit.support_rows) and np.allclose(weights, fit.support_weights, rtol=0, atol=1e-9)):
        fit = fit._replace(support_rows=rows, support_weights=weights)
    _write(arguments.out / FIT_FILE, pack_fit(fit))
    if arguments.refit:
        _refit(data, fit)


if __name__ == "__main__":
    main()
