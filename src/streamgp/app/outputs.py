"""The output directory of a run: parts while it runs, whole tables at its end; nothing written is ever lost."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from streamgp.evaluation.columns import columns_of
from streamgp.evaluation.scored_rows import ScoredRows
from streamgp.evaluation.steps_ahead import NAMES
from streamgp.numerics import checkpoint
from streamgp.reports.tables import RULE, as_kept, as_series, keep_weights
from streamgp.table.files import put_in_place, write_aside
from streamgp.table.labels import ClassNames

TABLES = ("predictions", "weights")
# More are never held in memory. To write a part takes four times what it holds: weights of hundreds of experts.
PART_ROWS, PART_BYTES = 1 << 16, 4 << 20


class RunError(Exception):
    """A run that cannot start or go on; the message has the reason, and what to do."""


def encode_json(content: Any) -> str:
    """Return indented JSON with a line break at its end; a number that is not finite becomes null."""
    plain = json.loads(json.dumps(content), parse_constant=lambda _: None)
    return json.dumps(plain, indent=2) + "\n"


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON, aside and renamed."""
    write_aside(path, encode_json(content).encode())


class RunDirectory:
    """Collects scored rows and writes them as numbered parts, which `finish` joins.

    ``predictions.parquet`` gets every row. ``weights.parquet`` gets, rounded by `as_kept`, the weights that mixed the
    predictions of the scored rows that `keep_weights` names; its column ``row`` identifies them.

    Parts are named by the first stream position that they hold, so that a resumed run can drop those that
    were written after its checkpoint. A write that fails raises `RunError` and leaves what was there.
    """

    def __init__(self, directory: Path, targets: Sequence[str]) -> None:
        if directory.exists() and not directory.is_dir():
            raise RunError(f"--out: expected a directory, got the file {directory}; name another one")
        self.directory = directory
        self.targets = targets
        self.position = 0
        self.checkpoint = directory / "checkpoint"
        self._parts = directory / "parts"
        # Arrays of one or of many columns: a frame of hundreds of columns for a few rows would take far more memory.
        self._pending: dict[str, list[tuple[np.ndarray, ...]]] = {table: [] for table in TABLES}
        self._columns: dict[str, list[str]] = {}
        self._began = 0
        self._held = 0

    @property
    def has_checkpoint(self) -> bool:
        """Return whether there is a checkpoint to go on from; a run may have ended before its first was complete."""
        return (self.checkpoint / checkpoint.MANIFEST).exists()

    @property
    def holds_results(self) -> bool:
        """Return whether a run has finished here, and none has begun since."""
        return (self.directory / "predictions.parquet").exists() and not self._parts.exists()

    @property
    def holds_a_run(self) -> bool:
        """Return whether the directory has results of an earlier run."""
        files = (self.directory / "predictions.parquet", self.checkpoint)
        return any(path.exists() for path in files) or any(self._parts.glob("*.parquet"))

    def check_free(self, resume: bool, overwrite: bool) -> None:
        """Raise RunError if the run would remove results of another and may not: called where no checkpoint is."""
        if overwrite:
            return
        if resume and self.holds_results:
            raise RunError(
                f"--resume: {self.directory} holds results, but no checkpoint to go on from: put it back, add "
                f"--overwrite to start again, or name another --out"
            )
        if self.holds_a_run and not resume:
            raise RunError(
                f"{self.directory} already holds a run: add --resume to go on with it, --overwrite to replace it, "
                f"or name another --out"
            )

    def option_differs(self, name: str, before: Any, now: Any) -> "RunError":
        """Return the error of a run that is resumed with another value of an option."""
        return RunError(
            f"--resume: the run in {self.directory} has {name} {before!r}, but now {now!r} was given; "
            f"give the same options as before"
        )

    def start(self) -> None:
        """Empty the directory for a new run; results of an earlier one are removed."""
        with self._writing():
            self._parts.mkdir(parents=True, exist_ok=True)
            # The checkpoint is renamed before it is deleted: half of one would look damaged.
            gone = self.directory / ".checkpoint.old"
            shutil.rmtree(gone, ignore_errors=True)
            if self.checkpoint.exists():
                os.replace(self.checkpoint, gone)
            for part in self._parts.iterdir():
                part.unlink()
            for name in (
                "predictions.parquet",
                "forecasts.parquet",
                "weights.parquet",
                "metrics.json",
                "report.html",
            ):
                (self.directory / name).unlink(missing_ok=True)
            shutil.rmtree(gone, ignore_errors=True)

    def resume(self, position: int) -> None:
        """Go on after `position` rows: keep exactly the rows before it."""
        with self._writing():
            if not self._parts.exists():
                self._reopen()
            for table in TABLES:
                for part in self._parts.glob(f"{table}-*.parquet"):
                    if int(part.stem.rsplit("-", 1)[1]) >= position:
                        part.unlink()
            parts = sorted(self._parts.glob("predictions-*.parquet"))
            rows = sum(pl.scan_parquet(part, glob=False).select(pl.len()).collect().item() for part in parts)
        if rows != position:
            raise RunError(
                f"--resume: the checkpoint in {self.directory} was taken after {position:,} rows, but there are "
                f"predictions of {rows:,}; put the missing files back, or start again with --overwrite"
            )
        self.position = self._began = position

    def _reopen(self) -> None:
        """Take the whole tables of a finished run as the first parts of the next; they stay until that ends."""
        aside = self.directory / ".parts.new"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        for table in TABLES:
            whole, part = self.directory / f"{table}.parquet", aside / self._part(table, 0).name
            # Without a row there are no columns yet, as the weights' are not in the warm-up.
            if whole.exists() and pl.scan_parquet(whole, glob=False).select(pl.len()).collect().item():
                try:
                    os.link(whole, part)
                except OSError:  # a file system without links
                    shutil.copyfile(whole, part)
        os.replace(aside, self._parts)

    def add(
        self,
        rows: np.ndarray,
        times: np.ndarray | None,
        part: ScoredRows,
        scored: int,
        experts: Sequence[str],
        rules: Sequence[str] = (),
        labels: ClassNames | None = None,
    ) -> None:
        """Take in rows with their scores, after `scored` others; the next `flush` at the latest writes them.

        A label that is new makes a further column, which is empty in the rows before.
        """
        columns: dict[str, np.ndarray] = {"row": rows}
        if times is not None:
            columns["time"] = times
        columns |= columns_of(part, self.targets, labels)
        self._take(columns)
        kept = keep_weights(scored + np.arange(len(rows)))
        if part.weights is not None and kept.any():
            weights = [as_kept(w[kept]) for w in (part.weights, part.rules) if w is not None]
            self._columns["weights"] = ["row", *experts, *(RULE + name for name in rules if part.rules is not None)]
            self._hold("weights", (rows[kept], *weights))
        self._count(len(rows))

    def take(self, columns: dict[str, np.ndarray]) -> None:
        """Take in the predictions of rows, column by column, and no weights."""
        self._take(columns)
        self._count(len(columns["row"]))

    def _take(self, columns: dict[str, np.ndarray]) -> None:
        if self._columns.get("predictions") != list(columns):
            self.flush()
        self._columns["predictions"] = list(columns)
        self._hold("predictions", tuple(columns.values()))

    def _hold(self, table: str, arrays: tuple[np.ndarray, ...]) -> None:
        self._pending[table].append(arrays)
        self._held += sum(array.nbytes for array in arrays)

    def _count(self, rows: int) -> None:
        self.position += rows
        if self.position - self._began >= PART_ROWS or self._held >= PART_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what has been taken in since the last time as one part of each table."""
        with self._writing():
            for table, pending in self._pending.items():
                if pending:
                    arrays = [np.concatenate(each) for each in zip(*pending, strict=True)]
                    columns = [column for array in arrays for column in np.atleast_2d(array.T)]
                    data = BytesIO()
                    named = zip(self._columns[table], columns, strict=True)
                    pl.DataFrame([as_series(name, column) for name, column in named]).write_parquet(data)
                    write_aside(self._part(table, self._began), data.getvalue())
                    pending.clear()
        self._began, self._held = self.position, 0

    def finish(self, metrics: dict[str, Any]) -> None:
        """Join the parts into whole tables, then write the metrics; the parts go last."""
        with self._writing():
            for table in TABLES:
                self._put(table, self.kept(table))
            self._write_forecasts()
            write_json(self.directory / "metrics.json", metrics)
            # The folder is renamed before it is deleted: with a part of its files it would look whole.
            gone = self.directory / ".parts.old"
            shutil.rmtree(gone, ignore_errors=True)
            os.replace(self._parts, gone)
            shutil.rmtree(gone, ignore_errors=True)

    def kept(self, table: str) -> pl.LazyFrame:
        """Return all rows of a table, of which parts were written and not yet joined."""
        parts = [pl.scan_parquet(part, glob=False) for part in sorted(self._parts.glob(f"{table}-*.parquet"))]
        empty = pl.LazyFrame({"row": pl.Series([], dtype=pl.Int64)})
        return pl.concat(parts, how="diagonal") if parts else empty

    def _put(self, table: str, frame: pl.LazyFrame) -> None:
        """Write a whole table aside, and rename it."""
        aside = self.directory / f".{table}.tmp"
        try:
            frame.sink_parquet(aside)
            put_in_place(aside, self.directory / f"{table}.parquet")
        except BaseException:
            aside.unlink(missing_ok=True)
            raise

    def _write_forecasts(self) -> None:
        """Write ``forecasts.parquet``: an entry for each step of each forecast of several rows, and each target."""
        predictions = pl.scan_parquet(self.directory / "predictions.parquet", glob=False)
        found = forecasts_of(predictions, self.targets)
        if found is not None:
            self._put("forecasts", found)

    def _part(self, table: str, position: int) -> Path:
        return self._parts / f"{table}-{position:012d}.parquet"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            with suppress(OSError):
                self._parts.rmdir()  # only if nothing is in it
            then = "go on with --resume" if self.has_checkpoint else "start again"
            raise RunError(
                f"{self.directory}: could not write the results ({reason}); what was written before "
                f"stands: fix this and {then}"
            ) from error


def forecasts_of(predictions: pl.LazyFrame, targets: Sequence[str]) -> pl.LazyFrame | None:
    """Return the forecasts of several rows, one after the other; None where the columns have none.

    Returns
    -------
    polars.LazyFrame
        Of a fleet ``key``; ``origin``, the last row before the forecast; ``step``, how many rows ahead; ``row`` and,
        where there is one, ``time`` of what was forecast; of several targets ``target``; ``y``; then mean, std and
        quantiles.
    """
    known = predictions.collect_schema().names()
    if "step" not in known:
        return None
    of_key = [name for name in ("key",) if name in known]
    before = pl.col("row").shift(1)
    origin = pl.when(pl.col("step") == 1).then(before).forward_fill().over(of_key or pl.lit(0)).alias("origin")
    place = [*of_key, "origin", "step", "row", *(["time"] if "time" in known else [])]
    rows = predictions.with_columns(origin).filter(pl.col("step") > 0)
    parts = []
    for e, target in enumerate(targets):
        suffix = "" if e == 0 else f"_{target}"
        named = [pl.lit(target).alias("target")] if len(targets) > 1 else []
        ahead = [pl.col(f"ahead_{name}{suffix}").alias(name) for name in NAMES]
        parts.append(rows.select(*place, *named, pl.col("y" + suffix).alias("y"), *ahead))
    return pl.concat(parts)
