"""The charts of a run's report, as inline SVG."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from streamgp.numerics import formats
from streamgp.reports import curves, step_curves
from streamgp.reports.drawing import (
    DASHED,
    DOTTED,
    Rows,
    along_rows,
    along_steps,
    fill,
    ink,
    limits,
    line,
    mark_beyond,
    number_ticks,
    readout_of,
    robust_limits,
    svg_element,
    usual_limits,
    values_of,
)
from streamgp.reports.kinds_chart import Kinds, Scale


def _course(label: str, values: np.ndarray) -> str:
    """Return a chart's label with where its line begins and ends."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return label
    return f"{label}: from {formats.number(float(finite[0]), 3)} to {formats.number(float(finite[-1]), 3)}"


def _readout(frame: pl.DataFrame, series: Mapping[str, str]) -> str:
    """Return what a chart says under the pointer: columns by the names of their lines."""
    x = np.round(values_of(frame, "row"), 1)
    return readout_of(x, {name: values_of(frame, column) for name, column in series.items()})


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
        known = bins.filter("scored") if bins["scored"].any() else bins  # a model's first guess has no scale yet
        ends = (values_of(known, "q50_mean"), *usual_limits(band_low, band_high))
        ax.set_ylim(*robust_limits(low, high, *ends))
        mark_beyond(ax, x, low, high)

    ends = " to ".join(formats.number(bins.select(end).item()) for end in (pl.min("y_min"), pl.max("y_max")))
    label = f"Targets and predictions along the whole stream: targets from {ends}"
    series = {
        "target": "y_mean",
        "lowest target": "y_min",
        "highest target": "y_max",
        "median": "q50_mean",
        "band from": "q05_min",
        "band to": "q95_max",
    }
    return along_rows("overview", label, rows, 300, draw, readout=_readout(bins, series))


def window(recent: pl.DataFrame, rows: Rows) -> str:
    """Draw the last rows one by one (see `curves.window`)."""
    inside = recent.select(pl.col("y").is_between("q05", "q95").mean()).item()
    label = f"Targets and predictions of the last rows: {formats.share(inside)} of the targets inside the 90% band"
    readout = _readout(recent, {"target": "y", "median": "q50", "band from": "q05", "band to": "q95"})
    return along_rows("window", label, rows, 300, lambda ax: curves.window(ax, recent), readout=readout)


def along(bins: pl.DataFrame, x: str, y: str, rows: Rows) -> str:
    """Draw a column against another along the stream."""

    def draw(ax: Axes) -> None:
        line(ax, values_of(bins, x), values_of(bins, y), "model", 1.3)
        ax.set_ylim(*limits(values_of(bins, y)))

    return along_rows(y, _course(y.replace("_", " ") + " along the stream", values_of(bins, y)), rows, 240, draw)


def running_nmse(scores: pl.DataFrame, rows: Rows, marks: Sequence[float] = ()) -> str:
    """Draw the error along the stream (see `curves.errors`), and mark some rows."""

    def draw(ax: Axes) -> None:
        curves.errors(ax, scores)
        if len(marks):
            at = {"transform": ax.get_xaxis_transform(), "color": ink("miss"), "clip_on": False, "zorder": 4}
            ax.vlines(marks, 0, 1, linewidth=0.8, linestyle=DOTTED, **at)
            ax.plot(marks, np.zeros(len(marks)), linestyle="none", marker="^", markersize=7, markeredgewidth=0, **at)

    label = _course("Running nMSE of the model, and of the naive baselines", values_of(scores, "model"))
    series = {"model": "model", "so far": "so_far", "last value": "persistence", "running mean": "running_mean"}
    return along_rows("nmse", label, rows, 240, draw, readout=_readout(scores, series))


def running_pll(scores: pl.DataFrame, rows: Rows) -> str:
    """Draw the mean predictive log density of the model, in windows and so far."""

    def draw(ax: Axes) -> None:
        x, model, so_far = (values_of(scores, name) for name in ("row", "pll", "pll_so_far"))
        line(ax, x, so_far, "model", 1.3, DASHED)
        line(ax, x, model, "model", 1.8)
        ax.set_ylim(*limits(model, so_far))

    label = _course("Running predictive log density of the model", values_of(scores, "pll"))
    readout = _readout(scores, {"model": "pll", "so far": "pll_so_far"})
    return along_rows("pll", label, rows, 210, draw, readout=readout)


def weights(bins: pl.DataFrame, rows: Rows, of: str, height: int) -> str:
    """Draw stacked weights along the scored rows (see `areas`)."""
    return areas(bins, rows, of, f"Weights of the {of} along the stream", height)


def areas(bins: pl.DataFrame, rows: Rows, name: str, label: str, height: int) -> str:
    """Draw stacked shares along the stream (see `curves.areas`)."""
    return along_rows(name, label, rows, height, lambda ax: curves.areas(ax, bins, rows), percent=True)


def scores(windows: pl.DataFrame, rows: Rows, name: str, label: str, percent: bool = False) -> str:
    """Draw a score along the stream (see `curves.scores`)."""
    label = _course(label, values_of(windows, "model"))
    named = {"model": "model", "so far": "so_far", "most frequent": "frequent", "last one": "last"}
    readout = _readout(windows, {name: column for name, column in named.items() if column in windows.columns})
    return along_rows(name, label, rows, 240, lambda ax: curves.scores(ax, windows), percent, readout)


def reliability(*found: np.ndarray) -> str:
    """Draw frequencies over predicted probabilities (see `curves.reliability`)."""
    label = "Observed frequency against predicted probability"
    return svg_element("reliability", label, 560, 380, lambda ax: curves.reliability(ax, *found))


def coverage(nominal: np.ndarray, observed: np.ndarray) -> str:
    """Draw the coverage of the bands (see `curves.coverage`)."""
    furthest = int(np.argmax(np.abs(observed - nominal)))
    label = (
        f"Observed against nominal coverage: furthest off, the {formats.share(nominal[furthest])} band contains "
        f"{formats.share(observed[furthest])}"
    )
    return svg_element("coverage", label, 440, 330, lambda ax: curves.coverage(ax, nominal, observed))


def pit(shares: np.ndarray, low: float, high: float) -> str:
    """Draw where targets fell in their distributions (see `curves.pit`)."""
    off = int(np.sum((shares < low) | (shares > high)))
    label = f"Histogram of the probability integral transform: {off} of {len(shares)} bars outside the strip"
    return svg_element("pit", label, 440, 330, lambda ax: curves.pit(ax, shares, low, high))


def step_errors(rmse: Mapping[str, np.ndarray]) -> str:
    """Draw errors by how many rows ahead a forecast is (see `step_curves.errors`)."""
    model = rmse["model"]
    at = np.arange(len(model)) + 1.0
    label = _course(f"Error of forecasts 1 to {len(model)} rows ahead", model)
    return along_steps(
        "steps", label, len(model), 240, lambda ax: step_curves.errors(ax, rmse), readout=readout_of(at, rmse)
    )


def step_style(names: list[str], name: str) -> tuple[str, str]:
    """Return colour and style of a line of `step_errors`, as legends have them."""
    colour, _, style = step_curves.styles(names)[name]
    return colour, "line dashed" if style == DASHED else "line dotted" if style == DOTTED else "line"


def step_coverage(observed: Mapping[str, np.ndarray]) -> str:
    """Draw the coverage of bands by how many rows ahead a forecast is (see `step_curves.coverage`)."""
    count = len(next(iter(observed.values())))
    label = f"Targets inside the bands of {', '.join(observed)}%, 1 to {count} rows ahead"
    named = {f"inside the {level}% band": shares for level, shares in observed.items()}
    readout = readout_of(np.arange(count) + 1.0, named)
    return along_steps(
        "step-coverage", label, count, 210, lambda ax: step_curves.coverage(ax, observed), True, readout
    )


def fan(name: str, title: str, before: pl.DataFrame, forecast: pl.DataFrame) -> str:
    """Draw one forecast (see `step_curves.fan`), so small that one chart serves desktop and phone."""

    def draw(ax: Axes) -> None:
        step_curves.fan(ax, before, forecast)
        number_ticks(ax)
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))

    inside = forecast.select(pl.col("y").is_between("ahead_q05", "ahead_q95").mean()).item()
    label = f"Forecast {title}: {formats.share(inside)} of the targets inside the 90% band"
    return svg_element(name, label, 280, 162, draw)


def kinds(name: str, label: str, kinds: Kinds, scale: Scale) -> str:
    """Draw the 90% band by kinds of rows (see `curves.kinds`), so small that one chart serves desktop and phone."""
    return svg_element(name, label, 280, 162, lambda ax: curves.kinds(ax, kinds, scale))
