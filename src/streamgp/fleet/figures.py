"""The charts of a fleet's page: the strip of keys along time, how keys did, and the worst of them one by one."""

import base64
import io

import matplotlib.image
import numpy as np
import polars as pl
from matplotlib.axes import Axes

from streamgp.fleet.page_content import coverage_by_chance
from streamgp.reports import curves
from streamgp.reports.drawing import DASHED, ink, line, svg_element

# The colours of cells at both ends; the page's background shows through, light or dark.
FAR, NEAR = (205, 62, 74), (62, 126, 200)
# A cell has its full colour at so many doublings of the expected error.
LEAST, MOST = -1.5, 2.0


def strip(cells: np.ndarray) -> str:
    """Return cells as the address of a picture: red where targets lay far from predictions, blue where near."""
    with np.errstate(divide="ignore"):
        doublings = np.clip(np.log2(cells), LEAST, MOST)
    far = doublings > 0.0
    strength = np.where(far, doublings / MOST, doublings / LEAST)
    picture = np.zeros((*cells.shape, 4), np.uint8)
    picture[..., :3] = np.where(far[..., None], FAR, NEAR)
    picture[..., 3] = np.where(np.isnan(cells), 0, 30 + 225 * np.nan_to_num(strength))
    out = io.BytesIO()
    matplotlib.image.imsave(out, picture, format="png")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


def coverage(keys: pl.DataFrame) -> str:
    """Draw how many keys have which coverage of the 90% band, and how many would have by chance."""
    low = min(0.5, float(np.floor(10 * keys["covered"].min()) / 10))  # type: ignore[arg-type]
    edges = np.linspace(low, 1.0, 21)

    def draw(ax: Axes) -> None:
        ax.hist(keys["covered"].to_numpy(), bins=list(edges), color=ink("range"), linewidth=0)
        expected = coverage_by_chance(keys["scored"].to_numpy(), edges)
        line(ax, 0.5 * (edges[1:] + edges[:-1]), expected, "model", 1.6, DASHED)
        ax.axvline(0.9, color=ink("ink"), linewidth=1.0)
        _counts(ax)
        ax.xaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f}%")
        ax.set_xlabel("of a key's targets inside its 90% bands", loc="right")

    return svg_element("fleet-coverage", "Keys by the coverage of their 90% bands", 440, 300, draw)


def gains(keys: pl.DataFrame) -> str:
    """Draw by how much keys' log densities lie above those of the better baseline."""
    gain = keys["gain"].drop_nulls().to_numpy()
    low, high = np.quantile(gain, [0.01, 0.99])
    low, high = min(low, -0.05), max(high, 0.05)

    def draw(ax: Axes) -> None:
        ax.hist(np.clip(gain, low, high), bins=24, range=(low, high), color=ink("range"), linewidth=0)
        ax.axvline(0.0, color=ink("ink"), linewidth=1.0)
        _counts(ax)
        ax.set_xlabel("nats a row above the better baseline", loc="right")

    return svg_element("fleet-gains", "Keys by how much better than the baselines they were", 440, 300, draw)


def last_rows(recent: pl.DataFrame, name: str, number: int) -> str:
    """Draw the last rows of a key (see `curves.window`)."""

    def draw(ax: Axes) -> None:
        curves.window(ax, recent)
        ax.set_xlabel("row of this key after the warm-up", loc="right")

    return svg_element(f"fleet-key-{number}", f"Targets and predictions of the last rows of {name}", 440, 210, draw)


def _counts(ax: Axes) -> None:
    """Write numbers of keys on the y-axis."""
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
