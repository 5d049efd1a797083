"""The content of a fleet's page: keys beside naive baselines, along time, the worst ones, new and silent ones."""

import math
from typing import Any

import numpy as np
import polars as pl
from polars import selectors

from streamgp.numerics import formats
from streamgp.numerics.binomial import binomial_cdf
from streamgp.reports import verdicts

COLUMNS = ("key", "y", "mean", "std", "q05", "q50", "q95", "log_density")
# The strip has so many bins along time, and so many lines of keys.
BINS, LINES = 120, 300
WORST, RECENT = 20, 80  # keys that are drawn, and their last rows
LISTED, FEW = 10_000, 12  # keys of the long table, and of the short ones
# A baseline needs so many errors before it has a spread of its own.
MIN_ERRORS = 8
# A key is judged from so many scored rows on.
MIN_ROWS = 10
# A key is new or silent if that began in this last share of the time.
RECENTLY = 0.1


def judged(predictions: pl.LazyFrame, warmup: int) -> pl.DataFrame:
    """Return the rows in their order, with what the naive baselines of their keys would have said of them.

    The last target and the mean of all before, with a Gaussian of the spread that their own errors had by then.
    """
    y = pl.col("y").fill_nan(None)
    accepted = pl.col("mean").is_not_null() & pl.col("mean").is_not_nan()
    named = predictions.select(
        pl.col("key").cast(pl.String),
        *(pl.col(name) for name in predictions.collect_schema().names() if name != "key"),
    )
    rows = named.with_columns(y=y, at=pl.int_range(pl.len()), accepted=accepted)
    if "time" in rows.collect_schema().names():
        rows = rows.with_columns(when=pl.col("time").to_physical().cast(pl.Float64).fill_nan(None))
    else:
        rows = rows.with_columns(when=pl.col("at").cast(pl.Float64))
    rows = rows.with_columns(
        fitted=pl.col("accepted") & (pl.col("accepted").cum_sum() > warmup),
        z=(pl.col("y") - pl.col("mean")) / pl.col("std"),
        scored=pl.col("accepted") & (pl.col("accepted").cum_sum() > warmup) & pl.col("y").is_not_null(),
        inside=pl.col("y").is_between("q05", "q95"),
        last=pl.col("y").forward_fill().shift(1).over("key"),
        average=(pl.col("y").cum_sum() / pl.col("y").cum_count()).forward_fill().shift(1).over("key"),
    )
    for name in ("last", "average"):
        squared = (pl.col("y") - pl.col(name)) ** 2
        rows = rows.with_columns(squared.alias("squared")).with_columns(
            spread=(pl.col("squared").cum_sum() / pl.col("squared").cum_count()).forward_fill().shift(1).over("key"),
            errors=pl.col("squared").cum_count().shift(1).over("key"),
        )
        usable = (pl.col("errors") >= MIN_ERRORS) & (pl.col("spread") > 0.0)
        log_density = -0.5 * ((2.0 * math.pi * pl.col("spread")).log() + pl.col("squared") / pl.col("spread"))
        rows = rows.with_columns(pl.when(usable).then(log_density).alias(f"log_density_{name}"))
    return rows.collect()


def by_key(rows: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Return a row for every key: its scores and, over the rows on which they can be compared, the baselines'."""
    compared = pl.col("scored") & pl.all_horizontal(pl.col("log_density_last", "log_density_average").is_not_null())
    densities = ("log_density", "log_density_last", "log_density_average")
    found = rows.group_by("key", maintain_order=True).agg(
        pl.col("scored").sum(),
        pl.col("inside").filter("scored").mean().alias("covered"),
        pl.col("log_density").filter("scored").mean().alias("pll"),
        compared.sum().alias("compared"),
        *(pl.col(name).filter(compared).mean().alias(f"mean_{name}") for name in densities),
        pl.col("when").min().alias("first"),
        pl.col("when").max().alias("final"),
        pl.len().alias("seen"),
    )
    best = pl.max_horizontal("mean_log_density_last", "mean_log_density_average")
    enough = pl.col("compared") >= MIN_ROWS
    found = found.with_columns(gain=pl.when(enough).then(pl.col("mean_log_density") - best))
    wanted = ("group", "nmse", "borrowed", "flagged", "skipped", "skill", "skill_low", "skill_high")
    kept = [name for name in wanted if name in scores.columns]
    known = scores.select(pl.col("key").cast(pl.String), *(pl.col(name) for name in kept)).with_columns(
        selectors.float().fill_nan(None)
    )
    return found.filter(pl.col("key").is_not_null()).join(known, on="key", how="left", maintain_order="left")


def verdict(keys: pl.DataFrame) -> dict[str, Any] | None:
    """Return on how many keys the fleet is better than the better baseline, in words; None where nothing is known."""
    return verdicts.of_keys(keys.filter(pl.col("scored") > 0).select("skill_low", "skill_high").rows())


def against(keys: pl.DataFrame) -> list[dict[str, Any]]:
    """Return mean log densities over all compared rows: the fleet's, and those of the baselines."""
    some = keys.filter(pl.col("gain").is_not_null())
    weights = some["compared"].to_numpy()
    lines = []
    for label, name in (("fleet", ""), ("the last target", "_last"), ("the mean of all before", "_average")):
        own = some[f"mean_log_density{name}"].to_numpy()
        lines.append({"name": label, "pll": float(np.average(own, weights=weights)) if len(some) else None})
    return lines


def strip(rows: pl.DataFrame, ranked: pl.DataFrame) -> np.ndarray:
    """Return how far targets lay from their predictions, for lines of keys along time: NaN where there is no row.

    The root of the mean square, in standard deviations of the predictions; one, where these are right.
    """
    start, stop = _span(rows)
    lines, bins = min(len(ranked), LINES), min(rows["when"].n_unique(), BINS)
    line = (pl.int_range(pl.len()) * lines // pl.len()).alias("line")
    at = ((pl.col("when") - start) / max(stop - start, 1e-300) * bins).floor().clip(0, bins - 1).cast(pl.Int64)
    cells = (
        rows.filter(pl.col("scored") & pl.col("when").is_not_null())
        .join(ranked.select("key", line), on="key")
        .group_by("line", at.alias("bin"))
        .agg(pl.col("z").fill_nan(None).pow(2).mean())
    )
    found = np.full((lines, bins), np.nan)
    found[cells["line"].to_numpy(), cells["bin"].to_numpy()] = np.sqrt(cells["z"].to_numpy())
    return found


def coverage_by_chance(counts: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return how many keys would have a coverage between the edges if every band of 90% held what it says."""
    size, keys = np.unique(counts, return_counts=True)
    below = binomial_cdf(np.ceil(edges[:, None] * size - 1e-9) - 1, size, 0.9)
    below[-1] = 1.0
    return np.diff(below, axis=0) @ keys


def comings_and_goings(keys: pl.DataFrame, rows: pl.DataFrame) -> dict[str, Any]:
    """Return the keys that came lately, and those that have had no row for long."""
    start, stop = _span(rows)
    edge = stop - RECENTLY * (stop - start)
    new = keys.filter(pl.col("first") > edge).sort("first", descending=True)
    silent = keys.filter(pl.col("final") < edge).sort("final")
    return {"new": new.head(FEW).to_dicts(), "news": len(new), "silent": silent.head(FEW).to_dicts()} | {
        "silents": len(silent)
    }


def time_text(rows: pl.DataFrame, when: float | None) -> str:
    """Return a time as the column of times has it, or the number of a row."""
    if when is None:
        return "–"
    if "time" not in rows.columns:
        return f"row {when:,.0f}"
    kind = rows["time"].dtype
    if not kind.is_temporal():
        return formats.clock(when)
    text = str(pl.Series([round(when)]).cast(kind)[0])
    return text.removesuffix(" 00:00:00")


def _span(rows: pl.DataFrame) -> tuple[float, float]:
    low, high = rows["when"].min(), rows["when"].max()
    return (0.0, 1.0) if low is None else (float(low), float(high))  # type: ignore[arg-type]
