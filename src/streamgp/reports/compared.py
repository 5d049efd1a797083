"""The chart of a comparison (needs matplotlib, from the extra ``plots``)."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from streamgp.reports.drawing import ink
from streamgp.reports.palette import EXPERTS_SHOWN


def draw(ax: Axes | None, first: str, rows: np.ndarray, lines: Mapping[str, np.ndarray]) -> Axes:
    """Draw sums of differences to the `first` model along the rows, a line for each other model; see `Comparison`."""
    if ax is None:
        _, ax = plt.subplots(figsize=(9.0, 3.6), layout="constrained")
    ax.axhline(0.0, color=ink("model"), linewidth=1.8, label=first)
    for i, (name, values) in enumerate(lines.items()):
        # From the third on, as the first two of the palette are too light for lines.
        ax.plot(rows, values, color=ink(f"expert{(i + 2) % EXPERTS_SHOWN}"), linewidth=1.4, label=name)
    ax.margins(x=0)
    ax.set_title(f"Squared error beyond that of {first}, added up")
    ax.set_ylabel("squared error ÷ variance")
    ax.set_xlabel("row")
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize="small")
    return ax
