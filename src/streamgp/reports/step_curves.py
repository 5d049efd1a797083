"""Curves by how many rows ahead a forecast is, and single forecasts, on matplotlib axes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from streamgp.reports.drawing import DASHED, DOTTED, fill, ink, limits, line, percent_ticks, values_of

# Colour, width and style of the lines of errors by step, in the order of their names.
_BASELINES: tuple[tuple[str, float, Any], ...] = (
    ("last", 1.3, "solid"),
    ("average", 1.3, "solid"),
    ("average", 1.3, DASHED),
    ("average", 1.3, DOTTED),
)
_LEVELS = {"50": DOTTED, "80": DASHED, "95": "solid"}
_FAR = 20.0  # a range beyond so many times is drawn on a log scale


def styles(names: list[str]) -> dict[str, tuple[str, float, Any]]:
    """Return colour, width and style of each line."""
    others = [name for name in names if name != "model"]
    found: dict[str, tuple[str, float, Any]] = {"model": ("model", 1.8, "solid")}
    return found | {name: _BASELINES[min(i, len(_BASELINES) - 1)] for i, name in enumerate(others)}


def errors(ax: Axes, curves: Mapping[str, np.ndarray]) -> None:
    """Draw the error of the model and of each baseline at each step."""
    for name, (colour, width, style) in styles(list(curves)).items():
        line(ax, np.arange(len(curves[name])) + 1.0, curves[name], colour, width, style)
    every = np.concatenate(list(curves.values()))
    every = every[np.isfinite(every)]
    if len(every) and every.min() > 0.0 and every.max() > _FAR * every.min():
        ax.set_yscale("log")
    else:
        ax.set_ylim(*limits(np.append(every, 0.0)))


def coverage(ax: Axes, observed: Mapping[str, np.ndarray]) -> None:
    """Draw the share of targets inside bands at each step, over the nominal shares."""
    for level, shares in observed.items():
        ax.axhline(int(level) / 100.0, color=ink("muted"), linewidth=0.8, linestyle=_LEVELS[level])
        line(ax, np.arange(len(shares)) + 1.0, shares, "model", 1.6, _LEVELS[level])
    low = min((float(np.nanmin(shares)) for shares in observed.values() if np.isfinite(shares).any()), default=0.0)
    ax.set_ylim(min(0.4, low - 0.05), 1.02)
    percent_ticks(ax)


def fan(ax: Axes, before: pl.DataFrame, forecast: pl.DataFrame) -> None:
    """Draw the targets before an origin, those after it, and the median and 90% band that were forecast there."""
    ahead, known = np.arange(len(forecast)) + 1.0, np.arange(len(before)) - len(before) + 1.0
    y, low, high, middle = (values_of(forecast, name) for name in ("y", "ahead_q05", "ahead_q95", "ahead_q50"))
    fill(ax, ahead, low, high, "band")
    line(ax, ahead, middle, "model", 1.4)
    line(ax, known, values_of(before, "y"), "ink", 1.0)
    line(ax, ahead, y, "ink", 1.0)
    ax.axvline(0.5, color=ink("muted"), linewidth=0.8, linestyle=DASHED)
    ax.set_xlim(float(known[0]) if len(known) else 0.5, float(ahead[-1]))
    ax.set_ylim(*limits(values_of(before, "y"), y, low, high))
