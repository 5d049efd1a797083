"""The output directory when the power goes or the disk is full, at every step of writing."""

import errno
import gc
import os
import shutil
import subprocess
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from small_runs import ROWS, WARMUP, contents, results, run_linear, run_small, same_as_unbroken, same_run, table
from streamgp.app import live_run, outputs
from streamgp.app.outputs import RunDirectory, RunError, encode_json
from streamgp.numerics.checkpoint import CheckpointError
from streamgp.reports import tables
from streamgp.reports.tables import keep_weights
from streamgp.table.files import write_aside

pytestmark = pytest.mark.slow

CHUNK = 40
STEP = 31  # every so many calls one is made to fail; with 1, all are, in some minutes
START = 8  # calls with which a resumed run begins: all of them fail in turn


class PowerCut(BaseException):
    """Nothing after this reaches the disk."""


class Disk:
    """Stands before the calls that change a directory; from call number `fail_at` on, those named fail."""

    def __init__(self, patch: pytest.MonkeyPatch, fail_at: int, fail: Callable[[str], bool], error: BaseException):
        self.calls = 0
        self.fail_at, self.fail, self.error = fail_at, fail, error
        for owner, names in (
            (os, ("replace", "fsync", "mkdir", "unlink", "rmdir", "link")),
            (pl.LazyFrame, ("sink_parquet",)),
            (Path, ("write_bytes",)),
            (shutil, ("copyfile",)),
        ):
            for name in names:
                patch.setattr(owner, name, self._guarded(name, getattr(owner, name)))

    def _guarded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if name == "sink_parquet" and not isinstance(args[1], Path):
                return call(*args, **kwargs)  # into memory
            self.calls += 1
            if 0 < self.fail_at <= self.calls and self.fail(name):
                if name == "sink_parquet":
                    args[1].touch()
                elif name == "write_bytes":
                    call(args[0], args[1][: len(args[1]) // 2])
                raise self.error
            return call(*args, **kwargs)

        return guarded


def cut_power(patch: pytest.MonkeyPatch, fail_at: int) -> Disk:
    return Disk(patch, fail_at, lambda name: True, PowerCut())


def fill(patch: pytest.MonkeyPatch, fail_at: int) -> Disk:
    """What takes space fails; renaming and removing do not."""
    takes_space = {"fsync", "mkdir", "link", "copyfile", "sink_parquet", "write_bytes"}
    return Disk(patch, fail_at, takes_space.__contains__, OSError(errno.ENOSPC, "No space left on device"))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts reach the disk before the checkpoint that they lead up to."""
    monkeypatch.setattr(outputs, "PART_ROWS", 50)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every chunk."""
    monkeypatch.setattr(live_run, "CHECKPOINT_SECONDS", 0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 240 rows, run through; not to be changed."""
    path = tmp_path_factory.mktemp("whole")
    table().write_csv(path / "data.csv")
    with jax.enable_x64(True):
        run_linear(path / "data.csv", path / "whole", chunk=CHUNK, max_rows=240)
    return path / "whole"


def go(data: Path, out: Path, **changes: Any) -> Any:
    return run_linear(data, out, chunk=CHUNK, **{"max_rows": 240} | changes)


def same(out: Path, whole: Path) -> None:
    for first, second in zip(results(out), results(whole), strict=True):
        assert_frame_equal(first, second, check_exact=True)
    assert not [path for path in out.rglob("*") if path.name.startswith(".") or path.name == "parts"]


def test_a_part_is_written_once_it_holds_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "PART_ROWS", 10_000)
    monkeypatch.setattr(outputs, "PART_BYTES", 10_000)
    directory = RunDirectory(tmp_path, ["y"])
    directory.start()
    for first in range(0, 2_000, 100):
        directory.take({"row": np.arange(first, first + 100), "mean": np.full(100, float(first))})  # 1,600 bytes
    parts = sorted((tmp_path / "parts").glob("predictions-*.parquet"))
    assert [pl.read_parquet(part)["row"].to_list() for part in parts] == [[*range(700)], [*range(700, 1_400)]]
    directory.flush()
    directory.finish({})
    found = pl.read_parquet(tmp_path / "predictions.parquet")
    assert found["row"].to_list() == [*range(2_000)]
    assert found["mean"].to_list() == [100.0 * (row // 100) for row in range(2_000)]


def test_a_run_that_is_over_leaves_no_model_in_memory(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even until Python next looks for cycles of dropped objects."""
    learners = []
    begin = live_run.LiveRun.__init__

    def watched(self: live_run.LiveRun, *args: Any) -> None:
        begin(self, *args)
        learners.append(weakref.ref(self.session.learner))

    monkeypatch.setattr(live_run.LiveRun, "__init__", watched)
    gc.collect()
    gc.disable()
    try:
        go(whole.parent / "data.csv", tmp_path / "out")
        assert [learner() for learner in learners] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize("accident", [cut_power, fill])
def test_wherever_writing_breaks_off_the_run_can_go_on(
    data: Path, tmp_path: Path, whole: Path, accident: Callable[..., Disk], often: None
):
    with pytest.MonkeyPatch.context() as patch:
        calls = cut_power(patch, 0)
        go(data, tmp_path / "count")
    assert calls.calls > 40
    resumed = 0
    for fail_at in range(1, calls.calls + 1, STEP):
        out = tmp_path / f"out{fail_at}"
        with pytest.MonkeyPatch.context() as patch:
            accident(patch, fail_at)
            try:
                go(data, out)
            except (PowerCut, RunError, CheckpointError) as error:
                if accident is fill:
                    assert "No space left on device" in str(error)
            else:
                assert fail_at > calls.calls - 25  # only what clears up behind a complete run is left
        if (out / "checkpoint" / "checkpoint.json").exists():
            go(data, out, resume=True)
            resumed += 1
        else:
            go(data, out, overwrite=True)
        same(out, whole)
        shutil.rmtree(out)
    assert resumed > 2


@pytest.mark.parametrize("accident", [cut_power, fill])
def test_wherever_a_resumed_run_breaks_off_the_finished_one_before_it_stands(
    data: Path, tmp_path: Path, whole: Path, accident: Callable[..., Disk]
):
    go(data, tmp_path / "first", max_rows=WARMUP + 2 * CHUNK)
    before = contents(tmp_path / "first")
    with pytest.MonkeyPatch.context() as patch:
        shutil.copytree(tmp_path / "first", tmp_path / "count")
        calls = cut_power(patch, 0)
        go(data, tmp_path / "count", resume=True)
    for fail_at in (*range(1, START), *range(START, calls.calls + 1, STEP)):
        out = tmp_path / f"out{fail_at}"
        shutil.copytree(tmp_path / "first", out)
        with (
            pytest.MonkeyPatch.context() as patch,
            pytest.raises((PowerCut, RunError, CheckpointError, AssertionError)),
        ):
            accident(patch, fail_at)
            go(data, out, resume=True)
            raise AssertionError
        now = contents(out)
        for name in ("predictions.parquet", "weights.parquet"):
            assert now[name] in (before[name], (whole / name).read_bytes())
        go(data, out, resume=True)
        same(out, whole)
        shutil.rmtree(out)


def test_results_that_do_not_belong_to_the_checkpoint_are_refused(data: Path, tmp_path: Path, often: None):
    go(data, tmp_path / "out", max_rows=WARMUP + 2 * CHUNK)
    shutil.copy(tmp_path / "out" / "predictions.parquet", tmp_path / "kept")
    pl.read_parquet(tmp_path / "kept")[:-5].write_parquet(tmp_path / "out" / "predictions.parquet")
    before = contents(tmp_path / "out")
    with pytest.raises(RunError, match="was taken after 180 rows, but there are predictions of 175"):
        go(data, tmp_path / "out", resume=True)
    now = contents(tmp_path / "out")
    assert {name: now[name] for name in before} == before


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own cannot be mounted here (it takes root on Linux)")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_stops_the_run_and_loses_nothing(
    data: Path, tmp_path: Path, tiny_disk: Path, monkeypatch: pytest.MonkeyPatch, often: None
):
    out, ballast = tiny_disk / "out", tiny_disk / "ballast"
    save, filled = live_run.LiveRun._save, []

    def filling(self: live_run.LiveRun, directory: RunDirectory) -> None:
        if self.rows == WARMUP + 4 * CHUNK and not filled:
            filled.append(True)
            ballast.write_bytes(bytes(shutil.disk_usage(tiny_disk).free - 40_000))
        save(self, directory)

    monkeypatch.setattr(live_run.LiveRun, "_save", filling)
    with pytest.raises((RunError, CheckpointError), match="No space left on device") as caught:
        run_linear(data, out, chunk=CHUNK)
    assert "\n" not in str(caught.value)
    parts = [pl.read_parquet(part) for part in sorted((out / "parts").glob("predictions-*.parquet"))]
    assert sum(len(part) for part in parts) >= WARMUP + 4 * CHUNK
    # No space came: it fails again, and changes nothing for the worse.
    with pytest.raises((RunError, CheckpointError), match="No space left on device"):
        run_linear(data, out, chunk=CHUNK, resume=True)
    ballast.unlink()
    resumed = run_linear(data, out, chunk=CHUNK, resume=True)
    same_as_unbroken(data, tmp_path, resumed, out=out, chunk=CHUNK)


# The directory by itself


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_aside(tmp_path / "f", b"old")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        fill(patch, 2)
        write_aside(tmp_path / "f", b"new")
    assert contents(tmp_path) == {"f": b"old"}
    write_aside(tmp_path / "f", b"new")
    assert contents(tmp_path) == {"f": b"new"}


def test_json_has_null_for_what_is_not_a_number():
    assert encode_json({"a": [1.5, float("nan"), -float("inf")]}) == (
        '{\n  "a": [\n    1.5,\n    null,\n    null\n  ]\n}\n'
    )


def test_a_directory_without_results_holds_no_run(tmp_path: Path):
    directory = RunDirectory(tmp_path / "out", ["y"])
    assert not directory.holds_a_run
    directory.start()
    assert not directory.holds_a_run
    (tmp_path / "out" / "parts" / "predictions-000000000000.parquet").touch()
    assert directory.holds_a_run


# Which weights are kept


@pytest.mark.parametrize("first", [0, 9_950, 99_950, 999_950, 10**12 - 50])
def test_ten_thousand_weights_are_kept_and_then_ever_fewer(first: int):
    def wanted(number: int) -> bool:
        step = 1
        while number >= 10_000 * step:
            step *= 10
        return number % step == 0

    numbers = np.arange(first, first + 2000)
    assert keep_weights(numbers).tolist() == [wanted(int(n)) for n in numbers]


def test_what_is_kept_of_the_weights_depends_neither_on_chunks_nor_on_a_stop(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run_small(data, tmp_path / "all", chunk=50)
    monkeypatch.setattr(tables, "WEIGHTS_KEPT", 10)
    run_small(data, tmp_path / "out", chunk=50, max_rows=250)
    resumed = run_small(data, tmp_path / "out", chunk=50, resume=True)
    same_run(resumed, tmp_path / "out", run_small(data, tmp_path / "whole", chunk=50), tmp_path / "whole")
    run_small(data, tmp_path / "other", chunk=7)
    every = results(tmp_path / "all")[1]
    kept = [*range(10), *range(10, 100, 10), *range(100, ROWS - WARMUP, 100)]
    for name in ("out", "whole"):
        assert_frame_equal(results(tmp_path / name)[1], every[kept], check_exact=True)
    assert results(tmp_path / "other")[1]["row"].to_list() == every[kept]["row"].to_list()
    assert set(every.dtypes[1:]) == {pl.Float32}
    assert len(results(tmp_path / "out")[0]) == ROWS
