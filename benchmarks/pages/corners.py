"""The table of ways to learn that cost more: ``python -m benchmarks.pages.corners``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "corners.json"
PAGE = DOCS / "research" / "performance.md"


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"corners": table(json.loads(RESULTS.read_text())["corners"])})}


def table(corners: list[dict[str, Any]]) -> str:
    """Render medians as Markdown."""
    lines = ["| | rows a second | time beside | |", "|---|---|---|---|"]
    for each in corners:
        rate, times = each["rows_a_second"]["median"], each["times_the_ordinary"]["median"]
        lines.append(f"| {each['corner']} | {rate:,.0f} | {times:.1f} | {each['ordinary']} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
