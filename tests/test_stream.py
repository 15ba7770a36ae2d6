import jax
import numpy as np
import pytest

import omm_jax as omm
from omm_jax.algorithms import ALGORITHMS
from omm_jax.stream import _show_block


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(700, 6)).astype(np.float32)
    y = np.where(x @ rng.normal(size=6) + 0.3 > 0, 1, -1)
    return x, y


def ragged(x, y, seed=0):
    """The same examples in batches of random lengths, empty ones among them."""
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(y), 20))
    return zip(np.split(x, cuts), np.split(y, cuts), strict=True)


def same(here, there):
    for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_stream_is_one_run_over_the_concatenation(name, data):
    x, y = data
    learner = ALGORITHMS[name]()
    whole = omm.run(learner, x, y, engine="scan", tau=False)
    end = omm.run_stream(learner, ragged(x, y), block=64)
    assert (end.seen, end.mistakes, end.updates) == (700, int(whole.mistakes), int(whole.updates))
    assert int(end.status) == int(whole.status)
    # Counts are exact; numbers come from two programs, which a compiler may round differently in the last place.
    for name in ("state", "w", "b", "gamma"):
        pairs = zip(jax.tree.leaves(getattr(end, name)), jax.tree.leaves(getattr(whole, name)), strict=True)
        for here, there in pairs:
            np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6, err_msg=name)


def test_how_the_stream_is_cut_changes_nothing(data):
    x, y = data
    learner = omm.with_bias(omm.alma(0.5), 2.0)
    ends = [omm.run_stream(learner, ragged(x, y, seed), block=block) for seed, block in ((1, 64), (2, 50), (3, 1000))]
    for end in ends[1:]:
        same(end, ends[0])


def test_no_recompilation_for_ragged_batches_or_other_hyperparameters(data):
    x, y = data
    omm.run_stream(omm.pumma(0.1), ragged(x, y, 1), block=64)
    before = _show_block._cache_size()
    omm.run_stream(omm.pumma(0.2), ragged(x, y, 2), block=64)
    assert _show_block._cache_size() == before


def test_state_in_state_out(data):
    x, y = data
    learner = omm.e_omm(0.5)
    whole = omm.run_stream(learner, [(x, y)], block=64)
    middle = omm.run_stream(learner, [(x[:301], y[:301])], block=64)
    same(omm.run_stream(learner, [(x[301:], y[301:])], start=middle, block=64), whole)


def test_saved_and_resumed(data, tmp_path):
    x, y = data
    learner = omm.with_bias(omm.romma(), -3.0)
    whole = omm.run_stream(learner, [(x, y)], block=64)

    def breaks_down():
        yield from omm.batches_of(x[:500], y[:500], size=33)
        raise RuntimeError("the power is gone")

    path = tmp_path / "learner.npz"
    with pytest.raises(RuntimeError, match="power"):
        omm.run_stream(learner, breaks_down(), block=64, checkpoint=path, every=2)
    assert omm.load_snapshot(path, learner).seen == 384
    same(omm.run_stream(learner, ragged(x, y), block=64, checkpoint=path, every=2), whole)
    # Nothing is left to do the second time.
    same(omm.run_stream(learner, ragged(x, y), block=64, checkpoint=path), whole)
    assert [entry.name for entry in tmp_path.iterdir()] == ["learner.npz"]


def test_memory_mapped_files(data, tmp_path):
    x, y = data
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy"]
    same(omm.run_stream(omm.e_omm(), omm.batches_of(*mapped, size=100), block=64), omm.run_stream(omm.e_omm(), [data]))


def test_snapshots_of_other_learners_and_damaged_ones_are_refused(data, tmp_path):
    path = tmp_path / "s.npz"
    omm.run_stream(omm.e_omm(0.5), [data], block=64, checkpoint=path)
    for other in (omm.e_omm(0.25), omm.pumma(0.5), omm.with_bias(omm.e_omm(0.5)), omm.e_omm(0.5, norm=omm.lp(3.0))):
        with pytest.raises(ValueError, match="another learner"):
            omm.load_snapshot(path, other)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="not an intact snapshot"):
        omm.load_snapshot(path, omm.e_omm(0.5))
    with pytest.raises(FileNotFoundError):
        omm.load_snapshot(tmp_path / "absent.npz", omm.e_omm(0.5))


def test_float64(data, tmp_path, x64):
    x, y = data[0].astype(np.float64), data[1]
    end = omm.run_stream(omm.e_omm(), ragged(x, y), block=64, checkpoint=tmp_path / "s.npz")
    assert end.w.dtype == np.float64
    same(omm.load_snapshot(tmp_path / "s.npz", omm.e_omm()), end)
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(ValueError, match="jax_enable_x64"):
        omm.load_snapshot(tmp_path / "s.npz", omm.e_omm())


def test_bad_streams_are_refused_in_words(data, tmp_path):
    x, y = data
    good = (x[:10], y[:10])
    for batches, message in (
        ([], "empty"),
        ([good, (x[:10, :3], y[:10])], "batch 1 .* has 3 features"),
        ([(x[:10], y[:9])], "got shapes"),
        ([(x[0], y[:1])], "got shapes"),
        ([(x[:10].astype(int), y[:10])], "float32 or float64"),
        ([good, (x[:10] * np.inf, y[:10])], "batch 1 .* NaN or infinite"),
        ([(x[:10], y[:10] * 2)], "labels"),
    ):
        with pytest.raises(ValueError, match=message):
            omm.run_stream(omm.perceptron(), batches, block=64)
    with pytest.raises(ValueError, match="at least 1"):
        omm.run_stream(omm.perceptron(), [good], block=0)
    with pytest.raises(ValueError, match="one label for each row"):
        next(omm.batches_of(x, y[:5]))
    path = tmp_path / "s.npz"
    end = omm.run_stream(omm.perceptron(), [good], checkpoint=path, block=64)
    with pytest.raises(ValueError, match="pass one of them"):
        omm.run_stream(omm.perceptron(), [good], checkpoint=path, start=end)
    with pytest.raises(ValueError, match="ends 3 examples before"):
        omm.run_stream(omm.perceptron(), [(x[:7], y[:7])], checkpoint=path)
    with pytest.raises(ValueError, match="has 3 features, the learner has seen examples of 6"):
        omm.run_stream(omm.perceptron(), [(x[:, :3], y)], start=end)
