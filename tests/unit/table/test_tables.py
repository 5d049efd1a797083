"""Tables without a target: kinds of columns, missing cells, bad rows, labels, formats."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from streamgp.table import DataError
from streamgp.table.extent import Extent
from streamgp.table.tables import BATCH_ROWS, INFER_ROWS, Table

HEAD = "a,b,on,kind,empty,when\n"
LINES = ["1,2.5,true,red,,2024-01-01", ",3,false,blue,,2024-01-02", "5,,,red,,2024-01-03", "7,nan,true,,,2024-01-04"]


def write(path: Path, *lines: str) -> Path:
    path.write_text(HEAD + "\n".join(lines) + "\n")
    return path


def test_missing_cells_are_nan_and_other_columns_are_left_out(tmp_path):
    with Table(write(tmp_path / "t.csv", *LINES), label="kind") as table:
        [part] = table
    assert table.columns == ["a", "b", "on"]
    assert_array_equal(part.X, [[1, 2.5, 1], [np.nan, 3, 0], [5, np.nan, np.nan], [7, np.nan, 1]])
    assert part.labels == ["red", "blue", "red", ""]
    assert part.rows.tolist() == [0, 1, 2, 3]
    assert table.dropped == {"empty": "it is entirely empty", "when": "it looks like a date or time"}
    with Table(tmp_path / "t.csv") as unlabelled:
        assert unlabelled.dropped["kind"] == "it holds text"
        assert next(iter(unlabelled)).labels is None


def test_every_format_gives_the_same(tmp_path):
    rows = INFER_ROWS + 2 * BATCH_ROWS + 7
    X = np.random.default_rng(0).normal(size=(rows, 3)).round(3)
    X[::5, 1] = np.nan
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": np.arange(rows) % 4}).fill_nan(None)
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in frame.to_dicts()))
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        with Table(tmp_path / name, label="label") as table:
            parts = list(table)
            assert table.extent.total is not None
            assert table.extent.done(rows, table.bytes_read) == table.extent.total
        assert_array_equal(np.concatenate([part.X for part in parts]), X)
        assert [label for part in parts for label in part.labels or []] == [str(i % 4) for i in range(rows)]
    with Table(tmp_path / "t.csv", features=["c", "a"], max_rows=1_500) as some:
        assert_array_equal(np.concatenate([part.X for part in some]), X[:1_500, [2, 0]])
        assert some.extent == Extent(1_500, counts_rows=True)


BAD = [*LINES[:3], "x,1,true,red,,", "4,4,true,red,,", "1e999,1,true,red,,", ",,true,red,,", "8,8,true,red,,"]


def test_bad_rows_raise_after_the_good_ones_or_are_skipped(tmp_path):
    path = write(tmp_path / "t.csv", *BAD)
    with Table(path, features=["a", "b"]) as table:
        parts = iter(table)
        assert next(parts).rows.tolist() == [0, 1, 2]
        with pytest.raises(
            DataError, match=r"data row 4 \(line 5\): column 'a': expected a finite number or nothing"
        ):
            next(parts)
    with Table(path, features=["a", "b"], missing="skip") as table:
        [part] = table
    assert part.rows.tolist() == [0, 1, 2, 4, 7]
    assert_array_equal(part.X[:, 0], [1, np.nan, 5, 4, 8])
    assert table.skipped_rows == 3


def test_a_row_with_no_number_is_bad(tmp_path):
    path = write(tmp_path / "t.csv", *LINES, ",,true,red,,")
    with (
        Table(path, features=["a", "b"]) as table,
        pytest.raises(DataError, match="expected a number in some column"),
    ):
        list(table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["a", "kind"]}, "column 'kind' holds text"),
        ({"label": "knd"}, "there is no column 'knd' .did you mean 'kind'"),
        ({"features": ["a"], "label": "a"}, "name it only once"),
        ({"features": ["when"]}, "looks like a date"),
    ],
)
def test_columns_that_cannot_be_used_are_named(tmp_path, options, message):
    with pytest.raises(DataError, match=message):
        Table(write(tmp_path / "t.csv", *LINES), **options)


def test_files_without_rows_or_numbers_are_refused(tmp_path):
    with pytest.raises(DataError, match="no data rows"):
        Table(write(tmp_path / "t.csv"))
    (tmp_path / "words.csv").write_text("a,b\nx,y\nz,w\n")
    with pytest.raises(DataError, match="expected columns of numbers, found none"):
        Table(tmp_path / "words.csv")


def test_labels_that_differ_in_the_last_digit_are_two(tmp_path: Path):
    labels = [1234567890123456.0, 1234567890123457.0, 0.1, np.nextafter(0.1, 1.0), 7.0]
    pl.DataFrame({"a": np.arange(5.0), "kind": labels}).write_parquet(tmp_path / "t.parquet")
    with Table(tmp_path / "t.parquet", label="kind") as table:
        (part,) = table
    assert part.labels == ["1234567890123456", "1234567890123457", "0.1", "0.10000000000000002", "7"]
