"""Fleets on streams that are hardly any: absurd values, nothing that moves, keys of one row, no inputs."""

import numpy as np
import polars as pl
import pytest

from fleet_streams import VALUES, fleet, frame, learnt

pytestmark = pytest.mark.slow


def assert_sound(predicted: pl.DataFrame) -> None:
    for name in VALUES:
        assert predicted[name].is_finite().all(), name
    assert (predicted["std"] > 0.0).all()
    assert (predicted["q05"] <= predicted["q50"]).all() and (predicted["q50"] <= predicted["q95"]).all()


@pytest.mark.parametrize("value", [1e99, -1e30, np.inf, np.nan])
@pytest.mark.parametrize("column", ["y", "a"])
def test_an_absurd_value_of_the_warmup_costs_the_others_little(column, value):
    rows = frame(keys=6, rows=80, seed=5, glitches=False)
    spoilt = rows.with_columns(pl.Series(column, np.where(np.arange(len(rows)) == 37, value, rows[column])))
    key = rows["unique_id"][37]
    plain, odd = (learnt(fleet(), each).filter(pl.col("unique_id") != key)[150:] for each in (rows, spoilt))
    assert_sound(odd)
    assert odd["log_density"].mean() > plain["log_density"].mean() - 0.1
    np.testing.assert_allclose(odd["mean"], plain["mean"], atol=0.5 * plain["std"].max())


@pytest.mark.parametrize("target", [0.0, 1e6, -3e-9])
def test_targets_that_never_move(target):
    rows = frame(keys=4, rows=60).with_columns(y=pl.lit(target))
    found = learnt(fleet(), rows)
    assert_sound(found)
    np.testing.assert_allclose(found["mean"][200:], target, atol=1e-2 + 1e-6 * abs(target))


def test_targets_that_move_seldom():
    rows = frame(keys=4, rows=100, glitches=False)
    seldom = rows.with_columns(y=pl.when(pl.int_range(pl.len()) % 13 == 0).then(pl.col("y")).otherwise(0.0))
    assert_sound(learnt(fleet(), seldom))


def test_keys_of_one_row_each_end_the_warmup_as_well():
    rng = np.random.default_rng(0)
    n = 512 * 10 + 50
    rows = pl.DataFrame({"unique_id": np.arange(n), "ds": 1.0, "y": 5.0 + rng.normal(size=n)})
    model = fleet(warmup=10)
    found = learnt(model, rows)
    assert model.is_warm_ and len(model.keys_) == n
    assert_sound(found)
    np.testing.assert_allclose(found["mean"][-40:], 5.0, atol=0.5)
    np.testing.assert_allclose(found["std"][-40:], 1.0, rtol=0.5)


@pytest.mark.parametrize("options", [{"lags": ()}, {"lags": 1, "season": 12}, {"lags": (2, 40)}])
def test_no_inputs_and_any_lags(options):
    rows = frame(keys=3, rows=80).drop("a", "b")
    model = fleet(**options)
    assert_sound(learnt(model, rows))
    assert_sound(model.forecast(5))


def test_a_single_key():
    rows = frame(keys=1, rows=200, glitches=False)
    model = fleet()
    found = learnt(model, rows)
    assert_sound(found)
    assert model.scores()["nmse"][0] < 1.0


def test_input_columns_that_are_empty_constant_or_flags():
    rows = frame(keys=4, rows=80).with_columns(
        empty=pl.lit(None, dtype=pl.Float64),
        constant=pl.lit(147.41),
        own=pl.col("unique_id").str.strip_prefix("key ").cast(pl.Float64) * 1e3,
        flag=pl.int_range(pl.len()) % 50 == 0,
    )
    plain, found = learnt(fleet(), rows.drop("empty", "constant", "own", "flag")), learnt(fleet(), rows)
    assert_sound(found)
    assert found["log_density"][150:].drop_nans().mean() > plain["log_density"][150:].drop_nans().mean() - 0.3


def test_long_series_stay_sound():
    rows = frame(keys=2, rows=2_000, seed=9)
    found = learnt(model := fleet(), rows)
    assert_sound(found)
    assert model.scores()["resets"].sum() == 0
    scores = model.scores()
    assert (scores["coverage"] > 0.85).all() and (scores["coverage"] < 0.95).all()
