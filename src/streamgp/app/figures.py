"""The charts of a run's report, as inline SVG (needs matplotlib, from the extra ``plots``).

Charts carry numbers only: names, legends and captions are the page's own text, which wraps on a phone and
can hold any script. Colours are CSS variables, so that one drawing serves the light and the dark page.
"""

import io
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

# Light and dark value of each colour. Light values are distinct: they mark the colour in matplotlib's output.
# Experts: the muted scheme of Paul Tol ("Colour schemes", 2021), and his light scheme on the dark page.
PALETTE = {
    "ink": ("#1b2330", "#e8ebf0"),
    "muted": ("#5b6675", "#9ba7b6"),
    "grid": ("#e4e8ed", "#29313c"),
    "warmup": ("#f3eee1", "#2c2a22"),
    "model": ("#1f5fa8", "#74b4f7"),
    "band": ("#c6def6", "#234463"),
    "range": ("#a9b3bf", "#5d6a7b"),
    "last": ("#c4560a", "#f5a05a"),
    "average": ("#84489c", "#cb9aec"),
    "miss": ("#c8102e", "#ff7d8c"),
    "expert0": ("#88ccee", "#77aadd"),
    "expert1": ("#ddcc77", "#eedd88"),
    "expert2": ("#cc6677", "#ee8866"),
    "expert3": ("#117733", "#44bb99"),
    "expert4": ("#332288", "#b79bd9"),
    "expert5": ("#44aa99", "#99ddff"),
    "expert6": ("#882255", "#ffaabb"),
    "expert7": ("#999933", "#aaaa00"),
    "expert8": ("#aa4499", "#bbcc33"),
    "others": ("#d3d8de", "#4a5462"),
}
EXPERTS_SHOWN = sum(name.startswith("expert") for name in PALETTE)

WIDE, NARROW = 920, 360  # pixels; the page shows the one that fits
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 11.5,
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "text.color": PALETTE["muted"][0],
    "axes.labelcolor": PALETTE["muted"][0],
    "axes.edgecolor": PALETTE["muted"][0],
    "xtick.color": PALETTE["muted"][0],
    "ytick.color": PALETTE["muted"][0],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "ytick.major.size": 0,
    "axes.grid.axis": "y",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALETTE["grid"][0],
    "lines.solid_joinstyle": "round",
}
_DASHED, _DOTTED = (0, (5, 2.5)), (0, (1.2, 1.6))
_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


class Rows(NamedTuple):
    """The rows on a chart's x-axis, from `start` to `stop`; those before `scored` are the warm-up."""

    start: float
    stop: float
    scored: float


def overview(bins: pl.DataFrame, rows: Rows) -> str:
    """Target and prediction along the whole stream: one point per bin, with the extremes inside it."""

    def draw(ax: Axes) -> None:
        x = _column(bins, "row")
        low, high = _column(bins, "y_min"), _column(bins, "y_max")
        band_low, band_high = _column(bins, "q05_min"), _column(bins, "q95_max")
        _fill(ax, x, band_low, band_high, "band")
        _fill(ax, x, low, high, "range")
        line(ax, x, _column(bins, "y_mean"), "ink", 0.9)
        line(ax, x, _column(bins, "q50_mean"), "model", 1.3)
        ax.set_ylim(*_limits(low, high, _column(bins, "q50_mean"), *_usual(band_low, band_high)))

    return along_rows("overview", "Targets and predictions along the whole stream", rows, 300, draw)


def window(recent: pl.DataFrame, rows: Rows) -> str:
    """Every target of the last rows over the 90% band and the median; those outside the band are crosses."""

    def draw(ax: Axes) -> None:
        x, y = _column(recent, "row"), _column(recent, "y")
        low, high = _column(recent, "q05"), _column(recent, "q95")
        _fill(ax, x, low, high, "band")
        line(ax, x, _column(recent, "q50"), "model", 1.4)
        missed = (y < low) | (y > high)
        dots = {"linestyle": "none", "zorder": 3}
        ax.plot(x[~missed], y[~missed], marker="o", markersize=2.8, markeredgewidth=0, color=ink("ink"), **dots)
        ax.plot(x[missed], y[missed], marker="x", markersize=5, markeredgewidth=1.4, color=ink("miss"), **dots)
        ends = [_column(recent, name) for name in ("conformal_low", "conformal_high") if name in recent.columns]
        for end in ends:
            line(ax, x, end, "average", 1.1, _DASHED)
        ax.set_ylim(*_limits(y, _column(recent, "q50"), *_usual(low, high), *(_usual(*ends) if ends else ())))

    return along_rows("window", "Targets and predictions of the last rows", rows, 300, draw)


def along(bins: pl.DataFrame, x: str, y: str, rows: Rows) -> str:
    """A column against another along the stream."""

    def draw(ax: Axes) -> None:
        line(ax, _column(bins, x), _column(bins, y), "model", 1.3)
        ax.set_ylim(*_limits(_column(bins, y)))

    return along_rows(y, y.replace("_", " ") + " along the stream", rows, 240, draw)


def running_nmse(curves: pl.DataFrame, rows: Rows) -> str:
    """nMSE of the model (in windows and so far) and of the naive rivals (in windows)."""
    shown = [_column(curves, name) for name in ("nmse", "nmse_so_far", "persistence", "running_mean")]

    def draw(ax: Axes) -> None:
        x = _column(curves, "row")
        model, so_far, last, average = shown
        line(ax, x, average, "average", 1.3, _DOTTED)
        line(ax, x, last, "last", 1.3)
        line(ax, x, so_far, "model", 1.3, _DASHED)
        line(ax, x, model, "model", 1.8)
        values = np.concatenate(shown)
        values = values[np.isfinite(values)]
        if len(values) and values.min() > 0 and values.max() > 20 * values.min():
            ax.set_yscale("log")
            ax.set_ylim(values.min() / 1.25, values.max() * 1.25)
            ax.text(1, 1.02, "logarithmic scale", transform=ax.transAxes, ha="right", fontsize=10.5)
        else:
            ax.set_ylim(0, 1.08 * values.max() if len(values) and values.max() > 0 else 1)

    return along_rows("nmse", "Running nMSE of the model and of the naive rivals", rows, 240, draw)


def running_pll(curves: pl.DataFrame, rows: Rows) -> str:
    """Mean predictive log density of the model, in windows and so far."""

    def draw(ax: Axes) -> None:
        x, model, so_far = (_column(curves, name) for name in ("row", "pll", "pll_so_far"))
        line(ax, x, so_far, "model", 1.3, _DASHED)
        line(ax, x, model, "model", 1.8)
        ax.set_ylim(*_limits(model, so_far))

    return along_rows("pll", "Running predictive log density of the model", rows, 210, draw)


def weights(bins: pl.DataFrame, rows: Rows, of: str, height: int) -> str:
    """Stacked weights along the scored rows (see `areas`)."""
    return areas(bins, rows, of, f"Weights of the {of} along the stream", height)


def areas(bins: pl.DataFrame, rows: Rows, name: str, label: str, height: int) -> str:
    """Stacked shares: the columns after ``row``, the first at the bottom; a column ``others`` is grey."""

    def draw(ax: Axes) -> None:
        x = _column(bins, "row")
        if len(x) == 1:
            x = np.array([max(rows.start, rows.scored), rows.stop])
        base = np.zeros(len(x))
        for i, name in enumerate(bins.columns[1:]):
            top = base + _column(bins, name)
            _fill(ax, x, base, top, "others" if name == "others" else f"expert{i}")
            base = top
        ax.set_ylim(0, 1)

    return along_rows(name, label, rows, height, draw, percent=True)


def scores(curves: pl.DataFrame, rows: Rows, name: str, label: str, percent: bool = False) -> str:
    """A score of the model, in windows and so far, and of the naive rivals that have it, in windows."""
    lines = {"frequent": ("average", 1.3, _DOTTED), "last": ("last", 1.3, "solid")}
    lines |= {"so_far": ("model", 1.3, _DASHED), "model": ("model", 1.8, "solid")}

    def draw(ax: Axes) -> None:
        shown = [column for column in lines if column in curves.columns]
        for column in shown:
            line(ax, _column(curves, "row"), _column(curves, column), *lines[column])
        top = max((v for v in curves.select(shown).max().row(0) if v is not None and math.isfinite(v)), default=0.0)
        ax.set_ylim(0, 1.08 * top if top > 0 else 1)

    return along_rows(name, label, rows, 240, draw, percent=percent)


def reliability(told: np.ndarray, came: np.ndarray, low: np.ndarray, high: np.ndarray, shares: np.ndarray) -> str:
    """How often what was told came, with 95% intervals, over its probability; behind, how often each was told."""

    def draw(ax: Axes) -> None:
        edges = np.linspace(0, 1, len(shares) + 1)
        ax.bar(edges[:-1], 0.25 * shares / shares.max(), width=1 / len(shares), align="edge", color=ink("grid"))
        ax.plot([0, 1], [0, 1], color=ink("muted"), linewidth=1, linestyle=_DASHED)
        ax.vlines(told, low, high, color=ink("model"), linewidth=1.3)
        ax.plot(told, came, color=ink("model"), linewidth=1.5, marker="o", markersize=4)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_xlabel("probability that the model told", loc="right")
        _percent(ax)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f}%"))

    return svg_element("reliability", "How often what was told came, against its probability", 560, 380, draw)


def coverage(nominal: np.ndarray, observed: np.ndarray) -> str:
    """Share of targets inside each central band against the share that the band promised."""

    def draw(ax: Axes) -> None:
        ax.plot([0, 1], [0, 1], color=ink("muted"), linewidth=1, linestyle=_DASHED)
        ax.plot(nominal, observed, color=ink("model"), linewidth=1.8, marker="o", markersize=4)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_xlabel("what the band promised", loc="right")
        _percent(ax)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f}%"))

    return svg_element("coverage", "Observed against nominal coverage", 440, 330, draw)


def pit(shares: np.ndarray, low: float, high: float) -> str:
    """Histogram of the probability integral transform over the range that a calibrated model keeps to."""

    def draw(ax: Axes) -> None:
        edges = np.linspace(0, 1, len(shares) + 1)
        ax.bar(edges[:-1], shares, width=0.92 / len(shares), align="edge", color=ink("model"), alpha=0.5)
        ax.axhspan(low, high, color=ink("last"), alpha=0.28, linewidth=0, zorder=3)
        ax.axhline(1 / len(shares), color=ink("last"), linewidth=1.2, zorder=3)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1.12 * max(shares.max(), high))
        ax.set_xlabel("place of the target in its predicted distribution", loc="right")
        _percent(ax)

    return svg_element("pit", "Histogram of the probability integral transform", 440, 330, draw)


def _column(frame: pl.DataFrame, name: str) -> np.ndarray:
    return frame[name].cast(pl.Float64).fill_null(math.nan).to_numpy()


def ink(name: str) -> str:
    """A colour of the palette for matplotlib; the page swaps it for its own of light or dark."""
    return PALETTE[name][0]


def _fill(ax: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, colour: str) -> None:
    # The hairline in the same colour closes the seams that anti-aliasing leaves between stacked areas.
    ax.fill_between(x, low, high, color=ink(colour), linewidth=0.4)
    if len(x) == 1:  # an area of no width would not show
        ax.vlines(x, low, high, color=ink(colour), linewidth=12)


def line(ax: Axes, x: np.ndarray, y: np.ndarray, colour: str, width: float, style: Any = "solid") -> None:
    """A line in a colour of the palette."""
    marker = "D" if len(x) == 1 else None  # a line of one point would not show
    ax.plot(x, y, color=ink(colour), linewidth=width, linestyle=style, marker=marker, markersize=7)


def _limits(*values: np.ndarray) -> tuple[float, float]:
    """Limits that hold all finite values with a margin; never empty."""
    finite = np.concatenate(values)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def _usual(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far bands reach, but for a few vast ones (a model's first rows) that would flatten all else."""
    low, high = low[np.isfinite(low)], high[np.isfinite(high)]
    return (np.quantile(low, [0.02]), np.quantile(high, [0.98])) if len(low) else (low, high)


def _percent(ax: Axes) -> None:
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{round(100 * v, 1):g}%"))


def _number_ticks(ax: Axes) -> None:
    """Plain numbers on the y-axis with just the decimals that tell neighbouring ticks apart."""
    if ax.get_yscale() == "log":
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        return
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ticks = ax.get_yticks()
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    longest = max(abs(ticks[0]), abs(ticks[-1]))
    # Steps of 2.5 need one decimal more than their size tells.
    decimals += any(abs(t - round(t, decimals)) > 1e-6 * (ticks[1] - ticks[0]) for t in ticks)
    style = f",.{decimals}f" if longest < 1e7 and decimals <= 5 else ".6g"
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: format(v, style).replace("-", "\N{MINUS SIGN}")))


def along_rows(
    name: str, label: str, rows: Rows, height: int, draw: Callable[[Axes], None], percent: bool = False
) -> str:
    """A chart along the stream, drawn once for a desktop and once for a phone."""

    def along(ax: Axes) -> None:
        if rows.scored > rows.start:
            ax.axvspan(rows.start, min(rows.scored, rows.stop), color=ink("warmup"), linewidth=0, zorder=0)
        draw(ax)
        ax.set_xlim(rows.start, rows.stop)
        ax.set_xlabel("row of the file, counted from 0", loc="right")
        narrow = ax.get_window_extent().width < WIDE / 2
        ax.xaxis.set_major_locator(MaxNLocator(4 if narrow else 9, integer=True, min_n_ticks=1))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
        (_percent if percent else _number_ticks)(ax)

    wide = svg_element(f"{name}-wide", label, WIDE, height, along)
    narrow = svg_element(f"{name}-narrow", label, NARROW, round(0.85 * height), along)
    return f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


def svg_element(name: str, label: str, width: int, height: int, draw: Callable[[Axes], None]) -> str:
    """A chart as an element of the page."""
    # 72 dots per inch make matplotlib's points pixels of the page; the salt keeps the charts' ids apart.
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        ax = figure.add_axes((0.1, 0.1, 0.8, 0.8))
        draw(ax)
        # Measure the labels, so that long numbers are never cut off and short ones waste no space.
        labels = ax.yaxis.get_major_formatter().format_ticks(list(ax.get_yticks()))
        left = max(48, 8 + 7.2 * max(map(len, labels), default=0))
        ax.set_position((left / width, 44 / height, 1 - (left + 24) / width, 1 - 60 / height))
        out = io.StringIO()
        figure.savefig(out, format="svg", dpi=180, transparent=True, metadata=_METADATA)
    return _inline(out.getvalue(), label, width, height)


def _tenth(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"


def _inline(svg: str, label: str, width: int, height: int) -> str:
    """Turn matplotlib's file into an element of the page: its colours, its font, no outside addresses."""
    body = svg[svg.index("<g ") :]
    body = re.sub(r' id="[\w.]+_\d+"', "", body)  # the same in every chart, and nothing refers to them
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    # Tenths of a pixel are enough for shapes (inside tags); the text of the tick labels stays as it is.
    body = re.sub(r"<[^>]+>", lambda tag: re.sub(r"-?\d+\.\d{2,}", _tenth, tag[0]), body)
    body = re.sub(r"\s*\n\s*", " ", body).replace("xlink:href", "href")
    for colour, (light, _) in PALETTE.items():
        body = body.replace(light, f"var(--{colour})")
    return f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}">{body}'
