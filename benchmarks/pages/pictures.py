"""Pictures of the tutorials, from a generated load: ``python -m benchmarks.pages.pictures`` (half a minute)."""

import matplotlib
import numpy as np
import polars as pl

from benchmarks.common.paths import IMAGES
from streamgp import StreamingGPRegressor, evaluate

DPI = 110


def load() -> tuple[pl.DataFrame, np.ndarray]:
    """Return the inputs and the targets of docs/tutorials/first-stream-python.md."""
    rng = np.random.default_rng(0)
    hour = np.arange(1200)
    angle = 2 * np.pi * hour / 24
    temp = 12 + 8 * np.sin(2 * np.pi * (hour - 9) / 24) + rng.normal(0, 1, 1200)
    target = 300 + 60 * np.sin(2 * np.pi * (hour - 7) / 24) + 4 * np.maximum(temp - 18, 0)
    target = target + 5 * rng.normal(size=1200)
    target[800:] += 40
    return pl.DataFrame({"hour_sin": np.sin(angle), "hour_cos": np.cos(angle), "temp": temp}), target


def main() -> None:
    """Draw the pictures."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows, target = load()
    result = evaluate(StreamingGPRegressor("fast", warmup=200, random_state=0), rows, target)
    figure, axes = plt.subplots(figsize=(8.0, 3.2), layout="constrained")
    result.plot("predictions", last=500, ax=axes)
    axes.set(xlim=(740, 960), title="40 more from hour 800 on", xlabel="hour", ylabel="load")
    figure.savefig(IMAGES / "tutorial-predictions.png", dpi=DPI)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.4), layout="constrained")
    result.plot("calibration", ax=left)
    result.plot("pit", ax=right)
    figure.savefig(IMAGES / "tutorial-calibration.png", dpi=DPI)
    print(result.summary(), result.metrics["coverage"])


if __name__ == "__main__":
    main()
