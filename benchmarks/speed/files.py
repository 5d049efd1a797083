"""The cost of reading and writing in a run of the default model, and the memory that a large file takes.

``python -m benchmarks.speed.files`` prints, as JSON: the shares of reading and writing in the wall time of `streamgp
run` with ``--out``, and the memory of a process that reads some 500 MB.
"""

import io
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from rich import print_json

from benchmarks.common.measure import RUNS, in_fresh_process, memory_mb, spread
from streamgp.app import live_run as app_live
from streamgp.app import run_stream as app_run
from streamgp.app.outputs import RunDirectory
from streamgp.app.report import write_report
from streamgp.app.settings import RunSettings
from streamgp.models.registry import make_spec
from streamgp.table import RowReader, friedman, open_rows

RUN_ROWS = 20_000
LARGE_ROWS = 5_000_000  # about 500 MB of CSV
PART = 500_000  # rows generated at a time
WRITERS: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    "csv": pl.DataFrame.write_csv,
    "parquet": pl.DataFrame.write_parquet,
    "jsonl": pl.DataFrame.write_ndjson,
}


def table(rows: int, seed: int = 0) -> pl.DataFrame:
    """Generate Friedman's function: ten inputs and the target."""
    X, y = friedman(rows, np.random.default_rng(seed))
    return pl.DataFrame({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y})


class Stopwatch:
    """Seconds within the calls of some functions; a call within a timed one is not counted again."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running = False

    @contextmanager
    def watch(self, kind: str, owner: Any, *names: str) -> Iterator[None]:
        """Time these functions of a module or class as `kind` while the context lasts."""
        self.seconds.setdefault(kind, 0.0)
        with patch.multiple(owner, **{name: self._timed(kind, getattr(owner, name)) for name in names}):
            yield

    def _timed(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._running:
                return function(*args, **kwargs)
            self._running = True
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[kind] += time.perf_counter() - start
                self._running = False

        return call


def shares(runs: int = RUNS) -> dict[str, Any]:
    """Return shares of a run's wall time, for CSV and Parquet: of all of it, and of what comes after the warm-up."""
    return {kind: in_fresh_process(_shares_of, kind, runs) for kind in ("csv", "parquet")}


def _shares_of(kind: str, runs: int) -> dict[str, Any]:
    timed = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{kind}"
        WRITERS[kind](table(RUN_ROWS), path)
        for _ in range(runs + 1):
            timed.append(_timed_run(path, Path(folder) / "out"))
    timed = timed[1:]  # the first one compiles
    after = [t["total"] - t["warm-up"] - t["report"] for t in timed]
    return {
        "rows": RUN_ROWS,
        "seconds": {name: spread([t[name] for t in timed]) for name in timed[0]},
        "share": {name: spread([t[name] / t["total"] for t in timed]) for name in ("reading", "writing", "report")},
        "share_after_warmup": {
            name: spread([t[name] / s for t, s in zip(timed, after, strict=True)]) for name in ("reading", "writing")
        },
    }


def _timed_run(path: Path, out: Path) -> dict[str, float]:
    """Return seconds of `streamgp run`: of its calls that read and write, and by the clocks of its own metrics."""
    watch = Stopwatch()
    options = RunSettings(str(path), ["y"], make_spec("e-doebe"), out=out, overwrite=True)
    start = time.perf_counter()
    with (
        # The progress bar is not shown.
        redirect_stderr(io.StringIO()),
        watch.watch("reading", app_run, "_warmup_for", "_open"),
        watch.watch("reading", RowReader, "__next__"),
        watch.watch("writing", RunDirectory, "start", "add", "flush", "finish"),
        watch.watch("writing", app_live.checkpoint, "save"),
        app_run.opened_run(options) as live,
    ):
        outcome = live.run()
    before_report = time.perf_counter()
    write_report(out)
    end = time.perf_counter()
    own = outcome.metrics["seconds"]
    return {
        **watch.seconds,
        "report": end - before_report,
        "warm-up": own["warmup"],
        "stream": own["stream"],
        "read_by_metrics": own["read"],
        "total": end - start,
    }


def large_file(runs: int = RUNS) -> dict[str, Any]:
    """Return MiB of a process while it reads a large file, and while a linear model learns from it; measured once."""
    del runs
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.csv"
        with path.open("wb") as file:
            for part in range(LARGE_ROWS // PART):
                table(PART, part).write_csv(file, include_header=part == 0, float_precision=6)
        compact = Path(folder) / "large.parquet"
        pl.scan_csv(path).sink_parquet(compact)
        return {
            "rows": LARGE_ROWS,
            "csv": {"file_mb": path.stat().st_size / 2**20} | in_fresh_process(_read, path),
            "parquet": {"file_mb": compact.stat().st_size / 2**20} | in_fresh_process(_read, compact),
            "csv, linear model": in_fresh_process(_learn, path, Path(folder) / "out"),
        }


def _read(path: Path) -> dict[str, float]:
    """Read all rows: peak memory before, after a tenth, and after all of them."""
    before, start, rows, tenth = memory_mb()["peak"], time.perf_counter(), 0, None
    with open_rows(path, target="y") as reader:
        for chunk in reader:
            rows += len(chunk.rows)
            if tenth is None and rows >= LARGE_ROWS // 10:
                tenth = memory_mb()["peak"]
    seconds = time.perf_counter() - start
    peak = memory_mb()["peak"]
    assert rows == LARGE_ROWS and tenth is not None
    return {"before_mb": before, "tenth_mb": tenth, "peak_mb": peak, "rows_per_second": rows / seconds}


def _learn(path: Path, out: Path) -> dict[str, float]:
    """Learn a tenth of the rows, then ten times as many, through `streamgp run --model linear --out`."""
    found = {}
    for name, rows in (("tenth_mb", LARGE_ROWS // 10), ("peak_mb", LARGE_ROWS)):
        options = RunSettings(str(path), ["y"], make_spec("linear"), out=out, overwrite=True, max_rows=rows)
        with redirect_stderr(io.StringIO()), app_run.opened_run(options) as live:
            metrics = live.run().metrics
        found |= {"rows": rows, name: memory_mb()["peak"], "rows_per_second": metrics["rows_per_second"]}
    return found


if __name__ == "__main__":
    print_json(data={"files": shares(), "large_file": large_file()})
