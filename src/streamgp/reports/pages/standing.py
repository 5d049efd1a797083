"""How a model stands: beside its best baseline, at the end of the stream, and in the rows that surprised it most."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from streamgp.metrics import paired_interval

LAST = 10  # of so many parts of the scored rows, the last
SURPRISES = 10  # rows listed


def skill(scored: pl.DataFrame, model: str, count: str, baselines: Sequence[str]) -> dict[str, Any] | None:
    """Return how much less the model has lost than its best baseline, as a share, and the ends of its 95% interval.

    Parameters
    ----------
    scored
        Bins of the scored rows, in order, with sums of losses.
    model, count, baselines
        Columns: the losses of the model, how many rows have one, and the losses of the baselines, each with how
        many rows it has one of in a column ``NAME_rows`` where they are fewer.

    Returns
    -------
    dict or None
        ``baseline``, ``share``, ``low`` and ``high`` (both None with too few rows); None where no baseline has
        lost anything.

    Notes
    -----
    The interval is of the ratio of the two mean losses, on the scale of its log, so that no more than all is ever
    saved: the relative error of the ratio r is that of the mean of ``ours - r * baseline`` over the bins, to the
    first order (`streamgp.metrics.paired_interval`).
    """
    ours = _mean_losses(scored, model, count)
    means = {name: _mean_losses(scored, name, f"{name}_rows", count) for name in baselines}
    known = {name: of for name, of in means.items() if of.sum() > 0.0}
    if not known or not scored[count].sum():
        return None
    best = min(known, key=lambda name: float(known[name].sum()))
    ratio = float(ours.mean() / known[best].mean())
    _, low, high = paired_interval(ours, ratio * known[best])
    shown = ratio > 0.0 and not np.isnan(low)
    ends = [1.0 - ratio * float(np.exp(end / ours.mean())) for end in (high, low)] if shown else [None, None]
    return {"baseline": best, "share": 1.0 - ratio, "low": ends[0], "high": ends[1]}


def _mean_losses(scored: pl.DataFrame, name: str, *counts: str) -> np.ndarray:
    """Return the losses of every bin, so that their mean is that of all rows in the first count there is."""
    count = next(each for each in counts if each in scored.columns)
    losses = scored[name].cast(pl.Float64).fill_null(0.0).to_numpy()
    return losses * len(losses) / max(float(scored[count].sum()), 1.0)


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
