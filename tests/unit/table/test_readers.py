"""What comes out of a file is what was put in, whatever its format, its size and the cut into chunks."""

import csv
import gzip
import io
import json
import subprocess
import sys
import tracemalloc
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.table import DataError, open_rows


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def read(source, **options):
    """All rows of a file as (X, y, times, rows), and the spent reader."""
    options.setdefault("target", "y")
    with open_rows(source, **options) as reader:
        chunks = list(reader)
    times = None if reader.schema.time is None else np.concatenate([c.times for c in chunks])
    X, y, rows = (np.concatenate([getattr(c, name) for c in chunks]) for name in ("X", "y", "rows"))
    return X, y, times, rows, reader


TABLE = {"a": [0.5, -1.25, 3e-7, 4e12, 5.0], "b": [1, 2, 3, 4, 5], "y": [10.0, 20.5, -30.0, 40.0, 50.25]}


def written(tmp_path: Path, kind: str) -> Path:
    """TABLE in a file of a kind, written by other code than ours."""
    frame, path = pl.DataFrame(TABLE), tmp_path / f"table.{kind}"
    if kind == "csv":
        frame.write_csv(path)
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    elif kind == "jsonl":
        frame.write_ndjson(path)
    elif kind == "jsonl.gz":
        path.write_bytes(gzip.compress(frame.write_ndjson().encode()))
    else:
        frame.write_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet"])
@pytest.mark.parametrize("chunk", [1, 2, 5, 1024])
def test_every_format_gives_the_table(tmp_path: Path, kind: str, chunk: int) -> None:
    with open_rows(written(tmp_path, kind), target="y", chunk=chunk, infer_rows=3) as reader:
        chunks = list(reader)
    assert [len(c.rows) for c in chunks] == [chunk] * (5 // chunk) + ([5 % chunk] if 5 % chunk else [])
    assert reader.schema.feature_names == ["a", "b"]
    np.testing.assert_array_equal(np.concatenate([c.X for c in chunks]), np.c_[TABLE["a"], TABLE["b"]])
    np.testing.assert_array_equal(np.concatenate([c.y for c in chunks]), np.c_[TABLE["y"]])
    np.testing.assert_array_equal(np.concatenate([c.rows for c in chunks]), range(5))
    assert all(c.times is None for c in chunks)
    assert reader.total_rows == (5 if kind == "parquet" else None)
    assert reader.bytes_read == reader.bytes_total


def test_columns_keep_the_order_asked_for_and_targets_may_be_several(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,b,c,y,z\n1,2,3,4,5\n6,7,8,9,10\n")
    X, y, *_ = read(path, target=["z", "y"], features=["c", "a"])
    np.testing.assert_array_equal(X, [[3, 1], [8, 6]])
    np.testing.assert_array_equal(y, [[5, 4], [10, 9]])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_separators_byte_order_marks_and_line_ends(tmp_path: Path, separator: str, start: str, newline: str) -> None:
    lines = ["y,v 1,v2", "1,2,3", '4,"5",6', "", " 7 , 8 ,9"]
    text = newline.join(lines).replace(",", separator)
    X, y, _, _, reader = read(write(tmp_path / "t.csv", start + text))
    assert reader.schema.feature_names == ["v 1", "v2"]
    np.testing.assert_array_equal(np.c_[y, X], [[1, 2, 3], [4, 5, 6], [7, 8, 9]])


def test_separator_is_the_one_that_rows_agree_on(tmp_path: Path) -> None:
    X, *_ = read(write(tmp_path / "t.csv", "temp, C;pressure, bar;y\n1.5;2;3\n4;5;6\n7;8\n9;9;9\n"), missing="skip")
    np.testing.assert_array_equal(X, [[1.5, 2], [4, 5], [9, 9]])


def test_numbers_in_every_common_spelling(tmp_path: Path) -> None:
    spelled = ["1e5", "+3", " 4", "12345678901234567890123", "-.5", "5.", "1E-3"]
    X, *_ = read(write(tmp_path / "t.csv", "x,y\n" + "".join(f"{s},1\n" for s in spelled)))
    np.testing.assert_array_equal(X[:, 0], [1e5, 3, 4, 12345678901234567890123.0, -0.5, 5, 1e-3])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=st.integers(2, 5).flatmap(
        lambda width: st.lists(
            st.lists(st.floats(-1e100, 1e100), min_size=width, max_size=width),
            min_size=1,
        )
    ),
    chunk=st.integers(1, 7),
)
def test_csv_round_trip_is_exact(table: list[list[float]], chunk: int) -> None:
    names = [f"v{i}" for i in range(len(table[0]) - 1)] + ["y"]
    file = io.StringIO()
    csv.writer(file).writerows([names, *table])
    file.seek(0)
    X, y, *_ = read(file, chunk=chunk, infer_rows=3)
    np.testing.assert_array_equal(np.c_[X, y], table)


def test_quoted_fields_hold_separators_and_newlines_and_lines_are_still_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'note,x,y\n"two\nlines, one cell",1,2\n"a ""b""",3,4\nplain,oops,6\nplain,7,8\n')
    with open_rows(path, target="y", infer_rows=2) as reader:
        first = next(reader)
        assert reader.schema.feature_names == ["note=two\nlines, one cell", 'note=a "b"', "x"]
        np.testing.assert_array_equal(first.X, [[1, 0, 1], [0, 1, 3]])
        with pytest.raises(DataError, match=r"data row 3 \(line 5\): column 'x': .*'oops'"):
            next(reader)


def test_categories_booleans_and_unseen_levels(tmp_path: Path) -> None:
    rows = ["NE,true,1", ",FALSE,2", "S,True,3", "NE,false,4", "W,true,5", "W,true,6"]
    path = write(tmp_path / "t.csv", "wind,wet,y\n" + "\n".join(rows))
    X, _, _, _, reader = read(path, infer_rows=4, chunk=2)
    assert reader.schema.feature_names == ["wind=NE", "wind=", "wind=S", "wet"]
    np.testing.assert_array_equal(
        X, [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]]
    )
    assert reader.unseen_levels == {"wind": 2}


def test_booleans_and_nulls_of_json_and_parquet_match_csv(tmp_path: Path) -> None:
    records = [
        {"w": "N", "ok": True, "y": 1},
        {"w": None, "ok": False, "y": 2.5},
        {"y": 3, "ok": True, "new": 1},
    ]
    jsonl = write(tmp_path / "t.jsonl", "\n".join(map(json.dumps, records)) + "\n\n")
    pl.DataFrame({"w": ["N", None, None], "ok": [True, False, True], "y": [1.0, 2.5, 3.0]}).write_parquet(
        tmp_path / "t.parquet"
    )
    csv_file = write(tmp_path / "t.csv", "w,ok,y\nN,true,1\n,false,2.5\n,true,3\n")
    for path in (jsonl, tmp_path / "t.parquet", csv_file):
        X, y, _, _, reader = read(path, features=["w", "ok"])
        assert reader.schema.feature_names == ["w=N", "w=", "ok"]
        np.testing.assert_array_equal(X, [[1, 0, 1], [0, 1, 0], [0, 1, 1]])
        np.testing.assert_array_equal(y[:, 0], [1, 2.5, 3])


def test_parquet_types(tmp_path: Path) -> None:
    when = [datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)]
    pl.DataFrame(
        {
            "i": pl.Series([1, -2], dtype=pl.Int8),
            "u": pl.Series([2**63, 1], dtype=pl.UInt64),
            "f": pl.Series([0.5, 0.25], dtype=pl.Float32),
            "d": pl.Series([Decimal("1.25"), Decimal("-3.50")]),
            "c": pl.Series(["p", "q"], dtype=pl.Categorical),
            "day": [date(2024, 1, 1), date(2024, 1, 2)],
            "gap": [timedelta(hours=1), timedelta(hours=2)],
            "when": when,
            "nothing": pl.Series([None, None], dtype=pl.Null),
            "y": [1.0, 2.0],
        }
    ).write_parquet(tmp_path / "t.parquet")
    X, _, times, _, reader = read(tmp_path / "t.parquet", time="when")
    assert reader.schema.feature_names == ["i", "u", "f", "d", "c=p", "c=q"]
    np.testing.assert_array_equal(X, [[1, 2.0**63, 0.5, 1.25, 1, 0], [-2, 1, 0.25, -3.5, 0, 1]])
    np.testing.assert_array_equal(times, [moment.timestamp() for moment in when])
    assert set(reader.schema.dropped) == {"day", "gap", "nothing"}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["3", "3", "4.5"], [3, 3, 4.5]),
        (["1970-01-01", "1970-01-02", "1970-01-02"], [0, 86400, 86400]),
        (["1970-01-01 00:00:01", "1970-01-01T00:00:01.5", "1970-01-01T00:00:02Z"], [1, 1.5, 2]),
    ],
)
def test_times(tmp_path: Path, cells: list[str], expected: list[float]) -> None:
    path = write(tmp_path / "t.csv", "t,x,y\n" + "".join(f"{cell},1,2\n" for cell in cells))
    _, _, times, _, reader = read(path, time="t", chunk=2)
    np.testing.assert_array_equal(times, expected)
    assert reader.schema.feature_names == ["x"]


def test_times_with_a_zone_are_the_standard_librarys(tmp_path: Path) -> None:
    moment = datetime(2024, 3, 31, 1, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    _, _, times, *_ = read(write(tmp_path / "t.csv", f"t,x,y\n{moment.isoformat()},1,2\n"), time="t")
    assert times[0] == moment.timestamp()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("infer_rows", [5, 1000])
def test_resuming_gives_the_rows_and_counts_of_an_unbroken_reading(
    tmp_path: Path, kind: str, infer_rows: int
) -> None:
    path, rng = tmp_path / f"t.{kind}", np.random.default_rng(0)
    wind = rng.choice(["N", "S", "E"], 60).tolist()
    wind[50] = "unseen" if infer_rows == 5 else wind[50]
    x = rng.normal(size=60).tolist()
    x[9] = x[10] = x[21] = x[59] = None
    frame = pl.DataFrame({"wind": wind, "x": x, "y": rng.normal(size=60)})
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](path)

    options = {"target": "y", "missing": "skip", "chunk": 5, "max_rows": 58}
    with open_rows(path, infer_rows=infer_rows, **options) as reader:
        unbroken = [(chunk, reader.skipped_rows, dict(reader.unseen_levels)) for chunk in reader]
    assert reader.skipped_rows == 3
    assert unbroken[-1][0].rows[-1] == 57

    for stop in (1, 2, 4, len(unbroken)):
        last, skipped, unseen = unbroken[stop - 1]
        stored = decode(*encode(reader.schema), {})
        with open_rows(path, schema=stored, skip_rows=int(last.rows[-1]) + 1, **options) as resumed:
            rest = list(resumed)
        assert len(rest) == len(unbroken) - stop
        for again, (chunk, _, _) in zip(rest, unbroken[stop:], strict=True):
            for one, other in zip(again, chunk, strict=True):
                np.testing.assert_array_equal(one, other)
        assert skipped + resumed.skipped_rows == reader.skipped_rows
        assert {k: unseen[k] + n for k, n in resumed.unseen_levels.items()} == reader.unseen_levels
        with open_rows(path, infer_rows=infer_rows, skip_rows=int(last.rows[-1]) + 1, **options) as inferred:
            assert [c.rows.tolist() for c in inferred] == [c.rows.tolist() for c in rest]
        assert inferred.schema == reader.schema


def test_max_rows_counts_rows_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x,y\n1,1\n,2\n3,3\n4,4\n5,5\n")
    _, _, _, rows, reader = read(path, missing="skip", max_rows=4, chunk=2)
    assert rows.tolist() == [0, 2, 3]
    assert reader.skipped_rows == 1
    assert read(path, missing="skip", max_rows=4, skip_rows=3)[3].tolist() == [3]


def test_good_rows_before_a_bad_one_are_given_whatever_the_chunk(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x,y\n" + "1,2\n" * 10 + "nan,2\n" + "1,2\n" * 10)
    for chunk in (1, 4, 100):
        given_rows = []
        with (
            pytest.raises(DataError, match=r"data row 11 \(line 12\)"),
            open_rows(path, target="y", chunk=chunk) as reader,
        ):
            for rows in reader:
                given_rows += rows.rows.tolist()
        assert given_rows == list(range(10))


@pytest.mark.process
def test_standard_input() -> None:
    code = (
        "from streamgp.table import open_rows\n"
        "with open_rows('-', target='y', chunk=2) as reader:\n"
        "    print([chunk.X.tolist() for chunk in reader], reader.bytes_total)"
    )
    out = subprocess.run([sys.executable, "-c", code], input=b"x,y\n1,2\n3,4\n5,6\n", capture_output=True, check=True)
    assert out.stdout.decode().strip() == "[[[1.0], [3.0]], [[5.0]]] None"


@pytest.mark.parametrize("file", [io.BytesIO(b"x,y\n1,2\n"), io.StringIO("x,y\n1,2\n")])
def test_file_objects_are_read_and_left_open(file) -> None:
    X, *_ = read(file)
    assert X.tolist() == [[1.0]]
    assert not file.closed


def test_early_close_ends_the_reading(tmp_path: Path) -> None:
    reader = open_rows(write(tmp_path / "t.csv", "x,y\n1,2\n3,4\n"), target="y", chunk=1)
    next(reader)
    reader.close()
    assert list(reader) == []


def test_json_numbers_of_any_length(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", '{"x": 1, "y": 1}\n{"x": ' + "9" * 400 + ', "y": 2}\n{"x": NaN, "y": 3}\n')
    with pytest.raises(DataError, match=r"data row 2 \(line 2\): column 'x': expected a finite number, got 999"):
        read(path)
    assert read(path, missing="skip")[3].tolist() == [0]


@pytest.mark.parametrize(
    ("kind", "count"), [("csv", 100_000), ("csv.gz", 60_000), ("jsonl", 60_000), ("parquet", 300_000)]
)
def test_memory_is_bounded(tmp_path: Path, kind: str, count: int) -> None:
    """Python's own memory stays below 2 MB; the cells of 60,000 rows alone take 6 MB as text, the CSV file 3 MB."""
    path = tmp_path / f"t.{kind}"
    inputs = {name: np.arange(count) % 1000 + 10**12 for name in ("a", "b")}
    frame = pl.DataFrame(inputs).with_columns(y=pl.int_range(count))
    if kind == "csv.gz":
        path.write_bytes(gzip.compress(frame.write_csv().encode(), compresslevel=1))
    else:
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](path)
    del frame
    tracemalloc.start()
    try:
        total, rows = 0.0, 0
        with open_rows(path, target="y", chunk=1000) as reader:
            for chunk in reader:
                total, rows = total + chunk.y.sum(), rows + len(chunk.rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == count
    assert total == count * (count - 1) / 2
    assert peak < 2e6


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of resident memory is read from /proc")
def test_resident_memory_is_bounded_for_parquet(tmp_path: Path) -> None:
    """2 million rows of 10 columns, 160 MB as floats, raise the peak by less than 60 MB."""
    path = tmp_path / "t.parquet"
    column = pl.int_range(2_000_000, eager=True) % 97
    pl.DataFrame({f"v{i}": column + i for i in range(9)}).with_columns(y=column).write_parquet(path)
    code = (
        "import sys\n"
        "from streamgp.table import open_rows\n"
        "def peak():\n"
        "    with open('/proc/self/status') as status:\n"
        "        return next(int(line.split()[1]) / 1024 for line in status if line.startswith('VmHWM'))\n"
        "with open_rows(sys.argv[1], target='y') as reader:\n"
        "    next(reader)\n"
        "    before = peak()\n"
        "    rows = sum(len(chunk.rows) for chunk in reader)\n"
        "print(rows, peak() - before)"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=True, text=True)
    rows, rise = out.stdout.split()
    assert int(rows) == 2_000_000 - 1024
    assert float(rise) < 60.0
