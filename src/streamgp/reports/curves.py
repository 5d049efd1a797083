"""Lines, areas and dots on matplotlib axes, shared by the charts of reports and of `Evaluation.plot`."""

import math

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from streamgp.reports.drawing import (
    DASHED,
    DOTTED,
    Rows,
    fill,
    ink,
    line,
    mark_beyond,
    percent_ticks,
    robust_limits,
    usual_limits,
    values_of,
)
from streamgp.reports.kinds_chart import Kinds, Scale

_BARS = 0.3  # the height of the widest bar, as a share of that of the axis of coverage

# Colour, width and style of the lines of scores, in the order in which they are drawn.
SCORES = {
    "running_mean": ("average", 1.3, DOTTED),
    "frequent": ("average", 1.3, DOTTED),
    "persistence": ("last", 1.3, "solid"),
    "last": ("last", 1.3, "solid"),
    "so_far": ("model", 1.3, DASHED),
    "model": ("model", 1.8, "solid"),
}


def window(ax: Axes, recent: pl.DataFrame) -> None:
    """Draw every target over the 90% band and the median; those outside the band are crosses."""
    x, y = values_of(recent, "row"), values_of(recent, "y")
    low, high = values_of(recent, "q05"), values_of(recent, "q95")
    fill(ax, x, low, high, "band")
    line(ax, x, values_of(recent, "q50"), "model", 1.4)
    missed = (y < low) | (y > high)
    dots = {"linestyle": "none", "zorder": 3}
    ax.plot(x[~missed], y[~missed], marker="o", markersize=2.8, markeredgewidth=0, color=ink("ink"), **dots)
    ax.plot(x[missed], y[missed], marker="x", markersize=5, markeredgewidth=1.4, color=ink("miss"), **dots)
    ends = [values_of(recent, name) for name in ("conformal_low", "conformal_high") if name in recent.columns]
    for end in ends:
        line(ax, x, end, "average", 1.1, DASHED)
    middle = values_of(recent, "q50")
    ax.set_ylim(*robust_limits(y, middle, *usual_limits(low, high), *(usual_limits(*ends) if ends else ())))
    mark_beyond(ax, x, y, y)


def errors(ax: Axes, curves: pl.DataFrame) -> None:
    """Draw the nMSE of the model (in windows and so far) and of the naive baselines (in windows)."""
    values = np.concatenate(_score_lines(ax, curves))
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and values.max() > 20 * values.min():
        ax.set_yscale("log")
        ax.set_ylim(values.min() / 1.25, values.max() * 1.25)
        ax.text(1, 1.02, "logarithmic scale", transform=ax.transAxes, ha="right", fontsize=10.5)
    else:
        ax.set_ylim(0, 1.08 * values.max() if len(values) and values.max() > 0 else 1)


def scores(ax: Axes, curves: pl.DataFrame) -> None:
    """Draw a score of the model, in windows and so far, and of the naive baselines that have it, in windows."""
    top = max((float(v) for each in _score_lines(ax, curves) for v in each if math.isfinite(v)), default=0.0)
    ax.set_ylim(0, 1.08 * top if top > 0 else 1)


def _score_lines(ax: Axes, curves: pl.DataFrame) -> list[np.ndarray]:
    """Draw the lines that there are, and return their values."""
    drawn = [name for name in SCORES if name in curves.columns]
    for name in drawn:
        line(ax, values_of(curves, "row"), values_of(curves, name), *SCORES[name])
    return [values_of(curves, name) for name in drawn]


def areas(ax: Axes, bins: pl.DataFrame, rows: Rows) -> None:
    """Draw stacked shares: the columns after ``row``, the first at the bottom; a column ``others`` is grey."""
    x = values_of(bins, "row")
    if len(x) == 1:
        x = np.array([max(rows.start, rows.scored), rows.stop])
    base = np.zeros(len(x))
    for i, name in enumerate(bins.columns[1:]):
        top = base + values_of(bins, name)
        fill(ax, x, base, top, "others" if name == "others" else f"expert{i}")
        base = top
    ax.set_ylim(0, 1)


def reliability(
    ax: Axes, predicted: np.ndarray, observed: np.ndarray, low: np.ndarray, high: np.ndarray, shares: np.ndarray
) -> None:
    """Draw observed frequencies, with 95% intervals, over predicted probabilities; behind, how often those occur."""
    edges = np.linspace(0, 1, len(shares) + 1)
    ax.bar(edges[:-1], 0.25 * shares / shares.max(), width=1 / len(shares), align="edge", color=ink("grid"))
    ax.plot([0, 1], [0, 1], color=ink("muted"), linewidth=1, linestyle=DASHED)
    ax.vlines(predicted, low, high, color=ink("model"), linewidth=1.3)
    ax.plot(predicted, observed, color=ink("model"), linewidth=1.5, marker="o", markersize=4)
    _unit_square(ax, "predicted probability")


def coverage(ax: Axes, nominal: np.ndarray, observed: np.ndarray) -> None:
    """Draw the share of targets inside each central band against its nominal coverage."""
    ax.plot([0, 1], [0, 1], color=ink("muted"), linewidth=1, linestyle=DASHED)
    ax.plot(nominal, observed, color=ink("model"), linewidth=1.8, marker="o", markersize=4)
    _unit_square(ax, "nominal coverage")


def _unit_square(ax: Axes, label: str) -> None:
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel(label, loc="right")
    percent_ticks(ax)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f}%"))


def pit(ax: Axes, shares: np.ndarray, low: float, high: float) -> None:
    """Draw the histogram of the probability integral transform over the range that a calibrated model keeps to."""
    edges = np.linspace(0, 1, len(shares) + 1)
    ax.bar(edges[:-1], shares, width=0.92 / len(shares), align="edge", color=ink("model"), alpha=0.5)
    ax.axhspan(low, high, color=ink("last"), alpha=0.28, linewidth=0, zorder=3)
    ax.axhline(1 / len(shares), color=ink("last"), linewidth=1.2, zorder=3)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.12 * max(shares.max(), high))
    ax.set_xlabel("place of the target in its predicted distribution", loc="right")
    percent_ticks(ax)


def kinds(ax: Axes, kinds: Kinds, scale: Scale) -> None:
    """Draw the coverage of the parts of rows over what is tolerated, and bars of the mean width at the foot."""
    at, coverage, slack = np.array(kinds.parts), np.array(kinds.coverage), np.array(kinds.slack)
    low, high = np.maximum(0.9 - slack, scale.lowest), np.minimum(0.9 + slack, 1.0)
    ax.bar(at, high - low, 1.0, low, color=ink("warmup"), linewidth=0.4, edgecolor=ink("warmup"))
    ax.axhline(0.9, color=ink("muted"), linewidth=1, linestyle=DASHED)
    size = min(8.0, 80.0 / kinds.among)
    for off, colour in ((False, "model"), (True, "miss")):
        here = (np.abs(coverage - 0.9) > slack) == off
        ax.plot(at[here], coverage[here], "o", color=ink(colour), markersize=size, markeredgewidth=0, clip_on=False)
    # The bars share the axis below the lowest coverage: a second pair of axes would double the time of the chart.
    tall = _BARS * (1.0 - scale.lowest)
    foot = scale.lowest - 1.2 * tall
    unit = tall / (max(scale.widest, scale.usual) or 1.0)
    ax.bar(at, unit * np.array(kinds.width), 0.7, foot, color=ink("range"), linewidth=0)
    ax.axhline(foot + unit * scale.usual, color=ink("muted"), linewidth=1, linestyle=DASHED)
    ax.set_xlim(-0.5, kinds.among - 0.5)
    ax.set_ylim(foot, 1.0)
    ax.set_yticks([foot, scale.lowest, 0.9, 1.0], ["width", f"{100 * scale.lowest:.0f}%", "90%", "100%"])
    ax.set_xticks(list(kinds.labels), list(kinds.labels.values()))
