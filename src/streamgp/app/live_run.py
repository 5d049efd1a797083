"""A run under way: from the rows of a file to predictions, scores and checkpoints."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from streamgp import checkpoint
from streamgp.app import tasks
from streamgp.app.fingerprint import Fingerprint, replay
from streamgp.app.importance import importance
from streamgp.app.interrupt import Interrupt
from streamgp.app.outputs import RunDirectory, RunError
from streamgp.app.run_notes import run_notes
from streamgp.app.runner import Clock, Outcome, learn_all, read_next
from streamgp.app.settings import RunSettings
from streamgp.data import Chunk, DataError, RowReader, Schema
from streamgp.evaluation import Alarms, ClassificationMetrics, StepsAhead, prequential, results
from streamgp.evaluation.description import describe
from streamgp.evaluation.late import LateRows, prequential_late
from streamgp.evaluation.prequential import ScoredRows
from streamgp.filters.noise import parse as parse_noise
from streamgp.models.options import MIN_WARMUP
from streamgp.progress import Bar, progress_bar
from streamgp.reports.wording import plural
from streamgp.stream.arrivals import Arrivals
from streamgp.stream.late_labels import LIMIT, LateLabels
from streamgp.stream.learner import StreamLearner

CHECKPOINT_SECONDS = 20.0


class LiveRun:
    """A run under way: the learner, its scores, and where it stands in the file."""

    def __init__(
        self,
        settings: RunSettings,
        reader: RowReader,
        directory: RunDirectory | None,
        stored: dict[str, Any] | None,
    ) -> None:
        assert settings.warmup is not None
        self.settings = settings
        self.reader = reader
        self.directory = directory
        self.clock = Clock()
        self.interrupt = Interrupt()
        self.arrivals: Arrivals | None = None  # where labels come late
        if stored is None:
            known = max(settings.spec.horizon, settings.delay + 1)
            self.learner = _new_learner(settings, reader.schema)
            self.metrics = tasks.new_metrics(reader.schema, settings.warmup, known)
            self.conformal = tasks.new_bands(reader.schema, settings.conformal, settings.warmup, known)
            self.alarms = tasks.new_alarms(reader.schema, settings.alarms, settings.spec.horizon)
            self.steps = tasks.new_steps(reader.schema, settings.spec, settings.steps_ahead)
            if settings.delay or settings.arrives is not None:
                self.arrivals = Arrivals(LateLabels(self.learner, max(LIMIT, known)))
            self.next_row = 0
            self.fingerprint = Fingerprint()
        else:
            self.learner = StreamLearner.from_tree(stored["learner"])
            self.metrics = tasks.restored_metrics(reader.schema.task, stored["metrics"])
            self.conformal = tasks.restored_bands(reader.schema.task, stored["conformal"])
            self.alarms = None if stored["alarms"] is None else Alarms.from_tree(stored["alarms"])
            steps = stored["steps_ahead"]
            self.steps = None if steps is None else StepsAhead.from_tree(steps)
            if stored["arrivals"] is not None:
                self.arrivals = Arrivals.from_tree(self.learner, stored["arrivals"])
            self.next_row = stored["next_row"]
            self.fingerprint = replay(reader, self.metrics.rows, self.next_row, stored["fingerprint"], settings.out)
        self.unseen_levels = dict(reader.unseen_levels)
        self.skipped_rows = self.next_row - self.metrics.rows

    def run(self) -> Outcome:
        """Learn the stream and write what there is to write, however it ends."""
        first_row = self.metrics.rows
        with self.interrupt.watch():
            stopped, interrupted = learn_all(self._stream, lambda: self.metrics.rows, self.reader.name)
            if interrupted:
                then = "" if self.directory is None else "; go on with --resume"
                stopped = f"interrupted after {plural(self.metrics.rows, 'row')}{then}"
            if stopped is None and not self.learner.is_warmed_up:
                stopped = self._ended_early()
            if self.directory is not None:
                self._save(self.directory)
            metrics = self._result(first_row, stopped)
            if self.directory is not None:
                self.directory.finish(metrics)
        return Outcome(metrics, stopped, interrupted)

    def _ended_early(self) -> str:
        """Say that the warm-up is not over, and what to do."""
        rows, without = self.metrics.rows, self.metrics.unlabelled_rows
        targets = rows - without
        enough, whole = targets > MIN_WARMUP, "a target" if self.learner.num_outputs == 1 else "all targets"
        return (
            f"{self.reader.name}: the stream ended after {plural(rows, 'row')}"
            f"{f', {targets:,} of them with {whole}' if without else ''}, within the warm-up of "
            f"{self.learner.warmup:,}, so no expert was fitted; "
            + (
                f"start again with a shorter one, such as --warmup {max(MIN_WARMUP, targets // 5)}"
                if enough
                else f"go on when there are more than {MIN_WARMUP} rows with a target"
            )
        )

    def _stream(self) -> None:
        """Learn all remaining rows; whatever ends this early, no row is half learnt."""
        self._check_targets()
        saved = -math.inf  # the first rows at once, so that a run can go on from its first moment on
        total = self.settings.max_rows or self.reader.total_rows or self.reader.bytes_total
        with progress_bar("warm-up", total) as bar:
            self.learner.progress = lambda done, todo: self._fitting(bar, done, todo)
            for chunk in self._chunks():
                warm = self.learner.is_warmed_up
                self._learn(chunk)
                bar.at(self._progress(), "stream" if self.learner.is_warmed_up else "warm-up")
                self._check_targets()
                fitted = self.learner.is_warmed_up and not warm  # what took longest
                if self.directory is not None and (fitted or perf_counter() - saved > CHECKPOINT_SECONDS):
                    self._save(self.directory)
                    saved = perf_counter()
        self.skipped_rows = self.reader.skipped_rows  # those after the last good row too

    def _chunks(self) -> Iterator[Chunk]:
        """Yield chunks that are learnt in one go, cut at the same rows wherever an earlier run may have stopped."""
        while True:
            at, warmup = self.metrics.rows, self.learner.warmup
            since = at - warmup if at >= warmup else at
            self.reader.chunk = min(self.settings.chunk - since % self.settings.chunk, self.learner.max_batch)
            chunk = read_next(self.reader, self.interrupt, self.clock)
            if chunk is None:
                return
            yield chunk

    def _learn(self, chunk: Chunk) -> None:
        began = perf_counter()
        fitted, labels = self.learner.predicts_by_fit, self.reader.schema.labels
        if isinstance(self.metrics, ClassificationMetrics) and labels is not None:
            # The classes of this chunk, and no later ones.
            latest = int(np.max(chunk.y, initial=-1, where=np.isfinite(chunk.y)))
            self.metrics.classes = list(labels.names[: max(len(self.metrics.classes), 1 + latest)])
        scored = self.metrics.scored_rows
        for part in self._scored(chunk):
            rows = slice(part.start, part.start + len(part.scores.y))
            times = None if chunk.times is None else chunk.times[rows]
            if self.alarms is not None:
                scores: Any = part.scores  # of numbers or counts: others have no alarms
                by_fit = part.weights is not None
                self.alarms.add(scores, chunk.rows[rows], times, tested=by_fit, experts=part.experts)
            if self.directory is not None:
                experts = [expert.name for expert in self.learner.experts]
                self.directory.add(chunk.rows[rows], times, part, scored, experts, list(self.learner.rules), labels)
            scored = self.metrics.scored_rows
            self.next_row = int(chunk.rows[rows][-1]) + 1
            self.skipped_rows = self.next_row - self.metrics.rows
            self.fingerprint.add(chunk, rows)
        self.unseen_levels = dict(self.reader.unseen_levels)
        if not fitted:
            self.clock.warmup += perf_counter() - began
        else:
            self.clock.stream += perf_counter() - began

    def _scored(self, chunk: Chunk) -> Iterator[ScoredRows]:
        """Predict, score and learn the rows of a chunk."""
        if self.arrivals is None:
            rows = [(chunk.X, chunk.y, chunk.times)]
            return prequential(self.learner, rows, self.metrics, self.conformal, self.steps)
        numbers = chunk.rows.astype(np.float64)
        if chunk.arrives is None:
            now, when = numbers, numbers + self.settings.delay + 1
        else:
            now, when = numbers if chunk.times is None else chunk.times, chunk.arrives
        late = LateRows(chunk.X, chunk.y, chunk.times, now, when)
        return prequential_late(self.arrivals, [late], self.metrics, self.conformal)

    def _fitting(self, bar: Bar, done: int, todo: int) -> None:
        """Check for a signal between two fits of the warm-up; the learner forgets a batch that ends in an error."""
        self.interrupt.check()
        bar.at(self._progress(), f"warm-up: fitting experts, {done} of {todo}")

    def _check_targets(self) -> None:
        """Check that a target has moved in the warm-up, or its scale is unknown: only noise that adapts finds it."""
        if self.learner.is_warmed_up and not parse_noise(self.learner.spec.noise).adapt:
            for name, value in zip(self.settings.targets, self.learner.constant_targets, strict=True):
                if value is not None:
                    raise DataError(
                        f"{self.reader.name}: target column '{name}' has the single value {value:g} in all "
                        f"{self.learner.warmup:,} rows of the warm-up, so its scale is unknown; check the "
                        f"column, or start again with a longer --warmup, or with noise that adapts (--noise "
                        f"'adaptive 0.99')"
                    )

    def _progress(self) -> float:
        """Return how far the stream has been read, in the units of the bar's total."""
        if self.settings.max_rows or self.reader.total_rows is not None:
            return self.next_row
        return self.reader.bytes_read or self.metrics.rows

    def _save(self, directory: RunDirectory) -> None:
        directory.flush()
        tree = {
            "learner": self.learner.to_tree(),
            "metrics": self.metrics.to_tree(),
            "conformal": None if self.conformal is None else self.conformal.to_tree(),
            "arrivals": None if self.arrivals is None else self.arrivals.to_tree(),
            "alarms": None if self.alarms is None else self.alarms.to_tree(),
            "steps_ahead": None if self.steps is None else self.steps.to_tree(),
            "schema": self.reader.schema.to_json(),
            "next_row": self.next_row,
            "fingerprint": self.fingerprint.digest,
            "config": self.settings.config,
        }
        checkpoint.save(directory.checkpoint, tree, {"kind": "run", "rows": self.metrics.rows})

    def _result(self, first_row: int, stopped: str | None) -> dict[str, Any]:
        schema = self.reader.schema
        matters = None if stopped is not None else importance(schema, self.learner)
        seconds = self.clock.result()
        description = describe(
            self.learner,
            results(self.metrics, self.learner),
            targets=self.settings.targets,
            features=schema.feature_names,
            seconds=seconds,
            learnt=self.metrics.rows - max(first_row, self.learner.warmup),
        )
        return description | {
            "data": Path(self.settings.data).name if self.settings.data != "-" else "standard input",
            "exposure": schema.exposure,
            "late_labels": self._late_labels(),
            "conformal": None if self.conformal is None else self.conformal.result(),
            "steps_ahead": None if self.steps is None else self.steps.result(),
            "alarms": None if self.alarms is None else [asdict(alarm) for alarm in self.alarms.found],
            "importance": matters,
            "skipped_rows": self.skipped_rows,
            "unreadable_cells": {name: each.unreadable for name, each in self.reader.gaps.items() if each.unreadable},
            "interrupted": stopped is not None,
            "stopped": stopped,
            "warnings": run_notes(
                schema,
                self.learner,
                self.metrics,
                self.skipped_rows,
                self.unseen_levels,
                self._late_labels(),
                self.reader.first_fault,
                self.reader.gaps,
            ),
            "command": self.settings.command,
        }

    def _late_labels(self) -> dict[str, Any] | None:
        """Return how late labels came, and how many did not; None where they come in time."""
        if self.arrivals is None:
            return None
        return {"delay": self.settings.arrives or self.settings.delay, **self.arrivals.counts}


def _new_learner(settings: RunSettings, schema: Schema) -> StreamLearner:
    assert settings.warmup is not None
    try:
        return StreamLearner(
            settings.spec,
            num_inputs=schema.num_inputs,
            num_outputs=len(settings.targets),
            num_classes=0 if schema.labels is None else len(schema.labels.names),
            warmup=settings.warmup,
            seed=settings.seed,
            timed=settings.time is not None,
            delay=settings.delay,
        )
    except ValueError as error:  # a basis that does not suit so many inputs, or a lag beyond the warm-up
        raise RunError(str(error)) from error
