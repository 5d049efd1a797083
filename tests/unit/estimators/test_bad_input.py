"""Bad rows, times, questions and parameters: one sentence each, and nothing is learnt."""

import copy
from datetime import datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from linear_user import ROWS, new, same, spoilt, stream, x64  # noqa: F401 (a fixture for every test here)
from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPLVM,
    StreamingGPRegressor,
    evaluate,
)

pytestmark = pytest.mark.slow

X_, Y_ = stream()
WIDTH = "X has 3 features, but StreamingGPRegressor is expecting 2"
BAD_ROWS: dict[str, tuple[Any, Any, str]] = {
    "NaN": (spoilt(X_, 3, 1, value=np.nan), Y_, "^X: expected finite numbers, got NaN at row 3, column 1; .*'skip'"),
    "infinity": (spoilt(X_, 4, 0, value=-np.inf), Y_, "^X: expected finite numbers, got -inf at row 4, column 0; "),
    "too large": (X_, spoilt(Y_, 5, value=1e200), r"^y: expected numbers of at most 1e\+100, got 1e\+200 at row 5; "),
    "NaN in y": (X_, spoilt(Y_, 5, value=np.nan), "^y: expected finite numbers, got NaN at row 5; "),
    "one column more": (np.column_stack([X_, X_[:, 0]]), Y_, WIDTH),
    "ragged": ([[1.0, 2.0], [3.0]], [1.0, 2.0], "inhomogeneous"),
    "text": ([["a", "b"]], [1.0], "could not convert string to float: 'a'"),
    "text in y": ([[1.0, 2.0]], ["high"], "could not convert string to float: 'high'"),
    "fewer targets than rows": (X_, Y_[:5], r"inconsistent numbers of samples: \[90, 5\]"),
    "no rows": (X_[:0], Y_[:0], "0 sample"),
    "a second target": (X_, np.column_stack([Y_, Y_]), r"^y: expected shape \(n,\) as before, got \(90, 2\)"),
    "times all of a sudden": (X_, Y_, "^times: the rows before had no time stamps and some came now"),
}

FRAMES = {
    "durations": pl.Series([timedelta(seconds=i) for i in range(ROWS)]),
    "times of day": pl.Series([time(i % 24) for i in range(ROWS)]),
}


@pytest.mark.parametrize("column", FRAMES.values(), ids=FRAMES)
def test_columns_that_are_no_inputs_are_named(column: pl.Series):
    frame = pl.DataFrame({"a": X_[:, 0], "b": column})
    with pytest.raises(
        ValueError, match=r"^X: expected columns of numbers, text, .* got \w+.* in column 'b'; turn it"
    ):
        new().partial_fit(frame, Y_)


@pytest.mark.parametrize("names", [[0, 1], [("a", 1), ("a", 2)]], ids=["numbers", "tuples"])
def test_names_of_columns_that_are_no_words_do_not_matter(names: list):
    frame = pytest.importorskip("pandas").DataFrame(X_, columns=names)
    np.testing.assert_array_equal(new().partial_fit(frame, Y_).predict(frame), new().partial_fit(X_, Y_).predict(X_))


def test_words_that_are_numbers_count_as_such():
    frame = pl.DataFrame({"a": X_[:, 0], "b": [str(value) for value in X_[:, 1]]})
    np.testing.assert_allclose(new().partial_fit(frame, Y_).predict(frame), new().partial_fit(X_, Y_).predict(X_))


@cache
def begun(rows: int) -> StreamingGPRegressor:
    """Return what has learnt the first rows: for looking at, or to be copied."""
    return new(missing="raise").partial_fit(X_[:rows], Y_[:rows])


@cache
def continued(rows: int) -> np.ndarray:
    """Return what is predicted once the same has learnt all rows after the first ones."""
    return copy.deepcopy(begun(rows)).partial_fit(X_, Y_).predict(X_)


@cache
def begun_in_time(posterior: str) -> StreamingGPRegressor:
    """Return what has learnt rows with times, of which the last is the last of the warm-up."""
    return new(warmup=40, warmup_posterior=posterior).partial_fit(X_[:40], Y_[:40], np.arange(40.0))


@pytest.mark.parametrize("problem", BAD_ROWS)
@pytest.mark.parametrize("learnt", [10, 40])
def test_bad_rows_are_refused_and_nothing_is_learnt(problem: str, learnt: int):
    X, y = stream()
    model = copy.deepcopy(begun(learnt))
    bad_X, bad_y, says = BAD_ROWS[problem]
    times = np.arange(ROWS) if "times" in problem else None
    with pytest.raises(ValueError, match=says) as caught:
        model.partial_fit(bad_X, bad_y, times)
    assert "\n" not in str(caught.value)
    assert same(model, begun(learnt))
    np.testing.assert_array_equal(model.partial_fit(X, y).predict(X), continued(learnt))


@pytest.mark.parametrize(
    ("times", "says"),
    [
        (None, "^times: the rows before had time stamps and none came now"),
        ([100.0, 101.0, 99.0], "^times: expected times that never decrease, got 99.0 at row 2 after 101.0"),
        ([38.0, 101.0, 102.0], "^times: expected times that never decrease, got 38.0 at row 0 after 39.0"),
        (
            ["2024-01-01", "2024-13-01", None],
            "^times: expected a number or a date .* got '2024-13-01' at row 1; correct",
        ),
        (
            ["10000-01-01T00:00:00Z"] * 3,
            "^times: .* years 1 to 9999, .* got '10000-01-01T00:00:00Z' at row 0; correct",
        ),
        ([100.0, np.nan, 102.0], "^times: expected finite numbers, got NaN at row 1"),
        (np.array(["2024-01-01", "NaT", "2024-01-03"], "datetime64[D]"), "^times: .* NaN at row 1"),
        ([100.0, 101.0], r"^times: expected 3 of them, one per row, got shape \(2,\)"),
    ],
)
@pytest.mark.parametrize("posterior", ["condition", "prior"])
def test_bad_times_are_refused_and_nothing_is_learnt(times: Any, says: str, posterior: str):
    X, y = stream()
    model = copy.deepcopy(begun_in_time(posterior))
    with pytest.raises(ValueError, match=says) as caught:
        model.partial_fit(X[:3], y[:3], times)
    assert "\n" not in str(caught.value)
    assert same(model, begun_in_time(posterior))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: m.predict(spoilt(X_, 2, 1, value=np.nan)), "^X: .*NaN at row 2, column 1; correct or remove"),
        (lambda m: m.predict(X_[:, [0, 1, 1]]), WIDTH),
        (lambda m: m.predict(X_[0]), "Expected 2D array"),
        (lambda m: m.predict(X_, times=np.arange(ROWS)), "^times: .* had no time stamps"),
        (lambda m: m.predict_quantiles(X_, [0.5, 1.0]), "^quantiles: .* strictly between 0 and 1, got .0.5, 1.0"),
        (lambda m: m.log_density(X_, Y_[:3]), r"^y: .* shape \(90,\), got shape \(3,\)"),
        (lambda m: m.log_density(X_, np.column_stack([Y_, Y_])), r"^y: .* got shape \(90, 2\)"),
        (lambda m: m.sample(X_, 0), "^n: expected a whole number >= 1, got 0"),
    ],
)
def test_bad_questions_are_refused(call: Any, says: str):
    with pytest.raises(ValueError, match=says):
        call(begun(ROWS))


HUGE = 10**400
ODD_NUMBERS: dict[str, tuple[Any, str]] = {
    "a whole number too large": (HUGE, r"a number of at most 1e\+100 in size, got a whole number of some 400 digits"),
    "one that Python does not write": (10**5000, ".*got a whole number of some 5,000 digits"),
    "a fraction": (Fraction(HUGE, 3), r"a number of at most 1e\+100 in size, got Fraction\(1000.*characters\)"),
    "complex": (1 + 2j, r"a real number .*, got \(1\+2j\)"),
    "complex of NumPy": (np.complex128(1 + 2j), r"a real number .*1\+2j"),
    "a date": (datetime(2024, 1, 2), r"a number, got datetime\.datetime\(2024, 1, 2"),
    "a date of NumPy": (np.datetime64("2024-01-02"), "a number, got np.datetime64"),
    "a duration": (timedelta(1), "a number, got datetime.timedelta"),
    "a NaN that signals": (Decimal("sNaN"), "a number, got Decimal"),
    "an object": ([].append, "a number .*, got <built-in method"),
}
ROW = [0.1, 0.2]
DOORS: dict[str, tuple[Any, str]] = {
    "partial_fit": (lambda m, odd: m.partial_fit([ROW, [0.3, odd]], [0.0, 1.0]), "X: .* at row 1, column 1; "),
    "an array": (
        lambda m, odd: m.partial_fit(np.array([ROW, [0.3, odd]], object), [0, 1]),
        "X: .* row 1, column 1; ",
    ),
    "y": (lambda m, odd: m.partial_fit([ROW, ROW], [0.5, odd]), "y: .* at row 1; "),
    "an array y": (lambda m, odd: m.partial_fit([ROW, ROW], np.array([0.5, odd], object)), "y: .* at row 1; "),
    "predict": (lambda m, odd: m.predict([ROW, [odd, 0.3]]), "X: .* at row 1, column 0; "),
    "log_density": (lambda m, odd: m.log_density([ROW, ROW], [odd, 0.5]), "y: .* at row 0; "),
    "predict_one": (lambda m, odd: m.predict_one([0.1, odd]), "[xX]: .* column 1; "),
    "learn_one": (lambda m, odd: m.learn_one([0.1, odd], 0.5), "[xX]: .* column 1; "),
    "learn_one's y": (lambda m, odd: m.learn_one(ROW, odd), "y: .*; "),
    "predict_later": (lambda m, odd: m.predict_later([odd, 0.1]), "[xX]: .* column 0; "),
    "evaluate": (lambda m, odd: evaluate(m, [ROW, [odd, 0.1]], [0.0, 1.0]), "X: .* at row 1, column 0; "),
    "evaluate's y": (lambda m, odd: evaluate(m, [ROW, ROW], [0.0, odd]), "y: .* at row 1; "),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("odd", ODD_NUMBERS)
def test_what_no_float_can_hold_is_named_with_its_place(door: str, odd: str):
    (call, where), (value, what) = DOORS[door], ODD_NUMBERS[odd]
    model = copy.deepcopy(begun(40))
    with pytest.raises(ValueError, match=f"^(?={where}).*: expected {what}") as caught:
        call(model, value)
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)
    assert same(model, begun(40))


def test_a_feature_or_label_that_is_too_large_is_named():
    model = new().partial_fit(pl.DataFrame({"a": X_[:, 0], "b": X_[:, 1]}), Y_)
    with pytest.raises(ValueError, match=r"^x, feature 'b': expected a number of at most .* some 400 digits; "):
        model.predict_one({"a": 0.1, "b": HUGE})
    with pytest.raises(
        ValueError, match=r"^y: expected labels .* got a whole number of some 400 digits at row 1; turn"
    ):
        StreamingGPClassifier().partial_fit([ROW, ROW], [0, HUGE])
    with pytest.raises(ValueError, match=r"^y: expected a number of at most .* some 400 digits at row 1; "):
        StreamingGPCountRegressor().partial_fit([ROW, ROW], [0, HUGE])
    with pytest.raises(ValueError, match=r"^X: expected a number of at most .* some 400 digits at row 1, column 0; "):
        StreamingGPLVM().partial_fit([ROW, [HUGE, 0.1]])
    with pytest.raises(ValueError, match=r"^times: expected a number of at most .* some 400 digits at row 1; "):
        new().partial_fit([ROW, ROW], [0.0, 1.0], [0.0, HUGE])


FAR = "10000-01-01T00:00:00Z"  # no date that is read


def test_a_time_that_cannot_be_read_is_named_by_every_door():
    X, y = stream()
    dates = np.datetime64("2024-01-01") + np.arange(ROWS)
    model = new(warmup=40).partial_fit(X, y, dates)
    says = f"expected a number or a date of the years 1 to 9999, .* got '{FAR}'"
    with pytest.raises(ValueError, match=f"^times: {says} at row 1; correct it$"):
        model.predict(X[:2], times=["2025-01-01", FAR])
    with pytest.raises(ValueError, match=f"^time: {says}"):
        model.learn_one(X[0], y[0], time=FAR)
    frame = pl.DataFrame({"x": X[:2, 0], "known": ["2024-01-05", FAR]})
    with pytest.raises(ValueError, match=f"^delay: column 'known': {says} at row 1; correct it"):
        evaluate(new(), frame, y[:2], times=dates[:2], delay="known")
    with pytest.raises(ValueError, match=f"but all 2 have some; times: {says} at row 0"):
        new(missing="skip").fit(X[:2], y[:2], times=[FAR, FAR])
    some = evaluate(new(warmup=40, missing="skip"), X, y, times=[*dates[:-1].astype(str), FAR])
    assert any(f"got '{FAR}' at row {ROWS - 1}" in warning for warning in some._given.about["warnings"])


def test_predicting_the_past_is_refused():
    X, y = stream()
    model = new().partial_fit(X, y, np.arange(ROWS))
    with pytest.raises(ValueError, match=r"^times: expected no time before 89\.0, .* got 50\.0 at row 1"):
        model.predict(X[:3], times=[95.0, 50.0, 96.0])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"warmup": 0}, "^warmup: expected a whole number >= 1, got 0"),
        ({"warmup": -5}, "^warmup: .*got -5"),
        ({"warmup": 2.5}, "^warmup: .*got 2.5"),
        ({"warmup": "many"}, "^warmup: .*got 'many'"),
        ({"missing": "ignore"}, "^missing: expected one of impute, skip, raise, got 'ignore'"),
        ({"bases": ["forier"]}, "^bases: .*did you mean 'fourier'"),
        ({"model": "e-dobe"}, "^model: .*did you mean 'e-doebe'"),
        ({"delta": "a"}, "^delta: .*got 'a'"),
    ],
)
def test_bad_parameters_are_refused_by_the_first_rows(options: dict[str, Any], says: str):
    X, y = stream()
    model = clone(new()).set_params(**options)
    with pytest.raises(ValueError, match=says) as caught:
        model.partial_fit(X, y)
    assert "\n" not in str(caught.value)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("chunk", [1, 10, ROWS])
def test_skipped_rows_might_as_well_not_have_come(chunk: int):
    X, y = stream()
    times = np.sqrt(np.arange(ROWS))
    clean = new(dynamics=0.01)
    good = np.ones(ROWS, bool)
    good[[0, 7, 30, 31, 60]] = False
    clean.partial_fit(X[good], y[good], times[good])
    X[0, 1], X[7, 0], y[30], y[31], times[60] = np.nan, np.inf, np.nan, -np.inf, np.nan
    model = new(dynamics=0.01, missing="skip")
    for i in range(0, ROWS, chunk):
        rows = slice(i, i + chunk)
        model.partial_fit(X[rows], y[rows], times[rows])
    assert (model.skipped_rows_, model.rows_) == (5, ROWS - 5)
    ahead = np.full(10, times[-1] + 1.0)
    np.testing.assert_allclose(model.predict(X[10:20], times=ahead), clean.predict(X[10:20], times=ahead), rtol=1e-9)


def test_skipping_does_not_hide_other_errors():
    X, y = stream()
    model = new(missing="skip").partial_fit(X, y)
    with pytest.raises(ValueError, match=WIDTH):
        model.partial_fit(BAD_ROWS["one column more"][0], y)
    with pytest.raises(ValueError, match="expected a row without NaN or infinity, but all 90 have some"):
        new(missing="skip").fit(np.full_like(X, np.nan), y)
    timed = new(missing="skip").partial_fit(X, y, np.arange(ROWS))
    X[1] = np.nan
    with pytest.raises(ValueError, match=r"got 97\.0 at row 3 after 98\.0"):  # counted among all rows given
        timed.partial_fit(X[:4], y[:4], [96.0, 97.0, 98.0, 97.0])
