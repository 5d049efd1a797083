"""Alarms over the keys of a fleet: those that have changed, and hardly any other."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from streamgp import StreamingGPFleet
from streamgp.fleet import fleet_alarms

pytestmark = pytest.mark.slow

KEYS, ROWS, CHANGE = 60, 260, 200
STUCK = {"k3", "k7"}


def rows(stuck: bool, seed: int = 0) -> pl.DataFrame:
    """Return keys around levels of their own; two of them may get stuck, and one has a gap and an absurd value."""
    rng = np.random.default_rng(seed)
    y = rng.normal(10.0, 3.0, size=KEYS) + np.sin(np.arange(ROWS) / 3)[:, None] + 0.3 * rng.normal(size=(ROWS, KEYS))
    if stuck:
        y[CHANGE:, [3, 7]] = y[CHANGE - 1, [3, 7]]
    y[210, 5], y[100:104, 5] = 1e9, np.nan
    names = [f"k{k}" for k in range(KEYS)]
    parts = [pl.DataFrame({"name": names, "day": np.full(KEYS, 5 * i), "y": y[i]}) for i in range(ROWS)]
    return pl.concat(parts)


@pytest.fixture(scope="module")
def found() -> tuple:
    """Return what fleets made of keys that change, and of keys that do not."""

    def one(stuck: bool, make: type) -> pl.DataFrame | pd.DataFrame:
        fleet = StreamingGPFleet(id_col="name", time_col="day", warmup=1_000)
        frame = rows(stuck)
        result = fleet.evaluate(frame if make is pl.DataFrame else pd.DataFrame(frame.to_dict(as_series=False)))
        return fleet_alarms(result)

    return one(True, pl.DataFrame), one(False, pd.DataFrame)


def test_keys_that_change_are_told(found: tuple):
    alarms = found[0]
    assert alarms.columns == ["name", "day", "kind", "row", "since", "evidence", "sentence"]
    assert set(alarms["name"]) == STUCK
    first = alarms.unique("name", keep="first").sort("name")
    assert first["kind"].to_list() == ["stuck"] * 2
    assert (first["since"] - CHANGE).abs().max() <= 1
    assert (first["row"] >= CHANGE).all() and (first["day"] == 5 * first["row"]).all()
    assert all(sentence.startswith("since row") for sentence in first["sentence"])


def test_where_nothing_changes_nothing_is_said(found: tuple):
    alarms = found[1]
    assert isinstance(alarms, pd.DataFrame)
    assert list(alarms.columns) == list(found[0].columns)
    assert not len(alarms)


def test_columns_have_their_types_where_nothing_is_said():
    fleet = StreamingGPFleet(id_col="kind", time_col="row", warmup=1_000, missing="skip")
    frame = rows(False).rename({"name": "kind", "day": "row"})
    quiet = fleet_alarms(fleet.evaluate(frame))
    assert quiet.schema == {
        "kind": pl.String, "row": pl.Int64, "alarm_kind": pl.String, "alarm_row": pl.Int64, "since": pl.Int64,
        "evidence": pl.Float64, "sentence": pl.String,
    }  # fmt: skip


def test_rows_are_numbered_as_in_the_frame():
    fleet = StreamingGPFleet(id_col="name", time_col="day", warmup=1_000, missing="skip")
    frame = rows(True)
    again = frame.filter((pl.col("name") == "k3") & (pl.col("day") < 250))  # fifty rows that came before
    shuffled = pl.concat([frame.head(150 * KEYS), again, frame.slice(150 * KEYS)])
    alarms = fleet_alarms(fleet.evaluate(shuffled))
    first = alarms.unique("name", keep="first").sort("name")
    assert first["name"].to_list() == ["k3", "k7"]
    assert abs(first["since"][0] - CHANGE - 50) <= 1 and abs(first["since"][1] - CHANGE) <= 1


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1])
def test_a_rate_that_is_none(rate: float):
    result = StreamingGPFleet(id_col="name", time_col="day", warmup=100).evaluate(rows(False)[:600])
    with pytest.raises(ValueError, match="share of false discoveries"):
        fleet_alarms(result, rate)
