"""The packed Adult data, its reader and the script that builds it."""

import hashlib
import zipfile
from importlib import resources

import numpy as np
import pytest

import omm_jax as omm
from omm_jax.data import build_adult
from omm_jax.data.adult import load_fit, load_table


def test_the_separable_set_is_the_papers():
    x, y = omm.data.adult()
    assert x.shape == (35_508, 96) and y.shape == (35_508,)
    assert x.dtype == y.dtype == np.float64
    assert int((y == 1).sum()) == 9_626 and int((y == -1).sum()) == 25_882


# sha256 of the numbers of the kept rows among the 45,222, as little-endian int32, made by an independent script.
KEPT_ROWS = "d3391e8a2c7ed6fda97896d5e059ea38799925dd3889e4483b1ff8a3581a886d"


def test_the_features_are_standardised_and_named():
    data, names = omm.data.adult_features()
    assert data.x.shape == (45_222, 96) and int((data.y > 0).sum()) == 11_208
    np.testing.assert_allclose(data.x.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(data.x.std(axis=0), 1, atol=1e-9)
    assert names[:2] == ["age", "fnlwgt"] and names[-1] == "native-country_Yugoslavia"
    assert len(set(names)) == 96
    # The first raw row: 39, State-gov, 77516, Bachelors, ..., <=50K.
    row = dict(zip(names, data.x[0], strict=True))
    assert row["workclass_State-gov"] > 0 > row["workclass_Private"] and row["education_Bachelors"] > 0
    assert data.y[0] == -1


def test_the_kept_rows_are_those_beyond_the_band_in_their_order():
    fit = load_fit()
    data, _ = omm.data.adult_features()
    distance = data.y * (data.x @ fit.w + fit.b) / np.linalg.norm(fit.w)
    # Nothing lies so near the edge of the band that another BLAS could decide otherwise.
    assert np.abs(distance - 0.01).min() > 1e-6
    kept = np.flatnonzero(distance >= 0.01)
    assert hashlib.sha256(kept.astype("<i4").tobytes()).hexdigest() == KEPT_ROWS
    x, y = omm.data.adult()
    np.testing.assert_array_equal(x, data.x[kept])
    np.testing.assert_array_equal(y, data.y[kept])


def test_arrays_are_shared_and_cannot_be_spoiled():
    x, _ = omm.data.adult()
    with pytest.raises(ValueError, match="read-only"):
        x[0, 0] = 1.0


def test_packing_is_deterministic_and_gives_the_packed_files_back():
    content = build_adult.pack_table(load_table())
    assert content == build_adult.pack_table(load_table())
    assert len(content) < 1_000_000
    for name in ("adult.npz", "adult_fit.npz"):
        with resources.files("omm_jax.data").joinpath(name).open("rb") as file, zipfile.ZipFile(file) as archive:
            assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_raw_files_are_parsed_and_their_hashes_checked(tmp_path, monkeypatch):
    rows = [
        "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
        "United-States, <=50K",
        "50, ?, 83311, Bachelors, 13, Divorced, Sales, Husband, White, Male, 0, 0, 13, United-States, >50K",
        "",
    ]
    test = [
        "|1x3 Cross validator",
        "25, Private, 226802, 11th, 7, Divorced, Sales, Own-child, Black, Male, 0, 0, 40, Peru, >50K.",
    ]
    (tmp_path / "adult.data").write_text("\n".join(rows))
    (tmp_path / "adult.test").write_text("\n".join(test))
    with pytest.raises(ValueError, match=r"adult\.data has sha256 .* expected .* fetch the original"):
        build_adult.read_raw(tmp_path)
    hashes = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in build_adult.SHA256}
    monkeypatch.setattr(build_adult, "SHA256", hashes)
    table = build_adult.read_raw(tmp_path)
    assert table.positive.tolist() == [False, True]
    assert table.numeric["fnlwgt"].tolist() == [77516, 226802]
    assert table.categories["native-country"] == ["Peru", "United-States"]
    assert table.codes["native-country"].tolist() == [1, 0]


def test_the_stored_certificate_and_diameter_are_what_the_solvers_find(x64):
    x, y = omm.data.adult()
    stored, fit = omm.data.adult_variant(), load_fit()
    solution = omm.max_margin(x, y)
    assert float(solution.lower) <= stored.gamma * (1 + 1e-9) and stored.gamma <= float(solution.upper) * (1 + 1e-9)
    np.testing.assert_array_equal(solution.support.row, fit.support_rows)
    np.testing.assert_allclose(solution.w, stored.w, atol=1e-8)
    np.testing.assert_allclose(float(solution.b), stored.b, atol=1e-8)
    sizes = omm.geometry(x, y, gamma=stored.gamma)
    np.testing.assert_allclose([float(sizes.D), float(sizes.D_bar)], [stored.D, stored.D_bar], rtol=1e-12)
    assert [round(float(size), 4) for size in (sizes.D_pos, sizes.D_neg)] == [77.24, 220.4355]
