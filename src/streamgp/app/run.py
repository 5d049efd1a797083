"""`streamgp run`: from a file to predictions, metrics, checkpoint and report."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

from streamgp import checkpoint
from streamgp.app.outputs import RunDirectory
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


class _Interrupt:
    """Turns Ctrl-C and SIGTERM into a flag, so that a row is either learnt or not; a second one stops at once."""

    def __init__(self) -> None:
        self.signalled = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.signalled:
            raise KeyboardInterrupt
        self.signalled = True
        print("\nstopping after the rows in hand; once more to stop at once", file=sys.stderr)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Listen for the body of a ``with`` statement."""
        before = {number: signal.signal(number, self) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run(options: RunOptions) -> Outcome:
    """Run a stream from its file and write everything that was asked for.

    Raises
    ------
    DataError, CheckpointError, ValueError, OSError
        If the run cannot start. Once rows have been predicted, an error in the data ends the run with its
        results kept, and the returned `Outcome` says why.
    """
    directory = None if options.out is None else RunDirectory(options.out, options.targets)
    clock = _Clock()
    stored: dict[str, Any] | None = None
    if options.resume:
        stored = _load(options, directory)
    elif directory is not None and directory.holds_a_run and not options.overwrite:
        raise ValueError(
            f"{options.out} already holds a run: add --resume to go on with it, --overwrite to replace it, "
            f"or name another --out"
        )
    if options.warmup is None and stored is None:
        options.warmup = _default_warmup(options)
    schema = None if stored is None else Schema.from_json(stored["schema"])
    skip = 0 if stored is None else stored["next_row"]
    with _open(options, schema, skip) as reader:
        if stored is None:
            job = _Job.fresh(options, reader)
            if directory is not None:
                directory.start()
        else:
            job = _Job.restored(options, reader, stored)
            assert directory is not None
            directory.resume(job.metrics.rows)
        return job.run(directory, clock)


class _Job:
    """A stream under way: the learner, its scores, and where it stands in the file."""

    def __init__(
        self, options: RunOptions, reader: RowReader, learner: StreamLearner, metrics: StreamMetrics, next_row: int
    ) -> None:
        self.options = options
        self.reader = reader
        self.learner = learner
        self.metrics = metrics
        self.next_row = next_row
        self.earlier_skipped = 0
        self.interrupt = _Interrupt()

    @classmethod
    def fresh(cls, options: RunOptions, reader: RowReader) -> "_Job":
        assert options.warmup is not None
        learner = StreamLearner(
            options.spec,
            num_inputs=len(reader.schema.feature_names),
            num_outputs=len(options.targets),
            warmup=options.warmup,
            seed=options.seed,
            timed=options.time is not None,
        )
        return cls(options, reader, learner, StreamMetrics(options.targets, options.warmup), 0)

    @classmethod
    def restored(cls, options: RunOptions, reader: RowReader, stored: dict[str, Any]) -> "_Job":
        learner = StreamLearner.from_tree(stored["learner"])
        job = cls(options, reader, learner, StreamMetrics.from_tree(stored["metrics"]), stored["next_row"])
        job.earlier_skipped = stored["skipped_rows"]
        options.warmup = learner.warmup
        return job

    def run(self, directory: RunDirectory | None, clock: _Clock) -> Outcome:
        stopped = None
        saved = perf_counter()
        first_row = self.metrics.rows
        total = self.options.max_rows or self.reader.total_rows or self.reader.bytes_total
        with self.interrupt.watch(), progress_bar("warm-up", total) as bar:
            self.learner.progress = lambda done, todo: bar.at(
                self._progress(), f"warm-up: fitting experts, {done} of {todo}"
            )
            chunks = self._timed_chunks(clock)
            try:
                for chunk in chunks:
                    self._learn(chunk, directory, clock, bar)
                    if self.interrupt.signalled:
                        stopped = f"interrupted after {self.metrics.rows:,} rows; go on with --resume"
                        break
                    if directory is not None and perf_counter() - saved > CHECKPOINT_SECONDS:
                        self._save(directory)
                        saved = perf_counter()
            except DataError as error:
                if not self.metrics.rows:
                    raise
                stopped = str(error)
        if not self.metrics.rows:
            raise DataError(f"{self.options.data}: no usable row: every one was skipped as bad")
        if stopped is None and not self.learner.warm:
            stopped = (
                f"{self.options.data}: the stream ended after {self.metrics.rows:,} rows, within the warm-up of "
                f"{self.learner.warmup:,}, so no expert was fitted; use --warmup {max(1, self.metrics.rows // 5)}"
            )
        metrics = self._result(clock, first_row, stopped)
        if directory is not None:
            self._save(directory)
            directory.finish(metrics)
        return Outcome(metrics, stopped)

    def _learn(self, chunk: Chunk, directory: RunDirectory | None, clock: _Clock, bar: Bar) -> None:
        began = perf_counter()
        for part in prequential(self.learner, [(chunk.X, chunk.y, chunk.times)], self.metrics):
            rows = slice(part.start, part.start + len(part.scores.y))
            if directory is not None:
                names = [expert.name for expert in self.learner.experts]
                times = None if chunk.times is None else chunk.times[rows]
                directory.add(chunk.rows[rows], times, part, names)
            self.next_row = int(chunk.rows[rows][-1]) + 1
            now = perf_counter()
            if part.weights is None:
                clock.warmup += now - began
                self._check_targets()
            else:
                clock.stream += now - began
            began = now
            bar.at(self._progress(), "stream" if self.learner.warm else "warm-up")

    def _check_targets(self) -> None:
        """After the warm-up a target must have moved, or its scale is unknown."""
        if self.learner.warm:
            for name, value in zip(self.options.targets, self.learner.constant_targets, strict=True):
                if value is not None:
                    raise DataError(
                        f"{self.options.data}: target column '{name}' has the single value {value:g} in all "
                        f"{self.learner.warmup:,} rows of the warm-up, so its scale is unknown; check the "
                        f"column, or use a longer --warmup"
                    )

    def _progress(self) -> float:
        """How far the stream has come, in the units of the bar's total."""
        if self.options.max_rows or self.reader.total_rows is not None:
            return self.next_row
        return self.reader.bytes_read or self.metrics.rows

    def _timed_chunks(self, clock: _Clock) -> Iterator[Chunk]:
        chunks = iter(self.reader)
        while True:
            began = perf_counter()
            chunk = next(chunks, None)
            clock.read += perf_counter() - began
            if chunk is None:
                return
            yield chunk

    @property
    def skipped_rows(self) -> int:
        """Bad rows passed over, before and after a resume."""
        return self.earlier_skipped + self.reader.skipped_rows

    def _save(self, directory: RunDirectory) -> None:
        directory.flush()
        tree = {
            "learner": self.learner.to_tree(),
            "metrics": self.metrics.to_tree(),
            "schema": self.reader.schema.to_json(),
            "next_row": self.next_row,
            "skipped_rows": self.skipped_rows,
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
            for name, count in self.reader.unseen_levels.items()
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


def _open(options: RunOptions, schema: Schema | None = None, skip_rows: int = 0) -> RowReader:
    return open_rows(
        sys.stdin.buffer if options.data == "-" else options.data,
        target=options.targets,
        features=options.features,
        time=options.time,
        infer_rows=options.warmup or DEFAULT_WARMUP,
        on_bad_row=options.on_bad_row,
        chunk=options.chunk,
        max_rows=options.max_rows,
        skip_rows=skip_rows,
        schema=schema,
    )


def _default_warmup(options: RunOptions) -> int:
    """1,000 rows, or a fifth of a file that is shorter than 5,000 (not known for standard input)."""
    if options.data == "-":
        return DEFAULT_WARMUP
    peek = RunOptions(**{**vars(options), "max_rows": min(options.max_rows or SHORT_FILE, SHORT_FILE)})
    peek.on_bad_row = "skip"
    with _open(peek) as reader:
        rows = sum(len(chunk.rows) for chunk in reader)
    return min(DEFAULT_WARMUP, max(rows // 5, min(SHORT_WARMUP, rows), 1))


def _config(options: RunOptions) -> dict[str, Any]:
    """What must not change when a run is resumed."""
    return {
        "spec": asdict(options.spec),
        "target": list(options.targets),
        "features": options.features,
        "time": options.time,
        "warmup": options.warmup,
        "seed": options.seed,
        "on_bad_row": options.on_bad_row,
    }


def _load(options: RunOptions, directory: RunDirectory | None) -> dict[str, Any]:
    if directory is None:
        raise ValueError("--resume needs --out DIR, the directory of the run to go on with")
    tree, meta = checkpoint.load(directory.checkpoint)
    if meta.get("kind") != "run":
        raise checkpoint.CheckpointError(
            f"{directory.checkpoint}: expected the checkpoint of a run, got one of {meta.get('kind')!r}"
        )
    if options.warmup is None:
        options.warmup = tree["config"]["warmup"]
    for name, now in _config(options).items():
        before = tree["config"][name]
        if before != now:
            raise ValueError(
                f"--resume: the run in {options.out} has {name} {before!r}, but now {now!r} was given; "
                f"give the same options as before"
            )
    return tree
