"""Each thing that can be wrong with a file gives one sentence that says what and where."""

import gzip
import io
import sys
from pathlib import Path

import polars as pl
import pytest

from streamgp.table import DataError, open_rows
from streamgp.table.cells import A_DATE


def drain(source, **options) -> None:
    options.setdefault("target", "y")
    with open_rows(source, **options) as reader:
        for _ in reader:
            pass


BAD_TEXTS = {
    "header only": ("x,y\n", {}, "no data rows"),
    "blank lines only": ("\n\n", {}, "expected a first line of column names, got no text"),
    "no such column": (
        "temp,wind,y\n1,2,3\n",
        {"target": "wnd"},
        "no column 'wnd' (did you mean 'wind'?); the columns are 'temp', 'wind', 'y'",
    ),
    "no such feature": ("x,y\n1,2\n", {"features": ["q"]}, "no column 'q'; the columns are 'x', 'y'"),
    "no such time": ("x,y\n1,2\n", {"time": "t"}, "no column 't'"),
    "column twice": ("x,y,x\n1,2,3\n", {}, "'x' twice"),
    "feature twice": ("x,y\n1,2\n", {"features": ["x", "x"]}, "'x' twice"),
    "target as feature": (
        "x,y\n1,2\n",
        {"features": ["x", "y"]},
        "'y' is a target and cannot also be a feature",
    ),
    "target as time": ("x,y\n1,2\n", {"time": "y"}, "cannot also be the time column"),
    "target is text": (
        "x,y\n1,\n2,red\n",
        {},
        "data row 2 (line 3), target column 'y': expected numbers, got 'red'",
    ),
    "target is empty": (
        "x,y\n1,\n2,\n",
        {},
        "data row 1 (line 2), target column 'y': expected numbers, got an empty cell",
    ),
    "target is not a number in one row": (
        "x,y\n1,2\n3,red\n",
        {},
        "data row 2 (line 3): target column 'y': expected a finite number, got 'red'",
    ),
    "short row": ("x,y\n1,2\n3\n", {}, "data row 2 (line 3): expected 2 cells, got 1"),
    "long row": ("x,y\n1,2\n3,4,5\n", {}, "data row 2 (line 3): expected 2 cells, got 3"),
    "empty cell": (
        "x,y\n1,2\n\n,4\n",
        {},
        "data row 2 (line 4): column 'x': expected a finite number, got an empty cell",
    ),
    "too large": (
        "x,y\n1,2\n1e300,4\n",
        {},
        "data row 2 (line 3): column 'x': expected a finite number of at most 1e+100, got '1e300'",
    ),
    "NaN": ("x,y\n1,2\nNaN,4\n", {}, "data row 2 (line 3): column 'x': expected a finite number, got 'NaN'"),
    "infinity": (
        "x,y\n1,2\n3,-inf\n",
        {},
        "data row 2 (line 3): target column 'y': expected a finite number, got '-inf'",
    ),
    "decimal comma": (
        'x,y\n1,2\n2,3\n"3,5",4\n',
        {"features": "x", "infer_rows": 2},
        "data row 3 (line 4): column 'x': expected a finite number, got '3,5'",
    ),
    "grouping underscore": (
        "x,y\n1,2\n2,3\n1_000,4\n",
        {},
        "data row 3 (line 4): column 'x': expected a finite number, got '1_000'",
    ),
    "text late in a numeric column": (
        "x,y\n1,2\n3,4\noops,6\n",
        {"infer_rows": 2},
        "data row 3 (line 4): column 'x': expected a finite number, got 'oops'",
    ),
    "not a boolean": (
        "x,y\ntrue,2\nfalse,4\nmaybe,6\n",
        {"infer_rows": 2},
        "data row 3 (line 4): column 'x': expected true or false, got 'maybe'",
    ),
    "two faults, the first row first": (
        "x,y\n1,2\n3,oops\n5\n",
        {},
        "data row 2 (line 3): target column 'y'",
    ),
    "unclosed quote": (
        'x,y\n1,2\n"3,4\n5,6\n',
        {},
        "data row 2 (line 3): malformed CSV (unexpected end of data)",
    ),
    "old line ends": ("x,y\r1,2\r3,4\r", {}, "malformed CSV (new-line character"),
    "named feature empty": (
        "x,z,y\n1,,2\n",
        {"features": ["x", "z"]},
        "'z' cannot be a feature, because it is entirely empty",
    ),
    "named feature a date": (
        "x,y\n2024-01-31,2\n",
        {"features": ["x"]},
        "because it looks like a date or time",
    ),
    "nothing to learn from": (
        "x,y\n2024-01-31,2\n",
        {},
        "at least one feature column beside the target, found none ('x' was dropped because it looks",
    ),
    "only the target": ("y\n1\n", {}, "at least one feature column"),
    "time goes back": (
        "t,x,y\n5,1,1\n7,1,1\n6.5,1,1\n",
        {"time": "t"},
        "data row 3 (line 4), time column 't': expected times that never decrease, got 6.5 after 7.0",
    ),
    "date goes back": (
        "t,x,y\n2024-01-02,1,1\n2024-01-01,1,1\n",
        {"time": "t", "chunk": 1, "infer_rows": 1},
        "got 2024-01-01T00:00:00+00:00 after 2024-01-02T00:00:00+00:00",
    ),
    "time is text": (
        "t,x,y\nnoon,1,1\n",
        {"time": "t"},
        "time column 't': expected a number or a date of the years 1 to 9999, as 2024-01-31T12:00:00, got 'noon'",
    ),
    "one bad time": (
        "t,x,y\n1,1,1\n2,1,1\nlate,1,1\n",
        {"time": "t"},
        "data row 3 (line 4): time column 't': expected a finite number, got 'late'",
    ),
    "one number among dates": (
        "t,x,y\n5,1,1\n2024-01-02,1,1\n2024-01-03,1,1\n",
        {"time": "t"},
        f"data row 1 (line 2): time column 't': expected {A_DATE}, got '5'",
    ),
    "one bad date": (
        "t,x,y\n2024-01-02,1,1\n2024-13-01,1,1\n",
        {"time": "t"},
        f"data row 2 (line 3): time column 't': expected {A_DATE}, got '2024-13-01'",
    ),
}


@pytest.mark.parametrize(("text", "options", "message"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_csv(tmp_path: Path, text: str, options: dict, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(text.encode())
    with pytest.raises(DataError) as caught:
        drain(path, **options)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).count("\n") == 0


SKIPPABLE = (
    "short row",
    "long row",
    "empty cell",
    "NaN",
    "infinity",
    "decimal comma",
    "unclosed quote",
    "one bad time",
)


@pytest.mark.parametrize("name", SKIPPABLE)
def test_bad_rows_are_skipped_and_counted_on_request(tmp_path: Path, name: str) -> None:
    text, options, _ = BAD_TEXTS[name]
    path = tmp_path / "bad.csv"
    path.write_bytes(text.encode())
    with open_rows(path, target="y", missing="skip", **options) as reader:
        rows = [row for chunk in reader for row in chunk.rows.tolist()]
    assert rows == list(range(len(rows)))
    assert rows
    assert reader.skipped_rows == 1


@pytest.mark.parametrize("name", ["time goes back", "date goes back"])
def test_times_that_go_back_are_no_bad_rows(tmp_path: Path, name: str) -> None:
    text, options, _ = BAD_TEXTS[name]
    with pytest.raises(DataError, match="never decrease"):
        drain(io.StringIO(text), missing="skip", **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"x": 1, "y": 2}\n{"x": 1, "y"',
            'data row 2 (line 2): expected a JSON object, got \'{"x": 1, "y"\' (',
        ),
        ('{"x": 1, "y": 2}\n\n[1, 2]\n', "data row 2 (line 3): expected a JSON object, got '[1, 2]'"),
        (
            '{"x": 1, "y": 2}\n{"x": 1}\n',
            "data row 2 (line 2): target column 'y': expected a finite number, got an empty",
        ),
        ('{"x": 1, "y": true}\n', "data row 1 (line 1), target column 'y': expected numbers, got 'true'"),
        ('{"x": 1, "z": 2}\n', "there is no column 'y'; the columns are 'x', 'z'"),
        ("not json\n", "data row 1 (line 1): expected a JSON object, got 'not json'"),
        ("{}\n", "data row 1 (line 1): the object is empty"),
        ("\n\n", "no data rows"),
        ("[" * 100_000 + "\n", "expected a JSON object"),
    ],
)
def test_json_lines(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        drain(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.jsonl"])
def test_missing_empty_and_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        drain(tmp_path / name)
    (tmp_path / name).touch()
    with pytest.raises(DataError, match="the file is empty"):
        drain(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match="expected a regular file"):
        drain(tmp_path / name)


def test_unknown_extension(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"expected a file named \.csv, .* got 't\.xlsx'"):
        drain(tmp_path / "t.xlsx")


def test_empty_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(DataError, match="standard input: expected a first line of column names"):
        drain("-")


@pytest.mark.parametrize(
    ("data", "byte", "line"),
    [
        ("x,ort,y\n1,Köln,2\n".encode("latin-1"), "0xf6", 2),
        ("x,y\n1,2\n".encode("utf-16"), "0xff", 1),
        (b"x,y\n" + b"1,2\n" * 5000 + b"\xe9,2\n", "0xe9", 5002),
    ],
)
def test_other_encodings_name_the_byte(tmp_path: Path, data: bytes, byte: str, line: int) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(DataError, match=f"expected UTF-8 text, got byte {byte} in line {line};"):
        drain(tmp_path / "t.csv")


@pytest.mark.parametrize("damage", ["cut", "checksum", "plain"])
def test_broken_gzip(tmp_path: Path, damage: str) -> None:
    text = "x,y\n" + "".join(f"{i * 0.37},{i * i}\n" for i in range(20_000))
    data = bytearray(gzip.compress(text.encode()))
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "checksum":
        data[-6] ^= 1
    else:
        data = bytearray(text.encode())
    (tmp_path / "t.csv.gz").write_bytes(data)
    with pytest.raises(DataError, match="the gzip data is cut short or corrupt"):
        drain(tmp_path / "t.csv.gz")


@pytest.mark.parametrize("damage", ["cut", "text"])
def test_broken_parquet(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"x": range(100), "y": range(100)}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:200] if damage == "cut" else b"x,y\n1,2\n" * 10)
    with pytest.raises(DataError, match="not a readable Parquet file"):
        drain(path)


def test_parquet_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"x": [1.0, None, 3.0], "y": [1, 2, 3]}).write_parquet(path)
    with pytest.raises(DataError, match="column 'x': expected a finite number, got nan;"):
        drain(path)
    pl.DataFrame({"x": [], "y": []}).write_parquet(path)
    with pytest.raises(DataError, match="no data rows"):
        drain(path)
    pl.DataFrame({"x": [1], "y": ["red"]}).write_parquet(path)
    with pytest.raises(DataError, match=r"data row 1, target column 'y': expected numbers, got 'red'"):
        drain(path)


def test_line_without_end(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"x,y\n" + b"1" * (1 << 24))
    with pytest.raises(DataError, match="line 2 has over 16777216 characters"):
        drain(tmp_path / "t.csv")


def test_schema_of_another_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n")
    with open_rows(path, target="y") as reader:
        schema = reader.schema
    path.write_text("v,y\n1,2\n")
    with pytest.raises(DataError, match="there is no column 'x'"):
        drain(path, schema=schema)
    for options in ({"target": "x"}, {"time": "x"}, {"features": ["v"]}):
        with pytest.raises(DataError, match="the stored schema has"):
            drain(path, schema=schema, **options)


@pytest.mark.parametrize("option", [{"chunk": 0}, {"max_rows": 0}, {"skip_rows": -1}, {"infer_rows": 0}])
def test_options_out_of_range(option: dict) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(option))}: expected . or more, got"):
        drain(io.StringIO("x,y\n1,2\n"), **option)
