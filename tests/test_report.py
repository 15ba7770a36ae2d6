import base64
import html.parser
import io
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from omm_jax import study
from omm_jax.study import StudyError, StudySpec
from omm_jax.study.spec import label
from omm_jax.study.statistics import mean, paired, quantiles
from omm_jax.study.store import Store, describe

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SPEC = StudySpec(
    title="A study of <nothing>",
    learners={"e-OMM": {"rho": [0.0, 0.5, 1.0]}, "ALMA": {"alpha": [0.3, 0.7], "C": [1.0, 2.0]}, "Perceptron": {}},
    data={"source": "clusters", "r": [2.0, 4.0]},
    replicates=60,
    lanes=30,
)


def made_up(folder, spec: StudySpec) -> Store:
    """A finished study with made-up counts: what is drawn is not the learners' business."""
    known = {"n": 100, "d": 5, "biased": False, "margin": 1.0, "radius": 3.0}
    profiles = [{"variant": label(variant), "diameter": 2.0, **known} for variant in spec.variants]
    store = Store.create(folder, describe(spec, spec.lanes, profiles))
    for chunk in store.chunks:
        rng = np.random.default_rng([chunk.number, 1])
        level = 5 + 3 * [name for name, _ in spec.learners].index(chunk.cell.learner)
        counts = rng.poisson(level, chunk.size).astype(np.int32)
        margin = rng.uniform(0.1, 1, chunk.size).astype(np.float32)
        columns = {"mistakes": counts, "updates": counts + 7, "tau": counts * 3, "status": counts * 0}
        store.write(chunk, columns | {"margin": np.where(counts % 5, margin, np.nan), "gamma": margin})
    store.seal()
    return store


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made_up(tmp_path_factory.mktemp("report") / "out", SPEC).folder


@pytest.fixture(scope="module")
def path(folder):
    return study.report(folder)


class Reader(html.parser.HTMLParser):
    """Collects what a page holds, and checks that its tags close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.words, self.tables = [], [], [], 0
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.images.append(dict(attributes))
        elif tag != "meta":
            self.open.append(tag)
            self.tables += tag == "table"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_whole_and_needs_nothing_else(path):
    import matplotlib.image

    text = path.read_text()
    page = Reader(text)
    assert "http" not in text and "<script" not in text
    files = sorted(path.parent.glob("*.png"))
    # For both variants: distributions, differences, margins, bounds. Then sweeps: rho, alpha, C, r; heat maps: rho x r,
    # C x alpha, C x r, alpha x r.
    assert len(files) == len(page.images) == 2 * 4 + 4 + 4
    for file, image in zip(files, page.images, strict=True):
        content = base64.b64decode(image["src"].removeprefix("data:image/png;base64,"), validate=True)
        assert content == file.read_bytes() and image["alt"]
        pixels = matplotlib.image.imread(io.BytesIO(content))
        assert pixels.shape[0] > 100 and pixels.std() > 0.02
    words = "".join(page.words)
    assert "A study of <nothing>" in words and "Paired differences to e-OMM" in words
    assert "Bounds beside what happened" in words and page.tables == 2 * 3


def test_its_figures_are_those_of_the_rows(folder, path):
    words = Reader(path.read_text()).words
    table = study.load(folder)
    rows = table[(table["learner"] == "Perceptron") & (table["variant"] == "r=2")]
    cells = [word.strip() for word in words[words.index("Perceptron") + 1 :]]
    median = next(e for e in quantiles(rows["mistakes"].to_numpy(), (0.5,)))
    assert cells[4] == f"{median.value:.0f}" and cells[5] == f"[{median.low:.0f}, {median.high:.0f}]"
    assert cells[10] == str(rows["mistakes"].max())


def test_an_unfinished_study_is_reported_only_when_asked(tmp_path):
    store = made_up(tmp_path, StudySpec(learners=["ROMMA"], data="clusters", replicates=4, lanes=2))
    store.survey().intact[0].unlink()
    with pytest.raises(StudyError, match="not complete"):
        study.report(tmp_path)
    path = study.report(tmp_path, tmp_path / "here", partial=True)
    assert path == tmp_path / "here" / "report.html" and "not complete" in path.read_text()


def test_columns_that_were_not_recorded_are_refused(tmp_path):
    spec = StudySpec(learners=["ROMMA"], data="clusters", replicates=2, lanes=2, record=("margin",))
    store = Store.create(tmp_path, describe(spec, 2, [{"variant": ""}]))
    store.write(store.chunks[0], {"margin": np.ones(2)})
    with pytest.raises(StudyError, match="mistakes and updates"):
        study.report(tmp_path)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; the page's structure is tested above")
def test_the_page_opens_in_a_browser(path, tmp_path):
    import matplotlib.image

    options = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    command = [CHROMIUM, *options.split(), "--disable-component-update", "--disable-sync", "--window-size=1100,2000"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={tmp_path / 'shot.png'}", path.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    pixels = matplotlib.image.imread(tmp_path / "shot.png")
    assert pixels.shape[:2] == (2000, 1100)
    # Text and pictures all the way down, not a blank or half-drawn page.
    bands = pixels[..., :3].reshape(10, 200, 1100, 3)
    assert (bands.std(axis=(1, 2, 3)) > 0.03).all()


class TestStatistics:
    def test_quantiles_are_those_of_the_empirical_distribution(self, rng):
        values = rng.poisson(9, 101)
        ordered = np.sort(values)
        for level, estimate in zip((0.05, 0.5, 1.0), quantiles(values, (0.05, 0.5, 1.0)), strict=True):
            assert estimate.value == ordered[int(np.ceil(level * 101)) - 1]
            assert estimate.low <= estimate.value <= estimate.high

    def test_intervals_cover(self, rng):
        """Of 300 samples of 80 with known mean and median, about 95 % of the intervals hold them."""
        samples = rng.poisson(20.0, (300, 80))
        hits = [e.low <= 20.0 <= e.high for e in (mean(sample, seed=k) for k, sample in enumerate(samples))]
        assert 0.90 <= np.mean(hits) <= 0.985
        hits = [e.low <= 20 <= e.high for e in (quantiles(s, (0.5,), seed=k)[0] for k, s in enumerate(samples))]
        assert np.mean(hits) >= 0.93  # a lattice: the interval is conservative

    def test_paired_differences_pair_by_replicate(self):
        first = pd.DataFrame({"replicate": [0, 1, 2, 3], "mistakes": [5, 6, 7, 8]})
        second = pd.DataFrame({"replicate": [3, 2, 1], "mistakes": [8, 9, 5]})
        pair = paired(first, second)
        assert pair.pairs == 3 and pair.mean.value == pytest.approx((1 - 2 + 0) / 3)
        assert pair.fewer == pytest.approx(1 / 3) and pair.equal == pytest.approx(1 / 3)
        with pytest.raises(ValueError, match="no replicate in common"):
            paired(first, second.assign(replicate=[7, 8, 9]))
