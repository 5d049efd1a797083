"""`streamgp embed`: the rows of a file in a few coordinates, learnt in their order."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
from sklearn.decomposition import PCA

from streamgp.app.interrupt import Interrupt
from streamgp.app.outputs import RunError, write_json
from streamgp.app.runner import Clock, Outcome, learning, read_next
from streamgp.evaluation.neighbours import neighbour_error
from streamgp.latent import EmbeddedRows, LatentLearner, LatentSpec, StreamingGPLVM
from streamgp.latent.estimator import warmup_of
from streamgp.latent.page import write_page
from streamgp.numerics.formats import plural
from streamgp.progress import Bar, progress_bar
from streamgp.table import DataError
from streamgp.table.files import write_aside
from streamgp.table.numbers import to_numbers
from streamgp.table.readers import Missing
from streamgp.table.reading import AS_FOUND, Reading
from streamgp.table.tables import Table, TableBatch

FILES = ("embedding.parquet", "metrics.json", "report.html", "checkpoint")
# The length of the warm-up is chosen after so many rows are read.
SHORT_FILE = 5_000
# Numbers with more different values are no labels of groups.
MAX_CLASSES = 30
# A warning is given if one column has this share of the variance of all columns.
DOMINANT = 0.9
# The labels of neighbours are compared on so many last rows.
SCORED = 5_000


@dataclass(frozen=True)
class EmbedSettings:
    """The settings of an embedding; without a `warmup` it is chosen by the length of the file."""

    data: str
    out: Path
    spec: LatentSpec
    warmup: int | None = None
    features: list[str] | None = None
    label: str | None = None
    max_rows: int | None = None
    missing: Missing = "impute"
    reading: Reading = AS_FOUND
    overwrite: bool = False
    command: str = ""


def run_embed(settings: EmbedSettings) -> Outcome:
    """Embed a file and write everything.

    Raises
    ------
    RunError, DataError, OSError
        If it cannot start, or its results cannot be written. Once the first thousand rows are read, an error in the
        data, or Ctrl-C, ends it with what there is.
    """
    out = settings.out
    if out.exists() and not out.is_dir():
        raise RunError(f"--out: expected a directory, got the file {out}; name another one")
    if any((out / name).exists() for name in FILES) and not settings.overwrite:
        raise RunError(f"{out} already holds an embedding: add --overwrite, or name another --out")
    if settings.label is not None and settings.label in (settings.features or ()):
        raise RunError(f"--label: expected a column that is not among --features, got {settings.label!r}")
    with Table(
        settings.data,
        features=settings.features,
        label=settings.label,
        missing=settings.missing,
        reading=settings.reading,
        max_rows=settings.max_rows,
    ) as table:
        run = EmbedRun(settings, table)
        outcome = run.run()
    return replace(outcome, report=_write(settings, run, outcome.metrics))


class EmbedRun:
    """A run over a file that is being embedded.

    Of every row it keeps the latent coordinates under all experts, because the one that leads is known only at the
    end, and their standard deviations, in single precision: 112 bytes for two coordinates.
    """

    def __init__(self, settings: EmbedSettings, table: Table) -> None:
        self.settings, self.table = settings, table
        self.learner: LatentLearner
        self.clock = Clock()
        self.interrupt = Interrupt()
        self.rows: list[np.ndarray] = []
        # The number of missing cells of each row.
        self.missing: list[np.ndarray] = []
        self.labels: list[str] = []
        # The coordinates, their standard deviations and the log densities.
        self.embedded: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def run(self) -> Outcome:
        """Embed the rows, to the end of the file, an error or an interruption."""
        with self.interrupt.watch(), self._bar() as bar:
            with learning(lambda: len(self.rows), self.table.name) as ending:
                for batch in self._read_batches():
                    self._learn(batch, bar)
            if not self.learner.is_warmed_up:
                began = perf_counter()
                self._keep(self.learner.finish_warmup())
                self.clock.learnt(perf_counter() - began, fitted=False)
            self.learner.flush()
        # After an interruption there are fewer rows than were read.
        rows = len(self.coordinates)
        self.rows = [np.concatenate(self.rows)[:rows]]
        self.missing = [np.concatenate(self.missing)[:rows]]
        del self.labels[rows:]
        stopped = f"interrupted after {plural(rows, 'row')}" if ending.interrupted else ending.stopped
        return Outcome(self._metrics(stopped), stopped, ending.interrupted)

    def _bar(self) -> AbstractContextManager[Bar]:
        extent = self.table.extent
        return progress_bar("warm-up", extent.total, counts_rows=extent.counts_rows)

    @property
    def coordinates(self) -> np.ndarray:
        """Return those of all rows, as they were learnt, under the expert that leads now (n, d)."""
        return np.concatenate([coordinates[:, self.learner.leading] for coordinates, _, _ in self.embedded])

    @property
    def std(self) -> np.ndarray:
        """Return the standard deviations of the coordinates; NaN in the warm-up."""
        return np.concatenate([std[:, self.learner.leading] for _, std, _ in self.embedded])

    @property
    def log_density(self) -> np.ndarray:
        """Return that of every row before it was learnt, in the units of the data; NaN in the warm-up."""
        return np.concatenate([one for _, _, one in self.embedded])

    def _read_batches(self) -> Iterator[TableBatch]:
        """Yield the batches of the file; the learner is made with the first of them."""
        batches = self._read()
        first: list[TableBatch] = []
        error: DataError | None = None
        # The warm-up of a short file is shorter: its first rows show how long the file is.
        wanted = 1 if self.settings.warmup is not None or self.settings.data == "-" else SHORT_FILE
        try:
            while sum(len(batch.rows) for batch in first) < wanted and (batch := next(batches, None)) is not None:
                first.append(batch)
        except DataError as found:
            error = found
        count = sum(len(batch.rows) for batch in first)
        warmup = self.settings.warmup or warmup_of(SHORT_FILE if self.settings.data == "-" else count)
        try:
            neighbours = max(self.settings.spec.max_neighbours, 2 * warmup)
            spec = replace(self.settings.spec, warmup=warmup, max_neighbours=neighbours)
            self.learner = LatentLearner(spec, len(self.table.columns))
        except (ModuleNotFoundError, ValueError) as missing:
            raise RunError(str(missing)) from missing
        yield from first
        if error is not None:
            raise error
        yield from batches

    def _read(self) -> Iterator[TableBatch]:
        batches = iter(self.table)
        while (batch := read_next(batches, self.interrupt, self.clock)) is not None:
            yield batch

    def _learn(self, batch: TableBatch, bar: Bar) -> None:
        self.rows.append(batch.rows)
        self.missing.append(np.isnan(batch.X).sum(axis=1))
        self.labels += batch.labels or []
        began, warm = perf_counter(), self.learner.is_warmed_up
        for embedded in self.learner.learn(batch.X):
            self._keep(embedded)
            now = perf_counter()
            self.clock.learnt(now - began, warm)
            began, warm = now, True
            self.interrupt.check()
            rows = sum(map(len, self.rows))
            bar.at(self.table.extent.done(rows, self.table.bytes_read), "rows", rows)

    def _keep(self, rows: EmbeddedRows) -> None:
        coordinates, precision = rows.posterior.coordinates, rows.posterior.precision
        var = np.full(coordinates.shape, np.nan)
        known = np.isfinite(precision).all(axis=(2, 3))
        var[known] = np.einsum("nii->ni", np.linalg.inv(precision[known]))
        self.embedded.append((coordinates.astype(np.float32), np.sqrt(var).astype(np.float32), rows.log_density))

    def _metrics(self, stopped: str | None) -> dict[str, Any]:
        settings, learner, table = self.settings, self.learner, self.table
        seconds = self.clock.result()
        rows = len(self.coordinates)
        streamed = rows - learner.spec.warmup
        later = self.log_density[np.isfinite(self.log_density)]
        return {
            "data": "standard input" if settings.data == "-" else Path(settings.data).name,
            "rows": rows,
            "warmup": min(learner.spec.warmup, rows),
            "features": table.columns,
            "label": settings.label,
            "label_is_a_number": self._label_is_a_number,
            "components": learner.spec.n_components,
            "standardise": settings.spec.standardise,
            "missing_cells": int(np.sum(self.missing)),
            "leading": learner.leading,
            "experts": learner.experts,
            "log_density": float(later.mean()) if len(later) else None,
            "neighbour_error": self._neighbour_error(),
            "seconds": seconds,
            "rows_per_second": streamed / seconds["stream"] if streamed > 0 and seconds["stream"] else None,
            "skipped_rows": table.skipped_rows,
            "interrupted": stopped is not None,
            "stopped": stopped,
            "warnings": self._warnings(),
            "command": settings.command,
        }

    @property
    def _label_is_a_number(self) -> bool:
        """Return whether the labels are numbers of so many values that neighbours need not have the same."""
        values = {label for label in self.labels if label}
        return len(values) > MAX_CLASSES and np.isfinite(to_numbers(sorted(values))).all().item()

    def _warnings(self) -> list[str]:
        warnings = [f"column '{name}' was left out: {why}" for name, why in self.table.dropped.items()]
        share = np.square(self.learner.std) / np.square(self.learner.std).sum()
        largest = int(np.argmax(share))
        if not self.settings.spec.standardise and len(share) > 1 and share[largest] > DOMINANT:
            warnings.append(
                f"column '{self.table.columns[largest]}' has {share[largest]:.0%} of the variance of all columns in "
                f"the warm-up, so it dominates the map; --standardise gives every column the same weight"
            )
        return warnings

    def _neighbour_error(self) -> dict[str, float | int] | None:
        """Score the last rows that have a label: in the embedding, in two principal components, in all columns."""
        if self.settings.label is None or self._label_is_a_number:
            return None
        remembered = len(self.learner.neighbours)
        labels = np.asarray(self.labels)[-min(SCORED, remembered) :]
        labelled = labels != ""
        if labelled.sum() < 2:
            return None
        rows = self.learner.neighbours.rows[-len(labels) :][labelled].astype(np.float64)
        count = min(self.learner.spec.n_components, *rows.shape)
        return {
            "rows": int(labelled.sum()),
            "embedding": neighbour_error(self.coordinates[-len(labelled) :][labelled], labels[labelled]),
            "pca": neighbour_error(PCA(count, random_state=0).fit_transform(rows), labels[labelled]),
            "entries": neighbour_error(rows, labels[labelled]),
        }


def _write(settings: EmbedSettings, run: EmbedRun, metrics: dict[str, Any]) -> str:
    """Write all files; return a sentence on the report."""
    out = settings.out
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.html").unlink(missing_ok=True)
    columns: dict[str, Any] = {"row": np.concatenate(run.rows)}
    for name, values in (("z", run.coordinates), ("std", run.std)):
        columns |= {f"{name}{i + 1}": values[:, i] for i in range(values.shape[1])}
    columns["log_density"] = run.log_density
    if settings.label is not None:
        columns["label"] = run.labels
    frame = pl.DataFrame(columns).fill_nan(None)
    buffer = BytesIO()
    frame.write_parquet(buffer)
    write_aside(out / "embedding.parquet", buffer.getvalue())
    StreamingGPLVM.of(run.learner, run.table.columns).save(out / "checkpoint")
    write_json(out / "metrics.json", metrics)
    try:
        return f"report: {write_page(out, metrics, run.learner)}"
    except ImportError as error:
        return f"no report: {error}"
