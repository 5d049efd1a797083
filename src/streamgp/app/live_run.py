"""A run under way: from the rows of a file to predictions, scores and checkpoints."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from streamgp.app.fingerprint import Fingerprint, replay
from streamgp.app.groups import group_columns
from streamgp.app.importance import importance
from streamgp.app.interrupt import Interrupt
from streamgp.app.outputs import RunDirectory, RunError
from streamgp.app.run_notes import run_notes
from streamgp.app.runner import Clock, Outcome, learning, read_next
from streamgp.app.settings import RunSettings
from streamgp.evaluation import ClassificationMetrics, ScoredRows, StepsAhead
from streamgp.evaluation.description import describe, named_kinds
from streamgp.evaluation.steps_ahead import check_steps
from streamgp.filters.noise import parse as parse_noise
from streamgp.models.options import MIN_WARMUP
from streamgp.numerics import checkpoint
from streamgp.numerics.formats import plural
from streamgp.numerics.memory import give_back
from streamgp.progress import Bar, progress_bar
from streamgp.session import Session, SessionOptions, new_alarms
from streamgp.stream.apart import new_learner
from streamgp.stream.categories import Categories
from streamgp.stream.settings import StreamSettings
from streamgp.table import Chunk, DataError, RowReader, Schema
from streamgp.table.extent import Extent

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
        self.extent = Extent.of(reader, settings.max_rows)
        self._saved = -math.inf  # the first rows are kept at once, so that a run can go on from its first moment on
        if stored is None:
            self.session = _new_session(reader.schema, settings)
            self.next_row = 0
            self.fingerprint = Fingerprint()
        else:
            self.session = Session.from_tree(stored["session"])
            learner = self.session.learner
            learner.settings = replace(learner.settings, spec=replace(learner.spec, device=settings.spec.device))
            self.next_row = stored["next_row"]
            self.fingerprint = replay(reader, self.rows, self.next_row, stored["fingerprint"], settings.out)
        self.unseen_levels = dict(reader.unseen_levels)
        self.skipped_rows = self.next_row - self.rows

    @property
    def rows(self) -> int:
        """Count the rows that were predicted and scored."""
        return self.session.metrics.rows

    def run(self) -> Outcome:
        """Learn the stream and write everything that was asked for; whatever ends this early, no row is half learnt.

        Raises
        ------
        DataError, OSError
            If there is no usable row, or the results cannot be written. Once rows have been predicted, an error in
            the data ends the run with its results kept, and the `Outcome` has the reason.
        """
        first_row, learner, metrics = self.rows, self.session.learner, self.session.metrics
        with self.interrupt.watch():
            kept = self.directory is not None
            with learning(lambda: self.rows, self.reader.name, kept) as ending, self._bar() as bar:
                learner.progress = lambda done, todo: self._fitting(bar, done, todo)
                self._check_targets()
                for chunk in self._chunks():
                    began, fitted, was_warm = perf_counter(), learner.predicts_by_fit, learner.is_warmed_up
                    self._name_classes(chunk)
                    scored = metrics.scored_rows
                    for part in self.session.feed(chunk):
                        self._take(chunk, part, scored)
                        scored = metrics.scored_rows
                    self.clock.learnt(perf_counter() - began, fitted)
                    self._end_chunk(bar, just_fitted=learner.is_warmed_up and not was_warm)
                learner.progress = None  # it holds this run, which would keep the model in memory
                self.skipped_rows = self.reader.skipped_rows  # those after the last good row too
            stopped = ending.stopped
            if stopped is None and not learner.is_warmed_up:
                stopped = self._ended_early()
            give_back()
            if self.directory is not None:
                self._save(self.directory)
            result = self._result(first_row, stopped)
            give_back()
            if self.directory is not None:
                self.directory.finish(result)
        return Outcome(result, stopped, ending.interrupted)

    def _ended_early(self) -> str:
        """Say that the warm-up is not over, and what to do."""
        rows, without = self.rows, self.session.metrics.unlabelled_rows
        targets = rows - without
        enough, whole = targets > MIN_WARMUP, "a target" if self.session.learner.num_outputs == 1 else "all targets"
        return (
            f"{self.reader.name}: the stream ended after {plural(rows, 'row')}"
            f"{f', {targets:,} of them with {whole}' if without else ''}, within the warm-up of "
            f"{self.session.learner.warmup:,}, so no expert was fitted; "
            + (
                f"start again with a shorter one, such as --warmup {max(MIN_WARMUP, targets // 5)}"
                if enough
                else f"go on when there are more than {MIN_WARMUP} rows with a target"
            )
        )

    def _chunks(self) -> Iterator[Chunk]:
        """Yield chunks that are learnt in one go, cut at the same rows wherever an earlier run may have stopped."""
        while True:
            at, warmup = self.rows, self.session.learner.warmup
            since = at - warmup if at >= warmup else at
            self.reader.chunk = min(self.settings.chunk - since % self.settings.chunk, self.session.learner.max_batch)
            chunk = read_next(self.reader, self.interrupt, self.clock)
            if chunk is None:
                return
            yield chunk

    def _name_classes(self, chunk: Chunk) -> None:
        """Tell the scores the names of the classes up to this chunk, and of none that comes later."""
        metrics, labels = self.session.metrics, self.reader.schema.labels
        if isinstance(metrics, ClassificationMetrics) and labels is not None:
            latest = int(np.max(chunk.y, initial=-1, where=np.isfinite(chunk.y)))
            metrics.classes = list(labels.names[: max(len(metrics.classes), 1 + latest)])

    def _take(self, chunk: Chunk, part: ScoredRows, scored: int) -> None:
        """Write a part of a chunk that was learnt, before which so many rows were scored."""
        rows = slice(part.start, part.start + len(part.scores.y))
        if self.directory is not None:
            learner, labels = self.session.learner, self.reader.schema.labels
            times = None if chunk.times is None else chunk.times[rows]
            experts = [expert.name for expert in learner.experts]
            self.directory.add(chunk.rows[rows], times, part, scored, experts, list(learner.rules), labels)
        self.next_row = int(chunk.rows[rows][-1]) + 1
        self.skipped_rows = self.next_row - self.rows
        self.fingerprint.add(chunk, rows)

    def _end_chunk(self, bar: Bar, just_fitted: bool) -> None:
        """Show how far the run is, and keep it from time to time: right after the fit, which took longest, too."""
        self.unseen_levels = dict(self.reader.unseen_levels)
        done = self.extent.done(self.next_row, self.reader.bytes_read)
        bar.at(done, "stream" if self.session.learner.is_warmed_up else "warm-up", self.next_row)
        self._check_targets()
        if just_fitted:
            give_back()
        if self.directory is not None and (just_fitted or perf_counter() - self._saved > CHECKPOINT_SECONDS):
            self._save(self.directory)
            self._saved = perf_counter()

    def _fitting(self, bar: Bar, done: int, todo: int) -> None:
        """Check for a signal between two fits of the warm-up; the learner forgets a batch that ends in an error."""
        self.interrupt.check()
        if done == todo:
            give_back()
        bar.fits("fitting experts", done, todo)

    def _check_targets(self) -> None:
        """Check that a target has moved in the warm-up, or its scale is unknown: only noise that adapts finds it."""
        if self.session.learner.is_warmed_up and not parse_noise(self.session.learner.spec.noise).adapt:
            for name, value in zip(self.settings.targets, self.session.learner.constant_targets, strict=True):
                if value is not None:
                    raise DataError(
                        f"{self.reader.name}: target column '{name}' has the single value {value:g} in all "
                        f"{self.session.learner.warmup:,} rows of the warm-up, so its scale is unknown; check the "
                        f"column, or start again with a longer --warmup, or with noise that adapts (--noise "
                        f"'adaptive 0.99')"
                    )

    def _bar(self) -> AbstractContextManager[Bar]:
        """Show how far the stream has been read."""
        return progress_bar("warm-up", self.extent.total, counts_rows=self.extent.counts_rows)

    def _save(self, directory: RunDirectory) -> None:
        directory.flush()
        tree = {
            "session": self.session.to_tree(),
            "schema": self.reader.schema,
            "next_row": self.next_row,
            "fingerprint": self.fingerprint.digest,
            "config": self.settings.config,
        }
        checkpoint.save(directory.checkpoint, tree, {"kind": "run", "rows": self.rows})

    def _result(self, first_row: int, stopped: str | None) -> dict[str, Any]:
        schema, learner, alarms = self.reader.schema, self.session.learner, self.session.alarms
        matters = None if stopped is not None else importance(schema, learner)
        description = describe(
            learner,
            named_kinds(self.session.results(), schema.feature_names),
            targets=self.settings.targets,
            features=schema.input_names(learner.categories.entries),
            seconds=self.clock.result(),
            learnt=self.rows - max(first_row, learner.warmup),
        )
        return description | {
            "data": Path(self.settings.data).name if self.settings.data != "-" else "standard input",
            "exposure": schema.exposure,
            "alarms": None if alarms is None else [asdict(alarm) for alarm in alarms.found],
            "importance": matters,
            "skipped_rows": self.skipped_rows,
            "unreadable_cells": {name: each.unreadable for name, each in self.reader.gaps.items() if each.unreadable},
            "interrupted": stopped is not None,
            "stopped": stopped,
            "warnings": run_notes(
                schema,
                learner,
                self.session.metrics,
                self.skipped_rows,
                self.unseen_levels,
                description["late_labels"],
                self.reader.first_fault,
                self.reader.gaps,
            ),
            "command": self.settings.command,
        }


def _new_session(schema: Schema, settings: RunSettings) -> Session:
    """Return the session of a run before its first row.

    Raises
    ------
    RunError
        If the model does not suit the data, or an option the model.
    """
    assert settings.warmup is not None
    spec, targets, steps = settings.spec, schema.targets, settings.steps_ahead
    labels = () if schema.labels is None else schema.labels.names
    try:
        if steps:
            check_steps(spec, steps)
        of_stream = StreamSettings(
            spec,
            num_inputs=schema.num_inputs,
            num_outputs=len(targets),
            warmup=settings.warmup,
            seed=settings.seed,
            timed=settings.time is not None,
            delay=settings.delay,
            categories=Categories.unknown(schema.codes, schema.dates, tuple(settings.calendar)),
        )
        asked = SessionOptions(
            level=settings.conformal,
            groups=group_columns(settings.groups, schema),
            alarms=new_alarms(spec.task, targets, spec.horizon) if settings.alarms else None,
            horizons=StepsAhead(steps, targets) if steps else None,
            delay=settings.arrives or settings.delay,
            baselines=settings.baselines,
        )
        return Session.begin(new_learner(of_stream, len(labels)), labels or targets, asked)
    except ValueError as error:
        said = str(error).replace("steps_ahead:", f"--horizon 1..{steps}:").replace("alarms:", "--alarms:")
        said = f"--{said}" if said.startswith(("groups:", "baselines:")) else said
        raise RunError(said) from error
