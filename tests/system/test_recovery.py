"""What a supervisor relies on: --resume from the first moment on, on the same file, and one run at a time."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import streamgp
from small_runs import ROWS, WARMUP, contents, predictions, run_linear, run_spec, same_as_unbroken, table
from streamgp.app import live_run
from streamgp.app.lock import locked
from streamgp.app.outputs import RunError
from streamgp.app.runner import Outcome
from streamgp.evaluation import ScoredRows
from streamgp.models.registry import make_spec
from streamgp.session import Session
from streamgp.table import Chunk

pytestmark = pytest.mark.slow

# Row 0 in a part of its own


def run_names(data: Path, out: Path, task: str, **changes: Any) -> Outcome:
    options: dict[str, Any] = {"targets": ["grade"], "features": ["a", "b"], "warmup": 20, "max_rows": 60}
    options |= {"grades": ["1", "2", "3"]} if task == "ordinal" else {}
    return run_spec(data, out, make_spec("linear", task=task), task=task, **options | changes)


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """A column of numbers that may be labels or grades."""
    rows = table().with_columns(grade=(pl.col("a") * 2).round().clip(-1, 1).cast(pl.Int64) + 2)
    rows.write_csv(tmp_path / "graded.csv")
    return tmp_path / "graded.csv"


@pytest.mark.parametrize("task", ["classification", "ordinal"])
def test_labels_and_grades_whose_first_row_is_written_alone(
    graded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
):
    monkeypatch.setattr(live_run, "CHECKPOINT_SECONDS", 0.0)
    run_names(graded, tmp_path / "out", task, max_rows=1)
    resumed = run_names(graded, tmp_path / "out", task, resume=True)
    assert (resumed.stopped, resumed.metrics["rows"]) == (None, 60)
    rows = predictions(tmp_path / "out")
    assert rows["row"].to_list() == list(range(60))
    assert rows["last_label"].to_list() == [None, *rows["y"].to_list()[:-1]]


# The first checkpoints


def test_a_checkpoint_is_there_after_the_first_row_and_right_after_the_fit(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    feed = Session.feed
    found: dict[int, int | None] = {}

    def looking(self: Session, rows: Chunk) -> Iterator[ScoredRows]:
        path = tmp_path / "out" / "checkpoint" / "checkpoint.json"
        found[int(rows.rows[0])] = json.loads(path.read_text())["meta"]["rows"] if path.exists() else None
        return feed(self, rows)

    monkeypatch.setattr(Session, "feed", looking)
    run_linear(data, tmp_path / "out", chunk=50)
    assert found[0] is None
    assert found[1] == 1
    assert found[WARMUP] == WARMUP
    assert found[WARMUP + 50] == WARMUP  # twenty seconds have not gone by


# --resume where nothing is there yet


@pytest.mark.parametrize("left", ["nothing", "directory", "parts", "half a checkpoint"])
def test_resume_starts_where_no_checkpoint_was_reached(data: Path, tmp_path: Path, left: str):
    out = tmp_path / "out"
    if left != "nothing":
        out.mkdir()
    if left == "parts":
        (out / "parts").mkdir()
        pl.DataFrame({"row": [0]}).write_parquet(out / "parts" / "predictions-000000000000.parquet")
    if left == "half a checkpoint":
        (out / "checkpoint").mkdir()
        (out / "checkpoint" / "arrays-000000000000.safetensors").write_bytes(b"half")
    same_as_unbroken(data, tmp_path, run_linear(data, out, resume=True))


def test_resume_does_not_replace_results_whose_checkpoint_is_gone(data: Path, tmp_path: Path):
    out = tmp_path / "out"
    run_linear(data, out, max_rows=150)
    for path in (out / "checkpoint").iterdir():
        path.unlink()
    before = contents(out)
    with pytest.raises(RunError, match=r"holds results, but no checkpoint to go on from.*--overwrite"):
        run_linear(data, out, resume=True)
    assert contents(out) == before


# --resume on another file


def one_cell(name: str, value: Any) -> pl.DataFrame:
    return table().with_columns(
        pl.when(pl.int_range(pl.len()) == 140).then(pl.lit(value)).otherwise(name).alias(name)
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda: one_cell("a", np.nextafter(table()["a"][140], np.inf)), "is not the file of the run in"),
        (lambda: one_cell("y", 0.25), "is not the file of the run in"),
        (lambda: one_cell("wind", "W"), "is not the file of the run in"),
        (lambda: table().with_columns(a=pl.lit("x")), "is not the file of the run in"),
        (lambda: table()[:149], "has fewer rows than the 150 that the run in"),
    ],
)
def test_resume_on_another_file_refuses(data: Path, tmp_path: Path, rows: Any, message: str):
    out = tmp_path / "out"
    run_linear(data, out, max_rows=150)
    before = contents(out)
    rows().write_csv(data)
    with pytest.raises(RunError, match=message):
        run_linear(data, out, resume=True)
    assert contents(out) == before
    table().write_csv(data)
    assert run_linear(data, out, resume=True).stopped is None


def test_the_same_rows_in_another_format_are_the_same_file(data: Path, tmp_path: Path):
    run_linear(data, tmp_path / "out", max_rows=150)
    table().write_parquet(tmp_path / "data.parquet")
    resumed = run_linear(tmp_path / "data.parquet", tmp_path / "out", resume=True)
    assert (resumed.stopped, resumed.metrics["rows"]) == (None, ROWS)


def test_a_shorter_max_rows_than_were_learnt_changes_nothing(data: Path, tmp_path: Path):
    run_linear(data, tmp_path / "out", max_rows=150)
    before = predictions(tmp_path / "out")
    assert run_linear(data, tmp_path / "out", max_rows=120, resume=True).metrics["rows"] == 150
    assert_frame_equal(predictions(tmp_path / "out"), before)


# One run at a time

HOLD = """
import sys, time
from pathlib import Path
from streamgp.app.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(os.name == "nt", reason="the other process is stopped by a signal")
def test_a_directory_belongs_to_the_run_that_writes_it_until_that_dies(data: Path, tmp_path: Path):
    out = tmp_path / "out"
    environment = os.environ | {"PYTHONPATH": str(Path(streamgp.__file__).parents[1])}
    other = subprocess.Popen([sys.executable, "-c", HOLD, out], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        before = contents(out)
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(RunError, match=rf"out is being written by another process \(process {other.pid}\)"):
                run_linear(data, out, **options)
        assert contents(out) == before
    finally:
        other.kill()
        other.communicate()
    assert run_linear(data, out).stopped is None
    assert not (out / ".lock").exists()


def test_a_directory_that_was_made_for_nothing_goes_again(tmp_path: Path):
    with locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b" / ".lock").exists()
    assert not (tmp_path / "a").exists()
    (tmp_path / "c").mkdir()
    with locked(tmp_path / "c"):
        pass
    assert (tmp_path / "c").exists()
