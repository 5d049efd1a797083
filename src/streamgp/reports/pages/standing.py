"""The scores of the last rows of a stream, and the rows with the largest errors."""

from typing import Any

import polars as pl

# The scored rows are divided into so many parts; the last part is reported.
LAST = 10
# The number of rows that are listed.
SURPRISES = 10


def last_tenth(scored: pl.DataFrame, model: str, count: str) -> tuple[float, float] | None:
    """Return the mean loss in the last tenth of the scored rows and in all of them; None with too few of them."""
    at = len(scored) - max(1, round(len(scored) / LAST))
    losses, rows = scored[model].cast(pl.Float64).to_numpy(), scored[count].cast(pl.Float64).to_numpy()
    if len(scored) < LAST or not rows[at:].sum():
        return None
    return float(losses[at:].sum() / rows[at:].sum()), float(losses.sum() / rows.sum())


def surprises(predictions: pl.LazyFrame, warmup: int) -> list[dict[str, Any]]:
    """Return the scored rows whose targets had the least predicted density, the least first."""
    density = pl.col("log_density").fill_nan(None)
    due = predictions.filter(pl.col("position") >= warmup, density.is_not_null(), pl.col("y").is_not_null())
    found = due.bottom_k(SURPRISES, by="log_density").collect()
    return found.sort("log_density", "row").to_dicts()
