"""What the containers of cells say (order, mask, missing, unit, zone) is kept at every front door, or refused."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from live_streams import working
from small_runs import predictions, run_spec
from streamgp import (
    StreamingGPClassifier,
    StreamingGPFleet,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)
from streamgp.models.registry import make_spec
from streamgp.service.payload import rows_with_inputs
from streamgp.table.containers import check_unit, is_missing, order_of, unmasked

pytestmark = pytest.mark.slow

ROWS, WARMUP, GONE = 90, 30, 70
GRADES = ["low", "mid", "high"]
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, 1))
Y = X[:, 0] + 0.1 * rng.normal(size=ROWS)
LABELS = np.array(GRADES)[np.digitize(X[:, 0], [-0.5, 0.5])]
KNOWN = np.arange(ROWS) != GONE
WITH_NONE = [label if known else None for label, known in zip(LABELS.tolist(), KNOWN.tolist(), strict=True)]
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(i) for i in range(ROWS)]
LAST = dt.datetime(*DAYS[-1].timetuple()[:3], tzinfo=dt.UTC).timestamp()


# Order

ORDERED: dict[str, Any] = {
    "pandas series": pd.Series(pd.Categorical(LABELS, GRADES, ordered=True)),
    "pandas array": pd.Categorical(LABELS, GRADES, ordered=True),
    "polars enum": pl.Series("y", LABELS, dtype=pl.Enum(GRADES)),
}


def grades_of_estimator(y: Any, tmp_path: Path) -> list[str]:
    return StreamingGPOrdinal("linear", warmup=WARMUP).partial_fit(X, y).classes_.tolist()


def grades_of_evaluate(y: Any, tmp_path: Path) -> list[str]:
    model = StreamingGPOrdinal("linear", warmup=WARMUP)
    evaluate(model, X, y)
    return model.classes_.tolist()


def grades_of_command(y: Any, tmp_path: Path) -> list[str]:
    path, grades = tmp_path / "data.parquet", pl.Series("y", LABELS, dtype=pl.Enum(GRADES))
    pl.DataFrame({"x": X[:, 0], "y": grades}).write_parquet(path)
    spec = make_spec("linear", task="ordinal")
    run_spec(path, tmp_path / "run", spec, features=["x"], warmup=WARMUP, task="ordinal")
    shown = predictions(tmp_path / "run").columns
    return [name.removeprefix("p_") for name in shown if name.removeprefix("p_") in GRADES]


@pytest.mark.parametrize("door", [grades_of_estimator, grades_of_evaluate, grades_of_command])
@pytest.mark.parametrize("container", ORDERED)
def test_the_order_of_categories_is_that_of_grades(
    container: str, door: Callable[[Any, Path], list[str]], tmp_path: Path
):
    if door is grades_of_command and container != "polars enum":
        pytest.skip("a file holds Enums alone")
    assert door(ORDERED[container], tmp_path) == GRADES


def test_categories_without_an_order_are_sorted_and_grades_that_are_named_win():
    unordered = pd.Series(pd.Categorical(LABELS, GRADES))
    assert order_of(unordered) is None
    assert order_of(pd.DataFrame({"y": ORDERED["pandas series"]})) == order_of(ORDERED["polars enum"]) == GRADES
    assert grades_of_estimator(unordered, Path()) == sorted(GRADES)
    named = StreamingGPOrdinal("linear", warmup=WARMUP).partial_fit(X, ORDERED["pandas series"], grades=GRADES[::-1])
    assert named.classes_.tolist() == GRADES[::-1]


def test_a_grade_that_no_row_has_yet_is_known_and_numbers_may_have_an_order_too():
    first = pd.Series(pd.Categorical(LABELS[LABELS != "mid"], GRADES, ordered=True))
    model = StreamingGPOrdinal("linear", warmup=WARMUP).partial_fit(X[LABELS != "mid"], first)
    assert model.partial_fit(X, ORDERED["pandas series"]).classes_.tolist() == GRADES
    down = pd.Categorical(np.digitize(X[:, 0], [0.0]), [1, 0], ordered=True)
    assert StreamingGPOrdinal("linear", warmup=WARMUP).partial_fit(X, down).classes_.tolist() == [1, 0]


# Missing labels

GAPS: dict[str, Any] = {
    "objects": np.array(WITH_NONE, dtype=object),
    "pandas string": pd.Series(LABELS, dtype="string").mask(~KNOWN),
    "pandas categorical": pd.Series(LABELS, dtype="category").mask(~KNOWN),
    "polars": pl.Series(WITH_NONE),
    "masked": np.ma.array(LABELS, mask=~KNOWN),
}


@pytest.fixture(scope="module")
def without_gap() -> np.ndarray:
    """What is predicted where the row without a label is not there."""
    model = StreamingGPClassifier("linear", warmup=WARMUP).partial_fit(X[KNOWN], LABELS[KNOWN])
    return model.predict_proba(X)


def labels_by_estimator(y: Any) -> StreamingGPClassifier:
    return StreamingGPClassifier("linear", warmup=WARMUP).partial_fit(X, y)


def labels_by_evaluate(y: Any) -> StreamingGPClassifier:
    model = StreamingGPClassifier("linear", warmup=WARMUP)
    evaluate(model, X, y)
    return model


@pytest.mark.parametrize("door", [labels_by_estimator, labels_by_evaluate])
@pytest.mark.parametrize("container", GAPS)
def test_a_missing_label_is_predicted_and_not_learnt(
    container: str, door: Callable[[Any], StreamingGPClassifier], without_gap: np.ndarray
):
    model = door(GAPS[container])
    assert sorted(model.classes_.tolist()) == sorted(GRADES)
    order = [model.classes_.tolist().index(name) for name in dict.fromkeys(LABELS.tolist())]
    np.testing.assert_allclose(model.predict_proba(X)[:, order], without_gap, rtol=1e-6)


@pytest.mark.parametrize("container", GAPS)
def test_where_gaps_are_refused_a_missing_label_is_named(container: str):
    with pytest.raises(ValueError, match=f"expected a label in every row, got .* at row {GONE}"):
        StreamingGPClassifier("linear", warmup=WARMUP, missing="raise").partial_fit(X, GAPS[container])


# Masks

MASKED = np.ma.array(np.where(KNOWN[:, None], X, -9999.0), mask=~KNOWN[:, None])
HOLES = MASKED.filled(np.nan)


def test_what_is_masked_is_missing():
    plain = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(HOLES, Y)
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(MASKED, Y)
    assert model.imputed_values_ == plain.imputed_values_ == 1
    assert (model.predict(MASKED) == plain.predict(HOLES)).all()
    assert model.predict_one(MASKED[GONE]) == plain.predict_one(HOLES[GONE])
    assert evaluate(StreamingGPRegressor("linear", warmup=WARMUP), MASKED, Y).mean.tolist() == (
        evaluate(StreamingGPRegressor("linear", warmup=WARMUP), HOLES, Y).mean.tolist()
    )
    hidden = np.ma.array(np.where(KNOWN, Y, -9999.0), mask=~KNOWN)
    rows = [StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, y) for y in (hidden, hidden.filled(np.nan))]
    assert (rows[0].predict(X) == rows[1].predict(X)).all()
    with pytest.raises(ValueError, match=f"times: expected finite numbers, got NaN at row {GONE}"):
        plain.fit(X, Y, times=np.ma.array(np.arange(ROWS), mask=~KNOWN))


@pytest.mark.parametrize("dtype", ["f4", "i8", "bool", "U4", "M8[s]", "m8[s]", "O"])
def test_a_mask_leaves_all_other_cells_as_they_are(dtype: str):
    values = np.ma.array(np.array([0, 1, 2]).astype(dtype), mask=[False, True, False])
    plain = unmasked(values)
    assert [is_missing(cell) for cell in plain.tolist()] == [False, True, False]
    assert plain[[0, 2]].tolist() == values.data[[0, 2]].tolist()
    whole = np.arange(3)
    assert unmasked(np.ma.array(whole)).dtype == whole.dtype
    assert unmasked(whole) is whole


# Dates and zones

ZONE = "Europe/Berlin"
CLOCKS: dict[str, Any] = {
    "dates": DAYS,
    "text": [str(day) for day in DAYS],
    "datetimes": [dt.datetime(*day.timetuple()[:3]) for day in DAYS],
    "in a zone": [dt.datetime(*day.timetuple()[:3], tzinfo=dt.UTC) for day in DAYS],
    "text with an offset": [f"{day}T01:00:00+01:00" for day in DAYS],
    "numpy": np.array(DAYS, "datetime64[s]"),
    "pandas": pd.Series(DAYS, dtype="datetime64[ns]"),
    "pandas in a zone": pd.Series(DAYS, dtype="datetime64[ns]").dt.tz_localize("UTC").dt.tz_convert(ZONE),
    "polars dates": pl.Series(DAYS),
    "polars in a zone": pl.Series(DAYS).cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone(ZONE),
}


def clock_of_estimator(times: Any, tmp_path: Path) -> float:
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, Y, times=np.asarray(times))
    return model._learner.last_time or 0.0


def clock_of_column(times: Any, tmp_path: Path) -> float:
    frame = pl.DataFrame({"x": X[:, 0], "t": times}) if isinstance(times, pl.Series) else None
    given = pd.DataFrame({"x": X[:, 0], "t": times}) if frame is None else frame
    model = StreamingGPRegressor("linear", warmup=WARMUP)
    evaluate(model, given, Y, times="t")
    return model._learner.last_time or 0.0


def clock_of_fleet(times: Any, tmp_path: Path) -> float:
    if isinstance(times, pl.Series):
        fleet = StreamingGPFleet("id", "t", "y", warmup=WARMUP)
        fleet.partial_fit(pl.DataFrame({"id": "k", "t": times, "y": Y}))
    else:
        fleet = StreamingGPFleet("id", "t", "y", warmup=WARMUP)
        fleet.partial_fit(pd.DataFrame({"id": "k", "t": times, "y": Y}))
    ahead = fleet.forecast(1)["t"].to_list()[0] if isinstance(times, pl.Series) else fleet.forecast(1)["t"].iloc[0]
    return pd.to_datetime([ahead], utc=True).as_unit("us").asi8[0] / 1e6 - 86_400.0


def clock_of_service(times: Any, tmp_path: Path) -> float:
    with working(tmp_path / "stream", features=("x",), timed=True, warmup=WARMUP) as live:
        texts = [pd.Timestamp(time).isoformat() for time in np.asarray(pd.Series(times).astype(object))]
        rows = zip(X[:, 0].tolist(), Y.tolist(), texts, strict=True)
        given = [{"x": {"x": x}, "y": y, "time": time} for x, y, time in rows]
        live.step(rows_with_inputs(live.config, given, with_target=True)).result(60)
        return live.model.last_time or 0.0


@pytest.mark.parametrize("door", [clock_of_estimator, clock_of_column, clock_of_fleet, clock_of_service])
@pytest.mark.parametrize("container", CLOCKS)
def test_dates_of_any_kind_are_the_same_clock(container: str, door: Callable[[Any, Path], float], tmp_path: Path):
    assert door(CLOCKS[container], tmp_path) == LAST


def test_a_fleet_takes_dates_as_keys_by_their_text_and_gives_them_back():
    days = [DAYS[i % 2] for i in range(ROWS)]
    frame = pd.DataFrame({"id": days, "t": range(ROWS), "y": Y})
    fleet = StreamingGPFleet("id", "t", "y", warmup=WARMUP).partial_fit(frame)
    assert fleet.keys_ == ["2024-01-01", "2024-01-02"]
    assert fleet.predict(frame)["id"].tolist() == days
    same = StreamingGPFleet("id", "t", "y", warmup=WARMUP).partial_fit(frame.astype({"id": str}))
    assert same.keys_ == fleet.keys_
    assert pl.DataFrame({"id": days}).schema["id"] == pl.Date
    polars = StreamingGPFleet("id", "t", "y", warmup=WARMUP).partial_fit(
        pl.DataFrame({"id": days, "t": range(ROWS), "y": Y})
    )
    assert polars.keys_ == fleet.keys_


def test_a_fleet_keeps_the_zone_and_the_unit_of_its_clock():
    zoned = pd.DataFrame({"id": "k", "t": CLOCKS["text with an offset"], "y": Y})
    ahead = StreamingGPFleet("id", "t", "y", warmup=WARMUP).partial_fit(zoned).forecast(1)["t"]
    assert str(ahead.dtype.tz) == "UTC"
    spans = pd.DataFrame({"id": "k", "t": pd.to_timedelta(np.arange(ROWS), unit="h"), "y": Y})
    fleet = StreamingGPFleet("id", "t", "y", warmup=WARMUP).partial_fit(spans)
    assert fleet.forecast(1)["t"].iloc[0] == pd.Timedelta(hours=ROWS)
    with pytest.raises(ValueError, match="type duration, as in the first frame, got whole number"):
        fleet.partial_fit(spans.assign(t=np.arange(ROWS) + ROWS))
    with pytest.raises(
        ValueError, match=r"column 't': expected a number or a date .* got 'soon' in row 0 of a column"
    ):
        StreamingGPFleet("id", "t", "y", warmup=WARMUP).partial_fit(spans.assign(t="soon"))


# Units

SPANS = pd.Series(pd.to_timedelta(Y, unit="s"))


@pytest.mark.parametrize(
    "values", [SPANS, SPANS.to_numpy(), pl.Series(SPANS.to_numpy()), SPANS.to_frame(), pd.Timestamp("2024") + SPANS]
)
def test_durations_and_dates_are_no_numbers_and_what_to_do_is_said(values: Any):
    model = StreamingGPRegressor("linear", warmup=WARMUP)
    for call in (lambda: model.partial_fit(X, values), lambda: evaluate(model, X, values)):
        with pytest.raises(ValueError, match=r"y: expected numbers, got .*; .*by np\.timedelta64"):
            call()
    assert not hasattr(model, "_learner")
    check_unit("y", Y)


def test_an_array_of_durations_is_no_input():
    with pytest.raises(ValueError, match=r"X: expected numbers, got durations \(timedelta64\[ns\]\)"):
        StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(SPANS.to_numpy()[:, None], Y)
