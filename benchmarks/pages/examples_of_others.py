"""Example data of other packages, in a table: ``python -m benchmarks.pages.examples_of_others``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "examples_of_others.json"
PAGE = DOCS / "research" / "examples-of-others.md"
NAMES = {
    "mae": "mean absolute error",
    "median_mae": "that of the median origin",
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "width": "mean width",
    "interval_score": "interval score",
}


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"examples of others": table(json.loads(RESULTS.read_text())["parts"])})}


def table(parts: dict[str, Any]) -> str:
    """Render the scores of every model as Markdown."""
    lines = ["| data | model | scores | 90% intervals hold | seconds |", "|---|---|---|---|---|"]
    for data, models in parts.items():
        for model, found in models.items():
            scores = ", ".join(f"{NAMES[name]} {found[name]:.3g}" for name in NAMES if name in found)
            held = f"{100 * found['covered_90']:.0f}%" if "covered_90" in found else ""
            seconds = f"{found['seconds']:.1f}" if "seconds" in found else ""
            lines.append(f"| {data} | {model} | {scores} | {held} | {seconds} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
