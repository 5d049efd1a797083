"""A map of local models on a sea floor: ``python -m benchmarks.pages.local_map DATA`` draws it.

DATA is the directory with bathymetry_celt.parquet. Writes docs/images/local.png: heights, the model that predicts
each held-out place, and how far several models and one are off there: a seed of `streamgp reproduce wgpr-tables`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import LogNorm

from benchmarks.common.paths import IMAGES
from streamgp.research.sparse.combining import combine_nearest
from streamgp_papers.local import Split, learn, make_model, read_tracks

PICTURE = IMAGES / "local.png"
# The seed, of five, with the median error of wgpr.
SEED = 3


def errors(rows: Split, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Return absolute errors (n,) at the rows to test on, in metres, and the model that predicted each."""
    one = make_model(method, 2)
    state, _ = learn(one, rows, SEED)
    made = one.predict(state, rows.X_test)
    owner = np.asarray(combine_nearest(state.models, jax.numpy.asarray(rows.X_test)).weights).argmax(axis=1)
    return np.abs(rows.mean + rows.scale * np.asarray(made.mean)[:, 0] - rows.y_test), owner


def panel_of(rows: Split) -> Callable[..., PathCollection]:
    """Return a function that draws one value of every held-out place."""

    def panel(axis: Axes, title: str, colours: np.ndarray, **style: Any) -> PathCollection:
        axis.set_title(title, fontsize=10)
        axis.set(xticks=[], yticks=[])
        axis.set_xlabel("sailed from left to right, line after line", fontsize=8)
        return axis.scatter(*rows.X_test.T, c=colours, s=7, linewidths=0, **style)

    return panel


def main() -> None:
    """Learn and draw."""
    with jax.enable_x64(True):
        rows = read_tracks("bathymetry_celt", SEED, Path(sys.argv[1]), None)
        several, owner = errors(rows, "wgpr")
        one, _ = errors(rows, "ovfe")
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained", sharex=True, sharey=True)
    panel = panel_of(rows)

    low, high = np.quantile(rows.y_test, (0.02, 0.98)).tolist()
    metres = {"cmap": "magma_r", "norm": LogNorm(1.0, 1000.0)}
    land = panel(axes[0], "Height, from land to sea floor", rows.y_test, cmap="viridis", vmin=low, vmax=high)
    panel(axes[1], f"Who predicts: {owner.max() + 1} models of wgpr", owner, cmap="tab20")
    panel(axes[2], f"wgpr: median error {np.median(several):.0f} m", several, **metres)
    off = panel(axes[3], f"ovfe: median error {np.median(one):.0f} m", one, **metres)
    figure.colorbar(land, ax=axes[0], label="metres", extend="both")
    figure.colorbar(off, ax=axes[2:], label="metres off", extend="both")
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    main()
