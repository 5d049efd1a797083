"""Codes for missing values: every front door takes them for missing, and names a value that seems to be one."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from odd_tables import DOORS, ROWS, WARMUP, cells, followed, said, same, text
from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPFleet,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)
from streamgp.service.config import StreamConfig
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem
from streamgp.table.codes import MissingCodes, find_suspect

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::streamgp.WarmupWarning")]

NAN = np.nan
GONE = {"a": [3, 8, 14, 27, 41], "y": [5, 11, 17, 33, 45]}  # rows, of which three are in the warm-up


def coded(code: str, names: tuple[str, ...] = ("a", "y")) -> dict[str, list[str]]:
    """Return the columns with a code in some rows."""
    at = {"a": 2, "y": 3}
    return {name: [code if i in GONE[name] else row[at[name]] for i, row in enumerate(cells())] for name in names}


@cache
def empty(door: str) -> Any:
    with TemporaryDirectory() as folder:
        return said(door, text(**coded("")).encode(), Path(folder))


class TestFiles:
    @pytest.mark.parametrize("door", DOORS)
    @pytest.mark.parametrize(
        ("code", "option"),
        [("-9999", "-9999"), ("-9999.0", "-9999"), ("-999", "-9999,-999"), ("gone", "gone"), (" gone ", "-1, gone")],
    )
    def test_a_code_is_what_an_empty_cell_is(self, code: str, option: str, door: str, tmp_path: Path):
        found = said(door, text(**coded(code)).encode(), tmp_path, "--missing-values", option)
        same(found, empty(door))
        assert found["unreadable_cells"] == {}
        assert not any("-9999" in note for note in found["warnings"])

    def test_a_decimal_comma_of_a_code_is_one(self, tmp_path: Path):
        columns = {n: [c.replace(".", ",") for c in column] for n, column in coded("-9999,0").items()}
        found = said("command", text(";", **columns).encode(), tmp_path, "--missing-values", "-9999")
        same(found, empty("command"))

    @pytest.mark.parametrize("door", DOORS)
    def test_a_value_that_seems_to_be_one_is_named(self, door: str, tmp_path: Path):
        found = said(door, text(**coded("-9999")).encode(), tmp_path)
        count, rows = (5, f"the first {ROWS} rows") if door == "key" else (3, f"the {WARMUP} rows of the warm-up")
        for name in ("a", "y"):
            assert (
                f"'{name}' is exactly -9999 in {count} of {rows}, far from all its other values: if that means "
                f"missing, pass --missing-values -9999"
            ) in found["warnings"]

    @pytest.mark.parametrize("word", ["", ","])
    def test_no_code_at_all(self, word: str, tmp_path: Path):
        same(said("command", text(**coded("")).encode(), tmp_path, "--missing-values", word), empty("command"))

    def test_a_run_goes_on_with_the_same_ones_alone(self, tmp_path: Path):
        content, out = text(**coded("-9999")).encode(), ("--out", str(tmp_path / "out"))
        said("command", content, tmp_path, *out, "--missing-values", "-9999", "--max-rows", "30")
        found = said("command", content, tmp_path, *out, "--missing-values", "-99", "--resume")
        assert "has missing_values [-9999.0], but now [-99.0] was given" in found

    def test_times_and_keys_have_none(self, tmp_path: Path):
        table = text(**coded("7")).replace("s,20", "7,20")
        found = said("key", table.encode(), tmp_path, "--missing-values", "7")
        same(found, empty("key"))

    @pytest.mark.parametrize(("code", "option"), [("-9999", "-9999"), ("gone", "gone")])
    def test_a_followed_file(self, code: str, option: str, tmp_path: Path):
        from streamgp.table.reading import Reading

        reading = Reading.of(None, None, option)
        status, heard = followed(tmp_path, text(**coded(code)).encode(), reading=reading)
        assert (status["rows"], status["skipped"], heard) == (ROWS, 0, [])

    def test_an_embedded_table(self, tmp_path: Path):
        from streamgp.table.reading import Reading
        from streamgp.table.tables import Table

        parts = []
        for cell in ("-9999", ""):
            (tmp_path / "t.csv").write_text(text(**coded(cell)))
            reading = Reading.of(None, None, "-9999")
            with Table(tmp_path / "t.csv", features=["a", "y"], missing="impute", reading=reading) as table:
                parts.append(np.concatenate([batch.X for batch in table]))
        assert_array_equal(*parts)
        assert np.isnan(parts[0]).sum() == 10


def stream(rows: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, targets, and which cells of all of them are gone."""
    rng = np.random.default_rng(0)
    X = rng.normal([20.0, 0.0], size=(rows, 2))
    return X, X.sum(axis=1) + 0.1 * rng.normal(size=rows), rng.random((rows, 3)) < 0.1


def with_cells(value: float) -> tuple[np.ndarray, np.ndarray]:
    X, y, gone = stream()
    return np.where(gone[:, :2], value, X), np.where(gone[:, 2], value, y)


CONTAINERS = {
    "array": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=["a", "b"]),
    "nullable": lambda X: pd.DataFrame(X, columns=["a", "b"]).convert_dtypes(),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b"]),
    "text": lambda X: pd.DataFrame(X, columns=["a", "b"]).map(repr).replace("nan", None),
}


class TestEstimators:
    @pytest.mark.parametrize("container", CONTAINERS)
    def test_a_code_is_what_nan_is(self, container: str):
        means = []
        for value in (-9999.0, NAN):
            X, y = with_cells(value)
            model = StreamingGPRegressor("linear", warmup=40, missing_values=-9999)
            given = CONTAINERS[container](X)
            model.partial_fit(given[:80], y[:80])
            means.append(model.predict(given[80:]))
        assert_allclose(*means, rtol=1e-9)

    def test_rows_that_come_singly(self):
        X, y = with_cells(-9999.0)
        one = StreamingGPRegressor("linear", warmup=40, missing_values=[-9999.0]).partial_fit(X[:80], y[:80])
        all_at_once = StreamingGPRegressor("linear", warmup=40, missing_values=-9999).partial_fit(X, y)
        for x, target in zip(X[80:], y[80:], strict=True):
            one.predict_one(x)
            one.learn_one(x, target)
        assert_allclose(one.predict(X[:5]), all_at_once.predict(X[:5]), rtol=1e-9)

    def test_dictionaries_and_late_labels(self):
        X, y = with_cells(NAN)
        models = [
            StreamingGPRegressor("linear", warmup=40, missing_values=-9999).partial_fit(
                pl.DataFrame(X[:80], schema=["a", "b"]), y[:80]
            )
            for _ in range(2)
        ]
        for model, gone in zip(models, (-9999, None), strict=True):
            token = model.predict_later({"a": gone, "b": 1.0})
            model.learn_later(token, NAN if gone is None else gone)
            model.learn_one({"a": 19.0, "b": gone}, NAN if gone is None else gone)
        assert_allclose(*(model.predict_one({"a": 20.0, "b": 0.0}) for model in models), rtol=1e-9)

    def test_evaluate_neither_scores_nor_learns_such_targets(self):
        results = [
            evaluate(StreamingGPRegressor("linear", warmup=40, missing_values=-9999), *with_cells(value))
            for value in (-9999.0, NAN)
        ]
        assert_allclose(results[0].mean, results[1].mean, rtol=1e-9)
        assert results[0].metrics["nmse"] == pytest.approx(results[1].metrics["nmse"], rel=1e-9)

    def test_words_of_a_column_of_text(self):
        X, y, gone = stream()
        text = np.where(X[:, 1] > 0.0, "high", "low").astype(object)
        frames = [pd.DataFrame({"a": X[:, 0], "k": np.where(gone[:, 1], word, text)}) for word in ("unknown", None)]
        models = [StreamingGPRegressor("linear", warmup=40, missing_values="unknown") for _ in frames]
        for model, frame in zip(models, frames, strict=True):
            model.partial_fit(frame[:100], y[:100])
        assert_allclose(*(model.predict(frame[100:]) for model, frame in zip(models, frames, strict=True)), rtol=1e-9)

    def test_labels_grades_and_counts(self):
        X, y, gone = stream()
        grades = np.digitize(y, [19.0, 20.0, 21.0])
        labels = np.where(gone[:, 2], -1, grades)
        classifier = StreamingGPClassifier("linear", warmup=40, missing_values=-1).fit(X, labels)
        assert_array_equal(classifier.classes_, [0, 1, 2, 3])
        words = np.where(gone[:, 2], "?", np.array(list("abcd"))[grades])
        named = StreamingGPClassifier("linear", warmup=40, missing_values="?").partial_fit(X, words)
        assert set(named.classes_) == {"a", "b", "c", "d"}
        ordinal = StreamingGPOrdinal("linear", warmup=40, missing_values=-1).fit(X, labels, grades=[0, 1, 2, 3])
        assert_array_equal(ordinal.classes_, [0, 1, 2, 3])
        means = [
            StreamingGPCountRegressor("linear", warmup=40, missing_values=-1).fit(X, counts).predict(X[:5])
            for counts in (labels, np.where(gone[:, 2], NAN, grades))
        ]
        assert_allclose(*means, rtol=1e-9)

    def test_it_is_kept_with_the_model(self, tmp_path: Path):
        X, y = with_cells(-9999.0)
        model = StreamingGPRegressor("linear", warmup=40, missing_values=[-9999, "NA!"]).partial_fit(X, y)
        model.save(tmp_path / "m")
        loaded = StreamingGPRegressor.load(tmp_path / "m")
        assert loaded.missing_values == [-9999, "NA!"]
        assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-12)

    def test_a_value_that_seems_to_be_one_is_named_once(self):
        X, y = with_cells(-9999.0)
        model = StreamingGPRegressor("linear", warmup=60)
        model.partial_fit(X[:50], y[:50])
        with pytest.warns(UserWarning, match="is exactly -9999 in .* pass missing_values=-9999") as said:
            model.partial_fit(X[50:80], y[50:80])
        assert {str(each.message)[:4] for each in said} == {"'x0'", "'x1'", "'y' "}
        model.partial_fit(X[80:], y[80:])

    @pytest.mark.parametrize("given", [True, [None], [""], [["a"]], {"a": 1}])
    def test_what_is_no_code_is_refused(self, given: Any):
        X, y, _ = stream()
        with pytest.raises(ValueError, match="missing_values: expected numbers or words that are not empty"):
            StreamingGPRegressor("linear", missing_values=given).fit(X, y)


class TestFleets:
    @pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
    def test_a_code_is_what_nan_is(self, make: Any):
        scores = []
        for value in (-9999.0, NAN):
            X, y, gone = stream(240)
            columns = {"unique_id": np.arange(240) % 4, "ds": np.arange(240) // 4}
            columns |= {"y": np.where(gone[:, 2], value, y), "a": np.where(gone[:, 0], value, X[:, 0])}
            fleet = StreamingGPFleet(warmup=60, missing_values=-9999).partial_fit(make(columns))
            scores.append(np.asarray(fleet.scores()[["rows", "unlabelled", "nmse"]]))
        assert_allclose(*scores, rtol=1e-9)
        assert scores[0][:, 1].sum() > 0


class TestService:
    CONFIG = StreamConfig(
        "s", "y", ("a", "k"), categories={"k": ("p", "q")}, model="linear", warmup=40, missing_values=(-9999, "gone")
    )

    def test_a_code_is_what_null_is(self):
        sent = [{"x": {"a": -9999, "k": "gone"}, "y": -9999.0}, {"x": {"a": "gone", "k": "q"}, "y": "gone"}]
        null = [{"x": {"a": None, "k": None}, "y": None}, {"x": {"a": None, "k": "q"}, "y": None}]
        found, expected = (rows_with_inputs(self.CONFIG, rows, with_target=True) for rows in (sent, null))
        assert_array_equal(found.X, expected.X)
        assert_array_equal(found.y, expected.y)

    def test_it_is_kept_with_the_stream(self):
        assert StreamConfig.from_document(self.CONFIG.document()) == self.CONFIG

    @pytest.mark.parametrize("given", [["a", None], "-9999", [True], [""]])
    def test_what_is_no_code_is_refused(self, given: Any):
        with pytest.raises(Problem, match="missing_values"):
            StreamConfig.from_document({"name": "s", "target": "y", "missing_values": given})


class TestSuspects:
    @pytest.mark.parametrize("value", [-9999.0, -999.0, 9999.0, 99.99, -200.0, 1e20, 32767.0, -32768.0])
    @pytest.mark.parametrize("count", [3, 40, 150])
    def test_a_value_far_from_all_others_that_comes_again(self, value: float, count: int):
        values = np.random.default_rng(0).normal(20.0, 5.0, 200)
        values[np.random.default_rng(1).permutation(200)[:count]] = value
        assert find_suspect(values) == (value, count)

    @pytest.mark.parametrize(
        "values",
        {
            "twice": np.r_[np.linspace(0.0, 1.0, 50), -9999.0, -9999.0],
            "rain": np.r_[np.zeros(80), np.random.default_rng(0).gamma(2.0, 5.0, 40)],
            "levels": np.repeat([0.0, 1.0, 2.0, 99.0], 30),
            "heavy tail": np.exp(2.0 * np.random.default_rng(0).normal(size=500)),
            "rounded": np.round(np.random.default_rng(0).normal(0.0, 3.0, 500)),
            "capped": np.minimum(np.random.default_rng(0).exponential(1.0, 500), 2.0),
            "constant": np.full(50, -9999.0),
            "few": np.array([-9999.0, -9999.0, -9999.0, 1.0]),
            "none": np.full(50, np.nan),
            "night": np.r_[np.zeros(200), np.random.default_rng(0).uniform(300.0, 900.0, 200)],
        }.values(),
    )
    def test_what_data_usually_have(self, values: np.ndarray):
        assert find_suspect(values) is None

    @given(st.lists(st.one_of(st.floats(), st.integers(-10, 10).map(float)), max_size=60))
    def test_it_takes_any_numbers(self, values: list[float]):
        found = find_suspect(np.array(values, dtype=np.float64))
        assert found is None or found.count == sum(value == found.value for value in values)


def test_whole_numbers_and_huge_ones():
    codes = MissingCodes.of([-9999, 1e400, "x"])
    assert codes.is_code("-9999")
    assert codes.is_code(-9999)
    assert not codes.is_code(True)
    assert not codes.is_code("-9999x")
    values = np.array([-9999, 5, 7])
    assert_array_equal(codes.blank(values), [NAN, 5.0, 7.0])
    assert codes.blank(np.array([1, 2])).dtype.kind == "i"
    assert not MissingCodes.of(None)
