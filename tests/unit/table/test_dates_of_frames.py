"""Frames made for the user: the kinds of columns that Polars does not take as they are."""

import numpy as np
import polars as pl
import pytest

from streamgp.table.frames import FrameLike


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
def test_dates_of_any_unit_are_the_same_dates(unit: str):
    days = np.array(["2024-02-28", "2024-02-29"], f"datetime64[{unit}]")
    frame = FrameLike().make({"time": days})
    assert frame["time"].dt.strftime("%Y-%m-%d").to_list() == ["2024-02-28", "2024-02-29"]
    assert isinstance(frame["time"].dtype, pl.Datetime)


def test_objects_keep_their_values_and_nan_is_missing():
    frame = FrameLike().make({"name": np.array(["a", None], object), "x": np.array([1.0, np.nan])})
    assert frame["name"].to_list() == ["a", None] and frame["x"].to_list() == [1.0, None]
