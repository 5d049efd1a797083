"""The table of what whole runs of the command cost: ``python -m benchmarks.pages.whole_run``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "whole_run.json"
PAGE = DOCS / "research" / "performance.md"


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"whole runs": table(json.loads(RESULTS.read_text())["files"])})}


def table(files: dict[str, Any]) -> str:
    """Render medians, with the least and greatest seconds of the processor, as Markdown."""
    lines = ["| rows x inputs | | processor, s | by the clock, s | memory, MB |", "|---|---|---|---|---|"]
    for name, kinds in files.items():
        for kind, found in kinds.items():
            spent = found["processor"]
            lines.append(
                f"| {name} | {kind} | {spent['median']:.1f} ({spent['min']:.1f} to {spent['max']:.1f}) | "
                f"{found['clock']['median']:.1f} | {found['MB']['median']:.0f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
