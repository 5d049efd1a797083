"""The output directory of a run: parts while it runs, whole tables at its end; nothing written is ever lost."""

import json
import os
import shutil
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from streamgp.evaluation.prequential import ScoredRows

COLUMNS = ("y", "mean", "std", "q05", "q50", "q95", "pit", "crps")
TABLES = ("predictions", "weights")


def write_aside(path: Path, data: bytes) -> None:
    """Write a file so that its name holds either the old content or all of the new."""
    aside = path.with_name(f".{path.name}.tmp")
    try:
        with open(aside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON, aside and renamed."""
    write_aside(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


class RunDirectory:
    """Collects scored rows and writes them as numbered parts, which `finish` joins.

    Parts are named by the first stream position that they hold, so that a resumed run can drop those that
    were written after its checkpoint.
    """

    def __init__(self, directory: Path, targets: Sequence[str]) -> None:
        self.directory = directory
        self.targets = targets
        self.position = 0
        self.checkpoint = directory / "checkpoint"
        self._parts = directory / "parts"
        self._pending: dict[str, list[pl.DataFrame]] = {table: [] for table in TABLES}
        self._began = 0

    @property
    def holds_a_run(self) -> bool:
        """Whether the directory has results of an earlier run."""
        return any((self.directory / name).exists() for name in ("checkpoint", "parts", "predictions.parquet"))

    def start(self) -> None:
        """An empty directory for a new run; results of an earlier one are removed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in ("checkpoint", "parts"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        for name in ("predictions.parquet", "weights.parquet", "metrics.json", "report.html"):
            (self.directory / name).unlink(missing_ok=True)
        self._parts.mkdir()

    def resume(self, position: int) -> None:
        """Go on after `position` rows: keep exactly the rows before it."""
        if not self._parts.exists():
            # The run had been finished (or stopped): its whole tables become the first parts again.
            self._parts.mkdir()
            for table in TABLES:
                whole = self.directory / f"{table}.parquet"
                if whole.exists():
                    os.replace(whole, self._part(table, 0))
        for table in TABLES:
            for part in self._parts.glob(f"{table}-*.parquet"):
                if int(part.stem.rsplit("-", 1)[1]) >= position:
                    part.unlink()
        self.position = self._began = position

    def add(self, rows: np.ndarray, times: np.ndarray | None, part: ScoredRows, experts: Sequence[str]) -> None:
        """Take in a scored stretch; it reaches the disk with the next `flush`."""
        columns: dict[str, np.ndarray] = {"row": rows}
        if times is not None:
            columns["time"] = times
        for e, target in enumerate(self.targets):
            suffix = "" if e == 0 else f"_{target}"
            columns |= {name + suffix: getattr(part.scores, name)[:, e] for name in COLUMNS}
            columns["persistence_mean" + suffix] = part.persistence[:, e]
            columns["running_mean" + suffix] = part.running_mean[:, e]
        columns["log_density"] = part.scores.log_density
        self._pending["predictions"].append(pl.DataFrame(columns))
        if part.weights is not None:
            weights = pl.from_numpy(part.weights, schema=list(experts))
            self._pending["weights"].append(weights.insert_column(0, pl.Series("row", rows)))
        self.position += len(rows)

    def flush(self) -> None:
        """Write what has been taken in since the last time as one part of each table."""
        for table, frames in self._pending.items():
            if frames:
                data = BytesIO()
                pl.concat(frames).write_parquet(data)
                write_aside(self._part(table, self._began), data.getvalue())
                frames.clear()
        self._began = self.position

    def finish(self, metrics: dict[str, Any]) -> None:
        """Join the parts into whole tables, then write the metrics; the parts go last."""
        for table in TABLES:
            whole = self.directory / f"{table}.parquet"
            parts = sorted(self._parts.glob(f"{table}-*.parquet"))
            aside = self.directory / f".{table}.tmp"
            if parts:
                pl.scan_parquet(parts, glob=False).sink_parquet(aside)
            else:
                pl.DataFrame({"row": pl.Series([], dtype=pl.Int64)}).write_parquet(aside)
            with open(aside, "rb") as file:
                os.fsync(file.fileno())
            os.replace(aside, whole)
        write_json(self.directory / "metrics.json", metrics)
        gone = self.directory / ".parts.old"
        shutil.rmtree(gone, ignore_errors=True)
        os.replace(self._parts, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _part(self, table: str, position: int) -> Path:
        return self._parts / f"{table}-{position:012d}.parquet"
