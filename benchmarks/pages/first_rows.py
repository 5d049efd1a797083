"""The table of the time of the first rows: ``python -m benchmarks.pages.first_rows``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "first_rows.json"
PAGE = DOCS / "research" / "performance.md"


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"first rows": table(json.loads(RESULTS.read_text())["presets"])})}


def table(presets: dict[str, Any]) -> str:
    """Render medians as Markdown."""
    lines = ["| model | import | first rows | by the clock |", "|---|---|---|---|"]
    for preset, found in presets.items():
        each, by_clock, own = (found[name] for name in ("import", "clock", "first rows"))
        lines.append(
            f"| `{preset}` | {each['median']:.1f} | "
            f"{own['median']:.1f} ({own['min']:.1f} to {own['max']:.1f}) | {by_clock['median']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
