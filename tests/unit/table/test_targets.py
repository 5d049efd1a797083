"""Labels, grades, counts and exposures: what the first rows say of a target, and how its cells become codes."""

import io
from typing import Any

import numpy as np
import polars as pl
import pytest

from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.table import Chunk, DataError, RowReader, Schema, open_rows


def reader_of(y: list[str], chunk: int = 1024, **options: Any) -> RowReader:
    lines = ["x,y", *(f"{i}.5,{cell}" for i, cell in enumerate(y))]
    return open_rows(io.StringIO("\n".join(lines)), target="y", chunk=chunk, **options)


def read(y: list[str], **options: Any) -> tuple[list[float], Schema]:
    with reader_of(y, **options) as reader:
        chunks: list[Chunk] = list(reader)
        return [float(v) for chunk in chunks for v in chunk.y[:, 0]], reader.schema


def names(schema: Schema) -> tuple[str, ...]:
    assert schema.labels is not None
    return schema.labels.names


@pytest.mark.parametrize(
    ("cells", "labels", "codes"),
    [
        (["b", " a", "b", "c "], ("a", "b", "c"), [1, 0, 1, 2]),
        (["True", "false", "TRUE"], ("false", "true"), [1, 0, 1]),
        (["0", "1", "1.0", "0"], ("0", "1"), [0, 1, 1, 0]),
        (["1", "2", "A", "B"] * 2, ("1", "2", "A", "B"), [0, 1, 2, 3] * 2),
    ],
)
def test_auto_finds_labels(cells: list[str], labels: tuple[str, ...], codes: list[int]) -> None:
    found, schema = read(cells, task="auto")
    assert (schema.task, names(schema)) == ("classification", labels)
    assert found == codes
    assert "--task" in schema.notes[0]


@pytest.mark.parametrize(
    "cells",
    [["0.5", "1"], ["0", "0"], ["0", "1", "2"], ["1", "2"], ["0", "1", "1e9"]],
)
def test_auto_keeps_numbers(cells: list[str]) -> None:
    found, schema = read(cells, task="auto")
    assert (schema.task, schema.labels, schema.notes) == ("regression", None, ())
    assert found == [float(cell) for cell in cells]


def test_auto_tells_of_the_other_tasks_where_whole_numbers_are_few() -> None:
    _, schema = read([str(i % 4) for i in range(100)], task="auto")
    assert schema.task == "regression"
    assert "only 4 different whole numbers" in schema.notes[0]
    assert "--task classification, count and ordinal" in schema.notes[0]
    assert read([f"{i % 4}.5" for i in range(100)], task="auto")[1].notes == ()


def test_labels_that_are_numbers_are_sorted_as_such() -> None:
    found, schema = read(["10", "9", "2.5", "-1"], task="classification")
    assert names(schema) == ("-1", "2.5", "9", "10")
    assert found == [3, 2, 1, 0]


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_new_labels_are_appended_as_they_come(chunk: int) -> None:
    cells = ["b", "a", "b", "zebra", "a", "kudu", "zebra", "b"]
    found, schema = read(cells, task="classification", infer_rows=3, chunk=chunk)
    assert schema.labels is not None
    assert (names(schema), schema.labels.first) == (("a", "b", "zebra", "kudu"), 2)
    assert found == [1, 0, 1, 2, 0, 3, 2, 1]


def test_a_bad_row_adds_no_label() -> None:
    lines = ["x,y", "1,a", "2,b", "?,c", "3,d", "4,a"]
    source = io.StringIO("\n".join(lines))
    with open_rows(source, target="y", task="auto", infer_rows=2, missing="skip") as reader:
        codes = [float(v) for chunk in reader for v in chunk.y[:, 0]]
    assert names(reader.schema) == ("a", "b", "d")
    assert (codes, reader.skipped_rows) == ([0, 1, 2, 0], 1)


def test_a_stored_schema_goes_on_with_the_same_codes() -> None:
    _, schema = read(["b", "a", "z"], task="classification", infer_rows=2)
    again = decode(*encode(schema), {})
    assert again == schema
    found, _ = read(["y", "z", "a"], task="classification", schema=again)
    assert found == [3, 2, 0]
    with pytest.raises(DataError, match="the stored schema has task classification, got regression"):
        read(["a"], task="regression", schema=again)


def test_grades() -> None:
    found, schema = read(["5", "3", "4.0", "3"], task="ordinal")
    assert names(schema) == ("3", "4", "5")
    assert found == [2, 0, 1, 0]
    found, schema = read(["mid", "low", "mid"], task="ordinal", grades=["low", "mid", "high"])
    assert names(schema) == ("low", "mid", "high")
    assert found == [1, 0, 1]
    assert schema.labels is not None
    assert schema.labels.ordered
    assert schema.labels.values.tolist() == [1.0, 2.0, 3.0]
    assert read(["9", "3"], task="ordinal", grades=["3", "5", "9.0"])[0] == [2, 0]


def test_counts() -> None:
    found, schema = read(["0", "3", "2.0", "1e3"], task="count")
    assert (schema.task, schema.labels) == ("count", None)
    assert found == [0, 3, 2, 1000]


def test_parquet_labels(tmp_path) -> None:
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "flag": [True, False, True], "kind": ["b", "a", "b"], "n": [7, 3, 7]})
    frame.write_parquet(path)
    for target, labels in (("flag", ("false", "true")), ("kind", ("a", "b")), ("n", ("3", "7"))):
        with open_rows(path, target=target, features="x", task="classification") as reader:
            (chunk,) = reader
            assert names(reader.schema) == labels
            assert chunk.y[:, 0].tolist() == [1, 0, 1]


def test_the_log_of_the_exposure_is_the_last_input() -> None:
    text = "hours,x,y\n2,0.1,3\n0.5,0.2,0\n"
    with open_rows(io.StringIO(text), target="y", task="count", exposure="hours") as reader:
        (chunk,) = reader
    assert reader.schema.feature_names == ["x"]
    assert reader.schema.num_inputs == 2
    np.testing.assert_allclose(chunk.X, [[0.1, np.log(2)], [0.2, np.log(0.5)]], rtol=1e-15)
    assert decode(*encode(reader.schema), {}) == reader.schema


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (["1", "-1"], {"task": "count"}, "data row 2 (line 3): target column 'y': expected a count, a whole number"),
        (["1", "1.5"], {"task": "count"}, "expected a count, a whole number from 0 on, got '1.5'"),
        (["1", "1e300"], {"task": "count"}, "expected a count"),
        (["a", "b"], {"task": "count"}, "data row 1 (line 2), target column 'y': expected counts, got 'a'"),
        (["a", ""], {"task": "auto"}, "data row 2 (line 3): target column 'y': expected a label, got an empty cell"),
        (["a", "b"], {"task": "ordinal"}, "expected numbers as grades, got 'a'; name all grades in order (--grades"),
        (["4", "4"], {"task": "ordinal"}, "expected 2 to 50 different grades, got 1 in the first 2 rows"),
        (["1", "2", "5"], {"task": "ordinal", "infer_rows": 2}, "expected one of the grades 1, 2, got '5'; name all"),
        (["1", "2"], {"task": "ordinal", "grades": ["1", "1"]}, "expected two or more different grades, got 1, 1"),
        (["1", "2"], {"grades": ["1", "2"]}, "expected grades with the task ordinal, got the task regression"),
        (
            ["a", "b"],
            {},
            "data row 1 (line 2), target column 'y': expected numbers, got 'a'; choose a num",
        ),
        ([f"k{i}" for i in range(51)], {"task": "auto"}, "expected at most 50 different labels, got 51 in the first"),
        ([f"k{i}" for i in range(51)], {"task": "auto", "infer_rows": 9}, "expected at most 50 labels, got one more"),
        (["2024-01-01", "2024-01-02"], {"task": "auto"}, "expected numbers, got '2024-01-01'"),
        (["1", "2"], {"task": "count", "exposure": "z"}, "there is no column 'z'"),
        (["1", "2"], {"task": "count", "exposure": "x", "features": "x"}, "column 'x' is the exposure and cannot"),
        (["1", "2"], {"task": "count", "exposure": "y"}, "column 'y' is the exposure and cannot"),
    ],
)
def test_what_is_refused(cells: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        read(cells, **options)
    assert message in str(caught.value)


def test_an_exposure_that_is_not_positive_is_a_bad_row() -> None:
    text = "hours,x,y\n2,0.1,3\n0,0.2,0\n"
    with (
        open_rows(io.StringIO(text), target="y", task="count", exposure="hours") as reader,
        pytest.raises(DataError, match=r"data row 2 \(line 3\): exposure column 'hours': expected a positive finite"),
    ):
        list(reader)


def test_several_targets_are_numbers() -> None:
    text = "x,a,b\n1,0,1\n2,1,0\n"
    with open_rows(io.StringIO(text), target=["a", "b"], task="auto") as reader:
        assert reader.schema.task == "regression"
    with pytest.raises(DataError, match="expected one target for count, got 2"):
        open_rows(io.StringIO(text), target=["a", "b"], task="count")
    with pytest.raises(ValueError, match="task: expected one of auto"):
        open_rows(io.StringIO(text), target="a", task="clustering")
