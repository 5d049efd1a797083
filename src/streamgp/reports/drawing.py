"""Drawing tools for the charts of a report: axes along the rows, lines and areas in the page's colours, SVG.

Charts carry numbers only: names, legends and captions are the page's own text, which wraps on a phone and
can hold any script. Colours are CSS variables, so that one drawing serves the light and the dark page.
"""

import io
import json
import math
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from streamgp.numerics import formats
from streamgp.reports.palette import PALETTE

# Values beyond so many times the range of nearly all values do not decide the limits of a chart.
FAR = 4.0
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
DASHED, DOTTED = (0, (5, 2.5)), (0, (1.2, 1.6))
_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


class Rows(NamedTuple):
    """The rows on a chart's x-axis, from `start` to `stop`; those before `scored` are the warm-up.

    `clock` has the times of some rows, where the stream has any: numbers of the rows, and their times.
    """

    start: float
    stop: float
    scored: float
    clock: tuple[np.ndarray, np.ndarray] | None = None


def values_of(frame: pl.DataFrame, name: str) -> np.ndarray:
    """Return a column as numbers, NaN where it is missing."""
    return frame[name].cast(pl.Float64).fill_null(math.nan).to_numpy()


def ink(name: str) -> str:
    """Return a colour of the palette for matplotlib; the page swaps it for its own of light or dark."""
    return PALETTE[name][0]


def fill(ax: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, colour: str) -> None:
    """Fill the area between two lines with a colour of the palette."""
    # The hairline in the same colour closes the seams that anti-aliasing leaves between stacked areas.
    ax.fill_between(x, low, high, color=ink(colour), linewidth=0.4)
    if len(x) == 1:  # an area of no width would not show
        ax.vlines(x, low, high, color=ink(colour), linewidth=12)


def line(ax: Axes, x: np.ndarray, y: np.ndarray, colour: str, width: float, style: Any = "solid") -> None:
    """Draw a line in a colour of the palette."""
    marker = "D" if len(x) == 1 else None  # a line of one point would not show
    ax.plot(x, y, color=ink(colour), linewidth=width, linestyle=style, marker=marker, markersize=7)


def limits(*values: np.ndarray) -> tuple[float, float]:
    """Return limits that hold all finite values with a margin; never empty."""
    finite = np.concatenate(values)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def robust_limits(*values: np.ndarray) -> tuple[float, float]:
    """Return `limits` of nearly all values: a few that lie far beyond the others must not flatten these.

    Where the range of all is more than `FAR` times that of their middle 99%, what lies beyond that by more than its
    own range is left out.
    """
    every = np.concatenate(values)
    every = every[np.isfinite(every)]
    if not len(every):
        return limits(every)
    low, high = np.quantile(every, [0.005, 0.995])
    usual = high - low
    if np.ptp(every) <= FAR * usual:
        return limits(every)
    return limits(every[(every >= low - usual) & (every <= high + usual)])


def mark_beyond(ax: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Mark what lies beyond the limits of the y-axis by triangles at its ends."""
    bottom, top = ax.get_ylim()
    for at, marker, beyond in ((bottom, "v", low < bottom), (top, "^", high > top)):
        if beyond.any():
            where = {"linestyle": "none", "marker": marker, "markersize": 7, "markeredgewidth": 0, "clip_on": False}
            ax.plot(x[beyond], np.full(int(beyond.sum()), at), color=ink("miss"), zorder=4, **where)


def usual_limits(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how far bands reach, but for a few vast ones (a model's first rows) that would flatten all else."""
    low, high = low[np.isfinite(low)], high[np.isfinite(high)]
    return (np.quantile(low, [0.02]), np.quantile(high, [0.98])) if len(low) else (low, high)


def percent_ticks(ax: Axes) -> None:
    """Write shares on the y-axis as percentages."""
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{round(100 * v, 1):g}%"))


def number_ticks(ax: Axes) -> None:
    """Write plain numbers on the y-axis with just the decimals that distinguish neighbouring ticks."""
    if ax.get_yscale() == "log":
        low, high = ax.get_ylim()
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1e3 * low else (1,), numticks=8))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        return
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ticks = ax.get_yticks()
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    longest = max(abs(ticks[0]), abs(ticks[-1]))
    # Steps of 2.5 need one decimal more than their size suggests.
    decimals += any(abs(t - round(t, decimals)) > 1e-6 * (ticks[1] - ticks[0]) for t in ticks)
    style = f",.{decimals}f" if longest < 1e7 and decimals <= 5 else ".6g"
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: format(v, style).replace("-", "\N{MINUS SIGN}")))


def _row_and_time(rows: Rows) -> Callable[[float, Any], str]:
    """Return what writes a row's number on the x-axis, with its time below where there is one."""
    if rows.clock is None:
        return lambda v, _: f"{v:,.0f}"
    numbers, times = rows.clock
    ends = np.interp([rows.start, rows.stop], numbers, times)
    return lambda v, _: f"{v:,.0f}\n{formats.clock_within(float(np.interp(v, numbers, times)), *ends.tolist())}"


def along_rows(
    name: str,
    label: str,
    rows: Rows,
    height: int,
    draw: Callable[[Axes], None],
    percent: bool = False,
    readout: str = "",
) -> str:
    """Draw a chart along the stream, once for a desktop and once for a phone; see `readout_of`."""

    def along(ax: Axes) -> None:
        if rows.scored > rows.start:
            ax.axvspan(rows.start, min(rows.scored, rows.stop), color=ink("warmup"), linewidth=0, zorder=0)
        draw(ax)
        ax.set_xlim(rows.start, rows.stop)
        ax.set_xlabel("row, counted from 0" if rows.clock is None else "row, and its time", loc="right")
        ax.xaxis.set_major_formatter(FuncFormatter(written))
        (percent_ticks if percent else number_ticks)(ax)

    def fit(ax: Axes, width: int) -> None:
        narrow = width < WIDE / 2
        ticks = (4 if narrow else 9) if len(written(rows.stop, None).partition("\n")[2]) < 8 else (2 if narrow else 7)
        ax.xaxis.set_major_locator(MaxNLocator(ticks, integer=True, min_n_ticks=1))

    written = _row_and_time(rows)
    return _chart(name, label, height, along, fit, readout)


def along_steps(
    name: str,
    label: str,
    steps: int,
    height: int,
    draw: Callable[[Axes], None],
    percent: bool = False,
    readout: str = "",
) -> str:
    """Draw a chart along the steps of a forecast, once for a desktop and once for a phone; see `readout_of`."""

    def along(ax: Axes) -> None:
        draw(ax)
        ax.set_xlim(1.0 if steps > 1 else 0.5, max(float(steps), 1.5))
        ax.set_xlabel("rows ahead", loc="right")
        (percent_ticks if percent else number_ticks)(ax)

    def fit(ax: Axes, width: int) -> None:
        ax.xaxis.set_major_locator(MaxNLocator(5 if width < WIDE / 2 else 12, integer=True, min_n_ticks=1))

    return _chart(name, label, height, along, fit, readout)


def _chart(
    name: str, label: str, height: int, draw: Callable[[Axes], None], fit: Callable[[Axes, int], None], readout: str
) -> str:
    """Draw a chart for a desktop, a little lower for a phone, with what it says under the pointer."""
    both = wide_and_narrow(name, label, (height, round(0.85 * height)), draw, fit)
    return f'<div class="chart" data-readout="{readout}">{both}</div>' if readout else both


def readout_of(x: np.ndarray, series: Mapping[str, np.ndarray]) -> str:
    """Return what a chart says at each of its points, by the name of the line, as an attribute of its element."""

    def plain(values: np.ndarray) -> list[float | None]:
        return [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()]

    points = {"x": x.tolist(), "series": [[name, plain(values)] for name, values in series.items()]}
    return escape(json.dumps(points, separators=(",", ":")))


def svg_element(name: str, label: str, width: int, height: int, draw: Callable[[Axes], None]) -> str:
    """Draw a chart as an element of the page."""
    with matplotlib.rc_context(_STYLE):
        figure = _empty(width, height)
        draw(figure.axes[0])
        return _saved(figure, name, label, width, height)


def wide_and_narrow(
    name: str,
    label: str,
    heights: tuple[int, int],
    draw: Callable[[Axes], None],
    fit: Callable[[Axes, int], None] = lambda ax, width: None,
) -> str:
    """Draw a chart once, and return it as wide as a desktop and as a phone, each `fit` to its width."""
    elements = []
    with matplotlib.rc_context(_STYLE):
        figure = _empty(WIDE, heights[0])
        draw(figure.axes[0])
        for form, width, height in zip(("wide", "narrow"), (WIDE, NARROW), heights, strict=True):
            figure.set_size_inches(width / 72, height / 72)
            fit(figure.axes[0], width)
            elements.append(f'<div class="{form}">{_saved(figure, f"{name}-{form}", label, width, height)}</div>')
    return "".join(elements)


def _empty(width: int, height: int) -> Figure:
    # 72 dots per inch make matplotlib's points pixels of the page.
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    figure.add_axes((0.1, 0.1, 0.8, 0.8))
    return figure


def _saved(figure: Figure, name: str, label: str, width: int, height: int) -> str:
    """Return what is drawn as an element of the page, with as much room for labels as they need."""
    (ax,) = figure.axes
    # Measure the labels, so that long numbers are never cut off and short ones waste no space.
    labels = ax.yaxis.get_major_formatter().format_ticks(list(ax.get_yticks()))
    left = max(48, 8 + 7.2 * max(map(len, labels), default=0))
    below_ticks = ax.xaxis.get_major_formatter().format_ticks(list(ax.get_xticks()))
    lines = max((text.count("\n") for text in below_ticks), default=0)
    below = (44 if ax.get_xlabel() else 24) + 14 * lines
    # Half of the last label needs space.
    right = 40 if lines else 24
    ax.set_position((left / width, below / height, 1 - (left + right) / width, 1 - (below + 16) / height))
    first, last = ax.get_xlim()
    ends = f"{left / width:.4f} {1 - right / width:.4f} {first:.6g} {last:.6g}"
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):  # the salt keeps the ids of the charts apart
        figure.savefig(out, format="svg", dpi=180, transparent=True, metadata=_METADATA)
    return _inline(out.getvalue(), label, width, height, ends)


def _tenth(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"


def _inline(svg: str, label: str, width: int, height: int, ends: str) -> str:
    """Turn matplotlib's file into an element of the page: its colours, its font, no outside addresses.

    `ends` are those of the x-axis, as shares of the width and as numbers.
    """
    body = svg[svg.index("<g ") :]
    # These ids are the same in every chart, and nothing refers to them.
    body = re.sub(r' id="[\w.]+_\d+"', "", body)
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    # Tenths of a pixel are enough for shapes (inside tags); the text of the tick labels stays as it is.
    body = re.sub(r"<[^>]+>", lambda tag: re.sub(r"-?\d+\.\d{2,}", _tenth, tag[0]), body)
    body = re.sub(r"\s*\n\s*", " ", body).replace("xlink:href", "href")
    for colour, (light, _) in PALETTE.items():
        body = body.replace(light, f"var(--{colour})")
    return f'<svg role="img" aria-label="{label}" data-ends="{ends}" viewBox="0 0 {width} {height}">{body}'
