"""The plot of ``results/engine.json``: ``python -m benchmarks.pages.engine`` writes docs/images/engine.png."""

import json
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, ScalarFormatter

from benchmarks.common.paths import IMAGES, RESULTS_DIR

RESULTS = RESULTS_DIR / "engine.json"
PICTURE = IMAGES / "engine.png"
OURS, BASELINES = "#1f5a99", "#b8bec6"


def plot(found: dict[str, Any]) -> None:
    """Draw four panels: rows, features, block lengths, single rows; one whose part is missing stays out."""
    panels = {"growth": (_rows, _features), "block_lengths": (_block_lengths,), "latency": (_latency,)}
    draw: list[tuple[Callable[[Axes, Any], None], Any]] = [
        (panel, found[part]) for part, drawn in panels.items() if part in found for panel in drawn
    ]
    if not draw:
        return
    pairs = [draw[i : i + 2] for i in range(0, len(draw), 2)]
    figure = plt.figure(figsize=(11, 3.9 * len(pairs)), layout="constrained")
    # Each pair has a layout of its own: the long names of one panel need not narrow the others.
    for pair, part_of_figure in zip(pairs, figure.subfigures(len(pairs), 1, squeeze=False).flat, strict=True):
        axes = part_of_figure.subplots(1, len(pair), squeeze=False)
        for axis, (panel, part) in zip(axes.flat, pair, strict=True):
            panel(axis, part)
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=8)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=130)
    plt.close(figure)


def _with_range(axis: Axes, points: dict[str, dict[str, float]], **style: Any) -> None:
    """Draw medians over the numbers that name them, with bars from the least to the largest."""
    x = [int(name) for name in points]
    low, middle, high = (np.array([p[name] for p in points.values()]) for name in ("min", "median", "max"))
    axis.errorbar(x, middle, yerr=[middle - low, high - middle], fmt="o-", markersize=4, capsize=2, **style)


def _rows(axis: Axes, growth: dict[str, Any]) -> None:
    _with_range(axis, growth["rows_s"], color=OURS)
    axis.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds, 3 experts of 50 features")
    axis.set_title(f"Time grows with the rows (slope {growth['slope']['median']:.2f}), memory does not", fontsize=10)
    memory = axis.twinx()
    held = growth["memory_mb"]
    memory.plot([int(n) for n in held], [held[n]["now"] for n in held], "s--", color="#c2571a", markersize=4)
    memory.set_ylim(0, 1.4 * max(m["now"] for m in held.values()))
    memory.set_ylabel("resident MiB", color="#c2571a")
    memory.spines[["top"]].set_visible(False)
    memory.tick_params(labelsize=8)


def _features(axis: Axes, growth: dict[str, Any]) -> None:
    points = growth["features_us"]
    _with_range(axis, points, color=OURS, label="measured")
    x = np.array([int(F) for F in points])
    last = points[str(x[-1])]["median"]
    axis.plot(x, last * (x / x[-1]) ** 2, ":", color="grey", label="in proportion to F²")
    axis.set(xscale="log", yscale="log", xlabel="features F", ylabel="us a row and expert, 6 experts")
    axis.set_title("Features", fontsize=10)
    _ticks(axis, x)
    axis.legend(fontsize=8, frameon=False)


def _block_lengths(axis: Axes, part: dict[str, Any]) -> None:
    colours = plt.get_cmap("viridis")(np.linspace(0.1, 0.85, len(part["us"])))
    for (features, points), colour in zip(part["us"].items(), colours, strict=True):
        best = min(p["median"] for p in points.values())
        x = [int(n) for n in points]
        axis.plot(x, [p["median"] / best for p in points.values()], "o-", markersize=4, color=colour, label=features)
    axis.axvline(part["block"], color="grey", linewidth=0.8, linestyle=":")
    axis.set(xscale="log", xlabel="rows of a block", ylabel="time over that of the best length")
    axis.set_title("Block length, by number of features", fontsize=10)
    _ticks(axis, x)
    axis.legend(fontsize=8, frameon=False)


def _latency(axis: Axes, part: list[dict[str, Any]]) -> None:
    names, times, colours = [], [], []
    for case in part:
        for name, us in case["us"].items():
            where = f", {case['task'].removeprefix('linear, ')}" if case["task"].startswith("linear") else ""
            short = name.replace("BayesianLinearRegression", "linear").replace("NormalRegressor", "linear")
            names.append(short + where)
            times.append(us["median"])
            colours.append(OURS if name.startswith("streamgp") else BASELINES)
    at = np.arange(len(names))[::-1]
    axis.barh(at, times, color=colours, height=0.7)
    for y, value in zip(at, times, strict=True):
        axis.text(value * 1.1, y, f"{value:,.0f}", va="center", fontsize=7)
    axis.set_yticks(at, names, fontsize=7)
    axis.set(xscale="log", xlabel="microseconds", xlim=(10, 6 * max(times)))
    axis.set_title("One row: predict, then learn", fontsize=10)


def _ticks(axis: Axes, values: Any) -> None:
    axis.set_xticks(values)
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_formatter(NullFormatter())


if __name__ == "__main__":
    plot(json.loads(RESULTS.read_text()))
