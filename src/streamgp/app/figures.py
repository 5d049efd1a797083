"""The charts of a run's report, as inline SVG (needs matplotlib, from the extra ``plots``)."""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from streamgp.app.drawing import (
    DASHED,
    DOTTED,
    Rows,
    along_rows,
    fill,
    ink,
    limits,
    line,
    percent_ticks,
    svg_element,
    usual_limits,
    values_of,
)


def overview(bins: pl.DataFrame, rows: Rows) -> str:
    """Draw target and prediction along the whole stream: one point per bin, with the extremes inside it."""

    def draw(ax: Axes) -> None:
        x = values_of(bins, "row")
        low, high = values_of(bins, "y_min"), values_of(bins, "y_max")
        band_low, band_high = values_of(bins, "q05_min"), values_of(bins, "q95_max")
        fill(ax, x, band_low, band_high, "band")
        fill(ax, x, low, high, "range")
        line(ax, x, values_of(bins, "y_mean"), "ink", 0.9)
        line(ax, x, values_of(bins, "q50_mean"), "model", 1.3)
        ax.set_ylim(*limits(low, high, values_of(bins, "q50_mean"), *usual_limits(band_low, band_high)))

    return along_rows("overview", "Targets and predictions along the whole stream", rows, 300, draw)


def window(recent: pl.DataFrame, rows: Rows) -> str:
    """Draw every target of the last rows over the 90% band and the median; those outside the band are crosses."""

    def draw(ax: Axes) -> None:
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
        ax.set_ylim(
            *limits(y, values_of(recent, "q50"), *usual_limits(low, high), *(usual_limits(*ends) if ends else ()))
        )

    return along_rows("window", "Targets and predictions of the last rows", rows, 300, draw)


def along(bins: pl.DataFrame, x: str, y: str, rows: Rows) -> str:
    """Draw a column against another along the stream."""

    def draw(ax: Axes) -> None:
        line(ax, values_of(bins, x), values_of(bins, y), "model", 1.3)
        ax.set_ylim(*limits(values_of(bins, y)))

    return along_rows(y, y.replace("_", " ") + " along the stream", rows, 240, draw)


def running_nmse(curves: pl.DataFrame, rows: Rows, marks: Sequence[float] = ()) -> str:
    """Draw nMSE of the model (in windows and so far) and of the naive baselines (in windows), and mark some rows."""
    shown = [values_of(curves, name) for name in ("nmse", "nmse_so_far", "persistence", "running_mean")]

    def draw(ax: Axes) -> None:
        x = values_of(curves, "row")
        model, so_far, last, average = shown
        line(ax, x, average, "average", 1.3, DOTTED)
        line(ax, x, last, "last", 1.3)
        line(ax, x, so_far, "model", 1.3, DASHED)
        line(ax, x, model, "model", 1.8)
        values = np.concatenate(shown)
        values = values[np.isfinite(values)]
        if len(values) and values.min() > 0 and values.max() > 20 * values.min():
            ax.set_yscale("log")
            ax.set_ylim(values.min() / 1.25, values.max() * 1.25)
            ax.text(1, 1.02, "logarithmic scale", transform=ax.transAxes, ha="right", fontsize=10.5)
        else:
            ax.set_ylim(0, 1.08 * values.max() if len(values) and values.max() > 0 else 1)
        if len(marks):
            at = {"transform": ax.get_xaxis_transform(), "color": ink("miss"), "clip_on": False, "zorder": 4}
            ax.vlines(marks, 0, 1, linewidth=0.8, linestyle=DOTTED, **at)
            ax.plot(marks, np.zeros(len(marks)), linestyle="none", marker="^", markersize=7, markeredgewidth=0, **at)

    return along_rows("nmse", "Running nMSE of the model and of the naive baselines", rows, 240, draw)


def running_pll(curves: pl.DataFrame, rows: Rows) -> str:
    """Draw mean predictive log density of the model, in windows and so far."""

    def draw(ax: Axes) -> None:
        x, model, so_far = (values_of(curves, name) for name in ("row", "pll", "pll_so_far"))
        line(ax, x, so_far, "model", 1.3, DASHED)
        line(ax, x, model, "model", 1.8)
        ax.set_ylim(*limits(model, so_far))

    return along_rows("pll", "Running predictive log density of the model", rows, 210, draw)


def weights(bins: pl.DataFrame, rows: Rows, of: str, height: int) -> str:
    """Draw stacked weights along the scored rows (see `areas`)."""
    return areas(bins, rows, of, f"Weights of the {of} along the stream", height)


def areas(bins: pl.DataFrame, rows: Rows, name: str, label: str, height: int) -> str:
    """Draw stacked shares: the columns after ``row``, the first at the bottom; a column ``others`` is grey."""

    def draw(ax: Axes) -> None:
        x = values_of(bins, "row")
        if len(x) == 1:
            x = np.array([max(rows.start, rows.scored), rows.stop])
        base = np.zeros(len(x))
        for i, name in enumerate(bins.columns[1:]):
            top = base + values_of(bins, name)
            fill(ax, x, base, top, "others" if name == "others" else f"expert{i}")
            base = top
        ax.set_ylim(0, 1)

    return along_rows(name, label, rows, height, draw, percent=True)


def scores(curves: pl.DataFrame, rows: Rows, name: str, label: str, percent: bool = False) -> str:
    """Draw a score of the model, in windows and so far, and of the naive baselines that have it, in windows."""
    lines = {"frequent": ("average", 1.3, DOTTED), "last": ("last", 1.3, "solid")}
    lines |= {"so_far": ("model", 1.3, DASHED), "model": ("model", 1.8, "solid")}

    def draw(ax: Axes) -> None:
        shown = [column for column in lines if column in curves.columns]
        for column in shown:
            line(ax, values_of(curves, "row"), values_of(curves, column), *lines[column])
        top = max((v for v in curves.select(shown).max().row(0) if v is not None and math.isfinite(v)), default=0.0)
        ax.set_ylim(0, 1.08 * top if top > 0 else 1)

    return along_rows(name, label, rows, 240, draw, percent=percent)


def reliability(
    predicted: np.ndarray, observed: np.ndarray, low: np.ndarray, high: np.ndarray, shares: np.ndarray
) -> str:
    """Draw observed frequencies, with 95% intervals, over predicted probabilities; behind, how often those occur."""

    def draw(ax: Axes) -> None:
        edges = np.linspace(0, 1, len(shares) + 1)
        ax.bar(edges[:-1], 0.25 * shares / shares.max(), width=1 / len(shares), align="edge", color=ink("grid"))
        ax.plot([0, 1], [0, 1], color=ink("muted"), linewidth=1, linestyle=DASHED)
        ax.vlines(predicted, low, high, color=ink("model"), linewidth=1.3)
        ax.plot(predicted, observed, color=ink("model"), linewidth=1.5, marker="o", markersize=4)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_xlabel("predicted probability", loc="right")
        percent_ticks(ax)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f}%"))

    return svg_element("reliability", "Observed frequency against predicted probability", 560, 380, draw)


def coverage(nominal: np.ndarray, observed: np.ndarray) -> str:
    """Draw share of targets inside each central band against its nominal coverage."""

    def draw(ax: Axes) -> None:
        ax.plot([0, 1], [0, 1], color=ink("muted"), linewidth=1, linestyle=DASHED)
        ax.plot(nominal, observed, color=ink("model"), linewidth=1.8, marker="o", markersize=4)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_xlabel("nominal coverage", loc="right")
        percent_ticks(ax)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f}%"))

    return svg_element("coverage", "Observed against nominal coverage", 440, 330, draw)


def pit(shares: np.ndarray, low: float, high: float) -> str:
    """Draw histogram of the probability integral transform over the range that a calibrated model keeps to."""

    def draw(ax: Axes) -> None:
        edges = np.linspace(0, 1, len(shares) + 1)
        ax.bar(edges[:-1], shares, width=0.92 / len(shares), align="edge", color=ink("model"), alpha=0.5)
        ax.axhspan(low, high, color=ink("last"), alpha=0.28, linewidth=0, zorder=3)
        ax.axhline(1 / len(shares), color=ink("last"), linewidth=1.2, zorder=3)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1.12 * max(shares.max(), high))
        ax.set_xlabel("place of the target in its predicted distribution", loc="right")
        percent_ticks(ax)

    return svg_element("pit", "Histogram of the probability integral transform", 440, 330, draw)
