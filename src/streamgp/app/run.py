"""`streamgp run`: from a file to predictions, metrics, checkpoint and report."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from streamgp import checkpoint
from streamgp.app.interrupt import Interrupt, Stop
from streamgp.app.outputs import RunDirectory, RunError
from streamgp.data import Chunk, DataError, RowReader, Schema, open_rows
from streamgp.data.readers import OnBadRow
from streamgp.estimators import DEFAULT_WARMUP, SHORT_WARMUP, expert_table
from streamgp.evaluation import StreamMetrics, prequential, results
from streamgp.learner import StreamLearner
from streamgp.presets import Spec
from streamgp.progress import Bar, progress_bar

CHECKPOINT_SECONDS = 20.0
SHORT_FILE = 5 * DEFAULT_WARMUP  # a file with fewer rows gets a fifth of them as its warm-up


@dataclass
class RunOptions:
    """What the command line said."""

    data: str
    targets: list[str]
    spec: Spec
    features: list[str] | None = None
    time: str | None = None
    warmup: int | None = None
    seed: int = 0
    chunk: int = 1024
    max_rows: int | None = None
    on_bad_row: OnBadRow = "raise"
    out: Path | None = None
    resume: bool = False
    overwrite: bool = False
    command: str = ""


@dataclass
class Outcome:
    """How a run ended; `stopped` holds the sentence that says why it ended early, if it did."""

    metrics: dict[str, Any]
    stopped: str | None = None
    interrupted: bool = False


@dataclass
class _Clock:
    """Seconds spent on reading, on the warm-up and on the stream after it."""

    read: float = 0.0
    warmup: float = 0.0
    stream: float = 0.0
    began: float = field(default_factory=perf_counter)

    def result(self) -> dict[str, float]:
        total = perf_counter() - self.began
        return {"read": self.read, "warmup": self.warmup, "stream": self.stream, "total": total}


def run(options: RunOptions) -> Outcome:
    """Run a stream from its file and write everything that was asked for.

    Raises
    ------
    RunError, DataError, CheckpointError, OSError
        If the run cannot start, or its results cannot be written. Once rows have been predicted, an error in the
        data ends the run with its results kept, and the returned `Outcome` says why.
    """
    directory = None if options.out is None else RunDirectory(options.out, options.targets)
    clock = _Clock()
    stored: dict[str, Any] | None = None
    if options.resume:
        stored = _load(options, directory)
        options = replace(options, warmup=stored["config"]["warmup"])
    elif directory is not None and directory.holds_a_run and not options.overwrite:
        raise RunError(
            f"{options.out} already holds a run: add --resume to go on with it, --overwrite to replace it, "
            f"or name another --out"
        )
    if options.warmup is None:
        options = replace(options, warmup=_default_warmup(options))
    with _open(options, stored) as reader:
        job = _Job(options, reader, stored)
        if directory is not None:
            if stored is None:
                directory.start()
            else:
                directory.resume(job.metrics.rows)
        return job.run(directory, clock)


class _Job:
    """A stream under way: the learner, its scores, and where it stands in the file."""

    def __init__(self, options: RunOptions, reader: RowReader, stored: dict[str, Any] | None) -> None:
        assert options.warmup is not None
        self.options = options
        self.reader = reader
        self.interrupt = Interrupt()
        if stored is None:
            self.learner = _new_learner(options, reader.schema)
            self.metrics = StreamMetrics(options.targets, options.warmup)
            self.next_row = 0
            self.unseen_levels = dict(reader.unseen_levels)
        else:
            self.learner = StreamLearner.from_tree(stored["learner"])
            self.metrics = StreamMetrics.from_tree(stored["metrics"])
            self.next_row = stored["next_row"]
            self.unseen_levels = stored["unseen_levels"]
        # What came before; the reader counts from here on.
        self.earlier_unseen = dict(self.unseen_levels)
        self.earlier_skipped = self.skipped_rows = self.next_row - self.metrics.rows

    def run(self, directory: RunDirectory | None, clock: _Clock) -> Outcome:
        first_row = self.metrics.rows
        stopped, interrupted = None, False
        with self.interrupt.watch():
            try:
                self._stream(directory, clock)
            except Stop:
                if not self.metrics.rows:
                    raise KeyboardInterrupt from None
                interrupted = True
                then = "" if directory is None else "; go on with --resume"
                stopped = f"interrupted after {self.metrics.rows:,} rows{then}"
            except DataError as error:
                if not self.metrics.rows:
                    raise
                stopped = str(error).rstrip(".")
            if not self.metrics.rows:
                raise DataError(f"{self.reader.name}: no usable row: every one was skipped as bad")
            if stopped is None and not self.learner.warm:
                stopped = (
                    f"{self.reader.name}: the stream ended after {self.metrics.rows:,} rows, within the warm-up of "
                    f"{self.learner.warmup:,}, so no expert was fitted; start again with a shorter one, such as "
                    f"--warmup {max(1, self.metrics.rows // 5)}"
                )
            metrics = self._result(clock, first_row, stopped)
            if directory is not None:
                self._save(directory)
                directory.finish(metrics)
        return Outcome(metrics, stopped, interrupted)

    def _stream(self, directory: RunDirectory | None, clock: _Clock) -> None:
        """Learn all rows that are to come; whatever ends this early, no row is half learnt."""
        self._check_targets()
        saved = perf_counter()
        total = self.options.max_rows or self.reader.total_rows or self.reader.bytes_total
        with progress_bar("warm-up", total) as bar:
            self.learner.progress = lambda done, todo: self._fitting(bar, done, todo)
            for chunk in self._chunks(clock):
                self._learn(chunk, directory, clock)
                bar.at(self._progress(), "stream" if self.learner.warm else "warm-up")
                self._check_targets()
                self.interrupt.check()
                if directory is not None and perf_counter() - saved > CHECKPOINT_SECONDS:
                    self._save(directory)
                    saved = perf_counter()
        self.skipped_rows = self.earlier_skipped + self.reader.skipped_rows  # those after the last good row too

    def _chunks(self, clock: _Clock) -> Iterator[Chunk]:
        """Chunks that are learnt in one go, cut at the same rows wherever an earlier run may have stopped."""
        while True:
            began = perf_counter()
            self.reader.chunk = min(
                self.options.chunk - self.metrics.rows % self.options.chunk, self.learner.longest_stretch
            )
            with self.interrupt.waiting():
                chunk = next(self.reader, None)
            clock.read += perf_counter() - began
            if chunk is None:
                return
            yield chunk

    def _learn(self, chunk: Chunk, directory: RunDirectory | None, clock: _Clock) -> None:
        began = perf_counter()
        part = next(prequential(self.learner, [(chunk.X, chunk.y, chunk.times)], self.metrics))
        if directory is not None:
            directory.add(chunk.rows, chunk.times, part, [expert.name for expert in self.learner.experts])
        self.next_row = int(chunk.rows[-1]) + 1
        self.skipped_rows = self.next_row - self.metrics.rows
        for name, count in self.reader.unseen_levels.items():
            self.unseen_levels[name] = self.earlier_unseen[name] + count
        if part.weights is None:
            clock.warmup += perf_counter() - began
        else:
            clock.stream += perf_counter() - began

    def _fitting(self, bar: Bar, done: int, todo: int) -> None:
        """Between two fits of the warm-up, which take long; the learner forgets a stretch that ends in an error."""
        self.interrupt.check()
        bar.at(self._progress(), f"warm-up: fitting experts, {done} of {todo}")

    def _check_targets(self) -> None:
        """After the warm-up a target must have moved, or its scale is unknown."""
        if self.learner.warm:
            for name, value in zip(self.options.targets, self.learner.constant_targets, strict=True):
                if value is not None:
                    raise DataError(
                        f"{self.reader.name}: target column '{name}' has the single value {value:g} in all "
                        f"{self.learner.warmup:,} rows of the warm-up, so its scale is unknown; check the "
                        f"column, or start again with a longer --warmup"
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
            "schema": self.reader.schema.to_json(),
            "next_row": self.next_row,
            "last_time": self.learner.last_time,
            "unseen_levels": self.unseen_levels,
            "config": _config(self.options),
        }
        checkpoint.save(directory.checkpoint, tree, {"kind": "run", "rows": self.metrics.rows})

    def _result(self, clock: _Clock, first_row: int, stopped: str | None) -> dict[str, Any]:
        seconds = clock.result()
        learnt = self.metrics.rows - max(first_row, self.learner.warmup)
        scores = results(self.metrics, self.learner)
        return {
            "model": self.options.spec.model,
            "data": Path(self.options.data).name if self.options.data != "-" else "standard input",
            "targets": self.options.targets,
            "target": self.options.targets[0],
            "features": self.reader.schema.feature_names,
            **scores,
            "seconds": seconds,
            "rows_per_second": learnt / seconds["stream"] if learnt > 0 and seconds["stream"] > 0 else None,
            "skipped_rows": self.skipped_rows,
            "outside_rows": self.learner.outside_rows,
            "interrupted": stopped is not None,
            "stopped": stopped,
            "experts": expert_table(self.learner),
            "warnings": self._warnings(),
            "command": self.options.command,
        }

    def _warnings(self) -> list[str]:
        schema, said = self.reader.schema, []
        said += [f"column '{name}' was left out: {reason}" for name, reason in schema.dropped.items()]
        if schema.constant:
            names = ", ".join(f"'{name}'" for name in schema.constant)
            said.append(f"one single value in the first rows, so nothing to learn from at first: {names}")
        said += [
            f"column '{name}': {count:,} rows had a level that the first rows had not; they count as no level"
            for name, count in self.unseen_levels.items()
            if count
        ]
        if self.skipped_rows:
            said.append(f"{self.skipped_rows:,} bad rows were skipped")
        if self.learner.outside_rows:
            said.append(
                f"{self.learner.outside_rows:,} rows lay outside the range that some basis was built for in "
                f"the warm-up; there its features stay as at the edge"
            )
        return said


def _open(options: RunOptions, stored: dict[str, Any] | None = None) -> RowReader:
    return open_rows(
        options.data,
        target=options.targets,
        features=options.features,
        time=options.time,
        infer_rows=options.warmup or DEFAULT_WARMUP,
        on_bad_row=options.on_bad_row,
        chunk=options.chunk,
        max_rows=options.max_rows,
        skip_rows=0 if stored is None else stored["next_row"],
        last_time=None if stored is None else stored["last_time"],
        schema=None if stored is None else Schema.from_json(stored["schema"]),
    )


def _new_learner(options: RunOptions, schema: Schema) -> StreamLearner:
    assert options.warmup is not None
    try:
        return StreamLearner(
            options.spec,
            num_inputs=len(schema.feature_names),
            num_outputs=len(options.targets),
            warmup=options.warmup,
            seed=options.seed,
            timed=options.time is not None,
        )
    except ValueError as error:  # a basis that does not suit so many inputs
        raise RunError(str(error)) from error


def _default_warmup(options: RunOptions) -> int:
    """1,000 rows, or a fifth of a file that is shorter than 5,000 (not known for standard input)."""
    if options.data == "-":
        return DEFAULT_WARMUP
    peek = replace(options, max_rows=min(options.max_rows or SHORT_FILE, SHORT_FILE), on_bad_row="skip")
    with _open(peek) as reader:
        rows = sum(len(chunk.rows) for chunk in reader)
    return min(DEFAULT_WARMUP, max(rows // 5, min(SHORT_WARMUP, rows), 1))


def _config(options: RunOptions) -> dict[str, Any]:
    """What must not change when a run is resumed."""
    return {
        **asdict(options.spec),
        "target": list(options.targets),
        "features": options.features,
        "time": options.time,
        "warmup": options.warmup,
        "seed": options.seed,
        "on_bad_row": options.on_bad_row,
    }


def _load(options: RunOptions, directory: RunDirectory | None) -> dict[str, Any]:
    if directory is None:
        raise RunError("--resume needs --out DIR, the directory of the run to go on with")
    if not directory.checkpoint.exists():
        raise RunError(f"--resume: {options.out} holds no checkpoint to go on from; start without --resume")
    tree, meta = checkpoint.load(directory.checkpoint)
    if meta.get("kind") != "run":
        raise checkpoint.CheckpointError(
            f"{directory.checkpoint}: expected the checkpoint of a run, got one of {meta.get('kind')!r}"
        )
    given = _config(options)
    for name, before in tree["config"].items():
        now = given[name]
        if before != now and not (name == "warmup" and now is None):
            raise RunError(
                f"--resume: the run in {options.out} has {name} {before!r}, but now {now!r} was given; "
                f"give the same options as before"
            )
    return tree
