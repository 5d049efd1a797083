"""Runs that stop early and go on: the numbers are those of a run that went through."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import streamgp.models.gaussian.warmup
from small_runs import (
    ROWS,
    WARMUP,
    close,
    contents,
    predictions,
    results,
    run_linear,
    run_small,
    run_spec,
    same_as_unbroken,
    table,
    timeless,
)
from streamgp.app import live_run
from streamgp.app.outputs import RunError
from streamgp.evaluation import ScoredRows
from streamgp.models.gaussian import family
from streamgp.models.registry import make_spec
from streamgp.numerics import checkpoint
from streamgp.numerics.checkpoint import CheckpointError
from streamgp.session import Session
from streamgp.table import Chunk

pytestmark = pytest.mark.slow

# Interruptions


def interrupt_at(monkeypatch: pytest.MonkeyPatch, row: int) -> None:
    """Press Ctrl-C while the chunk that holds the row is learnt."""
    feed = Session.feed

    def pressing(self: Session, rows: Chunk) -> Iterator[ScoredRows]:
        if row in rows.rows:
            os.kill(os.getpid(), signal.SIGINT)
        return feed(self, rows)

    monkeypatch.setattr(Session, "feed", pressing)


@pytest.mark.parametrize("row", [0, 250])
def test_ctrl_c_keeps_what_was_learnt_and_resume_gives_the_same_numbers(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], row: int
):
    with monkeypatch.context() as patch:
        interrupt_at(patch, row)
        outcome = run_small(data, tmp_path / "out", chunk=30)
    assert outcome.interrupted
    rows = outcome.metrics["rows"]
    assert row < rows <= row + 30
    assert outcome.stopped == f"interrupted after {rows} row{'s' * (rows > 1)}; go on with --resume"
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["stopped"] == outcome.stopped
    assert len(predictions(tmp_path / "out")) == rows
    assert "once more to stop at once" in capsys.readouterr().err
    resumed = run_small(data, tmp_path / "out", chunk=30, resume=True)
    same_as_unbroken(data, tmp_path, resumed, run_small, chunk=30)


@pytest.mark.parametrize("rows", [50, 103])
def test_forecasts_that_wait_are_not_lost(data: Path, tmp_path: Path, rows: int):
    spec = make_spec("linear", lags=[1, 30], horizon=9)
    run_spec(data, tmp_path / "out", spec, max_rows=rows)
    run_spec(data, tmp_path / "out", spec, resume=True)
    run_spec(data, tmp_path / "whole", spec)
    close(predictions(tmp_path / "out"), predictions(tmp_path / "whole"))


def test_ctrl_c_during_the_fit_leaves_it_out_and_resume_gives_the_same_numbers(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fit = family.fit_ensemble

    def pressing(*args: Any, progress: Any, **kwargs: Any) -> Any:
        def pressed(done: int, todo: int) -> None:
            if done == 1:
                while len(fitted) < 3:  # until two more have begun
                    time.sleep(0.001)
                os.kill(os.getpid(), signal.SIGINT)
            progress(done, todo)

        return fit(*args, progress=pressed, **kwargs)

    def slow(*args: Any) -> Any:
        fitted.append(args)
        time.sleep(0.3 if len(fitted) > 1 else 0.0)
        return fit_basis(*args)

    fitted: list[Any] = []
    fit_basis = streamgp.models.gaussian.warmup.fit_basis
    with monkeypatch.context() as patch:
        patch.setattr(family, "fit_ensemble", pressing)
        patch.setattr(streamgp.models.gaussian.warmup, "fit_basis", slow)
        outcome = run_small(data, tmp_path / "out", chunk=80)
    assert outcome.interrupted
    assert len(fitted) == 3  # of four: one was ready, two at work
    assert outcome.metrics["rows"] == 80  # the stretch that ends with the fit was not learnt
    resumed = run_small(data, tmp_path / "out", chunk=80, resume=True)
    same_as_unbroken(data, tmp_path, resumed, run_small, chunk=80)


def test_ctrl_c_while_waiting_for_rows_stops_without_one_more_row(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from streamgp.table import RowReader

    take = RowReader.__next__

    def waiting(self: RowReader) -> Any:
        if self.skipped_rows == 0 and seen[-1] >= 150:
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("the signal should have ended the wait")
        chunk = take(self)
        seen.append(int(chunk.rows[-1]))
        return chunk

    seen = [0]
    with monkeypatch.context() as patch:
        patch.setattr(RowReader, "__next__", waiting)
        outcome = run_linear(data, tmp_path / "out", chunk=30)
    assert outcome.interrupted
    assert outcome.metrics["rows"] == seen[-1] + 1
    same_as_unbroken(data, tmp_path, run_linear(data, tmp_path / "out", chunk=30, resume=True), chunk=30)


def test_a_second_ctrl_c_stops_at_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_run, "CHECKPOINT_SECONDS", 0.0)
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt_at(patch, 250)
        interrupt_at(patch, 250)
        run_linear(data, tmp_path / "out", chunk=30)
    assert signal.getsignal(signal.SIGINT) is before
    same_as_unbroken(data, tmp_path, run_linear(data, tmp_path / "out", chunk=30, resume=True), chunk=30)


def test_an_interrupted_run_has_skipped_the_bad_rows_before_its_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bad = pl.int_range(pl.len()).is_in([3, 120, 139, 150])
    table().with_columns(b=pl.when(bad).then(None).otherwise("b")).write_csv(tmp_path / "data.csv")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 130)
        outcome = run_linear(tmp_path / "data.csv", missing="skip", chunk=10)
    rows = outcome.metrics["rows"]
    assert (rows, outcome.metrics["skipped_rows"]) == (130, 2)
    assert outcome.stopped == "interrupted after 130 rows"


def test_ctrl_c_before_any_row_leaves_a_directory_to_start_in(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from streamgp.table import RowReader

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RowReader, "__next__", lambda self: os.kill(os.getpid(), signal.SIGINT))
        run_linear(data, tmp_path / "out")
    assert run_linear(data, tmp_path / "out").stopped is None


# Going on


def test_a_finished_run_goes_on_when_its_file_has_grown(tmp_path: Path):
    data = tmp_path / "data.csv"
    table()[:250].write_csv(data)
    run_small(data, tmp_path / "out")
    table().write_csv(data)
    resumed = run_small(data, tmp_path / "out", resume=True)
    whole = run_small(data, tmp_path / "whole")
    assert resumed.metrics["rows"] == ROWS
    for first, second in zip(results(tmp_path / "whole"), results(tmp_path / "out"), strict=True):
        close(first, second)
    np.testing.assert_allclose(resumed.metrics["pll"], whole.metrics["pll"], rtol=1e-9)
    # Nothing came: nothing changes.
    again = run_small(data, tmp_path / "out", resume=True)
    assert timeless(again.metrics) == timeless(resumed.metrics)


def test_skipped_rows_and_unseen_levels_are_counted_once_however_often_the_run_resumes(tmp_path: Path):
    bad = pl.int_range(pl.len()).is_in([0, 3, 120, 199, 200, 250, 251])
    rows = table().with_columns(
        b=pl.when(bad).then(float("nan")).otherwise("b"),
        wind=pl.when(pl.int_range(pl.len()).is_in([130, 210, 390])).then(pl.lit("W")).otherwise("wind"),
    )
    data, out = tmp_path / "data.csv", tmp_path / "out"
    counted = []
    for rows_written, resume in ((200, False), (200, True), (252, True), (252, True), (ROWS, True)):
        rows[:rows_written].write_csv(data)
        outcome = run_linear(data, out, missing="skip", chunk=32, resume=resume)
        counted.append(outcome.metrics["skipped_rows"])
        assert len(predictions(out)) == outcome.metrics["rows"] == rows_written - counted[-1]
    assert counted == [4, 4, 7, 7, 7]
    whole = run_linear(data, tmp_path / "whole", missing="skip", chunk=32).metrics
    assert whole["skipped_rows"] == 7
    assert outcome.metrics["warnings"] == whole["warnings"]
    assert any("3 rows with a level" in warning for warning in whole["warnings"])
    assert predictions(out)["row"].to_list() == [i for i in range(ROWS) if i not in (0, 3, 120, 199, 200, 250, 251)]
    close(predictions(out), predictions(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"seed": 1}, "seed 0"),
        ({"warmup": 50}, "warmup 100"),
        ({"targets": ["z"]}, r"target \['y'\]"),
        ({"features": None}, r"features \['a', 'b', 'wind'\]"),
        ({"time": "stamp"}, "time None"),
        ({"missing": "skip"}, "missing 'impute'"),
        ({"spec": make_spec("oebe")}, "model 'linear'"),
        ({"spec": make_spec("linear", dynamics=["walk 0.1"])}, "dynamics"),
        ({"spec": make_spec("linear", horizon=2)}, r"horizon 0, but now 2"),
        ({"spec": make_spec("linear", lags=[1, 2])}, r"lags \(\), but now \(1, 2\)"),
    ],
)
def test_resume_with_other_options_refuses(data: Path, tmp_path: Path, changes: dict[str, Any], name: str):
    run_linear(data, tmp_path / "out", max_rows=150)
    before = contents(tmp_path / "out")
    with pytest.raises(RunError, match=f"--resume: the run in .* has {name}"):
        run_spec(data, tmp_path / "out", **{"spec": make_spec("linear"), "resume": True} | changes)
    assert contents(tmp_path / "out") == before


def test_resume_takes_the_warmup_of_the_run(data: Path, tmp_path: Path):
    run_linear(data, tmp_path / "out", max_rows=150)
    assert run_linear(data, tmp_path / "out", warmup=None, resume=True).metrics["warmup"] == WARMUP


def test_resume_needs_a_directory(data: Path):
    with pytest.raises(RunError, match="--resume needs --out"):
        run_linear(data, resume=True)


def test_a_damaged_checkpoint_is_refused_and_nothing_is_lost(data: Path, tmp_path: Path):
    out = tmp_path / "out"
    run_linear(data, out, max_rows=150)
    arrays = next((out / "checkpoint").glob("*.safetensors"))
    payload = bytearray(arrays.read_bytes())
    payload[len(payload) // 2] ^= 1
    arrays.write_bytes(payload)
    before = contents(out)
    with pytest.raises(CheckpointError, match="use another copy"):
        run_linear(data, out, resume=True)
    assert contents(out) == before


def test_a_checkpoint_of_something_else_is_refused(data: Path, tmp_path: Path):
    checkpoint.save(tmp_path / "out" / "checkpoint", {}, {"kind": "other"})
    with pytest.raises(CheckpointError, match="expected the checkpoint of a run, got one of 'other'"):
        run_linear(data, tmp_path / "out", resume=True)


def test_an_earlier_run_is_replaced_only_when_asked(data: Path, tmp_path: Path):
    out = tmp_path / "out"
    run_linear(data, out)
    (out / "mine.txt").write_text("keep me")
    before = contents(out)
    with pytest.raises(RunError, match="already holds a run: add --resume to go on with it, --overwrite"):
        run_linear(data, out, seed=1)
    assert contents(out) == before
    run_linear(data, out, overwrite=True, max_rows=200)
    assert len(predictions(out)) == 200
    assert (out / "mine.txt").read_text() == "keep me"
