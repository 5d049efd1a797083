"""The default beside others on nine data sets, in a table: ``python -m benchmarks.pages.nine_sets``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "nine_sets.json"
PAGE = DOCS / "explanation" / "other-libraries.md"


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"nine sets": table(json.loads(RESULTS.read_text())["sets"])})}


def table(sets: dict[str, Any]) -> str:
    """Render nMSE, and by how much the others' is above the default's, as Markdown."""
    others = next(iter(sets.values()))["scores"]["model"][1:]
    lines = [f"| data | rows scored | default | {' | '.join(others)} |", "|---" * (3 + len(others)) + "|"]
    for name, found in sets.items():
        rows = zip(*found["differences"].values(), strict=True)
        above = {
            model: f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"
            for model, score, mean, low, high in rows
            if score == "nmse"
        }
        cells = " | ".join(above[model] for model in others)
        lines.append(f"| {name} | {found['scored']:,} | {found['scores']['nmse'][0]:.3g} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
