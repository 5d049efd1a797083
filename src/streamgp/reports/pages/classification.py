"""What the page of a run shows of labels and grades: probabilities, errors, and calibration."""

import math
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import binomtest

from streamgp.reports import wording
from streamgp.reports.pages.stream import BINS, Windows, binned, times
from streamgp.reports.palette import EXPERTS_SHOWN

TEMPLATE = "labels.html"
_SCORES = ("error_rate", "log_loss", "confusion")
SCORES = {
    "classification": (*_SCORES, "brier", "ece", "balanced_error", "recall", "classes"),
    "ordinal": (*_SCORES, "rps", "mae", "grades"),
}
_COLUMNS = ("row", "y", "predicted", "log_density", "last_label", "frequent_label", "frequency_log_density")
RELIABILITY_BINS = 10
CONFUSION_SHOWN = 12  # classes: a larger table fits no page


def columns(metrics: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of the predictions that the page needs, and those of the classes, which may lack some."""
    return (*_COLUMNS, "rps") if metrics["task"] == "ordinal" else _COLUMNS, tuple(map(_probability, _names(metrics)))


def along_the_stream(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any], span: Any) -> dict[str, Any]:
    """Draw probabilities, labels and errors along the stream."""
    rows = predictions.select(pl.len()).collect().item()
    warmup = min(metrics["warmup"], rows)
    names = _names(metrics)
    known = [name for name in names if _probability(name) in predictions.collect_schema()]
    places = {name: place for place, name in enumerate(names)}
    y, last = pl.col("y"), pl.col("last_label")
    sums = {
        "error": y != pl.col("predicted"),
        "last_error": y != last,
        "frequent_error": y != pl.col("frequent_label"),
        "loss": -pl.col("log_density"),
        "frequent_loss": -pl.col("frequency_log_density"),
    }
    if metrics["task"] == "ordinal":
        place = [c.replace_strict(places, return_dtype=pl.Float64, default=None) for c in (y, last)]
        sums |= {"rps": pl.col("rps"), "last_rps": (place[0] - place[1]).abs()}
    bins = binned(
        predictions,
        rows,
        warmup,
        BINS // 4,
        *(value.sum().cast(pl.Float64).alias(name) for name, value in sums.items()),
        last.count().alias("with_last"),
        *(pl.col(_probability(name)).fill_null(0.0).mean().alias(f"predicted {places[name]}") for name in known),
        *((y == name).mean().alias(f"observed {places[name]}") for name in names),
    )
    # The most frequent classes have colours of their own, in the order of their names.
    of_bins = bins["rows"].to_numpy() / rows
    share = {name: float(bins[f"observed {places[name]}"].to_numpy() @ of_bins) for name in names}
    ranked = sorted(names, key=lambda name: -share[name])[:EXPERTS_SHOWN]
    shown = [name for name in names if name in ranked]
    legend = [{"name": name, "colour": f"expert{i}", "share": share[name]} for i, name in enumerate(shown)]
    context: dict[str, Any] = {
        "rows": rows,
        "warmup": warmup,
        "rows_per_bin": math.ceil(rows / len(bins)),
        "classes": legend,
        "others": len(names) - len(shown),
        "times": times(predictions),
        "predicted_chart": _areas(
            figures, bins, span, "predicted", [places[n] for n in shown], [places[n] for n in known]
        ),
        "observed_chart": _areas(
            figures, bins, span, "observed", [places[n] for n in shown], [places[n] for n in names]
        ),
        "error_chart": None,
        "loss_chart": None,
        "rps_chart": None,
        "window_rows": 0,
        "names": names,
        "confusion_shown": len(names) <= CONFUSION_SHOWN,
    }
    scored = bins.filter("scored")
    if len(scored):
        windows = Windows(scored)
        context["window_rows"] = windows.rows
        context["error_chart"] = _running(figures, windows, span, "error", "Running error rate", percent=True)
        context["loss_chart"] = _running(figures, windows, span, "loss", "Running log loss")
        if metrics["task"] == "ordinal":
            context["rps_chart"] = _running(figures, windows, span, "rps", "Running ranked probability score")
    return context


def calibration(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any]) -> dict[str, Any]:
    """Draw observed frequencies over predicted probabilities: of two classes the second, of more the likeliest."""
    names = _names(metrics)
    known = [name for name in names if _probability(name) in predictions.collect_schema()]
    one = metrics["task"] == "classification" and len(names) == 2 and len(known) == 2
    probability = pl.col(_probability(names[1])) if one else pl.max_horizontal(map(_probability, known))
    observed = pl.col("y") == names[1] if one else pl.col("y") == pl.col("predicted")
    place = (pl.col("predicted") * RELIABILITY_BINS).floor().clip(0, RELIABILITY_BINS - 1).cast(pl.Int64)
    scored = predictions.filter(pl.col("position") >= metrics["warmup"]).select(
        predicted=probability.fill_null(0.0), observed=observed
    )
    sums = (pl.len().alias("rows"), pl.col("predicted").mean(), pl.col("observed").sum())
    counted = scored.group_by(place.alias("bin")).agg(*sums)
    frame = counted.sort("bin").collect(engine="streaming")
    if not len(frame):
        return {"reliability_chart": None, "reliability": [], "verdict": None, "about": None}
    found, gaps, chances = [], 0.0, 0.0
    for _, rows, mean, count in frame.iter_rows():
        interval = binomtest(count, rows).proportion_ci(method="wilson")
        low, high = float(interval.low), float(interval.high)
        found.append({"rows": rows, "predicted": mean, "observed": count / rows, "low": low, "high": high})
        gaps += abs(count - rows * mean)
        # What chance alone makes of the gap of a calibrated model, on average.
        chances += math.sqrt(2.0 / math.pi * rows * mean * (1.0 - mean))
    total = sum(entry["rows"] for entry in found)
    shares = np.zeros(RELIABILITY_BINS)
    shares[frame["bin"].to_numpy()] = frame["rows"].to_numpy() / total
    gap, chance = gaps / total, chances / total
    return {
        "reliability_chart": figures.reliability(
            *(np.array([entry[key] for entry in found]) for key in ("predicted", "observed", "low", "high")), shares
        ),
        "reliability": found,
        "verdict": "few" if total < wording.MIN_ROWS else "right" if gap <= max(0.02, 2.0 * chance) else "off",
        "gap": gap,
        "overconfidence": sum(entry["rows"] * (entry["predicted"] - entry["observed"]) for entry in found) / total,
        "about": names[1] if one else None,
    }


def _names(metrics: dict[str, Any]) -> list[str]:
    return metrics["grades"] if metrics["task"] == "ordinal" else metrics["classes"]


def _probability(name: str) -> str:
    return f"p_{name}"


def _areas(figures: Any, bins: pl.DataFrame, span: Any, of: str, shown: list[int], known: list[int]) -> str:
    there = [place for place in shown if place in known]
    rest = [pl.col(f"{of} {place}") for place in known if place not in shown]
    stack = bins.select(
        "row",
        *(pl.col(f"{of} {place}") if place in there else pl.lit(0.0).alias(f"{of} {place}") for place in shown),
        *([pl.sum_horizontal(rest).alias("others")] if rest else []),
    )
    label = "Predicted probabilities" if of == "predicted" else "Shares of the observed labels"
    return figures.areas(stack, span, of, f"{label}, along the stream", 220)


def _running(figures: Any, windows: Windows, span: Any, of: str, label: str, percent: bool = False) -> str:
    curves = {"row": windows.ends, "model": windows.mean(of), "so_far": windows.mean(of, so_far=True)}
    if windows.has(f"frequent_{of}"):
        curves["frequent"] = windows.mean(f"frequent_{of}")
    if windows.has(f"last_{of}"):
        curves["last"] = windows.mean(f"last_{of}", "with_last")
    return figures.scores(pl.DataFrame(curves), span, of, f"{label} of the model and of the naive baselines", percent)
