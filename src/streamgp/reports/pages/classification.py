"""The charts of labels and grades on the page of a run: probabilities, errors and calibration."""

import math
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from streamgp.numerics.binomial import wilson_interval
from streamgp.reports import wording
from streamgp.reports.pages import standing
from streamgp.reports.pages.stream import BINS, Windows, binned, times
from streamgp.reports.palette import EXPERTS_SHOWN

TEMPLATE = "labels.html"
_RANKED = ("roc_auc", "average_precision", "rarest_class")
_SCORES = ("error_rate", "log_loss", "confusion")
SCORES = {
    "classification": (*_SCORES, "brier", "ece", "balanced_error", "recall", "classes", *_RANKED),
    "ordinal": (*_SCORES, "rps", "mae", "grades"),
}
_COLUMNS = ("row", "y", "predicted", "log_density", "last_label", "frequent_label", "frequency_log_density")
RELIABILITY_BINS = 10
# A table of more classes does not fit on a page.
CONFUSION_SHOWN = 12


def columns(metrics: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of the predictions that the page needs, and those of the classes, which may lack some."""
    return (*_COLUMNS, "rps") if metrics["task"] == "ordinal" else _COLUMNS, tuple(map(_probability, _names(metrics)))


class ClassBins(NamedTuple):
    """What is drawn of equal bins of rows.

    Attributes
    ----------
    bins
        Their sums.
    rows, warmup
        How many rows there are, and in the warm-up.
    names, known
        All classes, and those that were ever predicted.
    shown
        The most frequent ones, which have colours of their own, in the order of their names, with their shares.
    """

    bins: pl.DataFrame
    rows: int
    warmup: int
    names: list[str]
    known: list[str]
    shown: dict[str, float]

    def stack(self, of: str) -> pl.DataFrame:
        """Return the shares of the classes shown, ``predicted`` or ``observed``, and of the others together."""
        places = {name: place for place, name in enumerate(self.names)}
        there = self.known if of == "predicted" else self.names
        rest = [pl.col(f"{of} {places[name]}") for name in there if name not in self.shown]
        return self.bins.select(
            "row",
            *(
                (pl.col(f"{of} {places[name]}") if name in there else pl.lit(0.0)).alias(f"{of} {places[name]}")
                for name in self.shown
            ),
            *([pl.sum_horizontal(rest).alias("others")] if rest else []),
        )


def bins_of(predictions: pl.LazyFrame, metrics: dict[str, Any]) -> ClassBins:
    """Return what is drawn of equal bins of rows."""
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
        "loss": -pl.col("log_density").fill_nan(None),
        "frequent_loss": -pl.col("frequency_log_density").fill_nan(None),
    }
    if metrics["task"] == "ordinal":
        place = [c.replace_strict(places, return_dtype=pl.Float64, default=None) for c in (y, last)]
        sums |= {"rps": pl.col("rps").fill_nan(None), "last_rps": (place[0] - place[1]).abs()}
    bins = binned(
        predictions,
        rows,
        warmup,
        BINS // 4,
        *(value.sum().cast(pl.Float64).alias(name) for name, value in sums.items()),
        (y.is_not_null() & last.is_not_null()).sum().cast(pl.Int64).alias("with_last"),
        y.count().alias("targets"),
        *(pl.col(_probability(name)).fill_null(0.0).mean().alias(f"predicted {places[name]}") for name in known),
        *((y == name).mean().alias(f"observed {places[name]}") for name in names),
    )
    # The most frequent classes have colours of their own, in the order of their names.
    of_bins = bins["rows"].to_numpy() / rows
    share = {name: float(bins[f"observed {places[name]}"].fill_null(0.0).to_numpy() @ of_bins) for name in names}
    ranked = sorted(names, key=lambda name: -share[name])[:EXPERTS_SHOWN]
    return ClassBins(bins, rows, warmup, names, known, {name: share[name] for name in names if name in ranked})


def along_the_stream(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any], span: Any) -> dict[str, Any]:
    """Draw probabilities, labels and errors along the stream."""
    found = bins_of(predictions, metrics)
    labels = {"predicted": "Predicted probabilities", "observed": "Shares of the observed labels"}
    charts = {
        of: figures.areas(found.stack(of), span, of, f"{label}, along the stream", 220)
        for of, label in labels.items()
    }
    context: dict[str, Any] = {
        "rows": found.rows,
        "warmup": found.warmup,
        "rows_per_bin": math.ceil(found.rows / len(found.bins)),
        "classes": [
            {"name": name, "colour": f"expert{i}", "share": share}
            for i, (name, share) in enumerate(found.shown.items())
        ],
        "others": len(found.names) - len(found.shown),
        "times": times(predictions),
        "predicted_chart": charts["predicted"],
        "observed_chart": charts["observed"],
        "error_chart": None,
        "loss_chart": None,
        "rps_chart": None,
        "window_rows": 0,
        "names": found.names,
        "confusion_shown": len(found.names) <= CONFUSION_SHOWN,
        "surprises": standing.surprises(predictions, found.warmup),
    }
    scored = found.bins.filter("scored")
    context["last_tenth"] = standing.last_tenth(scored, "error", "targets")
    if len(scored):
        windows = Windows(scored)
        context["window_rows"] = windows.rows
        context["error_chart"] = _running(figures, windows, span, "error", "Running error rate", percent=True)
        context["loss_chart"] = _running(figures, windows, span, "loss", "Running log loss")
        if metrics["task"] == "ordinal":
            context["rps_chart"] = _running(figures, windows, span, "rps", "Running ranked probability score")
    return context


class Reliability(NamedTuple):
    """Observed frequencies by predicted probabilities: of two classes the second, of more the likeliest.

    Attributes
    ----------
    groups
        Rows, mean probability, frequency, and its 95% interval, of each group of rows.
    shares
        How many of the rows have a probability in each of equal bins.
    about
        The second of two classes.
    gap, chance
        The mean distance between the two, and what chance alone makes of it for a calibrated model.
    """

    groups: list[dict[str, Any]]
    shares: np.ndarray
    about: str | None
    gap: float
    chance: float

    @property
    def points(self) -> list[np.ndarray]:
        """Return probabilities, frequencies, the ends of intervals, and the shares of the bins."""
        keys = ("predicted", "observed", "low", "high")
        return [*(np.array([entry[key] for entry in self.groups]) for key in keys), self.shares]


def reliability_of(predictions: pl.LazyFrame, metrics: dict[str, Any]) -> Reliability | None:
    """Return how probabilities and frequencies of the scored rows agree; None without such rows."""
    names = _names(metrics)
    known = [name for name in names if _probability(name) in predictions.collect_schema()]
    one = metrics["task"] == "classification" and len(names) == 2 and len(known) == 2
    probability = pl.col(_probability(names[1])) if one else pl.max_horizontal(map(_probability, known))
    observed = pl.col("y") == names[1] if one else pl.col("y") == pl.col("predicted")
    place = (pl.col("predicted") * RELIABILITY_BINS).floor().clip(0, RELIABILITY_BINS - 1).cast(pl.Int64)
    scored = predictions.filter(pl.col("position") >= metrics["warmup"], pl.col("y").is_not_null()).select(
        predicted=probability.fill_null(0.0), observed=observed
    )
    sums = (pl.len().alias("rows"), pl.col("predicted").mean(), pl.col("observed").sum())
    counted = scored.group_by(place.alias("bin")).agg(*sums)
    frame = counted.sort("bin").collect(engine="streaming")
    if not len(frame):
        return None
    found, gaps, chances = [], 0.0, 0.0
    for _, rows, mean, count in frame.iter_rows():
        low, high = wilson_interval(count, rows)
        found.append({"rows": rows, "predicted": mean, "observed": count / rows, "low": low, "high": high})
        gaps += abs(count - rows * mean)
        # The gap that chance alone leaves a calibrated model with, on average.
        chances += math.sqrt(2.0 / math.pi * rows * mean * (1.0 - mean))
    total = sum(entry["rows"] for entry in found)
    shares = np.zeros(RELIABILITY_BINS)
    shares[frame["bin"].to_numpy()] = frame["rows"].to_numpy() / total
    return Reliability(found, shares, names[1] if one else None, gaps / total, chances / total)


def calibration(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any]) -> dict[str, Any]:
    """Draw observed frequencies over predicted probabilities."""
    found = reliability_of(predictions, metrics)
    if found is None:
        return {"reliability_chart": None, "reliability": [], "verdict": None, "about": None}
    groups, gap = found.groups, found.gap
    total = sum(entry["rows"] for entry in groups)
    return {
        "reliability_chart": figures.reliability(*found.points),
        "reliability": groups,
        "verdict": "few" if total < wording.MIN_ROWS else "right" if gap <= max(0.02, 2.0 * found.chance) else "off",
        "gap": gap,
        "overconfidence": sum(entry["rows"] * (entry["predicted"] - entry["observed"]) for entry in groups) / total,
        "about": found.about,
    }


def _names(metrics: dict[str, Any]) -> list[str]:
    return metrics["grades"] if metrics["task"] == "ordinal" else metrics["classes"]


def _probability(name: str) -> str:
    return f"p_{name}"


def _running(figures: Any, windows: Windows, span: Any, of: str, label: str, percent: bool = False) -> str:
    curves = curves_of(windows, of)
    return figures.scores(curves, span, of, f"{label} of the model and of the naive baselines", percent)


def curves_of(windows: Windows, of: str) -> pl.DataFrame:
    """Return a score of the model, in windows and so far, and of the naive baselines that have it, in windows."""
    curves = {
        "row": windows.ends,
        "model": windows.mean(of, "targets"),
        "so_far": windows.mean(of, "targets", so_far=True),
    }
    if windows.has(f"frequent_{of}"):
        curves["frequent"] = windows.mean(f"frequent_{of}", "targets")
    if windows.has(f"last_{of}"):
        curves["last"] = windows.mean(f"last_{of}", "with_last")
    return pl.DataFrame(curves)
