"""Tables and picture of docs/research/presets.md, from its results: ``python -m benchmarks.pages.presets``."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from matplotlib.figure import Figure

from benchmarks.accuracy.presets import APART, BASELINES, CHOOSING, INSIDE, MODELS, RESULTS
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS

PAGE = DOCS / "research" / "presets.md"
GUIDE = DOCS / "how-to" / "choosing-settings.md"
OWN = DOCS / "how-to" / "own-regressor.md"
PICTURE = DOCS / "images" / "presets.png"
COLUMNS = (*MODELS, *BASELINES)
REFERENCE = "default"
KINDS = ("tables", "streams")
HALVES = {"choosing": CHOOSING, "apart": APART}


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    runs = json.loads(RESULTS.read_text())
    tables = {"presets-front": front(runs)}
    return {
        PAGE: markdown.with_tables(PAGE, tables | {"presets-sets": sets(runs)}),
        GUIDE: markdown.with_tables(GUIDE, tables),
        OWN: markdown.with_tables(OWN, {"inside": inside(runs)}),
    }


def front(runs: dict[str, Any]) -> str:
    """Return a row for each model: mean errors and log densities of tables and streams, and rows a second."""
    halves = [(kind, half) for kind in KINDS for half, names in HALVES.items() if set(names[kind]) & set(runs)]
    titles = [f"{kind}, {half}: nMSE, PLL" for kind, half in halves]
    lines = [
        "| model | " + " | ".join(titles) + " | rows a second |",
        "|---" * (2 + len(titles)) + "|",
    ]
    for label in COLUMNS:
        cells = [_means(runs, label, HALVES[half][kind]) for kind, half in halves]
        lines.append(f"| {label} | " + " | ".join([*cells, f"{_speed(runs, label):,.0f}"]) + " |")
    return "\n".join(lines)


def sets(runs: dict[str, Any]) -> str:
    """Return a row for each data set: medians over the seeds of nMSE / PLL / what the 95% bands hold."""
    lines = ["| data | " + " | ".join(COLUMNS) + " |", "|---" * (1 + len(COLUMNS)) + "|"]
    lines += [
        f"| {name} | " + " | ".join(_cell(of.get(label)) for label in COLUMNS) + " |" for name, of in runs.items()
    ]
    return "\n".join(lines)


def inside(runs: dict[str, Any]) -> str:
    """Return the default beside itself with LightGBM inside, and this alone, where all were run."""
    columns = (REFERENCE, INSIDE, "LightGBM, refitted")
    lines = ["| data | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for name, of in runs.items():
        if seeds := of.get(INSIDE):
            cells = (_cell({seed: of[label][seed] for seed in seeds}) for label in columns)
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _means(runs: dict[str, Any], label: str, names: Sequence[str]) -> str:
    """Return the geometric mean of the nMSE, and the mean log density above that of the default, if all are there."""
    errors = _each(runs, label, "nmse", names)
    if not errors or len(errors) < len(_each(runs, REFERENCE, "nmse", names)):
        return ""
    densities = _each(runs, label, "pll", names)
    text = f"{geometric_mean(errors):.4f}"
    if not densities:
        return text
    above = sum(densities) / len(densities) - sum(ours := _each(runs, REFERENCE, "pll", names)) / len(ours)
    return f"{text}, {above:+.3f}"


def _each(runs: dict[str, Any], label: str, score: str, names: Sequence[str]) -> list[float]:
    """Return the medians over the seeds of each data set that has the score."""
    found = [runs[name].get(label, {}).values() for name in names if name in runs]
    return [median(run[score] for run in seeds) for seeds in found if seeds and all(score in run for run in seeds)]


def _speed(runs: dict[str, Any], label: str) -> float:
    """Return the median over the data sets of rows a second."""
    return median(run["rows"] / run["seconds"] for of in runs.values() for run in of.get(label, {}).values())


def _cell(seeds: dict[str, dict[str, Any]] | None) -> str:
    if not seeds:
        return ""
    runs = list(seeds.values())
    parts = [f"{median(run['nmse'] for run in runs):.4f}"]
    if "pll" in runs[0]:
        parts.append(f"{median(run['pll'] for run in runs):.3f}")
    if "coverage" in runs[0]:
        parts.append(f"{median(run['coverage']['95'] for run in runs):.3f}")
    return " / ".join(parts)


def draw(runs: dict[str, Any], path: Path) -> None:
    """Draw error against speed: down and to the right is better."""
    run = {kind: [name for half in HALVES.values() for name in half[kind] if name in runs] for kind in KINDS}
    run = {kind: names for kind, names in run.items() if names}
    figure = Figure(figsize=(1.0 + 5.5 * len(run), 4), layout="constrained")
    for ax, (kind, names) in zip(figure.subplots(1, len(run), squeeze=False).flat, run.items(), strict=True):
        for which, label in enumerate(COLUMNS):
            errors = _each(runs, label, "nmse", names)
            if len(errors) < len(_each(runs, REFERENCE, "nmse", names)) or label == "the last target":
                continue
            ours = label in MODELS
            at = _speed({name: runs[name] for name in names}, label), geometric_mean(errors)
            ax.plot(*at, "o" if ours else "s", color="#1f5fa8" if ours else "#c4560a")
            # Above and below in turn, as neighbours in the table are close together.
            above = 5 if which % 2 else -11
            ax.annotate(
                label, at, xytext=(0, above), textcoords="offset points", fontsize=7, ha="left" if ours else "center"
            )
        ax.set(
            xscale="log", yscale="log", xlabel="rows a second, one core", ylabel="nMSE, geometric mean", title=kind
        )
        ax.grid(color="#e4e8ed")
        ax.margins(x=0.25, y=0.15)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    markdown.write(pages())
    draw(json.loads(RESULTS.read_text()), PICTURE)
