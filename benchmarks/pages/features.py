"""The picture docs/images/features.png of ``results/features.json``: ``python -m benchmarks.pages.features``."""

import json

import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter, ScalarFormatter

from benchmarks.accuracy.features import FEATURES, RESULTS
from benchmarks.common.paths import IMAGES

PICTURE = IMAGES / "features.png"


def plot(stored: dict) -> None:
    """Draw PLL against microseconds a row, one line for each data set, points marked by the number of features."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=False)
    for name, runs in stored.items():
        order = sorted(runs, key=int)
        micro = [1e6 * runs[f]["seconds"]["stream"] / (runs[f]["rows"] - 1_000) for f in order]
        gain = [runs[f]["pll"] - runs["100"]["pll"] for f in order]
        for axis, x in zip(axes, ([int(f) for f in order], micro), strict=True):
            axis.plot(x, gain, "o-", label=name, markersize=4)
    axes[0].set_xlabel("Fourier features per basis")
    axes[1].set_xlabel("microseconds a row, all experts, compilation included")
    for axis in axes:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_ylabel("log density per row, relative to 100 features")
        axis.grid(alpha=0.3)
    axes[0].set_xticks(FEATURES)
    axes[1].set_xticks((150, 200, 300, 400, 600))
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    plot(json.loads(RESULTS.read_text()))
