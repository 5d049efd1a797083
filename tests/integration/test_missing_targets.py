"""Rows without a target among lags: a day stays a day, however rows are cut, and in a stream that is stored."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from streamgp import StreamingGPFleet, StreamingGPRegressor, evaluate

NAN, DAY, WARMUP = np.nan, 12, 120


def hourly(rows: int = 420, share: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return an input that tells nothing, and targets that go with the hour, of which some are missing."""
    rng = np.random.default_rng(seed)
    shape = 3.0 * rng.normal(size=DAY)
    y = shape[np.arange(rows) % DAY] + np.cumsum(0.05 * rng.normal(size=rows)) + 0.3 * rng.normal(size=rows)
    X = rng.normal(size=(rows, 1))
    y[1 + np.flatnonzero(rng.random(rows - 1) < share)] = NAN
    return X, y


def new(**options: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", **({"warmup": WARMUP, "lags": "auto"} | options))


@pytest.mark.parametrize("share", [0.03, 0.2])
def test_the_lag_of_a_day_is_found_and_as_good_as_with_all_targets(share: float):
    for seed in range(3):
        X, whole = hourly(seed=seed, share=0.0)
        _, y = hourly(seed=seed, share=share)
        assert np.isnan(y).mean() > share / 2
        missed, best = new(), new()
        found = evaluate(missed, X, y, progress=False).metrics["nmse"]
        expected = evaluate(best, X, whole, progress=False).metrics["nmse"]
        assert DAY in missed._learner.spec.lags
        assert found < 2.0 * expected < 0.2  # when a lag counted the rows learnt: about 1


def test_cuts_and_storing_change_nothing(tmp_path: Path):
    X, y = hourly()
    y[60:75], y[200:230] = NAN, NAN  # longer than a day
    X[[30, 220, 300]] = NAN
    whole = evaluate(new(lags=(1, DAY)), X, y, progress=False)
    for cuts in ([1, 62, 118, 121, 210, 215, 330], list(range(1, len(y)))):
        model, means, stds = new(lags=(1, DAY)), [], []
        for a, b in zip([0, *cuts], [*cuts, len(y)], strict=True):
            part = evaluate(model, X[a:b], y[a:b], progress=False)
            means.append(part.mean)
            stds.append(part.std)
            if a in (62, 210):
                model.save(tmp_path / str(a))
                model = StreamingGPRegressor.load(tmp_path / str(a))
        np.testing.assert_allclose(np.concatenate(means), whole.mean, rtol=1e-9)
        np.testing.assert_allclose(np.concatenate(stds), whole.std, rtol=1e-9)


def test_a_prediction_knows_nothing_of_later_rows():
    X, y = hourly()
    told = evaluate(new(), X, y, progress=False).mean
    for at in (50, 119, 200, 330):
        other = np.where(np.arange(len(y)) >= at, 5.0 - y, y)
        np.testing.assert_array_equal(evaluate(new(), X, other, progress=False).mean[: at + 1], told[: at + 1])


def test_where_a_target_is_missing_its_prediction_is_a_lag():
    X, y = hourly(share=0.0)
    told = y.copy()
    told[300:303] = NAN
    first = evaluate(new(lags=(1,)), X, told, progress=False)
    model = new(lags=(1,))
    model.partial_fit(X[:300], y[:300])
    for row in range(300, 303):
        mean = float(np.ravel(model.predict(X[row : row + 1]))[0])
        assert mean == pytest.approx(float(first.mean[row]), rel=1e-9)
        model.partial_fit(X[row : row + 1], np.array([NAN]))
    assert float(np.ravel(model.predict(X[303:304]))[0]) == pytest.approx(float(first.mean[303]), rel=1e-9)
    last = model._learner.state.inputs.lags.last
    assert last[-1, 0] == pytest.approx(float(first.mean[302]), rel=1e-9)


def test_seasons_go_by_the_clock():
    X, y = hourly(share=0.2)
    times = np.datetime64("2024-01-01", "s") + 7200 * np.arange(len(y)).astype("timedelta64[s]")
    model = new(calendar=None)
    result = evaluate(model, X, y, times, progress=False)
    assert f"seasonal_{DAY}" in result.metrics["naive"] and DAY in model._learner.spec.lags


def test_a_fleet_finds_its_season_and_keeps_it():
    scores = []
    for share in (0.0, 0.2):
        rng, frames = np.random.default_rng(0), []
        for k in range(6):
            y = 3.0 * np.sin(2.0 * np.pi * np.arange(300) / DAY + k) + 0.3 * rng.normal(size=300)
            y[np.random.default_rng(100 + k).random(300) < share] = NAN
            frames.append(pl.DataFrame({"unique_id": [f"k{k}"] * 300, "ds": np.arange(300.0), "y": y}))
        fleet = StreamingGPFleet(warmup=600)
        scores.append(fleet.evaluate(pl.concat(frames).sort("ds", maintain_order=True)).metrics["crps"])
        assert DAY in fleet.learner.engine.model.features.lags
    assert scores[1] < 1.15 * scores[0]  # when a lag counted the rows learnt: 2.2 times
