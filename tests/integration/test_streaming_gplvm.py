"""Latent variable models for NumPy arrays and data frames: places, what they say of rows, gaps, novelty, keeping."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from streamgp import CheckpointError, StreamingGPLVM, StreamingGPRegressor

pytestmark = pytest.mark.slow

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)
SMALL: dict[str, Any] = {"warmup": 40, "n_features": 20, "batch_size": 4}


def circle(rows: int = 150, entries: int = 6) -> np.ndarray:
    """Rows on a closed curve in many dimensions, in random order, with a little noise."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, 2.0 * np.pi, rows)
    truth = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return 3.0 + np.tanh(truth @ rng.normal(size=(2, entries))) + 0.02 * rng.normal(size=(rows, entries))


ROWS = circle()


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    """A user's process: JAX's default is float32 there."""
    with jax.enable_x64(False):
        yield


@pytest.fixture(scope="module")
def fitted() -> StreamingGPLVM:
    with jax.enable_x64(False):
        return StreamingGPLVM(**SMALL).fit(ROWS[:120])


def test_calls_do_not_matter_and_the_process_stays_as_it_was(fitted):
    first = StreamingGPLVM(**SMALL).fit(ROWS[:88])  # the warm-up and three batches
    parts = StreamingGPLVM(**SMALL)
    for rows in (ROWS[:10], ROWS[10:70], ROWS[70:88]):
        parts.partial_fit(rows)
    assert_allclose(parts.embedding_, first.embedding_, rtol=1e-9, atol=1e-9)
    assert_allclose(parts.transform(ROWS[120:]), first.transform(ROWS[120:]), rtol=1e-9, atol=1e-9)
    assert not jax.config.jax_enable_x64
    assert fitted.rows_ == len(fitted.embedding_) == 120
    assert fitted.weights_.shape == (7,) and fitted.leading_ == int(fitted.weights_.argmax())
    assert [round(one["lengthscale"] ** 2, 9) for one in fitted.experts_] == [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]


def test_rows_of_a_batch_that_is_not_full_are_counted_and_learnt_later():
    model = StreamingGPLVM(**SMALL).partial_fit(ROWS[:50])
    assert model.rows_ == 50 and len(model.embedding_) == 48
    model.partial_fit(ROWS[50:52])
    assert model.rows_ == len(model.embedding_) == 52


def test_rows_are_explained_by_their_places(fitted):
    Z, std = fitted.transform(ROWS[120:], return_std=True)
    assert Z.shape == std.shape == (30, 2)
    place = fitted._learner.embed_rows(ROWS[120:]).posterior
    cov = np.linalg.inv(place.precision[:, fitted.leading_])
    assert_allclose(std**2, np.stack([cov[:, 0, 0], cov[:, 1, 1]], axis=1), rtol=1e-9)
    assert_allclose(fitted.transform(ROWS[120:]), Z)
    mean, spread = fitted.inverse_transform(Z, return_std=True)
    assert mean.shape == spread.shape == (30, 6)
    # A place may fit noise as well, two coordinates for six entries: bands hold no less than they promise.
    assert 0.85 <= np.mean(np.abs(ROWS[120:] - mean) <= 1.645 * spread) <= 1.0
    assert np.sqrt(np.mean(np.square(ROWS[120:] - mean))) < 0.05


def test_gaps_are_filled_in(fitted):
    holes = ROWS[120:].copy()
    gone = np.random.default_rng(0).random(holes.shape) < 0.2
    gone[:, 0] = False
    holes[gone] = np.nan
    filled, std = fitted.impute(holes, return_std=True)
    assert np.array_equal(filled[~gone], ROWS[120:][~gone]) and not std[~gone].any()
    error = np.abs(ROWS[120:] - filled)[gone]
    assert np.median(error) < 0.05
    assert 0.8 <= np.mean(error <= 1.645 * std[gone]) < 1.0
    assert_allclose(fitted.impute(holes), filled)
    assert np.isfinite(fitted.score_samples(holes)).all()


def test_what_is_new_has_a_low_density(fitted):
    usual, strange = fitted.score_samples(ROWS[120:]), fitted.score_samples(ROWS[120:, ::-1])
    assert np.median(usual) > np.median(strange) + 5.0
    other = StreamingGPLVM(**SMALL).fit(1024.0 * ROWS[:120])
    assert_allclose(other.score_samples(1024.0 * ROWS[120:]), usual - 6.0 * np.log(1024.0), rtol=1e-9)


def test_standardised_columns_have_the_same_say_whatever_their_units():
    units = np.array([1.0, 1024.0, 1.0, 0.25, 64.0, 1.0])
    same = StreamingGPLVM(**SMALL, standardise=True).fit(ROWS[:60])
    other = StreamingGPLVM(**SMALL, standardise=True).fit(ROWS[:60] * units)
    assert_allclose(other.transform(ROWS[100:] * units), same.transform(ROWS[100:]), rtol=1e-6, atol=1e-6)
    usual = same.score_samples(ROWS[100:])
    assert_allclose(other.score_samples(ROWS[100:] * units), usual - np.log(units).sum(), rtol=1e-6)
    mean, std = (a / units for a in other.inverse_transform(np.zeros((1, 2)), return_std=True))
    assert_allclose((mean, std), same.inverse_transform(np.zeros((1, 2)), return_std=True), rtol=1e-5)


def test_data_frames_and_names(fitted):
    names = list("abcdef")
    frame = pd.DataFrame(ROWS[:60], columns=pd.Index(names))
    model = StreamingGPLVM(**SMALL).set_output(transform="pandas").fit(frame)
    assert list(model.feature_names_in_) == names
    assert list(model.transform(frame).columns) == ["streaminggplvm0", "streaminggplvm1"]
    assert_allclose(model.transform(frame).to_numpy(), StreamingGPLVM(**SMALL).fit_transform(ROWS[:60]))


def test_a_kept_model_goes_on_as_if_nothing_had_happened(tmp_path):
    whole = StreamingGPLVM(**SMALL, dynamics="walk 1e-4", switch=0.01).partial_fit(ROWS)
    for stop in (30, 75):
        part = StreamingGPLVM(**SMALL, dynamics="walk 1e-4", switch=0.01)
        part.partial_fit(pd.DataFrame(ROWS[:stop], columns=pd.Index(list("abcdef")))).save(tmp_path / "kept")
        other = StreamingGPLVM.load(tmp_path / "kept")
        assert list(other.feature_names_in_) == list("abcdef") and other.rows_ == stop
        other.partial_fit(pd.DataFrame(ROWS[stop:], columns=pd.Index(list("abcdef"))))
        assert_allclose(other.embedding_, whole.embedding_, rtol=1e-9, atol=1e-9)
        kept = other.score_samples(pd.DataFrame(ROWS[:5], columns=pd.Index(list("abcdef"))))
        assert_allclose(kept, whole.score_samples(ROWS[:5]), rtol=1e-9)
    with pytest.raises(CheckpointError, match="expected a checkpoint of a StreamingGPRegressor"):
        StreamingGPRegressor.load(tmp_path / "kept")


def test_bad_rows_leave_everything_as_it_was(fitted):
    before = fitted.transform(ROWS[:3])
    empty, endless = ROWS[:3].copy(), ROWS[:3].copy()
    empty[1] = np.nan
    endless[2, 0] = np.inf
    for rows, message in ((empty, "row 1 has none"), (endless, "infinity"), (ROWS[:3, :4], "4 features")):
        with pytest.raises(ValueError, match=message):
            fitted.partial_fit(rows)
        with pytest.raises(ValueError, match=message):
            fitted.transform(rows)
    wide = np.concatenate([empty, empty], axis=1)
    for rows in (wide, np.concatenate([endless, endless], axis=1), 1e120 * np.ones((5, 9))):
        with pytest.raises(ValueError, match=r"row 1 has none|infinity|at most 1e\+100, got 1e\+120 in row 0"):
            fitted.fit(rows)
    assert fitted.rows_ == 120 and fitted.n_features_in_ == 6
    assert np.array_equal(fitted.transform(ROWS[:3]), before)


def test_before_the_end_of_the_warm_up_the_message_says_what_is_missing():
    with pytest.raises(NotFittedError, match="has not seen any row"):
        StreamingGPLVM().transform(ROWS)
    model = StreamingGPLVM(warmup=40).partial_fit(ROWS[:10])
    assert model.rows_ == 10
    with pytest.raises(NotFittedError, match="10 of the 40 rows"):
        model.transform(ROWS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "n_components: expected a whole number"),
        ({"warmup": 0}, "warmup: expected a whole number"),
        ({"dynamics": "dance"}, "dynamics"),
        ({"switch": 1.5}, "switch: expected a probability"),
        ({"max_neighbours": 99}, "max_neighbours: expected at least 128"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        StreamingGPLVM(**({"warmup": 40} | settings)).partial_fit(ROWS)


def test_places_beyond_words(fitted):
    with pytest.raises(ValueError, match="2 coordinates, got 3"):
        fitted.inverse_transform(np.zeros((2, 3)))


def test_rows_to_come_compile_nothing():
    model = StreamingGPLVM(**SMALL).partial_fit(ROWS[:57]).partial_fit(ROWS[57:58])
    holes = ROWS[:20].copy()
    holes[:, 0] = np.nan

    def use() -> None:
        model.inverse_transform(model.transform(ROWS[:17]))
        model.impute(holes)
        model.score_samples(ROWS)

    model.partial_fit(ROWS[58:74])
    use()
    assert COMPILED
    COMPILED.clear()
    model.partial_fit(ROWS[74:100]).partial_fit(ROWS[100:101]).partial_fit(ROWS[101:])
    use()
    assert COMPILED == []
