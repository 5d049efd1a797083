"""Frames of any make, and what is wrong with them: said in a sentence, and nothing learnt."""

from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fleet_streams import VALUES, assert_same, fleet, frame, steps_ahead
from streamgp import DataError, StreamingGPFleet, StreamingGPRegressor, evaluate

ROWS = frame(keys=4, rows=30)


def three(**columns) -> pl.DataFrame:
    return pl.DataFrame({"unique_id": ["a", "b", "a"], "ds": [1.0, 1.0, 2.0], "y": [1.0, 2.0, 3.0]} | columns)


def test_pandas_gives_what_polars_gives():
    in_pandas = pd.DataFrame(ROWS.to_dict(as_series=False), index=np.arange(len(ROWS))[::-1])
    one, other = fleet(), fleet()
    assert isinstance(other.evaluate(in_pandas[:100]).frame, pd.DataFrame)
    one.partial_fit(ROWS[:100])
    expected, found = one.predict(ROWS[100:]), other.predict(in_pandas[100:])
    assert list(found.columns) == expected.columns == ["unique_id", "ds", *VALUES]
    assert list(found.index) == list(in_pandas.index[100:])
    assert_same(expected, pl.DataFrame({name: found[name].to_numpy() for name in found.columns}))
    assert isinstance(other.forecast(2, X_future=steps_ahead(other, 2, a=0.0, b=0.0)), pd.DataFrame)
    assert isinstance(other.scores(), pd.DataFrame)


def test_columns_may_have_any_names_and_any_order():
    renamed = ROWS.rename({"unique_id": "shop", "ds": "when", "y": "sales"}).select("b", "sales", "a", "when", "shop")
    one = fleet().partial_fit(ROWS[:80]).predict(ROWS[80:90])
    other = fleet(id_col="shop", time_col="when", target_col="sales").partial_fit(renamed[:80])
    found = other.predict(renamed[80:90].select("a", "when", "b", "shop"))
    assert found.columns == ["shop", "when", *VALUES]
    # The inputs' order sets which of them the random features mix how.
    assert np.allclose(found["mean"], one["mean"], rtol=0.2, atol=0.2)


@pytest.mark.parametrize("kind", [pl.Int32, pl.Float64, pl.Categorical, pl.String])
def test_keys_of_any_type(kind):
    keys = ROWS["unique_id"].str.strip_prefix("key ")
    typed = keys.cast(kind) if kind in (pl.Categorical, pl.String) else keys.cast(pl.Int32).cast(kind)
    model = fleet().partial_fit(ROWS.with_columns(unique_id=typed))
    text = kind in (pl.Categorical, pl.String)
    assert model.keys_ == list(dict.fromkeys(keys.to_list() if text else [int(k) for k in keys]))
    assert model.predict(ROWS.with_columns(unique_id=typed)[:3])["unique_id"].dtype == kind


def test_levels_that_differ_have_columns_of_their_own():
    rows = pl.DataFrame({"unique_id": "a", "ds": np.arange(40), "y": np.sin(np.arange(40) * 0.3)})
    found = fleet(warmup=10).partial_fit(rows).forecast(2, level=(99.9999, 99.999999))
    assert found.columns[-4:] == [
        f"mean-{side}-{level}" for level in ("99.9999", "99.999999") for side in ("lo", "hi")
    ]
    assert (found["mean-lo-99.999999"] < found["mean-lo-99.9999"]).all()


@pytest.mark.parametrize("kind", ["date", "datetime", "zoned", "int", "none"])
def test_times_of_any_type(kind):
    days = np.arange(40)
    if kind == "int":
        times, after = pl.Series(days * 2), [80, 82]
    elif kind == "date":
        times, after = (
            pl.Series([date(2024, 1, 1) + timedelta(int(d)) for d in days]),
            [date(2024, 2, 10), date(2024, 2, 11)],
        )
    else:
        start = datetime(2024, 1, 1)
        times = pl.Series([start + timedelta(hours=int(d)) for d in days])
        after = [start + timedelta(hours=40), start + timedelta(hours=41)]
        if kind == "zoned":
            times = times.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
            after = pl.Series(after).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo").to_list()
    rows = pl.DataFrame({"unique_id": "a", "ds": times, "y": np.sin(days * 0.3)})
    if kind == "none":
        model = fleet(time_col=None, warmup=10).partial_fit(rows.drop("ds"))
        assert model.forecast(2).columns == [
            "unique_id",
            *VALUES,
            "mean-lo-80",
            "mean-hi-80",
            "mean-lo-95",
            "mean-hi-95",
        ]
        return
    model = fleet(warmup=10).partial_fit(rows)
    forecast = model.forecast(2)
    assert forecast["ds"].to_list() == after
    assert forecast["ds"].dtype == (times.dtype if kind != "datetime" else pl.Datetime("us"))
    assert model.scores()["last_seen"][0] == times[-1]


def refused(rows: pl.DataFrame, said: str, **options) -> None:
    """Check that a fleet that has seen some rows refuses these, and goes on as if they had never come."""
    model, untouched = fleet(**options), fleet(**options)
    start = three()
    for each in (model, untouched):
        each.partial_fit(start)
    with pytest.raises(DataError, match=said):
        model.partial_fit(rows)
    assert model.keys_ == untouched.keys_
    assert model.rows_ == 3
    after = three(ds=[3.0, 3.0, 4.0])
    assert model.evaluate(after).frame.equals(untouched.evaluate(after).frame)


def test_the_same_key_and_time_twice():
    refused(three(ds=[3.0, 4.0, 3.0]), r"the time of an earlier row of the same key in row 2 \('a' at 3.0\)")


def test_the_time_of_a_row_before():
    refused(three(ds=[2.0, 4.0, 5.0]), r"the time of an earlier row of the same key in row 0 \('a' at 2.0\)")


def test_time_that_runs_backwards():
    refused(three(ds=[5.0, 4.0, 3.5]), r"a time before an earlier row of the same key in row 2 \('a' at 3.5\)")
    refused(three(ds=[0.5, 4.0, 3.5]), r"a time before an earlier row of the same key in row 0 \('a' at 0.5\)")


def test_rows_without_key_or_time():
    refused(three(unique_id=["a", None, "b"], ds=[3.0, 4.0, 5.0]), r"no key in row 1 \(None at 4.0\)")
    refused(three(ds=[3.0, None, 5.0]), r"no time in row 1 \('b' at None\)")
    many = pl.DataFrame({"unique_id": ["a"] * 9, "ds": [np.nan] * 9, "y": [0.0] * 9})
    refused(many, r"no time in row 0 .* row 2 \('a' at nan\) and 6 more; nothing was learnt: correct them")


def test_a_text_that_is_no_time_is_named_with_what_was_expected():
    rows = pl.DataFrame({"unique_id": ["a"] * 3, "ds": ["2024-01-01", "10000-01-02", "2024-01-03"], "y": [0.0] * 3})
    says = r"no time in row 1 \('a' at 10000-01-02\); .* \(a time is a number or a date of the years 1 to 9999"
    with pytest.raises(DataError, match=says):
        StreamingGPFleet().partial_fit(rows)
    with pytest.raises(DataError, match=r"years 1 to 9999, .* got '10000-01-02' in row 0 of a column"):
        StreamingGPFleet().partial_fit(rows[1:2])


def test_columns_that_changed():
    refused(three(unique_id=[1, 2, 1]), "column 'unique_id': expected a column of type text, .* got whole number")
    refused(three(ds=[date(2024, 1, 1)] * 3), "column 'ds': expected a column of type number, .* got date")
    refused(three(y=["a", "b", "c"]), "column 'y': expected a number .*, got 'a' at row 0")
    refused(
        three(ds=["1", "2", "3"]),
        "column 'ds': expected a number or a date .* got '1' in row 0 of a column of String",
    )
    refused(three(a=[1, 2, 3]), "expected the inputs none, .* got 'a' as well")
    refused(three().drop("y"), "expected the columns 'unique_id', 'ds', 'y', got 'unique_id', 'ds'; 'y' missing")


def test_keys_of_mixed_types():
    mixed = pd.DataFrame({"unique_id": ["a", 1, "b"], "ds": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match="keys of one type, text or whole numbers, got 'a' in row 0, 1 in row 1"):
        fleet().partial_fit(mixed)
    with pytest.raises(DataError, match=r"keys of text or whole numbers, got 1.5 in row 1"):
        fleet().partial_fit(three(unique_id=[1.0, 1.5, 2.0]))


def test_keys_are_whole_numbers_of_64_bits_and_more_but_not_of_any_size():
    large = fleet().partial_fit(three(unique_id=pl.Series([2**64 - 1, 2**63, 2**64 - 1], dtype=pl.UInt64)))
    assert large.keys_ == [2**64 - 1, 2**63]
    with pytest.raises(DataError, match=r"keys of text or whole numbers, got 1e\+300 in row 2"):
        fleet().partial_fit(three(unique_id=[1.0, 2.0, 1e300]))
    huge = pd.DataFrame({"unique_id": [1, 10**40, 2], "ds": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}, dtype=object)
    huge = huge.astype({"ds": float, "y": float})
    with pytest.raises(DataError, match=rf"whole numbers below 2\^127, got {10**40} in row 1; use text"):
        fleet().partial_fit(huge)


def test_evaluate_takes_a_fleet_and_a_frame_alone():
    with pytest.raises(ValueError, match="expected a fleet and a frame that holds keys, times and targets"):
        evaluate(fleet(), ROWS, np.zeros(len(ROWS)))
    with pytest.raises(ValueError, match="expected the targets y as well, unless the model is a fleet"):
        evaluate(StreamingGPRegressor(), np.zeros((3, 1)))


def test_what_is_no_frame():
    with pytest.raises(TypeError, match="expected a data frame of pandas, polars or Arrow, got set"):
        fleet().partial_fit({"a"})


def test_bad_rows_are_skipped_and_counted():
    rows = three(unique_id=["a", None, "a"], ds=[1.0, 5.0, 0.5]).vstack(three(ds=[3.0, 1.0, 3.0]))
    model = fleet(missing="skip", warmup=10)
    found = model.evaluate(rows).frame
    assert found["mean"].is_nan().to_list() == [False, True, True, False, False, True]
    scores = model.scores()
    assert scores.select("unique_id", "rows", "skipped").rows() == [("a", 2, 1 + 1), ("b", 1, 0)]
    with pytest.raises(DataError, match="predict: expected a key in every row, got none in row 1"):
        model.predict(rows)


def test_a_key_with_nothing_but_bad_rows_is_no_key():
    model = fleet(missing="skip").partial_fit(three(ds=[1.0, None, 2.0]))
    assert model.keys_ == ["a"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"engine": "spark"}, "engine: expected 'local' or 'ray', got 'spark'"),
        ({"model": "huge"}, "model: expected 'fleet', got 'huge'"),
        ({"missing": "ignore"}, "missing: expected 'impute' or 'skip' or 'raise'"),
        ({"warmup": 1}, "warmup: expected a whole number from 10"),
        ({"lags": (0, 1)}, "lags: expected a whole number >= 1"),
        ({"season": 1}, "season: expected a whole number from 2"),
        ({"shards": 0}, "shards: expected a whole number from 1"),
        ({"id_col": "y"}, "expected different columns, got y, ds, y"),
        ({"target_col": ""}, "target_col: expected the name of a column, got ''"),
    ],
)
def test_parameters_out_of_range(option, said):
    with pytest.raises(ValueError, match=said):
        StreamingGPFleet(**option)


def test_what_needs_rows_says_so():
    for ask in (lambda m: m.scores(), lambda m: m.forecast(1)):
        with pytest.raises(ValueError, match="expected a fleet that has seen some rows"):
            ask(fleet())
    with pytest.raises(ValueError, match="h: expected a whole number from 1"):
        fleet().partial_fit(ROWS).forecast(0)
    with pytest.raises(ValueError, match="level: expected percents above 1 and below 100"):
        fleet().partial_fit(ROWS).forecast(1, level=100)
    with pytest.raises(ValueError, match="for a band of 90% pass level=90"):
        fleet().partial_fit(ROWS).forecast(1, level=0.9)
    with pytest.raises(ValueError, match="level: expected percents that differ"):
        fleet().partial_fit(ROWS).forecast(1, level=(80, 80))


def test_an_empty_frame_and_a_fleet_without_rows():
    model = fleet()
    assert len(model.predict(ROWS[:0])) == 0
    assert model.predict(ROWS[:3])["std"].is_finite().all()
    model.partial_fit(ROWS[:0])
    assert model.keys_ == []
    model.partial_fit(ROWS[:20]).partial_fit(ROWS[:0])
    assert model.rows_ == 20
    assert len(model.evaluate(ROWS[:0]).frame) == 0


def test_a_step_is_learnt_once():
    model, other = fleet(), fleet()
    first = model.step(0, ROWS[:50])
    assert model.step(0, ROWS[:50]) is None
    assert model.step(3, ROWS[50:70]) is not None
    assert model.step(2, ROWS[70:80]) is None
    assert_same(first, other.evaluate(ROWS[:50]).frame)
    other.partial_fit(ROWS[50:70])
    assert_same(model.predict(ROWS[70:80]), other.predict(ROWS[70:80]))
    with pytest.raises(ValueError, match="seq: expected a whole number"):
        model.step(-1, ROWS)


def test_stopped_in_the_midst_it_is_used_no_more(monkeypatch):
    model = fleet().partial_fit(ROWS[:20])

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(model.learner.engine, "learn", stopped)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(ROWS[20:30])
    with pytest.raises(RuntimeError, match="stopped in the midst of learning; load it"):
        model.partial_fit(ROWS[20:30])
