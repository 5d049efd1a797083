"""A run under way: from the rows of a file to predictions, scores and checkpoints."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from streamgp import checkpoint
from streamgp.app import tasks
from streamgp.app.fingerprint import Fingerprint, replay
from streamgp.app.interrupt import Interrupt, Stop
from streamgp.app.outputs import RunDirectory, RunError
from streamgp.app.wording import plural
from streamgp.data import Chunk, DataError, RowReader, Schema
from streamgp.data.readers import Missing
from streamgp.estimators import LEAST_WARMUP, expert_table
from streamgp.evaluation import ClassificationMetrics, Conformal, prequential, results
from streamgp.filters.noise import parse as parse_noise
from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.progress import Bar, progress_bar
from streamgp.stream.lags import lag_names
from streamgp.stream.learner import StreamLearner

CHECKPOINT_SECONDS = 20.0


@dataclass
class RunOptions:
    """What the command line said.

    `spec_for` gives the model for a task where `task` is ``auto`` and the data turn out to be not of regression.
    """

    data: str
    targets: list[str]
    spec: Spec
    task: str = "auto"
    spec_for: Callable[[str], Spec] | None = None
    grades: list[str] | None = None
    exposure: str | None = None
    features: list[str] | None = None
    time: str | None = None
    warmup: int | None = None
    seed: int = 0
    chunk: int = 1024
    max_rows: int | None = None
    missing: Missing = "impute"
    conformal: float | None = None
    out: Path | None = None
    resume: bool = False
    overwrite: bool = False
    command: str = ""

    @property
    def config(self) -> dict[str, Any]:
        """What must not change when the run is resumed."""
        return {
            **asdict(self.spec),
            "target": list(self.targets),
            "features": self.features,
            "time": self.time,
            "warmup": self.warmup,
            "seed": self.seed,
            "missing": self.missing,
            "grades": self.grades,
            "exposure_column": self.exposure,
            "conformal": self.conformal,
        }

    def for_task(self, task: str) -> "RunOptions":
        """The options with the model for what the target turned out to be.

        Raises
        ------
        ValueError
            If the model has an option that does not go with the task.
        """
        if task == self.spec.task:
            return self
        spec = make_spec(self.spec.model, task=task) if self.spec_for is None else self.spec_for(task)
        return replace(self, spec=spec)


@dataclass
class Outcome:
    """How a run ended; `stopped` holds the sentence that says why it ended early, if it did."""

    metrics: dict[str, Any]
    stopped: str | None = None
    interrupted: bool = False


@dataclass
class Clock:
    """Seconds spent on reading, on the warm-up and on the stream after it."""

    read: float = 0.0
    warmup: float = 0.0
    stream: float = 0.0
    began: float = field(default_factory=perf_counter)

    def result(self) -> dict[str, float]:
        total = perf_counter() - self.began
        return {"read": self.read, "warmup": self.warmup, "stream": self.stream, "total": total}


class Job:
    """A stream under way: the learner, its scores, and where it stands in the file."""

    def __init__(
        self,
        options: RunOptions,
        reader: RowReader,
        directory: RunDirectory | None,
        stored: dict[str, Any] | None,
    ) -> None:
        assert options.warmup is not None
        self.options = options
        self.reader = reader
        self.directory = directory
        self.clock = Clock()
        self.interrupt = Interrupt()
        if stored is None:
            self.learner = _new_learner(options, reader.schema)
            self.metrics = tasks.new_metrics(reader.schema, options.warmup, options.spec.horizon)
            self.conformal = tasks.new_bands(reader.schema, options.conformal, options.warmup, options.spec.horizon)
            self.next_row = 0
            self.fingerprint = Fingerprint()
        else:
            self.learner = StreamLearner.from_tree(stored["learner"])
            self.metrics = tasks.restored_metrics(reader.schema.task, stored["metrics"])
            bands = stored.get("conformal")  # younger than some checkpoints
            self.conformal = None if bands is None else Conformal.from_tree(bands)
            self.next_row = stored["next_row"]
            known = stored.get("fingerprint")  # younger than some checkpoints
            self.fingerprint = replay(reader, self.metrics.rows, self.next_row, known, options.out)
        self.unseen_levels = dict(reader.unseen_levels)
        self.skipped_rows = self.next_row - self.metrics.rows

    def run(self) -> Outcome:
        """Learn the stream and write what there is to write, however it ends."""
        first_row = self.metrics.rows
        stopped, interrupted = None, False
        with self.interrupt.watch():
            try:
                self._stream()
            except Stop:
                if not self.metrics.rows:
                    raise KeyboardInterrupt from None
                interrupted = True
                then = "" if self.directory is None else "; go on with --resume"
                stopped = f"interrupted after {plural(self.metrics.rows, 'row')}{then}"
            except DataError as error:
                if not self.metrics.rows:
                    raise
                stopped = str(error).rstrip(".")
            if not self.metrics.rows:
                raise DataError(f"{self.reader.name}: no usable row: every one was skipped as bad")
            if stopped is None and not self.learner.warm:
                stopped = (
                    f"{self.reader.name}: the stream ended after {plural(self.metrics.rows, 'row')}, within the "
                    f"warm-up of {self.learner.warmup:,}, so no expert was fitted; start again with a shorter one, "
                    f"such as --warmup {max(LEAST_WARMUP, self.metrics.rows // 5)}"
                )
            metrics = self._result(first_row, stopped)
            if self.directory is not None:
                self._save(self.directory)
                self.directory.finish(metrics)
        return Outcome(metrics, stopped, interrupted)

    def _stream(self) -> None:
        """Learn all rows that are to come; whatever ends this early, no row is half learnt."""
        self._check_targets()
        saved = -math.inf  # the first rows at once, so that a run can go on from its first moment on
        total = self.options.max_rows or self.reader.total_rows or self.reader.bytes_total
        with progress_bar("warm-up", total) as bar:
            self.learner.progress = lambda done, todo: self._fitting(bar, done, todo)
            for chunk in self._chunks():
                warm = self.learner.warm
                self._learn(chunk)
                bar.at(self._progress(), "stream" if self.learner.warm else "warm-up")
                self._check_targets()
                fitted = self.learner.warm and not warm  # what took longest
                if self.directory is not None and (fitted or perf_counter() - saved > CHECKPOINT_SECONDS):
                    self._save(self.directory)
                    saved = perf_counter()
        self.skipped_rows = self.reader.skipped_rows  # those after the last good row too

    def _chunks(self) -> Iterator[Chunk]:
        """Chunks that are learnt in one go, cut at the same rows wherever an earlier run may have stopped."""
        while True:
            began = perf_counter()
            at, warmup = self.metrics.rows, self.learner.warmup
            since = at - warmup if at >= warmup else at
            self.reader.chunk = min(self.options.chunk - since % self.options.chunk, self.learner.longest_stretch)
            with self.interrupt.waiting():
                chunk = next(self.reader, None)
            self.clock.read += perf_counter() - began
            if chunk is None:
                return
            yield chunk

    def _learn(self, chunk: Chunk) -> None:
        began = perf_counter()
        fitted, labels = self.learner.at_work, self.reader.schema.labels
        if (
            isinstance(self.metrics, ClassificationMetrics) and labels is not None
        ):  # those of this chunk, and no later ones
            self.metrics.classes = list(
                labels.names[
                    : max(len(self.metrics.classes), 1 + int(np.max(chunk.y, initial=-1, where=np.isfinite(chunk.y))))
                ]
            )
        scored = self.metrics.scored_rows
        for part in prequential(self.learner, [(chunk.X, chunk.y, chunk.times)], self.metrics, self.conformal):
            rows = slice(part.start, part.start + len(part.scores.y))
            if self.directory is not None:
                experts = [expert.name for expert in self.learner.experts]
                times = None if chunk.times is None else chunk.times[rows]
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

    def _fitting(self, bar: Bar, done: int, todo: int) -> None:
        """Between two fits of the warm-up, which take long; the learner forgets a stretch that ends in an error."""
        self.interrupt.check()
        bar.at(self._progress(), f"warm-up: fitting experts, {done} of {todo}")

    def _check_targets(self) -> None:
        """After the warm-up a target must have moved, or its scale is unknown: only noise that adapts finds it."""
        if self.learner.warm and not parse_noise(self.learner.spec.noise).adapt:
            for name, value in zip(self.options.targets, self.learner.constant_targets, strict=True):
                if value is not None:
                    raise DataError(
                        f"{self.reader.name}: target column '{name}' has the single value {value:g} in all "
                        f"{self.learner.warmup:,} rows of the warm-up, so its scale is unknown; check the "
                        f"column, or start again with a longer --warmup, or with noise that adapts (--noise "
                        f"'adaptive 0.99')"
                    )

    def _progress(self) -> float:
        """How far the stream has come, in the units of the bar's total."""
        if self.options.max_rows or self.reader.total_rows is not None:
            return self.next_row
        return self.reader.bytes_read or self.metrics.rows

    def _save(self, directory: RunDirectory) -> None:
        directory.flush()
        tree = {
            "learner": self.learner.to_tree(),
            "metrics": self.metrics.to_tree(),
            "conformal": None if self.conformal is None else self.conformal.to_tree(),
            "schema": self.reader.schema.to_json(),
            "next_row": self.next_row,
            "fingerprint": self.fingerprint.digest,
            "config": self.options.config,
        }
        checkpoint.save(directory.checkpoint, tree, {"kind": "run", "rows": self.metrics.rows})

    def _result(self, first_row: int, stopped: str | None) -> dict[str, Any]:
        seconds = self.clock.result()
        learnt = self.metrics.rows - max(first_row, self.learner.warmup)
        scores = results(self.metrics, self.learner)
        schema = self.reader.schema
        return {
            "task": schema.task,
            "model": self.options.spec.model,
            "data": Path(self.options.data).name if self.options.data != "-" else "standard input",
            "targets": self.options.targets,
            "target": self.options.targets[0],
            "features": [
                *schema.feature_names,
                *lag_names(self.options.targets, self.options.spec.lags),
            ],
            "exposure": schema.exposure,
            "lags": list(self.options.spec.lags),
            "horizon": self.options.spec.horizon or None,
            **scores,
            "by_target": _by_target(schema, scores),
            "conformal": None if self.conformal is None else self.conformal.result(),
            "seconds": seconds,
            "rows_per_second": learnt / seconds["stream"] if learnt > 0 and seconds["stream"] > 0 else None,
            "skipped_rows": self.skipped_rows,
            "imputed_values": self.learner.imputed_values,
            "outside_rows": self.learner.outside_rows,
            "flagged_rows": self.learner.flagged_rows,
            "restarted_filters": len(self.learner.restarted),
            "interrupted": stopped is not None,
            "stopped": stopped,
            "experts": expert_table(self.learner),
            "models": self.learner.local_models,
            "rules": [{"name": name, "weight": weight} for name, weight in self.learner.rules.items()],
            "warnings": self._warnings(),
            "command": self.options.command,
        }

    def _warnings(self) -> list[str]:
        schema = self.reader.schema
        said = tasks.notes(schema, self.metrics)
        said += [f"column '{name}' was left out: {reason}" for name, reason in schema.dropped.items()]
        if schema.constant:
            names = ", ".join(f"'{name}'" for name in schema.constant)
            said.append(f"one single value in the first rows, so nothing to learn from at first: {names}")
        if self.learner.warm:
            said += [
                f"target column '{name}' had the single value {value:g} in all rows of the warm-up, so its scale was "
                f"unknown and nothing could be fitted; a longer --warmup may help"
                for name, value in zip(self.options.targets, self.learner.constant_targets, strict=True)
                if value is not None
            ]
        said += [
            f"column '{name}': {plural(count, 'row')} with a level that the first rows had not, taken as no level"
            for name, count in self.unseen_levels.items()
            if count
        ]
        if self.skipped_rows:
            said.append(f"skipped {plural(self.skipped_rows, 'bad row')}")
        if self.learner.imputed_values:
            said.append(f"filled {plural(self.learner.imputed_values, 'missing input')}")
        if self.metrics.unlabelled_rows:
            said.append(f"predicted {plural(self.metrics.unlabelled_rows, 'row')} without a target, and learnt none")
        if self.learner.flagged_rows:
            said.append(
                f"{plural(self.learner.flagged_rows, 'row')} flagged as outliers: predicted and "
                f"scored like the others, but hardly learnt"
            )
        if self.learner.restarted:
            said.append(
                f"{plural(len(self.learner.restarted), 'filter')} had numbers that were not finite and started again "
                f"from the prior"
            )
        if self.learner.outside_rows:
            said.append(
                f"{plural(self.learner.outside_rows, 'row')} outside the range that some basis was built for in "
                f"the warm-up; there its features stay as at the edge"
            )
        return said


def _by_target(schema: Schema, scores: dict[str, Any]) -> dict[str, Any]:
    """The scores of every target of numbers or counts, by its name."""
    if schema.labels is not None:
        return {}
    own = ("nmse", "rmse", "mae", "unflagged", "crps", "coverage", "naive")
    return scores.get("per_target") or {schema.targets[0]: {name: scores[name] for name in own if name in scores}}


def _new_learner(options: RunOptions, schema: Schema) -> StreamLearner:
    assert options.warmup is not None
    try:
        return StreamLearner(
            options.spec,
            num_inputs=schema.num_inputs,
            num_outputs=len(options.targets),
            num_classes=0 if schema.labels is None else len(schema.labels.names),
            warmup=options.warmup,
            seed=options.seed,
            timed=options.time is not None,
        )
    except ValueError as error:  # a basis that does not suit so many inputs, or a lag beyond the warm-up
        raise RunError(str(error)) from error
