"""The table of what the command chooses by itself: ``python -m benchmarks.pages.own_options``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "own_options.json"
PAGE = DOCS / "how-to" / "forecast-settings.md"
BY_ITSELF = "; "


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    files = json.loads(RESULTS.read_text(encoding="utf-8"))["files"]
    return {PAGE: markdown.with_tables(PAGE, {"own options": table(files)})}


def table(files: dict[str, Any]) -> str:
    """Render the error of the choice by itself beside the best and the worst by hand."""
    lines = [
        "| file (package) | RMSE, automatic | best by hand | worst by hand | best lags; calendar |",
        "|---|---|---|---|---|",
    ]
    for name, runs in files.items():
        by_hand = {key: run["rmse"] for key, run in runs.items() if key != BY_ITSELF}
        own, best, worst = runs[BY_ITSELF]["rmse"], min(by_hand, key=by_hand.__getitem__), max(by_hand.values())
        ratio = own / by_hand[best] - 1.0
        lines.append(f"| {name} | {own:.4g} ({ratio:+.1%}) | {by_hand[best]:.4g} | {worst:.4g} | {best} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
