"""The picture and the tables of docs/research/regret.md, from ``results/regret.json``.

``python -m benchmarks.pages.regret`` writes docs/images/regret.png and prints the tables.
"""

import json
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.accuracy.regret import FREQUENCIES, RESULTS
from benchmarks.common.paths import IMAGES
from streamgp.research.regret.checks import bands

PICTURE = IMAGES / "regret.png"
OURS, OTHER, BOUND = "#1f5a99", "#c2571a", "#8a919a"


def _columns(runs: dict[str, list[dict[str, Any]]], name: str, per_row: bool = False) -> tuple[Any, Any]:
    """Return lengths, and what the seeds found there (seeds, lengths), where it is not missing."""
    first = next(iter(runs.values()))
    at = [i for i, point in enumerate(first) if point[name] is not None]
    rows = np.array([first[i]["rows"] for i in at])
    values = np.array([[run[i][name] for i in at] for run in runs.values()])
    return rows, values / rows if per_row else values


def _line(axis: Axes, runs: Any, name: str, label: str, per_row: bool = False, **style: Any) -> None:
    """Draw median over the seeds, and their range as a band."""
    rows, values = _columns(runs, name, per_row)
    (line,) = axis.plot(rows, np.median(values, axis=0), marker="o", markersize=3.5, label=label, **style)
    axis.fill_between(rows, values.min(0), values.max(0), color=line.get_color(), alpha=0.15, linewidth=0)


def plot(stored: dict[str, Any]) -> None:
    """Draw bands on thirty rows; static regret over log T; average switching regret over log T."""
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    run = bands(0)
    axes[0].fill_between(
        run.grid, run.mean - 1.96 * run.std, run.mean + 1.96 * run.std, color=OURS, alpha=0.2, label="95% band"
    )
    axes[0].plot(run.grid, run.mean, color=OURS, label="mean")
    axes[0].plot(run.grid, run.truth, ":", color="black", linewidth=1, label="sin 2x + sin 3x")
    axes[0].plot(run.x, run.y, ".", color=OTHER, label="30 rows")
    axes[0].set(xlabel="x", title="IE-GP on 30 rows")
    few = str(FREQUENCIES[0])
    static, switching = stored["static"][few], stored["switching"][few]
    _line(axes[1], static, "to_kernel", "to the best of the kernels' functions", color=OTHER)
    _line(axes[1], static, "bound", "Lemma 1", color=BOUND, linestyle="--")
    _line(axes[1], static, "to_basis", "to the best of the bases' functions", color=OURS)
    top = float(np.median(_columns(static, "bound")[1], axis=0).max())  # bad draws of frequencies go far beyond
    axes[1].set(xscale="log", ylim=(0, 2.2 * top), xlabel="rows T", ylabel="nats", title="Static regret")
    _line(axes[2], switching, "to_kernel", "as run, to kernels' functions", True, color=OTHER)
    _line(axes[2], switching, "to_basis", "as run, to bases' functions", True, color="#e0a37e")
    _line(axes[2], switching, "own_to_basis", "own slots, to bases' functions", True, color=OURS)
    _line(axes[2], switching, "bound", "Lemmas 2 and 3 (own slots)", True, color=BOUND, linestyle="--")
    axes[2].set(xscale="log", xlabel="rows T", ylabel="nats a row", title="Switching regret over T", ylim=(0, None))
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=8, frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=130)
    plt.close(figure)


def tables(stored: dict[str, Any]) -> None:
    """Print the tables of the page, medians over seeds."""
    titles = {
        "static": {"to_basis": "to the bases", "bound": "Lemma 1", "to_kernel": "to the kernels"},
        "switching": {
            "to_basis": "as run, to the bases",
            "to_kernel": "as run, to the kernels",
            "own_to_basis": "own slots, to the bases",
            "own_to_kernel": "own slots, to the kernels",
            "bound": "Lemmas 2 and 3",
        },
    }
    for name, columns in titles.items():
        for n, runs in stored[name].items():
            per_row = name == "switching"
            print(f"\n{name}, {n} frequencies, {len(runs)} seeds, {'nats a row' if per_row else 'nats'}\n")
            print(f"| rows | {' | '.join(columns.values())} |\n{'|---' * (len(columns) + 1)}|")
            cells = {key: dict(zip(*_medians(runs, key, per_row), strict=True)) for key in columns}
            for T in cells["bound"]:
                row = (f"{cells[key][T]:.{3 if per_row else 0}f}" if T in cells[key] else "" for key in columns)
                print(f"| {T:,} | {' | '.join(row)} |")
    print(json.dumps(stored["slopes"], indent=1))


def _medians(runs: Any, name: str, per_row: bool) -> tuple[list[int], list[float]]:
    rows, values = _columns(runs, name, per_row)
    return rows.tolist(), np.median(values, axis=0).tolist()


def main() -> None:
    """Draw and print."""
    stored = json.loads(RESULTS.read_text())
    plot(stored)
    tables(stored)


if __name__ == "__main__":
    main()
