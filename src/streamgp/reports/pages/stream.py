"""The tables of a run, read lazily, and summed up in bins of rows: what every page about a stream begins with."""

import math
from pathlib import Path

import numpy as np
import polars as pl

BINS = 800
RECENT = 200
CLOCK = 500  # rows whose times are read for the axis
_COLUMNS = 32  # columns of weights that are summed up together


def scan(path: Path, columns: tuple[str, ...], optional: tuple[str, ...] = (), empty: bool = False) -> pl.LazyFrame:
    """Return the named columns of a Parquet file, unread, and the position of each row."""
    must_exist(path)
    try:
        frame = pl.scan_parquet(path)
        schema = frame.collect_schema()
        rows = frame.select(pl.len()).collect().item()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(
            f"{path}: expected a Parquet file, but it cannot be read; run `streamgp run` again."
        ) from error
    missing = [name for name in columns if name not in schema]
    if missing:
        raise ValueError(
            f"{path}: expected a column {missing[0]!r}, found {schema.names()}; run `streamgp run` again."
        )
    if rows == 0 and not empty:
        raise ValueError(f"{path}: expected at least one row, found none; give the run some data first.")
    return frame.select(*columns, *(name for name in optional if name in schema)).with_row_index("position")


def must_exist(path: Path) -> None:
    """Raise FileNotFoundError if a file of a run is missing."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: expected this file of a finished run, found none; use `streamgp run` first."
        )


def bin_number(rows: int, warmup: int, bins: int) -> pl.Expr:
    """Return the number of the bin of each row: equal bins, none of which straddles the end of the warm-up."""
    before = min(warmup, math.ceil(bins * warmup / rows))
    after = min(rows - warmup, max(bins - before, 1))
    position = pl.col("position").cast(pl.Int64)
    early = position * before // max(warmup, 1)
    late = before + (position - warmup) * after // max(rows - warmup, 1)
    return pl.when(position < warmup).then(early).otherwise(late).alias("bin")


def binned(frame: pl.LazyFrame, rows: int, warmup: int, bins: int, *columns: pl.Expr) -> pl.DataFrame:
    """Return one row per bin: mean and last row of the file, how many, whether they are scored, and `columns`."""
    about = (
        pl.col("row").mean(),
        pl.col("row").max().alias("last_row"),
        pl.len().cast(pl.Int64).alias("rows"),
        (pl.col("position").min() >= warmup).alias("scored"),
    )
    return (
        frame.group_by(bin_number(rows, warmup, bins)).agg(*about, *columns).sort("bin").collect(engine="streaming")
    )


def span_of(frame: pl.LazyFrame, warmup: int) -> tuple[float, float, float]:
    """Return where the rows of the file start and stop, and where scoring starts, each half a row outwards."""
    row = pl.col("row").cast(pl.Float64)
    first_scored = row.filter(pl.col("position") == warmup).first().alias("scored")
    ends = frame.select(row.first().alias("first"), row.last().alias("last"), first_scored).collect()
    first, last, scored = ends.row(0)
    return first - 0.5, last + 0.5, last + 0.5 if scored is None else scored - 0.5


def times(predictions: pl.LazyFrame) -> list[float] | None:
    """Return first and last time stamp, where the run had a time column."""
    if "time" not in predictions.collect_schema():
        return None
    ends = predictions.select(first=pl.col("time").first(), last=pl.col("time").last()).collect()
    return [float(ends["first"][0]), float(ends["last"][0])]


def clock(predictions: pl.LazyFrame) -> tuple[np.ndarray, np.ndarray] | None:
    """Return some rows and their times; None without a time column, or if that goes back."""
    if "time" not in predictions.collect_schema():
        return None
    rows = predictions.select(pl.len()).collect().item()
    every = predictions.filter(pl.col("position") % max(1, rows // CLOCK) == 0).select("row", "time").collect()
    numbers, found = (every[name].cast(pl.Float64).to_numpy() for name in ("row", "time"))
    return (numbers, found) if np.all(np.diff(found) >= 0.0) else None


class Windows:
    """Means over a window of the scored rows (a twentieth of them, at least 20), and over all so far, at bins' ends.

    Attributes
    ----------
    ends
        The last row of the file in each window.
    rows
        About how many rows a window has.
    """

    def __init__(self, scored: pl.DataFrame) -> None:
        self._sums = {name: scored[name].cast(pl.Float64).to_numpy() for name in scored.columns if name != "scored"}
        total = int(self._sums["rows"].sum())
        self._width = min(len(scored), max(1, round(max(20, total / 20) * len(scored) / total)))
        self.ends = self._sums["last_row"][self._width - 1 :]
        self.rows = round(self._width * total / len(scored))

    def has(self, name: str) -> bool:
        """Return whether there is such a column."""
        return name in self._sums

    def mean(self, name: str, count: str = "rows", so_far: bool = False) -> np.ndarray:
        """Return the sum of one column of the bins over that of another."""
        parts = np.stack([self._sums[name], self._sums[count]])
        if so_far:
            top, bottom = parts.cumsum(1)[:, self._width - 1 :]
        else:
            top, bottom = np.lib.stride_tricks.sliding_window_view(parts, self._width, axis=1).sum(-1)
        return np.divide(top, bottom, out=np.full_like(top, math.nan), where=bottom > 0)


def mean_weights(weights: pl.LazyFrame, predictions: pl.LazyFrame, warmup: int) -> pl.DataFrame:
    """Return the mean of all columns in equal bins of the scored rows, and how many `rows` each bin stands for.

    Of a long stream only some rows are kept: each stands for itself and those up to the next one kept.
    """
    total = predictions.select(pl.len()).collect().item()
    names = [name for name in weights.collect_schema() if name not in ("row", "position")]
    at = pl.col("position").cast(pl.Int64)
    number = bin_number(max(total - warmup, 1), 0, BINS // 2)

    def means(some: list[str], *more: pl.Expr) -> pl.DataFrame:
        scored = (
            weights.select("row", *some)
            .join(predictions.select("row", at), on="row", maintain_order="left")
            .filter(at >= warmup)
            .with_columns(at - warmup, rows=at.shift(-1, fill_value=total) - at)
        )
        each = [_mean_over_rows(name) for name in some]
        return scored.group_by(number).agg(*more, *each).sort("bin").drop("bin").collect(engine="streaming")

    # Hundreds of columns at a time would take many times their own memory.
    first, *others = [names[i : i + _COLUMNS] for i in range(0, max(len(names), 1), _COLUMNS)]
    parts = [means(first, _mean_over_rows("row"), pl.col("rows").sum()), *map(means, others)]
    return pl.concat(parts, how="horizontal")


def _mean_over_rows(name: str) -> pl.Expr:
    return ((pl.col(name) * pl.col("rows")).sum() / pl.col("rows").sum()).alias(name)
