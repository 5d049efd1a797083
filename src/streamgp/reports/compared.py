"""The charts of a comparison, of models or of runs."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from matplotlib.axes import Axes

from streamgp.reports.drawing import Rows, along_rows, ink, limits, line, values_of

# Of the lines, the first model's first: those of the palette that stand out from a page three to one.
COLOURS = ("model", "last", "average", "expert3", "miss", "expert6", "muted")


def colour(number: int) -> str:
    """Return the colour of a line by its number."""
    return COLOURS[number % len(COLOURS)]


def draw(ax: Axes | None, first: str, rows: np.ndarray, lines: Mapping[str, np.ndarray]) -> Axes:
    """Draw sums of differences to the `first` model along the rows, a line for each other model; see `Comparison`."""
    if ax is None:
        _, ax = plt.subplots(figsize=(9.0, 3.6), layout="constrained")
    ax.axhline(0.0, color=ink(colour(0)), linewidth=1.8, label=first)
    for i, (name, values) in enumerate(lines.items(), start=1):
        ax.plot(rows, values, color=ink(colour(i)), linewidth=1.4, label=name)
    ax.margins(x=0)
    ax.set_title(f"Squared error beyond that of {first}, added up")
    ax.set_ylabel("squared error ÷ variance")
    ax.set_xlabel("row")
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize="small")
    return ax


def running(curves: pl.DataFrame, rows: np.ndarray, score: str) -> str:
    """Draw a score of every run along the stream, in windows."""
    return _lines("running", f"Running {score} of every run", curves, rows)


def sums(curves: pl.DataFrame, rows: np.ndarray, score: str) -> str:
    """Draw how much every run has lost more than the first one, added up along the stream."""
    return _lines("sums", f"{score} beyond that of the first run, added up", curves, rows)


def _lines(name: str, label: str, curves: pl.DataFrame, rows: np.ndarray) -> str:
    """Draw the columns after ``row`` along the stream, the first one on top."""
    first, last = float(rows[0]), float(rows[-1])

    def draw_on(ax: Axes) -> None:
        x, runs = values_of(curves, "row"), curves.columns[1:]
        for i in reversed(range(len(runs))):
            line(ax, x, values_of(curves, runs[i]), colour(i), 1.8 if i == 0 else 1.4)
        ax.set_ylim(*limits(*(values_of(curves, run) for run in runs)))

    return along_rows(name, label, Rows(first - 0.5, last + 0.5, first - 0.5), 260, draw_on)
