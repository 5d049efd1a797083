"""Forecasts of the sum of a fleet's keys, whose errors at the same time go together."""

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from streamgp import StreamingGPFleet

KEYS, WARM, H = 20, 200, 6
SHOWN = ("mean", "std", "q05", "q50", "q95", "mean-lo-80", "mean-hi-80", "mean-lo-95", "mean-hi-95")
# Of a standard normal distribution.
ENDS = {80: 1.2816, 95: 1.9600}


def made(common: float, ticks: int, seed: int = 0, keys: int = KEYS) -> np.ndarray:
    """Return the targets (ticks, keys) of keys of different sizes, whose noise has this correlation."""
    rng = np.random.default_rng(seed)
    level, size = rng.normal(10.0, 5.0, keys), np.exp(0.5 * rng.normal(size=keys))
    last, carried, rows = np.zeros(keys), rng.uniform(0.5, 0.9, keys), []
    for _ in range(ticks):
        last = carried * last + np.sqrt(common) * rng.normal() + np.sqrt(1.0 - common) * rng.normal(size=keys)
        rows.append(level + size * last)
    return np.array(rows)


def frame(targets: np.ndarray, start: int = 0) -> pl.DataFrame:
    """Return rows, those of a time together; the last half of the keys are of the second kind."""
    ticks, keys = targets.shape
    names, kinds = [f"k{i}" for i in range(keys)], ["x" if 2 * i < keys else "y" for i in range(keys)]
    times = np.repeat(np.arange(float(start), float(start + ticks)), keys)
    return pl.DataFrame({"unique_id": names * ticks, "ds": times, "kind": kinds * ticks, "y": targets.ravel()})


def fleet(rows: pl.DataFrame, **options) -> StreamingGPFleet:
    """Return a fleet that has learnt the rows."""
    return StreamingGPFleet(**({"season": None, "warmup": 500, "group_col": "kind"} | options)).partial_fit(rows)


@pytest.mark.slow
@pytest.mark.parametrize("common", [0.0, 0.5, 0.9])
def test_bands_of_the_total_hold_where_errors_go_together(common: float):
    hits, alone, origins = dict.fromkeys(ENDS, 0.0), dict.fromkeys(ENDS, 0.0), 0
    for seed in range(4):
        targets = made(common, 620, seed)
        model = StreamingGPFleet(season=None).partial_fit(frame(targets[:WARM]).drop("kind"))
        for now in range(WARM, len(targets) - H, 4):
            found, truth = model.forecast_total(H), targets[now : now + H].sum(axis=1)
            by_itself = np.sqrt(np.square(model.forecast(H)["std"].to_numpy().reshape(-1, H)).sum(axis=0))
            for level, end in ENDS.items():
                low, high = (found[f"mean-{side}-{level}"].to_numpy() for side in ("lo", "hi"))
                hits[level] += np.mean((low < truth) & (truth < high))
                alone[level] += np.mean(np.abs(truth - found["mean"].to_numpy()) < end * by_itself)
            origins += 1
            model.partial_fit(frame(targets[now : now + 4], now).drop("kind"))
    for level in ENDS:
        assert abs(hits[level] / origins - level / 100) < 0.04, (level, hits[level] / origins)
        # Sums of keys that know nothing of each other are right only where that is so.
        short = level / 100 - alone[level] / origins
        assert abs(short) < 0.04 if common == 0.0 else short > 0.25, (level, short)
    assert origins > 400


@pytest.mark.slow
def test_groups_have_totals_of_their_own():
    """The second kind's errors go together, the first kind's do not."""
    targets = np.where(np.arange(KEYS) < KEYS // 2, made(0.0, 300), made(0.9, 300, seed=1))
    model = fleet(frame(targets))
    ahead, found = model.forecast(2), model.forecast_total(2, by="kind")
    assert found.columns == ["kind", "ds", *SHOWN]
    assert found["kind"].to_list() == ["x", "x", "y", "y"]
    assert found["ds"].to_list() == [300.0, 301.0] * 2
    of_kind = frame(targets[:1]).select("unique_id", "kind")
    sums = (
        ahead.join(of_kind, on="unique_id")
        .group_by("kind", "ds")
        .agg(pl.col("mean").sum(), alone=pl.col("std").pow(2).sum().sqrt(), together=pl.col("std").sum())
        .sort("kind", "ds")
    )
    np.testing.assert_allclose(found["mean"], sums["mean"], rtol=1e-12)
    assert (found["std"][:2] < 1.25 * sums["alone"][:2]).all()
    assert (found["std"][2:] > 0.8 * sums["together"][2:]).all()
    assert (found["std"][2:] <= sums["together"][2:]).all()
    whole = model.forecast_total(2)
    assert whole.columns == ["ds", *SHOWN]
    np.testing.assert_allclose(whole["mean"], found["mean"][:2] + found["mean"][2:], rtol=1e-12)
    # Kinds have nothing in common here: their variances add up.
    np.testing.assert_allclose(whole["std"] ** 2, found["std"][:2] ** 2 + found["std"][2:] ** 2, rtol=0.3)


def test_chunks_ticks_and_a_resumed_fleet_have_the_same_total(tmp_path):
    rows = frame(made(0.6, 90, keys=8))
    expected = fleet(rows).forecast_total(3)
    for size in (8, 13):
        model = fleet(rows[:0])
        for start in range(0, len(rows), size):
            model.partial_fit(rows[start : start + size])
            if start // size == 70 * 8 // size:
                model.save(tmp_path / f"fleet{size}")
                model = StreamingGPFleet.load(tmp_path / f"fleet{size}")
        for by, whole in ((None, expected), ("kind", fleet(rows).forecast_total(3, by="kind"))):
            found = model.forecast_total(3, by=by)
            np.testing.assert_allclose(found.select(SHOWN), whole.select(SHOWN), rtol=1e-9)


def test_the_rows_of_the_warmup_tell_how_far_errors_go_together():
    rows = frame(made(0.9, 120, keys=8))
    model = fleet(rows[: 8 * 72])
    assert model.learner.engine.fitted_at > 8 * 60
    found, ahead = model.forecast_total(1), model.forecast(1)
    alone = np.sqrt(np.square(ahead["std"].to_numpy()).sum())
    assert 0.7 * ahead["std"].sum() < found["std"][0] <= ahead["std"].sum()
    assert found["std"][0] > 1.5 * alone


def test_the_total_of_one_key_is_its_forecast_and_keys_may_be_chosen():
    model = fleet(frame(made(0.6, 90, keys=8)))
    ahead = model.forecast(3, keys=["k2", "k5"])
    one = model.forecast_total(3, keys=["k2"])
    np.testing.assert_allclose(one.select("mean", "std"), ahead[:3].select("mean", "std"), rtol=1e-9)
    both = model.forecast_total(3, keys=["k5", "k2"])
    np.testing.assert_allclose(both["mean"], ahead["mean"][:3] + ahead["mean"][3:], rtol=1e-12)


def test_the_total_goes_by_the_inputs_of_the_rows_to_come():
    rows = frame(made(0.6, 90, keys=8)).with_columns(x=pl.col("ds").sin())
    rows = rows.with_columns(y=pl.col("y") + 5.0 * pl.col("x"))
    model = fleet(rows[: 8 * 80])
    with pytest.raises(ValueError, match="X_future: expected a frame with the inputs"):
        model.forecast_total(2)
    future = rows[8 * 80 :].drop("y")
    found = model.forecast_total(2, X_future=future)
    by_key = model.forecast(2, X_future=future).group_by("ds", maintain_order=True).agg(pl.col("mean").sum())
    np.testing.assert_allclose(found["mean"], by_key["mean"], rtol=1e-12)
    shifted = future.with_columns(ds=pl.when(pl.col("unique_id") == "k3").then(pl.col("ds") + 0.25).otherwise("ds"))
    with pytest.raises(ValueError, match=r"same times, got 80.0 for 'k0' and 80.25 for 'k3'; learn rows"):
        model.forecast_total(2, X_future=shifted)


def test_what_has_no_total_is_said():
    rows = frame(made(0.6, 90, keys=8))
    with pytest.raises(
        ValueError, match="forecast_total: expected a fleet that has seen some rows; call partial_fit"
    ):
        StreamingGPFleet().forecast_total(1)
    with pytest.raises(ValueError, match="after its warm-up of 500 rows, got one that has seen 80; learn more rows"):
        fleet(rows[:80]).forecast_total(1)
    model = fleet(rows)
    with pytest.raises(ValueError, match=r"by: expected None or the fleet's group_col, 'kind', got 'region'"):
        model.forecast_total(1, by="region")
    with pytest.raises(ValueError, match="level: expected percents above 1 and below 100"):
        model.forecast_total(1, level=100)
    dates = rows.with_columns(ds=pl.lit(date(2024, 1, 1)) + pl.col("ds").cast(pl.Int64) * timedelta(days=1))
    behind = fleet(dates[:-1])
    with pytest.raises(ValueError, match=r"got 2024-03-31.* for 'k0' and 2024-03-30.* for 'k7'; learn rows of all"):
        behind.forecast_total(1)
    assert behind.forecast_total(1, keys=behind.keys_[:-1])["ds"].to_list() == [date(2024, 3, 31)]
    assert behind.partial_fit(dates[-1:].with_columns(y=None)).forecast_total(1)["ds"][0] == date(2024, 3, 31)


def test_keys_that_never_meet_have_no_total():
    rows = frame(made(0.6, 90, keys=8)).with_columns(
        ds=pl.col("ds") + pl.col("unique_id").str.tail(1).cast(float) / 16
    )
    model = fleet(rows).partial_fit(rows[-8:].with_columns(ds=100.0))
    with pytest.raises(ValueError, match=r"several keys had rows at the same time, 10 times .*, got 1; learn more"):
        model.forecast_total(1)
