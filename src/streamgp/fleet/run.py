"""`streamgp run --key`: a file of many keyed streams, predicted and learnt as a fleet."""

import hashlib
import math
import shutil
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from streamgp.app.fingerprint import fewer_rows, other_rows
from streamgp.app.interrupt import Interrupt
from streamgp.app.lock import locked
from streamgp.app.outputs import RunDirectory, RunError
from streamgp.app.runner import Clock, Outcome, learning, read_next
from streamgp.evaluation.description import skipped
from streamgp.fleet import StreamingGPFleet
from streamgp.fleet.evaluation import tested
from streamgp.fleet.file_rows import KeyedRows
from streamgp.fleet.hibernating_keys import FOLDER
from streamgp.fleet.outputs import spread
from streamgp.fleet.ray_keys import WorkerError
from streamgp.fleet.run_alarms import alarms_of_run
from streamgp.fleet.run_settings import FleetRunSettings
from streamgp.fleet.steps_ahead import FleetStepsAhead
from streamgp.numerics import checkpoint
from streamgp.progress import Bar, progress_bar
from streamgp.table import DataError
from streamgp.table.numbers import say_unreadable

CHECKPOINT_SECONDS = 20.0
COVERED = ("50", "90", "95")
SUMS = ("scored_rows", "squared", "absolute", "log_density", "crps", *COVERED)


def run_fleet(settings: FleetRunSettings) -> Outcome:
    """Run a file of keyed streams and write everything that was asked for.

    Raises
    ------
    RunError, DataError, CheckpointError, OSError
        As `streamgp.app.run_stream.opened_run` and its `run` do.
    """
    if settings.resume and settings.out is None:
        raise RunError("--resume needs --out DIR, the directory of the run to go on with")
    if settings.alarms and settings.out is None:
        raise RunError(
            "--alarms with --key needs --out DIR: a key is tested by all of its rows, which are kept there"
        )
    if settings.out is None:
        return _run(settings, None)
    with locked(settings.out):
        # A run that was killed leaves such folders behind.
        for left in settings.out.glob(f"{FOLDER}*"):
            shutil.rmtree(left, ignore_errors=True)
        return _run(settings, RunDirectory(settings.out, [settings.target]))


def _run(settings: FleetRunSettings, directory: RunDirectory | None) -> Outcome:
    stored: Any = None
    if settings.resume and directory is not None and directory.has_checkpoint:
        whole = checkpoint.load_of(directory.checkpoint, StreamingGPFleet)
        with checkpoint.reading(directory.checkpoint, RunError):
            stored = whole["run"]
            for name in stored["config"] | settings.config:
                before, now = (each.get(name) for each in (stored["config"], settings.config))
                if before != now:
                    raise directory.option_differs(name, before, now)
    elif directory is not None:
        directory.check_free(settings.resume, settings.overwrite)
    with KeyedRows(settings) as rows:
        run = FleetRun(settings, rows, directory, stored)
        if directory is not None:
            directory.start() if stored is None else directory.resume(run.rows)
        return run.run()


class FleetRun:
    """A run under way: the fleet, its scores, and where it stands in the file."""

    def __init__(
        self,
        settings: FleetRunSettings,
        source: KeyedRows,
        directory: RunDirectory | None,
        stored: dict[str, Any] | None,
    ) -> None:
        self.settings, self.source, self.directory = settings, source, directory
        self.clock, self.interrupt = Clock(), Interrupt()
        self._hash = hashlib.sha256()
        # The number of rows of the file that were learnt before.
        self._again = stored["rows"] if stored else 0
        # The number of rows of the file seen by this process.
        self._passed = 0
        self._digest = stored["digest"] if stored else ""
        self.rows = self._again
        self.sums = dict(stored["sums"]) if stored else dict.fromkeys(SUMS, 0.0)
        self.ahead = FleetStepsAhead(settings.steps_ahead, settings.target) if settings.steps_ahead else None
        if self.ahead is not None and stored:
            self.ahead = FleetStepsAhead.from_tree(stored["ahead"])
        try:
            self.fleet = (
                settings.new_fleet()
                if stored is None or directory is None
                else StreamingGPFleet.load(directory.checkpoint, **settings.where)
            )
        except (ValueError, ImportError, WorkerError) as error:
            raise RunError(str(error)) from error

    def run(self) -> Outcome:
        """Learn the stream and write what there is to write, however it ends."""
        before = self.rows
        with self.interrupt.watch():
            with learning(lambda: self.rows, self.source.name, self.directory is not None) as ending:
                self._stream()
            stopped = ending.stopped
            if self._passed < self._again:
                if stopped is not None:
                    raise RunError(f"--resume: stopped before it went on ({stopped}); go on with --resume")
                raise fewer_rows(self.source.name, self._again, self.settings.out)
            metrics = self._result(before, stopped)
            if self.directory is not None:
                self._save(self.directory)
                if self.settings.alarms:
                    kept = self.directory.kept("predictions").collect()
                    metrics["alarms"] = alarms_of_run(kept, metrics["warmup"], self.settings.target)
                self.directory.finish(metrics)
        return Outcome(metrics, stopped, ending.interrupted)

    def _stream(self) -> None:
        saved = -math.inf
        extent = self.source.extent
        with progress_bar("warm-up", extent.total, counts_rows=extent.counts_rows) as bar:
            parts = iter(self.source)
            while (part := read_next(parts, self.interrupt, self.clock)) is not None:
                self._take(*part, bar)
                self.interrupt.check()
                if (
                    self.directory is not None
                    and self._passed >= self._again
                    and perf_counter() - saved > CHECKPOINT_SECONDS
                ):
                    self._save(self.directory)
                    saved = perf_counter()

    def _take(self, numbers: np.ndarray, frame: pl.DataFrame, bar: Bar) -> None:
        """Learn a chunk; of rows that were learnt before, only check that they are those."""
        old = min(len(frame), self._again - self._passed)
        for piece, at in ((frame[:old], numbers[:old]), (frame[old:], numbers[old:])):
            if not len(piece):
                continue
            self._hash.update(hash_of(piece))
            self._passed += len(piece)
            if self._passed == self._again and self._hash.hexdigest() != self._digest:
                raise other_rows(self.source.name, self._again, self.settings.out)
            if self._passed > self._again:
                self._learn(at, piece)
        done = self.source.extent.done(self._passed, self.source.bytes_read)
        bar.at(done, "fleet" if self.fleet.is_warm_ else "warm-up", self._passed)

    def _learn(self, numbers: np.ndarray, frame: pl.DataFrame) -> None:
        began, warm = perf_counter(), self.fleet.is_warm_
        try:
            found, scores, rows, _ = tested(self.fleet.learner, frame, self.ahead)
        except DataError as error:
            first, last = int(numbers[0]) + 1, int(numbers[-1]) + 1
            raise DataError(f"{self.source.name}: data rows {first:,} to {last:,}: {error}") from error
        except WorkerError as error:
            raise RunError(f"{error}; what was saved stands: go on with --out and --resume") from error
        if self.source.first_fault is None and self.fleet.learner.first_doubt is not None:
            row, fault = self.fleet.learner.first_doubt
            self.source.first_fault = f"data row {int(numbers[row]) + 1:,}: {fault}"
        self._add(scores)
        self.rows += len(frame)
        if self.directory is not None:
            names = {self.settings.key: "key", self.settings.time or "": "time", self.settings.target: "y"}
            columns = found.rename({a: b for a, b in names.items() if a in found.columns}).drop("crps")
            kept = {"row": numbers} | {c: columns[c].to_numpy() for c in columns.columns}
            if self.settings.alarms:
                kept |= spread({"pit": rows.pit}, rows.good, len(numbers))
            self.directory.take(kept)
        if warm:
            self.clock.stream += perf_counter() - began
        else:
            self.clock.warmup += perf_counter() - began

    def _add(self, m: dict[str, Any]) -> None:
        count = m["scored_rows"]
        if count:
            means = (m["rmse"] ** 2, m["mae"], m["pll"], m["crps"], *(m["coverage"][c] for c in COVERED))
            for name, mean in zip(SUMS, (1.0, *means), strict=True):
                self.sums[name] += count * mean

    def _save(self, directory: RunDirectory) -> None:
        directory.flush()
        run = {
            "config": self.settings.config,
            "rows": self.rows,
            "digest": self._hash.hexdigest(),
            "sums": self.sums,
            "ahead": None if self.ahead is None else self.ahead.to_tree(),
        }
        self.fleet.save_with(directory.checkpoint, {"run": run})

    def _result(self, before: int, stopped: str | None) -> dict[str, Any]:
        seconds, by_key = self.clock.result(), self.fleet.scores().rename({self.settings.key: "key"})
        count = self.sums["scored_rows"]
        mean = {name: self.sums[name] / count if count else None for name in SUMS}
        nmse = by_key["nmse"].to_numpy()
        learnt, bad = self.rows - before, self.rows - int(by_key["rows"].sum())
        return {
            "task": "fleet",
            "model": "fleet",
            "data": "standard input" if self.settings.data == "-" else Path(self.settings.data).name,
            "target": self.settings.target,
            "key": self.settings.key,
            "features": self.source.inputs,
            "rows": self.rows,
            "warmup": self.fleet.learner.warmup_rows,
            "scored_rows": int(count),
            "nmse": float(np.nanmedian(nmse)) if np.isfinite(nmse).any() else None,
            "rmse": None if not count else math.sqrt(self.sums["squared"] / count),
            "mae": mean["absolute"],
            "pll": mean["log_density"],
            "crps": mean["crps"],
            "coverage": {c: mean[c] for c in COVERED},
            "seconds": seconds,
            "rows_per_second": learnt / seconds["stream"] if learnt > 0 and seconds["stream"] > 0 else None,
            "skipped_rows": bad,
            "unreadable_cells": {n: each.unreadable for n, each in self.source.gaps.items() if each.unreadable},
            "flagged_rows": int(by_key["flagged"].sum()),
            "alarms": None,
            **({"steps_ahead": None} if self.ahead is None else self.ahead.metrics()),
            "interrupted": stopped is not None,
            "stopped": stopped,
            "keys": by_key.drop("last_seen", strict=False).to_dicts(),
            "warnings": [
                *self.source.schema.notes,
                *(f"column '{name}' was left out: {why}" for name, why in self.source.dropped.items()),
                *say_unreadable(self.source.gaps),
                *([skipped(bad, self.source.first_fault)] if bad else []),
            ],
            "command": self.settings.command,
        }


def hash_of(frame: pl.DataFrame) -> bytes:
    """Return rows as bytes, one after the other, so that no cut into chunks matters."""
    frame = frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
    numbers = frame.select(pl.exclude(pl.String).cast(pl.Float64)).fill_null(math.nan).to_numpy()
    texts = frame.select(pl.col(pl.String)).rows()
    return b"".join(
        "".join(f"{cell}\0" for cell in text).encode() + row.tobytes()
        for text, row in zip(texts, numbers, strict=True)
    )
