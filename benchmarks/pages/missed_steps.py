"""The table of streams of which some rows never came: ``python -m benchmarks.pages.missed_steps``."""

import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.accuracy.missed_steps import NAMES, RESULTS, SHARES
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS

PAGE = DOCS / "research" / "models.md"


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    runs = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"]
    return {PAGE: markdown.with_tables(PAGE, {"missed steps": table(runs)})}


def table(runs: dict[str, Any]) -> str:
    """Render medians over seeds, in units of the CRPS of the whole stream."""
    shares = [share for share in SHARES if share]
    lines = [
        "| stream | " + " | ".join(f"{share:.0%} missing: counted by rows, by steps" for share in shares) + " |",
        "|---" * (1 + len(shares)) + "|",
    ]
    for name in NAMES:
        whole = runs[f"{name}; 0.0; steps"][0]["crps"]
        each = [
            [
                statistics.median(run["crps"] for run in runs[f"{name}; {share}; {by}"]) / whole
                for by in ("rows", "steps")
            ]
            for share in shares
        ]
        lines.append(f"| {name} | " + " | ".join(f"{rows:.3f}, {steps:.3f}" for rows, steps in each) + " |")
    return "\n".join(lines)


def _median(runs: list[dict[str, Any]]) -> float:
    """Return the CRPS of the middle one of the seeds."""
    return statistics.median(run["crps"] for run in runs)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
