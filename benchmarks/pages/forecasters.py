"""The table of docs/how-to/other-forecasters.md: ``python -m benchmarks.pages.forecasters``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "forecasters.json"
PAGE = DOCS / "how-to" / "other-forecasters.md"


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"forecasters": table(json.loads(RESULTS.read_text())["runs"])})}


def table(by_series: dict[str, dict[str, Any]]) -> str:
    """Render errors, coverage and seconds as Markdown."""
    lines = ["| series | model | MASE | in the 80% band | in the 95% band | seconds |", "|---|---|---|---|---|---|"]
    for series, runs in by_series.items():
        for model, run in runs.items():
            shares = " | ".join(f"{run['coverage'][level]:.0%}" for level in ("80", "95"))
            lines.append(f"| {series} | {model} | {run['mase']:.2f} | {shares} | {run['seconds']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
