"""One self-contained HTML page about a finished (or interrupted) run: `write_report`."""

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import binom

import streamgp
from streamgp.app import weighing, wording
from streamgp.app.outputs import RULE, WEIGHTS_KEPT, write_aside
from streamgp.noise import CONSTANT

BINS = 800
RECENT = 200
PIT_BINS = 20
LEVELS = tuple(range(5, 100, 5))

_PREDICTIONS = (
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
_METRICS = (
    "model",
    "data",
    "rows",
    "warmup",
    "scored_rows",
    "nmse",
    "rmse",
    "mae",
    "pll",
    "pll_moment",
    "crps",
)
_METRICS += ("coverage", "seconds", "rows_per_second", "experts", "naive")
_EXPERT = ("name", "basis", "dynamics", "weight")


def write_report(directory: Path) -> Path:
    """Write ``report.html`` for the run whose results lie in `directory`, and return its path.

    Reads ``predictions.parquet``, ``weights.parquet`` and ``metrics.json``. The numbers are those of
    ``metrics.json``; the charts are summaries of the Parquet files, which are never in memory as a whole.
    With several targets the charts show the first. An earlier report is replaced only by a complete one.

    Parameters
    ----------
    directory
        The output directory of `streamgp run`.

    Raises
    ------
    ImportError
        If matplotlib or jinja2 is not installed.
    FileNotFoundError, ValueError
        If one of the three files is missing, or cannot be read as what it should be.
    """
    try:
        import jinja2

        from streamgp.app import figures
    except ImportError as error:
        raise ImportError('The report needs matplotlib and jinja2: pip install "streamgp[plots]".') from error
    metrics = _read_metrics(directory / "metrics.json")
    predictions = _scan(directory / "predictions.parquet", _PREDICTIONS, optional=("time",))
    span = figures.Rows(*_span(predictions, metrics["warmup"]))
    # Experts predict from the end of the warm-up on: before it there are no weights, nor columns for them.
    names = [e["name"] for e in metrics["experts"]] if metrics["scored_rows"] >= (metrics["horizon"] or 1) else []
    names += [RULE + rule["name"] for rule in metrics["rules"] if names]
    weights = _scan(directory / "weights.parquet", ("row", *names), empty=not names)
    bins = _mean_weights(weights, predictions, metrics["warmup"])

    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page.filters.update(
        num=wording.number,
        share=wording.share,
        clock=wording.clock,
        plural=wording.plural,
        count="{:,}".format,
    )
    template = (files("streamgp.app") / "templates" / "report.html").read_text(encoding="utf-8")
    html = page.from_string(template).render(
        m=metrics,
        version=streamgp.__version__,
        palette=figures.PALETTE,
        headline=wording.headline(metrics),
        rivals=wording.rivals(metrics),
        last_value=wording.last_value(metrics),
        levels=LEVELS,
        weights_kept=WEIGHTS_KEPT,
        **_along_the_stream(figures, predictions, metrics, span),
        **_calibration(figures, predictions, metrics),
        **weighing.experts(figures, bins, metrics, span),
        **weighing.rules(figures, bins, metrics, span),
    )
    write_aside(directory / "report.html", html.encode())
    return directory / "report.html"


def _read_metrics(path: Path) -> dict[str, Any]:
    """The run's metrics, with every non-finite number as None and the optional keys filled in."""
    _must_exist(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except ValueError as error:
        raise ValueError(f"{path}: expected the JSON of a run, but {error}; use `streamgp run` again.") from error
    experts = raw.get("experts") if isinstance(raw, dict) else None
    wanted = [(raw, _METRICS)] + [(expert, _EXPERT) for expert in experts or []]
    missing = [key for entry, keys in wanted for key in keys if not (isinstance(entry, dict) and key in entry)]
    if missing:
        raise ValueError(f"{path}: expected an entry {missing[0]!r}, found none; use `streamgp run` again.")
    optional = {
        "skipped_rows": 0,
        "outside_rows": 0,
        "interrupted": False,
        "stopped": None,
        "warnings": [],
        "command": None,
        "rules": [],
        "horizon": None,
    }
    metrics = optional | raw
    metrics["experts"] = [{"noise": CONSTANT} | expert for expert in raw["experts"]]
    metrics["targets"] = raw.get("targets") or [raw.get("target") or "y"]
    return metrics


def _scan(path: Path, columns: tuple[str, ...], optional: tuple[str, ...] = (), empty: bool = False) -> pl.LazyFrame:
    """The named columns of a Parquet file, unread, and the position of each row."""
    _must_exist(path)
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


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: expected this file of a finished run, found none; use `streamgp run` first."
        )


def _bin(rows: int, warmup: int, bins: int) -> pl.Expr:
    """Number of the bin of each row: equal bins, none of which straddles the end of the warm-up."""
    before = min(warmup, math.ceil(bins * warmup / rows))
    after = min(rows - warmup, max(bins - before, 1))
    position = pl.col("position").cast(pl.Int64)
    early = position * before // max(warmup, 1)
    late = before + (position - warmup) * after // max(rows - warmup, 1)
    return pl.when(position < warmup).then(early).otherwise(late).alias("bin")


def _binned(frame: pl.LazyFrame, rows: int, warmup: int, bins: int, *columns: pl.Expr) -> pl.DataFrame:
    """One row per bin: mean and last row of the file, how many, whether they are scored, and `columns`."""
    about = (
        pl.col("row").mean(),
        pl.col("row").max().alias("last_row"),
        pl.len().cast(pl.Int64).alias("rows"),
        (pl.col("position").min() >= warmup).alias("scored"),
    )
    return frame.group_by(_bin(rows, warmup, bins)).agg(*about, *columns).sort("bin").collect(engine="streaming")


def _along_the_stream(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any], span: Any) -> dict[str, Any]:
    rows = predictions.select(pl.len()).collect().item()
    warmup = min(metrics["warmup"], rows)
    y = pl.col("y")
    naive = {name: (y - pl.col(name).fill_nan(None)) ** 2 for name in ("persistence_mean", "running_mean")}
    bins = _binned(
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
        pl.col("log_density").sum().alias("log_density"),
        *(error.sum().alias(name) for name, error in naive.items()),
        *(error.count().alias(f"{name}_rows") for name, error in naive.items()),
    )
    scored = bins.filter("scored")
    recent = predictions.tail(RECENT).collect()
    close = span._replace(start=recent["row"][0] - 0.5)
    inside = recent.select(pl.col("y").is_between("q05", "q95").sum()).item()
    context = {
        "rows": rows,
        "warmup": warmup,
        "rows_per_bin": math.ceil(rows / len(bins)),
        "overview": figures.overview(bins, span),
        "recent": recent,
        "recent_missed": len(recent) - inside,
        "window": figures.window(recent, close),
        "times": _times(predictions),
        "nmse_chart": None,
        "pll_chart": None,
        "window_rows": 0,
    }
    if len(scored):
        variance = predictions.filter(pl.col("position") >= warmup).select(y.var(ddof=0)).collect().item()
        curves, context["window_rows"] = _running(scored, variance)
        context["pll_chart"] = figures.running_pll(curves, span)
        if metrics["nmse"] is not None and variance > 0:
            context["nmse_chart"] = figures.running_nmse(curves, span)
    return context


def _span(frame: pl.LazyFrame, warmup: int) -> tuple[float, float, float]:
    """Where the rows of the file start and stop, and where scoring starts, each half a row outwards."""
    row = pl.col("row").cast(pl.Float64)
    first_scored = row.filter(pl.col("position") == warmup).first().alias("scored")
    ends = frame.select(row.first().alias("first"), row.last().alias("last"), first_scored).collect()
    first, last, scored = ends.row(0)
    return first - 0.5, last + 0.5, last + 0.5 if scored is None else scored - 0.5


def _times(predictions: pl.LazyFrame) -> list[float] | None:
    """First and last time stamp, where the run had a time column."""
    if "time" not in predictions.collect_schema():
        return None
    ends = predictions.select(first=pl.col("time").first(), last=pl.col("time").last()).collect()
    return [float(ends["first"][0]), float(ends["last"][0])]


def _running(scored: pl.DataFrame, variance: float) -> tuple[pl.DataFrame, int]:
    """Scores so far and in windows of a twentieth of the scored rows (at least 20), at the end of bins."""
    sums = {name: scored[name].cast(pl.Float64).to_numpy() for name in scored.columns if name != "scored"}
    total = int(sums["rows"].sum())
    width = min(len(scored), max(1, round(max(20, total / 20) * len(scored) / total)))

    def mean(name: str, count: str, so_far: bool = False) -> np.ndarray:
        parts = np.stack([sums[name], sums[count]])
        if so_far:
            top, bottom = parts.cumsum(1)[:, width - 1 :]
        else:
            top, bottom = np.lib.stride_tricks.sliding_window_view(parts, width, axis=1).sum(-1)
        return np.divide(top, bottom, out=np.full_like(top, math.nan), where=bottom > 0)

    unit = variance if variance > 0 else math.nan
    curves = {
        "row": sums["last_row"][width - 1 :],
        "nmse": mean("squares", "rows") / unit,
        "nmse_so_far": mean("squares", "rows", so_far=True) / unit,
        "persistence": mean("persistence_mean", "persistence_mean_rows") / unit,
        "running_mean": mean("running_mean", "running_mean_rows") / unit,
        "pll": mean("log_density", "rows"),
        "pll_so_far": mean("log_density", "rows", so_far=True),
    }
    return pl.DataFrame(curves), round(width * total / len(scored))


def _calibration(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any]) -> dict[str, Any]:
    pit = pl.col("pit").fill_nan(None)
    scored = predictions.filter(pl.col("position") >= metrics["warmup"])
    held = [((pit - 0.5).abs() <= level / 200).mean().alias(f"held{level}") for level in LEVELS]
    place = (pit * PIT_BINS).floor().clip(0, PIT_BINS - 1)
    tally = [(place == i).sum().alias(f"bin{i}") for i in range(PIT_BINS)]
    row = scored.select(*held, *tally, n=pit.count()).collect(engine="streaming").row(0, named=True)
    n = row["n"]
    if not n:
        return {"coverage_chart": None, "pit_chart": None, "observed": [], "bands": None}
    observed = [row[f"held{level}"] for level in LEVELS]
    shares = np.array([row[f"bin{i}"] for i in range(PIT_BINS)]) / n
    low, high = (float(binom.ppf(p, n, 1 / PIT_BINS)) / n for p in (0.025, 0.975))
    # Chance alone moves the coverage of few rows; beyond it, two points are too little to matter.
    slack = max(0.02, 1.96 * math.sqrt(0.9 * 0.1 / n))
    gap = observed[LEVELS.index(90)] - 0.9
    verdict = "right" if abs(gap) <= slack else "narrow" if gap < 0 else "wide"
    return {
        "coverage_chart": figures.coverage(np.array(LEVELS) / 100, np.array(observed)),
        "pit_chart": figures.pit(shares, low, high),
        "observed": observed,
        "bands": verdict if n >= 100 else "few",
    }


def _mean_weights(weights: pl.LazyFrame, predictions: pl.LazyFrame, warmup: int) -> pl.DataFrame:
    """Mean of all columns in equal bins of the scored rows, and how many `rows` each bin stands for.

    Of a long stream only some rows are kept: each stands for itself and those up to the next one kept.
    """
    total = predictions.select(pl.len()).collect().item()
    names = [name for name in weights.collect_schema() if name not in ("row", "position")]
    at = pl.col("position").cast(pl.Int64)
    placed = (
        weights.drop("position")
        .join(predictions.select("row", at), on="row", maintain_order="left")
        .filter(at >= warmup)
        .with_columns(rows=at.shift(-1, fill_value=total) - at)
    )
    means = [((pl.col(name) * pl.col("rows")).sum() / pl.col("rows").sum()).alias(name) for name in ("row", *names)]
    scored = placed.with_columns(at - warmup)
    bins = scored.group_by(_bin(max(total - warmup, 1), 0, BINS // 2)).agg(*means, pl.col("rows").sum())
    return bins.sort("bin").drop("bin").collect(engine="streaming")
