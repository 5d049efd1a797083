"""Forecasts of several rows of a fleet's keys along their streams: those of `forecast` at each origin, scored."""

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import StreamingGPFleet
from streamgp.evaluation.step_baselines import StepBaselines
from streamgp.evaluation.step_scores import LEVELS, StepScores
from streamgp.fleet import evaluation
from streamgp.fleet.steps import Steps
from streamgp.fleet.steps_ahead import FleetStepsAhead, seasons_of
from streamgp.numerics import checkpoint

pytestmark = pytest.mark.slow

H, SEASON, WARMUP, ROWS, KEYS = 5, 6, 90, 110, 3
EVERY = 5  # 5 rows go through a season of 6


def rows_of(keys: int = KEYS, rows: int = ROWS, seed: int = 0) -> pl.DataFrame:
    """Keys of different sizes with a season; one comes later, one misses rows, and some targets are missing."""
    rng, found = np.random.default_rng(seed), []
    for k in range(keys):
        times = np.arange(40 if k == 2 else 0, rows, dtype=float)
        times = times[rng.random(len(times)) > 0.1] if k == 1 else times
        noise = rng.normal(size=len(times))
        y = 10.0**k * (
            2.0 * np.sin(2 * np.pi * times / SEASON) + np.cumsum(0.2 * noise) + rng.normal(size=len(times))
        )
        y[rng.random(len(y)) < 0.05] = np.nan
        found.append(pl.DataFrame({"unique_id": f"k{k}", "ds": times, "y": y}))
    return pl.concat(found).sort("ds", "unique_id")


def fleet(**more: Any) -> StreamingGPFleet:
    return StreamingGPFleet(**{"warmup": WARMUP, "lags": (1, 2), "season": SEASON} | more)


def by_hand(rows: pl.DataFrame) -> dict[tuple[str, int], pl.DataFrame]:
    """What a fleet that learns row by row forecasts at the origins of each key, by key and number of its rows."""
    model, count, first, found = fleet(), dict[str, int](), dict[str, int](), {}
    for row in rows.iter_slices(1):
        key = row["unique_id"][0]
        n = count.get(key, 0)
        if model.is_warm_:
            if not first:
                first = {k: max(c, SEASON + 16) for k, c in count.items()}
            since = n - first.setdefault(key, SEASON + 16)
            if since >= 0 and since % EVERY == 0:
                found[key, n] = model.forecast(H, keys=[key])
        model.partial_fit(row)
        count[key] = n + 1
    return found


def test_they_are_the_forecasts_of_each_origin():
    rows = rows_of()
    found = fleet().evaluate(rows, H)
    assert found.metrics["steps_ahead"]["origins_every"] == EVERY
    origins = by_hand(rows)
    assert len(origins) == found.metrics["steps_ahead"]["forecasts"] > 30
    seen = 0
    for key in ("k0", "k1", "k2"):
        mine = found.frame.filter(unique_id=key)
        expected = np.zeros(len(mine), int)
        for (_, n), forecast in ((place, each) for place, each in origins.items() if place[0] == key):
            ahead = mine[n : n + H]
            expected[n : n + H] = np.arange(1, len(ahead) + 1)
            for name in ("mean", "std", "q05", "q50", "q95"):
                assert_allclose(ahead[f"ahead_{name}"], forecast[name][: len(ahead)], rtol=1e-9, err_msg=name)
            seen += len(ahead)
        assert_array_equal(mine["step"], expected)
    assert seen == (found.frame["step"] > 0).sum() > 150


def test_the_scores_are_those_of_a_loop():
    rows = rows_of()
    found = fleet().evaluate(rows, H)
    y = {key: rows.filter(unique_id=key)["y"].to_numpy() for key in ("k0", "k1", "k2")}
    frames = {key: found.frame.filter(unique_id=key) for key in y}
    first = {key: int(np.flatnonzero(frame["step"].to_numpy() == 1)[0]) for key, frame in frames.items()}
    usual = {k: np.nanmean(np.abs(v[SEASON : first[k]] - v[: first[k] - SEASON])) for k, v in y.items()}
    entries = found.metrics["steps_ahead"]["by_step"]
    for step in range(1, H + 1):
        errors, lasts, seasons, units, inside = [], [], [], [], []
        for key, frame in frames.items():
            for i in np.flatnonzero(frame["step"].to_numpy() == step):
                before, target = y[key][: i - step + 1], y[key][i]
                if np.isnan(target):
                    continue
                last = before[np.isfinite(before)][-1]
                each = before[len(before) - SEASON + (step - 1) % SEASON :: -SEASON]
                season = next((value for value in each[:3] if np.isfinite(value)), last)
                errors.append(frame["ahead_mean"][int(i)] - target)
                lasts.append(last - target)
                seasons.append(season - target)
                units.append(usual[key])
                inside.append(frame["ahead_q05"][int(i)] <= target <= frame["ahead_q95"][int(i)])
        entry, unit = entries[step - 1], np.array(units)
        assert entry["rows"] == len(errors) and entry["nmse"] is None
        assert_allclose(entry["rmse"], np.sqrt(np.mean(np.square(errors))), rtol=1e-9)
        assert_allclose(entry["mae"], np.mean(np.abs(errors)), rtol=1e-9)
        assert_allclose(entry["mase"], np.mean(np.abs(errors) / unit), rtol=1e-9)
        assert_allclose(entry["scaled_rmse"], np.sqrt(np.mean(np.square(errors / unit))), rtol=1e-9)
        assert_allclose(entry["coverage"]["90"], np.mean(inside), rtol=1e-9)
        for name, naive in (("persistence", lasts), (f"seasonal_{SEASON}", seasons)):
            assert_allclose(entry["naive"][name]["rmse"], np.sqrt(np.mean(np.square(naive))), rtol=1e-9)
            scaled = np.sqrt(np.mean(np.square(naive / unit)))
            assert_allclose(entry["naive"][name]["scaled_rmse"], scaled, rtol=1e-9)


def test_one_key_is_scored_as_a_single_stream():
    rows = rows_of(keys=1, rows=220, seed=4)
    found = fleet().evaluate(rows, H)
    frame, y = found.frame, rows["y"].to_numpy()[:, None]
    start = int(np.flatnonzero(frame["step"].to_numpy() == 1)[0])
    baselines, scores = StepBaselines(H, 1), StepScores(H, ["y"])
    baselines.take_in(y[:start])
    mean = frame["ahead_mean"].to_numpy()[:, None]
    for origin in range(start, len(y), EVERY):
        at = slice(origin, origin + H)
        baselines.forecast([SEASON])
        scores.begin(baselines.names)
        steps, usual = np.arange(len(y[at])), np.broadcast_to(baselines.scales, y[at].shape)
        inside = np.zeros((len(LEVELS), *y[at].shape), bool)
        scores.add(steps, y[at], mean[at], mean[at], inside, baselines.naive(slice(0, len(steps))), usual)
        baselines.take_in(y[at])
    for ours, theirs in zip(found.metrics["steps_ahead"]["by_step"], scores.entries(), strict=True):
        for name in ("rows", "rmse", "mae", "mase"):
            assert_allclose(ours[name], theirs[name], rtol=1e-9, err_msg=name)
        assert ours["judgement"]["verdict"] == theirs["judgement"]["verdict"]
        for name in ("skill", "low", "high"):
            assert_allclose(ours["judgement"][name], theirs["judgement"][name], rtol=1e-9)
        assert ours["naive"]["persistence"]["rmse"] == pytest.approx(theirs["naive"]["persistence"]["rmse"], rel=1e-9)


@pytest.mark.parametrize("sizes", [(1,), (7, 64)])
def test_chunks_and_resumed_fleets_are_one(tmp_path: Path, sizes: tuple[int, ...]):
    rows = rows_of()
    whole = fleet().evaluate(rows, H)
    model, ahead, frames, at, number = fleet(), FleetStepsAhead(H, "y"), [], 0, 0
    while at < len(rows):
        size = sizes[number % len(sizes)]
        frames.append(evaluation.tested(model.learner, rows[at : at + size], ahead)[0])
        if at // 60 != (at + size) // 60:  # in the warm-up, at its end, and later
            model.save_with(tmp_path / "fleet", {"ahead": ahead.to_tree()})
            model = StreamingGPFleet.load(tmp_path / "fleet")
            ahead = FleetStepsAhead.from_tree(checkpoint.load_of(tmp_path / "fleet", StreamingGPFleet)["ahead"])
        at, number = at + size, number + 1
    frame = pl.concat(frames)
    assert_array_equal(frame["step"], whole.frame["step"])
    for name in ("mean", "ahead_mean", "ahead_std", "ahead_q05", "ahead_q95"):
        assert_allclose(frame[name], whole.frame[name], rtol=1e-9, atol=1e-12, err_msg=name)
    for ours, theirs in zip(
        ahead.metrics()["steps_ahead"]["by_step"], whole.metrics["steps_ahead"]["by_step"], strict=True
    ):
        for name in ("rows", "rmse", "mase", "crps", "scaled_rmse"):
            assert_allclose(ours[name], theirs[name], rtol=1e-9, err_msg=name)
        assert_allclose(ours["judgement"]["low"], theirs["judgement"]["low"], rtol=1e-9)


def test_the_predictions_are_those_without_and_no_forecast_knows_a_later_row():
    rows = rows_of()
    found, plain = fleet().evaluate(rows, H), fleet().evaluate(rows)
    for name in ("mean", "std", "q05", "q95", "log_density"):
        assert_allclose(found.frame[name], plain.frame[name], rtol=1e-9, err_msg=name)
    assert "steps_ahead" not in plain.metrics
    spoilt = rows.with_columns(y=pl.when(pl.col("ds") >= 83).then(1e3).otherwise("y"))
    other = fleet().evaluate(spoilt, H).frame
    # The forecasts whose origins lie before, whatever they are of.
    made = (pl.col("ds") - pl.col("step") < 83) & (pl.col("unique_id") == "k0") & (pl.col("step") > 0)
    one, two = (frame.filter(made)["ahead_mean"].to_numpy() for frame in (found.frame, other))
    assert len(one) > 30 and (found.frame.filter(made)["ds"] >= 83).any()
    assert_array_equal(one, two)


def test_bands_know_that_the_inputs_to_come_are_not_known():
    rng, keys, rows = np.random.default_rng(0), 20, 150
    x = rng.normal(size=(rows, keys))
    y = 5.0 * np.arange(keys) + 3.0 * x + 0.3 * rng.normal(size=(rows, keys))
    names = [f"k{k}" for k in range(keys)] * rows
    table = pl.DataFrame(
        {"unique_id": names, "ds": np.repeat(np.arange(float(rows)), keys), "y": y.ravel(), "x": x.ravel()}
    )
    for entry in fleet(season=None).evaluate(table, H).metrics["steps_ahead"]["by_step"]:
        assert entry["rmse"] == pytest.approx(3.0, rel=0.1)
        for level, share in entry["coverage"].items():
            assert abs(share - int(level) / 100) < 0.05


@pytest.mark.parametrize(("gap", "cycles"), [("1h", {24: "day", 168: "week"}), ("1mo", {12: "year"})])
def test_seasons_are_those_of_the_calendar_and_the_longest_lag(gap: str, cycles: dict[int, str]):
    times = pl.datetime_range(datetime(2024, 1, 1), datetime(2026, 1, 1), gap, eager=True).dt.timestamp("us") / 1e6
    steps = Steps.of(np.zeros(len(times), int), times.to_numpy(), True, None)
    assert list(seasons_of((1, 5), steps, True).items()) == [(5, None), *cycles.items()]
    assert seasons_of((1, 5), Steps(steps.unit), dated=False) == {5: None}


@pytest.mark.parametrize("steps", [1, -3])
def test_too_few_steps_leave_the_fleet_untouched(steps: int):
    model = fleet()
    with pytest.raises(ValueError, match=f"steps_ahead: expected at least 2 rows ahead, got {steps}"):
        model.evaluate(rows_of(), steps)
    assert model.rows_ == 0
