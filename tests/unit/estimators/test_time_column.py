"""Times that are a column of the frame: the same numbers as times that are given by themselves."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import SGDRegressor

from linear_user import ROWS, new, same, stream, x64  # noqa: F401 (a fixture for every test here)
from streamgp import StreamingGPClassifier, StreamingGPCountRegressor, compare, evaluate

X, Y = stream()
GAPS = np.random.default_rng(3).exponential(3600.0, ROWS).round()
DATES = [datetime(2026, 1, 1) + timedelta(seconds=float(s)) for s in np.cumsum(GAPS)]
SECONDS = np.cumsum(GAPS)
INPUTS = pl.DataFrame({"a": X[:, 0], "b": X[:, 1]})


def timed(stamps: Any, make: type = pl.DataFrame) -> Any:
    """Return the inputs with a column of times between them."""
    columns = {"a": X[:, 0], "when": stamps, "b": X[:, 1]}
    return make(columns)


def options() -> dict[str, Any]:
    return {"dynamics": ("static", "walk 0.01")}  # which the times matter to


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
@pytest.mark.parametrize("stamps", [SECONDS, DATES, [f"{d:%Y-%m-%d %H:%M:%S}" for d in DATES]], ids=("s", "d", "t"))
def test_a_column_is_the_same_as_times_by_themselves(make: type, stamps: Any):
    frame = timed(stamps, make)
    by_name = new(**options()).partial_fit(frame[:60], Y[:60], times="when")
    by_rows = new(**options()).partial_fit(make({"a": X[:60, 0], "b": X[:60, 1]}), Y[:60], times=stamps[:60])
    assert same(by_name, by_rows)
    assert list(by_name.feature_names_in_) == ["a", "b"]
    assert not same(by_name, new(**options()).partial_fit(X[:60], Y[:60]))
    rest = make({"a": X[60:, 0], "b": X[60:, 1]})
    assert_array_equal(by_name.predict(frame[60:], times="when"), by_rows.predict(rest, times=stamps[60:]))


def test_dates_that_pandas_keeps_as_objects_are_dates():
    frame = pd.DataFrame({"a": X[:, 0], "when": pd.Series(DATES, dtype=object), "b": X[:, 1]})
    assert same(
        new(**options()).partial_fit(frame[:20], Y[:20], times="when"),
        new(**options()).partial_fit(INPUTS[:20], Y[:20], times=np.array(DATES[:20], "M8[us]")),
    )


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
def test_a_frame_of_times_alone_has_no_inputs(make: type):
    frame, nothing = make({"when": DATES}), np.empty((ROWS, 0))
    stamps = np.array(DATES, "M8[us]")
    by_name = new(lags=[1], **options()).partial_fit(frame[:60], Y[:60], times="when")
    assert same(by_name, new(lags=[1], **options()).partial_fit(nothing[:60], Y[:60], times=stamps[:60]))
    assert_array_equal(by_name.predict(frame[60:61], times="when"), by_name.predict(nothing[:1], times=stamps[60:61]))
    assert by_name.forecast(3, frame[60:63], times="when", n=50)["time"].to_list() == DATES[60:63]
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        new(**options()).partial_fit(frame, Y, times="when")


def test_counts_and_labels_take_it_too():
    frame = timed(DATES)
    for kind in (StreamingGPCountRegressor, StreamingGPClassifier):
        y = (Y > 0).astype(int)
        one = kind("linear", warmup=24, **options()).partial_fit(frame, y, times="when")
        two = kind("linear", warmup=24, **options()).partial_fit(INPUTS, y, times=np.array(DATES, "M8[us]"))
        later = timed([d + timedelta(days=5) for d in DATES])
        stamps = later["when"].to_numpy()
        assert_array_equal(one.predict(later, times="when"), two.predict(INPUTS, times=stamps))


def test_an_evaluation_and_a_comparison():
    frame = timed(DATES)
    by_name = evaluate(new(**options()), frame, Y, times="when", progress=False)
    by_rows = evaluate(new(**options()), INPUTS, Y, times=np.array(DATES, "M8[us]"), progress=False)
    assert_array_equal(by_name.mean, by_rows.mean)
    found = compare({"ours": new(**options()), "sgd": SGDRegressor()}, frame, Y, times="when", progress=False)
    assert_array_equal(found.models["ours"].mean, by_rows.mean)
    assert (
        found.models["sgd"].mean[-1] == compare({"sgd": SGDRegressor()}, X, Y, progress=False).models["sgd"].mean[-1]
    )


def test_a_forecast_has_the_dates_of_its_column():
    model = new(**options()).partial_fit(timed(DATES), Y, times="when")
    ahead = [DATES[-1] + timedelta(hours=h) for h in (1, 2, 3)]
    rows = pl.DataFrame({"when": ahead, "a": X[:3, 0], "b": X[:3, 1]})
    by_name = model.forecast(3, rows, times="when", n=50)
    assert by_name["time"].to_list() == ahead
    assert by_name.equals(model.forecast(3, INPUTS[:3], times=rows["when"].to_numpy(), n=50))
    assert_array_equal(
        model.sample_paths(3, n=50, X_future=rows, times="when"),
        model.sample_paths(3, n=50, X_future=INPUTS[:3], times=rows["when"].to_numpy()),
    )


def test_a_column_of_dates_that_is_not_named_is_left_out_with_a_warning():
    with pytest.warns(UserWarning, match=r"columns of dates are left out: 'when'; .* times= takes the name"):
        model = new(calendar="none").partial_fit(timed(DATES), Y)
    assert_array_equal(model.predict(timed(DATES)), new().partial_fit(INPUTS, Y).predict(INPUTS))


@pytest.mark.parametrize(
    ("rows", "name", "message"),
    [
        (X, "when", r"times: expected X as a data frame with the column 'when', got ndarray"),
        (INPUTS, "when", r"times: expected one of the columns a, b, got 'when'"),
        (INPUTS.with_columns(when=pl.lit(True)), "when", r"times: expected numbers or dates .*'when', got Boolean"),
    ],
)
def test_what_is_no_column_of_times_leaves_the_model_untouched(rows: Any, name: Any, message: str):
    model = new()
    with pytest.raises(ValueError, match=message):
        model.partial_fit(rows, Y, times=name)
    assert not model.__sklearn_is_fitted__()
    assert not hasattr(model, "feature_names_in_")
