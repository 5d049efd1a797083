"""Bounds and transforms of a fleet's targets: what is predicted is what a fleet of mapped targets says of them."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from streamgp import StreamingGPFleet
from streamgp.likelihoods import TargetMap
from streamgp.table import DataError

pytestmark = pytest.mark.slow

KEYS, ROWS, WARMUP = 8, 90, 200
MAPS = {"log": (None, None), "log1p": (2.0, None), "logit": (0.0, 5.0)}


def mapped(transform: str | None = "log", seed: int = 0) -> pl.DataFrame:
    """Keys whose targets, on the scale of the transform, come from their past; one target is missing."""
    rng = np.random.default_rng(seed)
    level, last, found = rng.normal(size=KEYS), np.zeros(KEYS), []
    for _ in range(ROWS):
        last = 0.7 * last + 0.4 * rng.normal(size=KEYS)
        found.append(level + last)
    z = np.maximum(np.array(found).ravel(), 0.0) if transform == "log1p" else np.array(found).ravel()
    y = z if transform is None else TargetMap.of(transform, MAPS[transform]).inverse(z)
    y[100] = np.nan
    names = [f"k{k}" for k in range(KEYS)] * ROWS
    return pl.DataFrame({"unique_id": names, "ds": np.repeat(np.arange(float(ROWS)), KEYS), "y": y})


@pytest.mark.parametrize("transform", list(MAPS))
def test_a_transform_is_a_fleet_of_mapped_targets(transform: str):
    rows, target = mapped(transform), TargetMap.of(transform, MAPS[transform])
    model = StreamingGPFleet(warmup=WARMUP, target_transform=transform, bounds=MAPS[transform])
    plain = StreamingGPFleet(warmup=WARMUP)
    found, other = model.evaluate(rows), plain.evaluate(rows.with_columns(y=target.forward(rows["y"].to_numpy())))
    frame, y = found.frame, rows["y"].to_numpy()
    for name in ("q05", "q50", "q95"):
        assert_allclose(frame[name], target.inverse(other.frame[name].to_numpy()), rtol=1e-9, err_msg=name)
    slope = target.log_slope(y)
    assert_allclose(frame["log_density"], other.frame["log_density"] + slope, rtol=1e-9)
    levels = [10, 30, 50, 70, 90]
    ahead = model.forecast(3, level=levels)
    bands, behind = (each.select(pl.col("^mean-.*$")) for each in (ahead, plain.forecast(3, level=levels)))
    for name in bands.columns:
        assert_allclose(bands[name], target.inverse(behind[name].to_numpy()), rtol=1e-9, err_msg=name)
    # The mean lies where the quantiles have it, roughly: those of a grid of levels stand for the whole.
    ends = [f"mean-{side}-{level}" for level in levels for side in ("lo", "hi")]
    rough = np.mean([ahead[name].to_numpy() for name in ends], axis=0)
    assert np.abs(np.log(ahead["mean"].to_numpy() / rough)).max() < 0.1


@pytest.mark.parametrize("transform", ["log", None])
def test_the_scores_of_keys_are_in_units_of_the_targets(transform: str | None):
    rows = mapped(transform)
    bounds = (None, None) if transform else (float(rows["y"].drop_nans().quantile(0.3) or 0.0), None)  # type: ignore[arg-type]
    rows = rows if transform else rows.with_columns(pl.max_horizontal("y", pl.lit(bounds[0])))
    model = StreamingGPFleet(warmup=WARMUP, target_transform=transform, bounds=bounds)
    found = model.evaluate(rows)
    scored = found.frame[found.metrics["warmup"] :]
    for key, mine in scored.drop_nans().group_by("unique_id"):
        row = found.scores.filter(unique_id=key[0])
        error = (mine["y"] - mine["mean"]).to_numpy()
        assert row["nmse"].item() == pytest.approx(np.mean(error**2) / np.var(mine["y"].to_numpy()), rel=1e-9)
        assert row["pll"].item() == pytest.approx(mine["log_density"].mean(), rel=1e-9)
        inside = (mine["y"] > mine["q05"]) & (mine["y"] < mine["q95"])
        low = -np.inf if bounds[0] is None else bounds[0]  # where there is probability rather than a density
        at_bound = (mine["y"] == mine["q05"]) & (mine["y"] == low)
        assert row["coverage"].item() == pytest.approx((inside | at_bound).mean(), rel=1e-9)


def test_bounds_cut_off_what_lies_beyond_and_make_nothing_worse():
    rows = mapped(None).with_columns(y=pl.max_horizontal("y", 0.0))
    bounded, free = (StreamingGPFleet(warmup=WARMUP, bounds=bounds).evaluate(rows) for bounds in ((0, None), None))
    assert free.frame["q05"].drop_nans().min() < 0.0  # type: ignore[operator]
    for name in ("mean", "q05", "q50"):
        assert_allclose(bounded.frame[name], np.maximum(free.frame[name].to_numpy(), 0.0), rtol=1e-9)
    assert_allclose(bounded.frame["log_density"], free.frame["log_density"], rtol=1e-9)
    assert (bounded.frame["crps"] <= free.frame["crps"] + 1e-12).drop_nulls().all()
    assert bounded.metrics["crps"] < 0.99 * free.metrics["crps"]
    total = StreamingGPFleet(warmup=WARMUP, bounds=(0, None)).partial_fit(rows)
    sums = total.forecast(2).group_by("ds").agg(pl.col("mean").sum()).sort("ds")
    assert_allclose(total.forecast_total(2)["mean"], sums["mean"])


def test_chunks_and_a_saved_fleet_are_one(tmp_path: Path):
    rows, options = mapped(), {"warmup": WARMUP, "target_transform": "log"}
    whole = StreamingGPFleet(**options).evaluate(rows, steps_ahead=4)
    model, frames = StreamingGPFleet(**options), []
    for at in range(0, len(rows), 90):
        frames.append(model.evaluate(rows[at : at + 90]).frame)
        model.save(tmp_path / "fleet")
        model = StreamingGPFleet.load(tmp_path / "fleet")
    frame = pl.concat(frames)
    for name in ("mean", "std", "q05", "log_density", "crps"):
        assert_allclose(frame[name], whole.frame[name], rtol=1e-9, err_msg=name)
    assert_allclose(model.scores()["nmse"], whole.scores["nmse"], rtol=1e-9)
    by_step = whole.metrics["steps_ahead"]["by_step"]
    ahead = whole.frame.filter(pl.col("step") == 2).drop_nans()
    error = (ahead["y"] - ahead["ahead_mean"]).to_numpy()
    assert by_step[1]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-9)
    assert ahead["ahead_q05"].min() > 0.0  # type: ignore[operator]


def test_bands_of_a_total_know_that_logarithms_go_together():
    rng, rows, keys = np.random.default_rng(1), 400, 10
    common, own = rng.normal(size=(rows, 1)), rng.normal(size=(rows, keys))
    y = np.exp(np.log(10.0) + 0.3 * (np.sqrt(0.6) * common + np.sqrt(0.4) * own))

    def part(start: int, stop: int) -> pl.DataFrame:
        names, times = [f"k{k}" for k in range(keys)], np.repeat(np.arange(float(start), float(stop)), keys)
        return pl.DataFrame({"unique_id": names * (stop - start), "ds": times, "y": y[start:stop].ravel()})

    model, inside = StreamingGPFleet(warmup=500, target_transform="log").partial_fit(part(0, 150)), []
    for now in range(150, rows):
        total = model.forecast_total(1, level=(80,))
        inside.append(total["mean-lo-80"][0] < y[now].sum() < total["mean-hi-80"][0])
        model.partial_fit(part(now, now + 1))
    assert abs(np.mean(inside) - 0.8) < 0.08


def test_a_target_that_cannot_be_is_refused_or_left_out():
    rows = mapped()
    bad = rows.with_columns(y=pl.when(pl.int_range(pl.len()) == 500).then(-1.0).otherwise("y"))
    model = StreamingGPFleet(warmup=WARMUP, target_transform="log")
    said = (
        r"column 'y': expected a target in \(0, inf\) for target_transform='log', got -1 in row 500 \('k4' at 62.0\)"
    )
    with pytest.raises(DataError, match=said):
        model.partial_fit(bad)
    assert model.rows_ == 0
    skipping = StreamingGPFleet(warmup=WARMUP, target_transform="log", missing="skip")
    found = skipping.evaluate(bad).frame
    empty = StreamingGPFleet(warmup=WARMUP, target_transform="log").evaluate(
        rows.with_columns(y=pl.when(pl.int_range(pl.len()) == 500).then(None).otherwise("y"))
    )
    assert_allclose(found["mean"], empty.frame["mean"], rtol=1e-9)
    assert skipping.scores().filter(unique_id="k4")["unusable"].item() == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bounds": (1, 0)}, "bounds: expected the lower one below the upper, got 1 and 0"),
        ({"bounds": 0}, "bounds: expected two numbers, None for no bound"),
        ({"target_transform": "sqrt"}, "target_transform: expected one of"),
        ({"target_transform": "logit"}, "target_transform: expected bounds on both sides with logit"),
    ],
)
def test_what_is_no_bound_or_transform_is_said(options: dict, said: str):
    with pytest.raises(ValueError, match=said):
        StreamingGPFleet(**options)
