"""Maps of the digits 0 to 4: ``python -m benchmarks.pages.latent_map DATA`` draws docs/images/latent.png.

DATA is the directory with usps.parquet. Two principal components, the leading expert's places as the rows came, those
of the paper's rule, and what the leading expert knows where: a seed of `streamgp reproduce ie-gplvm`.
"""

import sys
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from sklearn.decomposition import PCA

from benchmarks.common.paths import IMAGES
from streamgp_papers.data_files import load
from streamgp_papers.embeddings import Embedded, Images, embed

PICTURE = IMAGES / "latent.png"
SEED = 0
COLOURS = ("#1f5fa8", "#c4560a", "#117733", "#cc6677", "#332288")
GRID = 16  # tiles on each side, of 16 by 16 pixels


def scatter(axis: Axes, some: Images, places: np.ndarray, title: str) -> None:
    """Draw every row in the colour of its digit."""
    axis.set_title(f"{title}: {some.error(places):.1f}% next to another digit", fontsize=10)
    for digit, colour in enumerate(COLOURS):
        rows = places[some.labels == digit]
        axis.plot(*rows.T, "o", markersize=1.6, markeredgewidth=0, color=colour, label=str(digit))
    _frame(axis, places)


def _frame(axis: Axes, places: np.ndarray, margin: float = 0.05) -> None:
    low, high = np.quantile(places, (0.002, 0.998), axis=0)
    side = margin * (high - low)
    axis.set(
        xticks=[], yticks=[], xlim=(low[0] - side[0], high[0] + side[0]), ylim=(low[1] - side[1], high[1] + side[1])
    )


def digits(axis: Axes, whole: Embedded, places: np.ndarray) -> None:
    """Draw what the leading expert expects at places of a grid, the paler the less it knows."""
    axis.set_title("rows expected at places of a grid; pale: unknown", fontsize=10)
    low, high = np.quantile(places, (0.002, 0.998), axis=0)
    x, y = (np.linspace(low[i], high[i], GRID) for i in (0, 1))
    grid = np.stack(np.meshgrid(x, y[::-1]), axis=-1).reshape(-1, 2)
    mean, var = whole.learner.reconstruct(grid)
    noise = whole.learner.experts[whole.learner.leading]["noise_var"]
    known = np.clip(1.0 - (np.sqrt(var[:, 0] / noise) - 1.0) / 0.5, 0.0, 1.0)  # none half as much again as the noise
    tiles = (known[:, None] * (np.clip(mean, -1.0, 1.0) + 1.0) / 2.0).reshape(GRID, GRID, 16, 16)
    axis.imshow(tiles.transpose(0, 2, 1, 3).reshape(16 * GRID, 16 * GRID), cmap="Greys", vmin=0.0, vmax=1.0)
    axis.set(xticks=[], yticks=[])


def main() -> None:
    """Embed and draw."""
    X, labels = load("usps", Path(sys.argv[1]), seed=SEED, keep_constant=True)
    some = Images(X, labels, round(0.1 * len(X)), SEED)
    with jax.enable_x64(True):
        whole = embed(some)
        places = whole.coordinates[:, whole.learner.leading]
        figure, axes = plt.subplots(2, 2, figsize=(9.2, 9.0), layout="constrained")
        scatter(axes[0, 0], some, PCA(2).fit_transform(X), "principal components")
        scatter(axes[0, 1], some, places, "StreamingGPLVM")
        scatter(axes[1, 0], some, whole.coordinates[np.arange(len(X)), whole.chosen], "the paper's rule")
        digits(axes[1, 1], whole, places)
    axes[0, 0].legend(markerscale=5, fontsize=9, frameon=False)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
