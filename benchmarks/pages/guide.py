"""Tables and pictures of docs/research/guide.md, from its results: ``python -m benchmarks.pages.guide``."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.accuracy.guide import CALM, COLLAPSE_RULES, DECAYS, DELTAS, DYNAMICS, MOVING, RESULTS, WALKS
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, IMAGES

PAGE = DOCS / "research" / "guide.md"


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    stored = json.loads(RESULTS.read_text())
    sets = stored["sets"]
    tables = {
        "dynamics": dynamics_table(sets),
        "delta": delta_table(sets),
        "collapse": collapse_table(stored["collapse"]),
    }
    return {PAGE: markdown.with_tables(PAGE, tables)}


def dynamics_table(runs: dict[str, Any]) -> str:
    """Return PLL of static experts, and what each pace of forgetting adds; medians over the seeds."""
    lines = ["| data | seeds | " + " | ".join(DYNAMICS) + " |", "|---" * (2 + len(DYNAMICS)) + "|"]
    for name, of in runs.items():
        base = median(run["dynamics"]["static"] for run in of.values())
        gains = [median(r["dynamics"][d] - r["dynamics"]["static"] for r in of.values()) for d in DYNAMICS[1:]]
        lines.append(f"| {name} | {len(of)} | {base:.3f} | " + " | ".join(f"{gain:+.3f}" for gain in gains) + " |")
    return "\n".join(lines)


def delta_table(runs: dict[str, Any]) -> str:
    """Return PLL without switching (Bayes), and what each delta adds; medians over the seeds."""
    lines = [
        "| data | seeds | Bayes | " + " | ".join(f"{delta:g}" for delta in DELTAS[1:]) + " |",
        "|---" * (2 + len(DELTAS)) + "|",
    ]
    for name, of in runs.items():
        base = median(run["delta"]["0"] for run in of.values())
        gains = [median(run["delta"][f"{d:g}"] - run["delta"]["0"] for run in of.values()) for d in DELTAS[1:]]
        lines.append(f"| {name} | {len(of)} | {base:.3f} | " + " | ".join(f"{gain:+.3f}" for gain in gains) + " |")
    return "\n".join(lines)


def collapse_table(runs: dict[str, Any]) -> str:
    """Return PLL before and after the stream begins to move, and how long the static expert still leads."""
    lines = [
        "| rule | PLL while it stands | PLL while it moves | rows led by the static expert while it moves |",
        "|---|---|---|---|",
    ]
    for rule in COLLAPSE_RULES:
        of = [run[rule] for run in runs.values()]
        led = sorted(run["led_by_static"] for run in of)
        calm, storm = (median(run[part] for run in of) for part in ("calm", "storm"))
        lines.append(f"| {rule} | {calm:.3f} | {storm:.3f} | {median(led):,.0f} ({led[0]:,} to {led[-1]:,}) |")
    return "\n".join(lines)


def plot_dynamics(runs: dict[str, Any]) -> None:
    """Draw what forgetting adds to the log density, against its pace."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, kind, paces in ((axes[0], "walk", WALKS), (axes[1], "revert", [1.0 - decay for decay in DECAYS])):
        names = [name for name in DYNAMICS if name.startswith(kind)]
        for i, (data, of) in enumerate(runs.items()):
            gains = [median(r["dynamics"][n] - r["dynamics"]["static"] for r in of.values()) for n in names]
            axis.plot(paces, gains, "o-" if data in MOVING else "s--", color=f"C{i}", label=data, markersize=4)
        axis.axhline(0.0, color="0.5", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("symlog", linthresh=0.1)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_xlabel("variance of the walk, Q")
    axes[1].set_xlabel("1 - LAMBDA of mean-reverting weights")
    axes[0].set_ylabel("log density a row over static experts, nats")
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(IMAGES / "dynamics.png", dpi=130)


def plot_collapse(runs: dict[str, Any]) -> None:
    """Draw the weight of the moving expert along the constructed stream, of the first seed."""
    figure, axis = plt.subplots(figsize=(9, 3.4), layout="constrained")
    for rule in COLLAPSE_RULES:
        weight = runs["0"][rule]["weight"]
        axis.plot(np.arange(len(weight)) * 20, weight, label=rule, linewidth=1.3)
    axis.axvline(CALM, color="0.5", linewidth=0.8, linestyle="--")
    axis.annotate(
        "the plane begins to move", (CALM, 0.93), xytext=(-6, 0), textcoords="offset points", ha="right", fontsize=9
    )
    axis.set_xlabel("rows after the warm-up")
    axis.set_ylabel("weight of the moving expert")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(IMAGES / "collapse.png", dpi=130)


def main() -> None:
    """Renew the tables and draw the pictures."""
    markdown.write(pages())
    stored = json.loads(RESULTS.read_text())
    plot_dynamics(stored["sets"])
    plot_collapse(stored["collapse"])


if __name__ == "__main__":
    main()
