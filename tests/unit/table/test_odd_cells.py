"""Cells as people and programs write them: decimal commas, dates without marks, words for missing, mixed JSON."""

import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.table import DataError, Schema, open_rows
from streamgp.table.cells import to_seconds


def read(text: str, **options: Any) -> tuple[list[float], list[list[float]], list[float] | None, Schema]:
    with open_rows(io.StringIO(text), target="y", **{"task": "auto"} | options) as reader:
        (chunk,) = reader
        times = None if chunk.times is None else chunk.times.tolist()
        return chunk.y[:, 0].tolist(), chunk.X.tolist(), times, reader.schema


def test_decimal_commas_of_a_table_with_semicolons_are_numbers():
    y, X, _, schema = read("x;y\n0,5;1,25\n-3;2\n1,5e3;-0,125\n")
    assert schema.task == "regression"
    assert (y, X) == ([1.25, 2.0, -0.125], [[0.5], [-3.0], [1500.0]])


def test_text_with_commas_stays_text_where_semicolons_separate():
    _, _, _, schema = read("x;y\nHof, Saale;1,5\nBonn;2,5\nHof, Saale;1\n")
    assert schema.features[0].levels == ("Hof, Saale", "Bonn")


@pytest.mark.parametrize("task", ["auto", "regression", "count"])
def test_a_target_with_commas_is_refused_where_they_may_mean_anything(task: str):
    with pytest.raises(DataError, match=r"column 'y': '1,234' may be 1234 or 1.234.*--decimal"):
        read('x,y\n1,2\n2,"1,234"\n', task=task)


@pytest.mark.parametrize(("cell", "number"), [("3,14", 3.14), ("1,234.5", 1234.5), ("-0,5e3", -500.0)])
def test_a_target_with_commas_is_read_where_they_mean_one_thing(cell: str, number: float):
    y, _, _, _ = read(f'x,y\n1,2\n2,"{cell}"\n')
    assert y == [2.0, number]


def test_an_input_with_commas_is_read_by_its_own_marks():
    _, X, _, _ = read('x,z,y\n1,"3,5",2.5\n2,"4,5",3.5\n')
    assert X == [[1.0, 3.5], [2.0, 4.5]]


def test_labels_with_commas_are_labels_where_they_are_asked_for():
    _, _, _, schema = read('x,y\n1,"1,2"\n2,"2,3"\n', task="classification")
    assert schema.labels is not None
    assert schema.labels.names == ("1,2", "2,3")


DAY = 86_400.0


@pytest.mark.parametrize(
    ("cells", "gaps"),
    [
        (["20240131", "20240201", "20240301"], [DAY, 29 * DAY]),
        (["20231231", "20240101", "20240101"], [DAY, 0.0]),
        (["202402282359", "202402290000", "202402290030"], [60.0, 1800.0]),
        (["20240228235959", "20240229000000", "20240229000001"], [1.0, 1.0]),
        # Numbers that are no dates stay what they are.
        (["20240131", "20240132", "20240133"], [1.0, 1.0]),
        (["1706659200", "1706659201", "1706659203"], [1.0, 2.0]),
        (["20240131.5", "20240201", "20240202"], [69.5, 1.0]),
    ],
)
def test_dates_without_marks_are_dates(tmp_path: Path, cells: list[str], gaps: list[float]):
    frame = pl.DataFrame({"t": cells, "x": [1.0, 2.0, 3.0], "y": [1.5, 2.5, 3.5]})
    frame.write_csv(tmp_path / "t.csv")
    frame.with_columns(pl.col("t").cast(pl.Float64)).write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        with open_rows(tmp_path / name, target="y", time="t") as reader:
            (chunk,) = reader
        assert chunk.times is not None
        assert [later - sooner for sooner, later in zip(chunk.times, chunk.times[1:], strict=False)] == gaps
        assert decode(*encode(reader.schema), {}) == reader.schema


@pytest.mark.parametrize("word", ["NA", "n/a", "null", "None", "#N/A"])
def test_words_for_missing_numbers_make_no_labels(word: str):
    lines = [f"{i}.5,{i}.25" if i % 3 == 0 else f"{i}.5,{word}" for i in range(12)]
    y, _, _, schema = read("x,y\n" + "\n".join(lines), missing="skip")
    assert (schema.task, y) == ("regression", [0.25, 3.25, 6.25, 9.25])
    lines = [f"{i}.5,{i % 2}" if i % 3 == 0 else f"{i}.5,{word}" for i in range(12)]
    y, _, _, schema = read("x,y\n" + "\n".join(lines), missing="skip", task="classification")
    assert schema.labels is not None
    assert (schema.labels.names, y) == (("0", "1"), [0.0, 1.0, 0.0, 1.0])
    # Among text it is a label, or a level, like any other.
    _, _, _, schema = read(f"x,y\n1,cat\n2,{word}\n3,dog\n")
    assert schema.labels is not None
    assert word in schema.labels.names
    _, _, _, schema = read(f"x,z,y\n1,{word},1.5\n2,3.5,2.5\n3,4.5,3.5\n", missing="skip")
    assert [feature.kind for feature in schema.features] == ["numeric", "numeric"]


def test_a_number_is_one_label_however_json_writes_it(tmp_path: Path):
    labels = ["b", 1, 1.0, "1", True, "true", 2.5, None]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"x": i, "y": y}) for i, y in enumerate(labels)))
    with open_rows(tmp_path / "t.jsonl", target="y", task="classification", missing="skip") as reader:
        (chunk,) = reader
    assert reader.schema.labels is not None
    assert reader.schema.labels.names == ("1", "2.5", "b", "true")
    assert chunk.y[:, 0].tolist() == [2, 0, 0, 0, 3, 3, 1]


@pytest.mark.parametrize(
    "cell",
    [
        "2024-01-02 03:04:05\0",
        "2024-01-02T03:04Z\0",
        "2024-01-02\x0003:04",
        "2024-01-02x03:04",
        "2024-01-02503:04",
        "2024-01-02-03:04",  # a date with a zone, or with a time
    ],
)
def test_what_python_overlooks_in_a_date_makes_it_none(cell: str):
    datetime.fromisoformat(cell)  # takes it
    assert np.isnan(to_seconds([cell], "day")[0])


@pytest.mark.parametrize(
    "cell",
    [
        "2024-01-02T03:04:05",
        "2024-01-02 03:04:05.000",
        "2024-01-02T03:04:05,000",
        "2024-01-02_03:04:05Z",
        "20240102T030405+00:00",
        "2024-W01-2T05:04:05+02:00",
        " 2/1/2024 03:04:05 ",
        "2024/01/02 3:04:05 am",
    ],
)
def test_forms_of_one_date(cell: str):
    assert to_seconds([cell], "day")[0] == 1704164645.0
