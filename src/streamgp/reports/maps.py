"""Maps of two coordinates for reports, as inline SVG."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import MaxNLocator

from streamgp.reports.drawing import ink, wide_and_narrow
from streamgp.reports.palette import DOTS, FIFTHS

__all__ = ["DOTS", "FIFTHS", "scatter", "territories", "uncertainty"]


HEIGHTS = (520, 330)  # of a map on a desktop, and on a phone


def territories(points: list[tuple[str, np.ndarray]], names: list[str]) -> str:
    """Draw a map of two inputs: the inducing inputs of every model in its colour, its number amid them."""

    def draw(ax: Axes) -> None:
        for j, (colour, inputs) in enumerate(points):
            _dots(ax, inputs, colour, 4.0)
            x, y = np.median(inputs, axis=0).tolist()
            ax.text(x, y, str(j + 1), color=ink("ink"), ha="center", va="center", fontweight="bold")
        _frame(ax, np.concatenate([group for _, group in points]), names[0])

    return wide_and_narrow("map", "Where the local models are", HEIGHTS, draw)


def scatter(points: list[tuple[str, np.ndarray]], names: list[str]) -> str:
    """Draw rows in two coordinates, every group in its colour."""

    def draw(ax: Axes) -> None:
        for colour, group in points:
            _dots(ax, group, colour, 3.6)
        _frame(ax, np.concatenate([group for _, group in points]), names[0])

    return wide_and_narrow("scatter", "Rows in the latent space", HEIGHTS, draw)


def uncertainty(x: np.ndarray, y: np.ndarray, std: np.ndarray, rows: np.ndarray, names: list[str]) -> str:
    """Draw how uncertain rows are on a grid of coordinates, the darker the more, and the coordinates of rows."""

    def draw(ax: Axes) -> None:
        # Transparent where the model is certain, so that it suits a light and a dark page.
        shade = LinearSegmentedColormap.from_list("shade", [(0.52, 0.29, 0.61, a) for a in (0.0, 0.95)])
        extent = (float(x[0]), float(x[-1]), float(y[0]), float(y[-1]))
        largest = max(1.1, float(std.max()))
        shown = ax.imshow(std, shade, origin="lower", aspect="auto", extent=extent, vmin=1.0, vmax=largest)
        shown.set_interpolation("bilinear")
        _dots(ax, rows, "ink", 1.6)
        ax.set_xlim(x[0], x[-1])
        ax.set_ylim(y[0], y[-1])
        _ticks(ax, names[0])

    return wide_and_narrow("uncertainty", "Uncertainty in the latent space", HEIGHTS, draw)


def _dots(ax: Axes, points: np.ndarray, colour: str, size: float) -> None:
    style = {"linestyle": "none", "marker": "o", "markersize": size, "markeredgewidth": 0}
    ax.plot(points[:, 0], points[:, 1], color=ink(colour), **style)


def _frame(ax: Axes, every: np.ndarray, name: str) -> None:
    low, high = np.quantile(every, (0.005, 0.995), axis=0)  # a distant point must not shrink the map
    margin = 0.05 * np.maximum(high - low, 1e-12)
    ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
    ax.set_ylim(low[1] - margin[1], high[1] + margin[1])
    _ticks(ax, name)


def _ticks(ax: Axes, name: str) -> None:
    ax.set_xlabel(name, loc="right")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_locator(MaxNLocator(6))
