"""The charts of a report one by one, on axes of matplotlib: `draw`."""

from collections.abc import Iterable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from streamgp.numerics import formats
from streamgp.reports import curves, wording
from streamgp.reports.drawing import Rows, ink, percent_ticks
from streamgp.reports.pages import classification, regression
from streamgp.reports.pages.expert_weights import Member, stacked
from streamgp.reports.pages.stream import Windows, mean_weights, span_of
from streamgp.reports.run_page import page_of

KINDS = ("predictions", "errors", "calibration", "pit", "weights")
_NOT_SCORED = "expected rows after the warm-up, got none: it takes {:,}; give more rows, or a shorter warmup="


def draw(
    kind: str, metrics: dict[str, Any], predictions: pl.LazyFrame, weights: pl.LazyFrame, ax: Axes | None, last: int
) -> Axes:
    """Draw a chart of a run, with its legend; see `Evaluation.plot`.

    Parameters
    ----------
    kind
        One of `KINDS`.
    metrics, predictions, weights
        As those of `render_run`.
    ax
        Where; None for new axes.
    last
        How many rows a chart of single rows has.
    """
    labels = page_of(metrics) is classification
    kinds = [each for each in KINDS if not (labels and each == "pit")]
    if kind not in kinds:
        raise ValueError(f"kind: expected one of {', '.join(kinds)}, got {kind!r}")
    if kind != "predictions" and not metrics["scored_rows"]:
        raise ValueError(f"plot: {_NOT_SCORED.format(metrics['warmup'])}")
    if ax is None:
        size = (4.8, 4.0) if kind in ("calibration", "pit") else (9.0, 3.6)
        _, ax = plt.subplots(figsize=size, layout="constrained")
    if kind == "weights":
        return _weights(ax, metrics, predictions, weights)
    return (_OF_LABELS if labels else _OF_NUMBERS)[kind](ax, metrics, predictions, last)


def _predictions(ax: Axes, metrics: dict[str, Any], predictions: pl.LazyFrame, last: int) -> Axes:
    if last < 1:
        raise ValueError(f"last: expected at least 1 row, got {last}")
    recent = predictions.tail(last).collect()
    curves.window(ax, recent)
    inside, targets = regression.inside_of(recent)
    ax.set_title(f"The last {formats.plural(len(recent), 'row')}: {inside} of {targets:,} targets inside the band")
    entries = [_dot("target inside the band"), _cross("target outside the band"), _line("median", "model")]
    entries += [_area("90% band", "band")]
    if "conformal_low" in recent.columns:
        entries.append(_line("conformal band", "average", curves.DASHED))
    return _finish(ax, metrics["target"], entries)


def _errors(ax: Axes, metrics: dict[str, Any], predictions: pl.LazyFrame, last: int) -> Axes:
    bins, _, warmup = regression.bins_of(predictions, metrics)
    found, rows = regression.curves_of(bins, predictions, warmup)
    assert found is not None
    if metrics["nmse"] is None:
        raise ValueError("plot: expected a target that changes, whose variance errors are measured by; it never did")
    curves.errors(ax, found)
    ax.set_title(f"Error in the latest {formats.plural(rows, 'row')}")
    entries = [_line("model", "model"), _line("model, so far", "model", curves.DASHED)]
    entries += [_line(f"repeating {wording.last_value(metrics)}", "last")]
    entries += [_line("running mean", "average", curves.DOTTED)]
    return _finish(ax, "squared error ÷ variance", entries)


def _calibration(ax: Axes, metrics: dict[str, Any], predictions: pl.LazyFrame, last: int) -> Axes:
    _, observed, _, _ = regression.coverage_of(predictions, metrics)
    curves.coverage(ax, np.array(regression.LEVELS) / 100, np.array(observed))
    ax.set_title("Coverage of the bands")
    ax.set_ylabel("targets inside the band")
    return ax


def _pit(ax: Axes, metrics: dict[str, Any], predictions: pl.LazyFrame, last: int) -> Axes:
    _, _, shares, ends = regression.coverage_of(predictions, metrics)
    curves.pit(ax, shares, *ends)
    ax.set_title("Where targets fell in their distributions")
    ax.set_ylabel("share of targets")
    return ax


def _probabilities(ax: Axes, metrics: dict[str, Any], predictions: pl.LazyFrame, last: int) -> Axes:
    found = classification.bins_of(predictions, metrics)
    stack = found.stack("predicted")
    curves.areas(ax, stack, Rows(*span_of(predictions, metrics["warmup"])))
    ax.set_title("Predicted probabilities")
    percent_ticks(ax)
    entries = [_area(name, f"expert{i}") for i, name in enumerate(found.shown)]
    entries += [_area("others", "others")] if "others" in stack.columns else []
    return _finish(ax, metrics["target"], entries)


def _wrong(ax: Axes, metrics: dict[str, Any], predictions: pl.LazyFrame, last: int) -> Axes:
    windows = Windows(classification.bins_of(predictions, metrics).bins.filter("scored"))
    curves.scores(ax, classification.curves_of(windows, "error"))
    ax.set_title(f"Errors in the latest {formats.plural(windows.rows, 'row')}")
    percent_ticks(ax)
    entries = [_line("model", "model"), _line("model, so far", "model", curves.DASHED)]
    entries += [_line("repeating the last one", "last"), _line("the most frequent one", "average", curves.DOTTED)]
    return _finish(ax, "rows predicted wrong", entries)


def _reliability(ax: Axes, metrics: dict[str, Any], predictions: pl.LazyFrame, last: int) -> Axes:
    found = classification.reliability_of(predictions, metrics)
    assert found is not None
    curves.reliability(ax, *found.points)
    ax.set_title("Calibration of the probabilities")
    ax.set_ylabel(f"{metrics['target']} was {found.about}" if found.about else "the prediction was right")
    return ax


def _weights(ax: Axes, metrics: dict[str, Any], predictions: pl.LazyFrame, weights: pl.LazyFrame) -> Axes:
    bins = mean_weights(weights, predictions, metrics["warmup"])
    if not len(bins):
        raise ValueError(f"plot: {_NOT_SCORED.format(metrics['warmup'])}")
    members = [Member(e["name"], [e["name"]], e["weight"]) for e in metrics["experts"]]
    stack = stacked(bins, members)
    curves.areas(ax, stack.areas, Rows(*span_of(predictions, metrics["warmup"])))
    ax.set_title("Weights of the experts")
    percent_ticks(ax)
    entries = [_area(entry["name"], entry["colour"]) for entry in stack.legend]
    entries += [_area(f"{stack.others} others", "others")] if stack.others else []
    return _finish(ax, "share of the mixture", entries)


_OF_NUMBERS = {"predictions": _predictions, "errors": _errors, "calibration": _calibration, "pit": _pit}
_OF_LABELS = {"predictions": _probabilities, "errors": _wrong, "calibration": _reliability}


def _finish(ax: Axes, label: str, entries: Iterable[Any]) -> Axes:
    """Label the axes of a chart along the stream, with the legend beside it."""
    ax.margins(x=0)
    ax.set_ylabel(label)
    ax.set_xlabel("row")
    ax.legend(handles=list(entries), loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize="small")
    return ax


def _line(label: str, colour: str, style: Any = "solid") -> Line2D:
    return Line2D([], [], color=ink(colour), linestyle=style, label=label)


def _area(label: str, colour: str) -> Patch:
    return Patch(color=ink(colour), label=label)


def _dot(label: str) -> Line2D:
    return Line2D([], [], color=ink("ink"), linestyle="none", marker="o", markersize=3, label=label)


def _cross(label: str) -> Line2D:
    return Line2D([], [], color=ink("miss"), linestyle="none", marker="x", markersize=5, label=label)
