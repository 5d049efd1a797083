"""The tables of promises by group: ``python -m benchmarks.pages.groups``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "groups.json"
PAGE = DOCS / "research" / "bands.md"


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    found = json.loads(RESULTS.read_text())
    tables = {"groups found": _found(found["discoveries"]), "groups covered": _covered(found["coverage"])}
    return {PAGE: markdown.with_tables(PAGE, tables)}


def _found(each: list[dict[str, Any]]) -> str:
    """Render what was found among twenty groups as Markdown."""
    lines = [
        "| other groups are missed | runs with all three found | false discoveries | promised "
        "| rows until found: 22% missed | 22% from the middle on | 2% missed | a 5% test of each group alone, once |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in each:
        rows = [f"{one['median_rows_until_found'][g]:.0f}" for g in ("2", "7", "11")]
        cells = [f"{one['missed']:.0%}", f"{one['all_three_found']} of {one['runs']}"]
        cells += [f"{one['false_discovery_rate']:.2%}", f"{one['rate']:.0%}", *rows]
        cells.append(f"{one['tested_once_each_at_5_percent']:.0%}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _covered(runs: list[dict[str, Any]]) -> str:
    """Render the worst groups of every stream as Markdown, the worst of the seeds."""
    lines = [
        "| noise | model | worst group, first 1,000 rows, without | with | later rows, without | with "
        "| width, without | with | unbounded rows, with |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for stream, model in dict.fromkeys((run["stream"], run["model"]) for run in runs):
        own = [run for run in runs if (run["stream"], run["model"]) == (stream, model)]
        cells = [stream, f"`{model}`"]
        for part in ("first", "later"):
            cells += [f"{100 * max(run[kind][part] for run in own):.1f}" for kind in ("without", "with")]
        cells += [f"{sum(run[kind]['width'] for run in own) / len(own):.2f}" for kind in ("without", "with")]
        lines.append(f"| {' | '.join([*cells, str(max(run['with']['unbounded_rows'] for run in own))])} |")
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
