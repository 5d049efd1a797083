"""The table of docs/renewal.md, from ``results/renewal.json``: ``python -m benchmarks.pages.renewal``."""

import json
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from benchmarks.accuracy.renewal import BASELINES, MODELS, RESULTS, TABLES
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS

PAGE = DOCS / "renewal.md"
COLUMNS = (*MODELS, *BASELINES)


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"renewal": table(json.loads(RESULTS.read_text()))})}


def table(runs: dict[str, Any]) -> str:
    """Return a row for each data set: medians over the seeds of nMSE / PLL / what the 95% bands hold."""
    lines = ["| data | " + " | ".join(COLUMNS) + " |", "|---" * (1 + len(COLUMNS)) + "|"]
    lines += [f"| {name} | " + " | ".join(_cell(of[label]) for label in COLUMNS) + " |" for name, of in runs.items()]
    tables = [runs[name] for name in TABLES if name in runs]
    means = [geometric_mean(_median(of[label], "nmse") for of in tables) for label in COLUMNS]
    lines.append("| tables, geometric mean | " + " | ".join(f"{mean:.4f}" for mean in means) + " |")
    return "\n".join(lines)


def _cell(seeds: dict[str, dict[str, float]]) -> str:
    if "pll" not in next(iter(seeds.values())):
        return f"{_median(seeds, 'nmse'):.4f}"
    return f"{_median(seeds, 'nmse'):.4f} / {_median(seeds, 'pll'):.3f} / {_median(seeds, 'coverage'):.3f}"


def _median(seeds: dict[str, dict[str, float]], score: str) -> float:
    return median(run[score] for run in seeds.values())


if __name__ == "__main__":
    markdown.write(pages())
