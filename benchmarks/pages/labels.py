"""The tables of docs/research/labels.md, from ``results/labels.json``: ``python -m benchmarks.pages.labels``."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS, PAGE = RESULTS_DIR / "labels.json", DOCS / "research" / "labels.md"


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    stored = json.loads(RESULTS.read_text())
    tables = {
        "labels-counts": table_counts(stored["counts"]),
        "labels-wine": table_wine(stored["wine"]),
        "labels-speed": table_speed(stored["speed"]),
    }
    return {PAGE: markdown.with_tables(PAGE, tables)}


def table_counts(found: dict[str, Any]) -> str:
    """Render medians over the seeds as Markdown."""
    lines = [
        "| experts | rate off by (median, 2nd half) | deviance | log probability (truth's) | 50 / 90 / 95% hold |",
        "|---|---|---|---|---|",
    ]
    for label, runs in found.items():
        off, deviance, pll, truth = (median(run[key] for run in runs) for key in ("off", "deviance", "pll", "truth"))
        held = " / ".join(f"{median(run['coverage'][level] for run in runs):.1%}" for level in ("50", "90", "95"))
        lines.append(f"| {label} | {np.expm1(off):.1%} | {deviance:.3f} | {pll:.3f} ({truth:.3f}) | {held} |")
    return "\n".join(lines)


def table_wine(found: dict[str, Any]) -> str:
    """Render medians over the seeds as Markdown."""
    lines = ["| model | ranked probability score | log loss | error |", "|---|---|---|---|"]
    for label, runs in found.items():
        rps, loss, error = (median(run[key] for run in runs) for key in ("rps", "log_loss", "error_rate"))
        lines.append(f"| {label} | {rps:.4f} | {loss:.4f} | {error:.1%} |")
    return "\n".join(lines)


def table_speed(found: dict[str, Any]) -> str:
    """Render rows a second as Markdown."""
    lines = ["| | streamgp, rows a second | bare loop | ratio |", "|---|---|---|---|"]
    for label, speeds in found.items():
        blocks, rows = speeds.get("blocks"), speeds["row by row"]
        ratio = "" if blocks is None else f"{blocks / rows:.1f}"
        lines.append(f"| {label} | {'' if blocks is None else f'{blocks:,.0f}'} | {rows:,.0f} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
