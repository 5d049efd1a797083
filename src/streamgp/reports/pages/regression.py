"""The charts of numbers and counts on the page of a run: predictions, errors and interval coverage."""

import math
from typing import Any

import numpy as np
import polars as pl

from streamgp.numerics.binomial import binomial_quantile
from streamgp.reports import kinds_chart, wording
from streamgp.reports.pages import standing, steps
from streamgp.reports.pages.stream import BINS, RECENT, Windows, binned, times

TEMPLATE = "report.html"
_SCORES = ("nmse", "rmse", "mae", "pll", "crps", "coverage")
SCORES = {"regression": (*_SCORES, "pll_moment"), "count": (*_SCORES, "deviance")}
_COLUMNS = (
    "row",
    "y",
    "mean",
    "q05",
    "q50",
    "q95",
    "log_density",
    "pit",
    "persistence_mean",
    "running_mean",
)
PIT_BINS = 20
LEVELS = tuple(range(5, 100, 5))


def columns(metrics: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of the predictions that the page needs, and those that may be missing."""
    needed = (*_COLUMNS, "pit_below") if metrics["task"] == "count" else _COLUMNS
    return needed, ("conformal_low", "conformal_high", *steps.COLUMNS)


def _others(metrics: dict[str, Any], rows: int) -> list[dict[str, Any]]:
    """Return the names of the targets after the first, and the phrases on their miscalibrated bands."""
    others = list(metrics["by_target"].items())[1:]
    return [
        {"name": name, "off_text": wording.describe_bands(wording.miscalibrated_bands(scores["coverage"], rows))}
        for name, scores in others
    ]


def bins_of(predictions: pl.LazyFrame, metrics: dict[str, Any]) -> tuple[pl.DataFrame, int, int]:
    """Return what is drawn of equal bins of rows, how many rows there are, and those of the warm-up."""
    rows = predictions.select(pl.len()).collect().item()
    warmup = min(metrics["warmup"], rows)
    y = pl.col("y").fill_nan(None)
    naive = {name: (y - pl.col(name).fill_nan(None)) ** 2 for name in ("persistence_mean", "running_mean")}
    bins = binned(
        predictions,
        rows,
        warmup,
        BINS,
        y.min().alias("y_min"),
        y.mean().alias("y_mean"),
        y.max().alias("y_max"),
        pl.col("q05").min().alias("q05_min"),
        pl.col("q50").mean().alias("q50_mean"),
        pl.col("q95").max().alias("q95_max"),
        ((y - pl.col("mean")) ** 2).sum().alias("squares"),
        pl.col("log_density").fill_nan(None).sum(),
        y.count().alias("targets"),
        *(error.sum().alias(name) for name, error in naive.items()),
        *(error.count().alias(f"{name}_rows") for name, error in naive.items()),
    )
    return bins, rows, warmup


def along_the_stream(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any], span: Any) -> dict[str, Any]:
    """Draw targets, predictions and errors along the stream."""
    bins, rows, warmup = bins_of(predictions, metrics)
    recent = predictions.tail(RECENT).collect()
    close = span._replace(start=recent["row"][0] - 0.5)
    inside, targets = inside_of(recent)
    context = {
        "rows": rows,
        "warmup": warmup,
        "rows_per_bin": math.ceil(rows / len(bins)),
        "overview": figures.overview(bins, span),
        "recent": recent,
        "recent_targets": targets,
        "recent_missed": targets - inside,
        "window": figures.window(recent, close),
        "times": times(predictions),
        "nmse_chart": None,
        "pll_chart": None,
        "window_rows": 0,
        **_standing(bins.filter("scored")),
        "surprises": [_placed(row) for row in standing.surprises(predictions, warmup)],
    }
    curves, context["window_rows"] = curves_of(bins, predictions, warmup)
    if curves is not None:
        context["pll_chart"] = figures.running_pll(curves, span)
        if metrics["nmse"] is not None and curves["model"].is_not_nan().any():
            marks = [alarm["row"] for alarm in metrics["alarms"] or []]
            context["nmse_chart"] = figures.running_nmse(curves, span, marks)
    return context


def _standing(scored: pl.DataFrame) -> dict[str, Any]:
    """Return the RMSE of the last tenth of the rows and of all."""
    last = standing.last_tenth(scored, "squares", "targets")
    return {"last_tenth": None if last is None else [math.sqrt(mse) for mse in last]}


def _placed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with how far its target was from the median, in units of the band's half on that side."""
    half = row["q95"] - row["q50"] if row["y"] > row["q50"] else row["q50"] - row["q05"]
    return row | {"times": abs(row["y"] - row["q50"]) / half if half > 0.0 else None}


def inside_of(rows: pl.DataFrame) -> tuple[int, int]:
    """Return how many targets lie inside their band of 90%, and how many there are."""
    y = pl.col("y").fill_nan(None)
    inside, targets = rows.select(y.is_between("q05", "q95").sum().alias("inside"), y.count()).row(0)
    return inside, targets


def curves_of(bins: pl.DataFrame, predictions: pl.LazyFrame, warmup: int) -> tuple[pl.DataFrame | None, int]:
    """Return the `running` scores of the rows after the warm-up; None and no rows if none of them has a target."""
    scored = bins.filter("scored")
    variance = (
        predictions.filter(pl.col("position") >= warmup)
        .select(pl.col("y").fill_nan(None).var(ddof=0))
        .collect()
        .item()
    )
    return (None, 0) if variance is None else running(scored, variance)


def running(scored: pl.DataFrame, variance: float) -> tuple[pl.DataFrame, int]:
    """Return scores so far and in windows, at the end of bins, and how many rows a window has."""
    windows = Windows(scored)
    unit = variance if variance > 0 else math.nan
    curves = {
        "row": windows.ends,
        "model": windows.mean("squares", "targets") / unit,
        "so_far": windows.mean("squares", "targets", so_far=True) / unit,
        "persistence": windows.mean("persistence_mean", "persistence_mean_rows") / unit,
        "running_mean": windows.mean("running_mean", "running_mean_rows") / unit,
        "pll": windows.mean("log_density", "targets"),
        "pll_so_far": windows.mean("log_density", "targets", so_far=True),
    }
    return pl.DataFrame(curves), windows.rows


def coverage_of(
    predictions: pl.LazyFrame, metrics: dict[str, Any]
) -> tuple[int, list[float], np.ndarray, tuple[float, float]]:
    """Return how many rows were scored, the share of targets in each central band, and of their places in bins.

    The last are the ends between which 95% of those shares are for a calibrated model. A count is spread
    evenly over its interval of places (Czado, Gneiting and Held 2009).
    """
    pit = pl.col("pit").fill_nan(None)
    scored = predictions.filter(pl.col("position") >= metrics["warmup"])
    if "pit_below" in predictions.collect_schema():
        below = pl.col("pit_below")

        def share(low: float, high: float) -> pl.Expr:
            inside = (pit.clip(upper_bound=high) - below.clip(lower_bound=low)).clip(lower_bound=0.0)
            return pl.when(pit > below).then(inside / (pit - below)).otherwise(pit.is_between(low, high).cast(float))

        covered = [share(0.5 - level / 200, 0.5 + level / 200).mean().alias(f"covered{level}") for level in LEVELS]
        tally = [share(i / PIT_BINS, (i + 1) / PIT_BINS).sum().alias(f"bin{i}") for i in range(PIT_BINS)]
    else:
        covered = [((pit - 0.5).abs() <= level / 200).mean().alias(f"covered{level}") for level in LEVELS]
        place = (pit * PIT_BINS).floor().clip(0, PIT_BINS - 1)
        tally = [(place == i).sum().alias(f"bin{i}") for i in range(PIT_BINS)]
    row = scored.select(*covered, *tally, n=pit.count()).collect(engine="streaming").row(0, named=True)
    n = row["n"]
    observed = [row[f"covered{level}"] for level in LEVELS] if n else []
    shares = np.array([row[f"bin{i}"] for i in range(PIT_BINS)]) / max(n, 1)
    low, high = (binomial_quantile(p, n, 1 / PIT_BINS) / max(n, 1) for p in (0.025, 0.975))
    return n, observed, shares, (low, high)


def calibration(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any]) -> dict[str, Any]:
    """Draw the share of targets in each central band, and the histogram of their places in what was predicted."""
    n, observed, shares, (low, high) = coverage_of(predictions, metrics)
    if not n:
        return {"coverage_chart": None, "pit_chart": None, "observed": [], "levels": LEVELS}
    coverage = {str(level): share for level, share in zip(LEVELS, observed, strict=True)}
    off = wording.miscalibrated_bands(coverage, n)
    return {
        "coverage_chart": figures.coverage(np.array(LEVELS) / 100, np.array(observed)),
        "pit_chart": figures.pit(shares, low, high),
        "observed": observed,
        "coverage": coverage,
        "off": off,
        "off_text": wording.describe_bands(off),
        "few": n < wording.MIN_ROWS,
        "worst_kind": wording.worst_kind(metrics),
        "kind_charts": kinds_chart.panels(figures, metrics),
        "others": _others(metrics, n),
        "levels": LEVELS,
    }
