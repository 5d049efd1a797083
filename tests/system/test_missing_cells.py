"""Files with empty cells: every row that can be read is predicted, and what was filled is told."""

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from small_runs import ROWS, predictions, run_linear, same_as_unbroken, table
from streamgp.app.report import write_report
from streamgp.table import DataError, open_rows

pytestmark = pytest.mark.slow

GAPS = (5, 150, 151, 300)
UNLABELLED = (7, 200, 201)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Rows without some of b, one of a that is no number, and without some targets."""
    at = pl.int_range(pl.len())
    rows = table().with_columns(
        a=pl.when(at == 250).then(pl.lit("broken")).otherwise(pl.col("a").cast(pl.String)),
        b=pl.when(at.is_in(GAPS)).then(None).otherwise("b"),
        y=pl.when(at.is_in(UNLABELLED)).then(None).otherwise("y"),
    )
    rows.write_csv(tmp_path / "data.csv")
    return tmp_path / "data.csv"


def test_every_row_is_predicted(data: Path, tmp_path: Path):
    outcome = run_linear(data, tmp_path / "out")
    metrics = outcome.metrics
    assert outcome.stopped is None
    assert (metrics["rows"], metrics["imputed_values"], metrics["unlabelled_rows"]) == (ROWS, len(GAPS) + 1, 3)
    assert metrics["skipped_rows"] == 0
    assert metrics["scored_rows"] == ROWS - metrics["warmup"] - len(UNLABELLED)
    assert "filled 5 missing inputs" in metrics["warnings"]
    assert any("3 rows without a target" in warning for warning in metrics["warnings"])
    told = predictions(tmp_path / "out")
    assert told["row"].to_list() == list(range(ROWS))
    for name in ("mean", "std", "q05", "q95"):
        assert np.isfinite(told[name].to_numpy()).all()
    blank = ~np.isfinite(told["log_density"].to_numpy().astype(float))
    assert np.flatnonzero(blank).tolist() == list(UNLABELLED)
    report = write_report(tmp_path / "out").read_text()
    assert "5 missing inputs filled" in report
    assert "3 without a target" in report


def test_a_resumed_run_is_the_same(data: Path, tmp_path: Path):
    run_linear(data, tmp_path / "out", max_rows=202, chunk=50)
    resumed = run_linear(data, tmp_path / "out", chunk=50, resume=True)
    same_as_unbroken(data, tmp_path, resumed, chunk=50)


def test_a_stream_without_a_single_target_has_its_page(tmp_path: Path):
    rows = table().with_columns(y=pl.lit("1e308"))  # numbers, but no measurements
    rows.write_csv(tmp_path / "data.csv")
    outcome = run_linear(tmp_path / "data.csv", tmp_path / "out")
    assert outcome.stopped is not None
    assert f"ended after {ROWS} rows, 0 of them with a target, within the warm-up" in outcome.stopped
    assert "go on when there are more than 10 rows with a target" in outcome.stopped
    assert predictions(tmp_path / "out").height == ROWS
    assert "No row was scored" in write_report(tmp_path / "out").read_text()


def test_labels_may_be_missing(data: Path, tmp_path: Path):

    pl.read_csv(data, infer_schema=False).with_columns(
        wind=pl.when(pl.int_range(pl.len()).is_in(UNLABELLED)).then(None).otherwise("wind")
    ).write_csv(data)
    metrics = run_linear(
        data, tmp_path / "labels", targets=["wind"], features=["a", "b"], task="classification"
    ).metrics
    assert (metrics["rows"], metrics["unlabelled_rows"]) == (ROWS, 3)
    told = predictions(tmp_path / "labels")
    assert told["y"][7] is None
    assert told["predicted"][7] in ("N", "E", "S")


def test_what_cannot_be_filled_is_skipped_and_counted():
    text = "a,b,y,t\n1,2,3,1\n4,,6,2\nx,8,9,3\n1,2,3,4,5\n7,8,,4\n7,8,1e200,\n"
    with open_rows(io.StringIO(text), target="y", time="t", missing="impute", infer_rows=1) as reader:
        (chunk,) = list(reader)
    np.testing.assert_array_equal(chunk.X, [[1, 2], [4, np.nan], [np.nan, 8], [7, 8]])
    np.testing.assert_array_equal(chunk.y[:, 0], [3, 6, 9, np.nan])
    assert chunk.rows.tolist() == [0, 1, 2, 4]
    assert reader.skipped_rows == 2
    with (
        open_rows(io.StringIO(text), target="y", time="t", infer_rows=1) as reader,
        pytest.raises(DataError, match="--missing impute or skip"),
    ):
        list(reader)


def test_counts_that_are_none_are_missing():
    with open_rows(io.StringIO("a,y\n1,2\n2,-1\n3,2.5\n4,\n"), target="y", task="count", missing="impute") as reader:
        (chunk,) = list(reader)
    np.testing.assert_array_equal(chunk.y[:, 0], [2, np.nan, np.nan, np.nan])
