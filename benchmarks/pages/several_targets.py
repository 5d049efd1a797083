"""Tables on several targets: ``python -m benchmarks.pages.several_targets``."""

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "several_targets.json"
PAGE, GUIDE = DOCS / "research" / "several-targets.md", DOCS / "how-to" / "several-targets.md"


def pages() -> dict[Path, str]:
    """Return the pages with their tables renewed."""
    by_stream: dict[str, list[dict[str, Any]]] = {}
    for label, run in json.loads(RESULTS.read_text())["runs"].items():
        by_stream.setdefault(label.split("; ")[0], []).append(run)
    every_tenth = {"targets some missing": table_every_tenth(by_stream)}
    return {
        PAGE: markdown.with_tables(PAGE, every_tenth | {"targets all seen": table_all_seen(by_stream)}),
        GUIDE: markdown.with_tables(GUIDE, every_tenth),
    }


def table_every_tenth(by_stream: dict[str, list[dict[str, Any]]]) -> str:
    """Render log densities as Markdown, medians over the runs; gains are medians of those of the runs."""
    lines = [
        "| stream | runs | given the others | not given | separate model | gained | with the others as inputs | "
        "the others | separate models |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, runs in by_stream.items():
        found = [run["every_tenth"] for run in runs]
        keys = ("given", "not_given", "separate", "as_inputs", "others", "others_separate")
        given, without, separate, inputs, others, alone = (median(run[key] for run in found) for key in keys)
        gained = median(run["given"] - run["separate"] for run in found)
        cells = f"{given:.3f} | {without:.3f} | {separate:.3f} | {gained:+.3f} | {inputs:.3f}"
        lines.append(f"| {name} | {len(runs)} | {cells} | {others:.3f} | {alone:.3f} |")
    return "\n".join(lines)


def table_all_seen(by_stream: dict[str, list[dict[str, Any]]]) -> str:
    """Render joint log densities as Markdown; gains are medians of those of the runs."""
    lines = [
        "| stream | runs | joint | sum of the targets' own | gained | `pll` | separate models |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, runs in by_stream.items():
        found = [run["all_seen"] for run in runs]
        joint, product, by_expert, separate = (
            median(run[key] for run in found) for key in ("joint", "product", "by_expert", "separate")
        )
        gained = median(run["joint"] - run["product"] for run in found)
        cells = f"{joint:.3f} | {product:.3f} | {gained:+.4f} | {by_expert:.3f} | {separate:.3f}"
        lines.append(f"| {name} | {len(runs)} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
