"""The table of columns of text with many levels: ``python -m benchmarks.pages.many_levels``."""

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "many_levels.json"
PAGE = DOCS / "research" / "robustness.md"


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    runs = json.loads(RESULTS.read_text())["runs"]
    return {PAGE: markdown.with_tables(PAGE, {"many levels": table(runs)})}


def table(runs: dict[str, Any]) -> str:
    """Render scores with these columns and without as Markdown, medians of the seeds with least and greatest."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name, scores in runs.items():
        stream, job, _ = name.split("; ")
        found.setdefault(stream, {}).setdefault(job, []).append(scores)
    models = list(dict.fromkeys(job.partition(",")[0] for jobs in found.values() for job in jobs if "," in job))
    lines = [
        "| stream | model | nMSE without | with | CRPS without | with | nMSE, CRPS of LightGBM |",
        "|---|---|---|---|---|---|---|",
    ]
    for stream, jobs in found.items():
        for model in models:
            if f"{model}, with" not in jobs:
                continue
            cells = [stream, model]
            for score in ("nmse", "crps"):
                cells += [_spread([run[score] for run in jobs[f"{model}, {which}"]]) for which in ("without", "with")]
            other = [f"{median(run[score] for run in jobs['LightGBM']):.3g}" for score in ("nmse", "crps")]
            lines.append(f"| {' | '.join([*cells, ', '.join(other)])} |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    """Write the median of some values, and the least and the greatest where they show in four digits."""
    least, greatest = (f"{value:.4g}" for value in (min(values), max(values)))
    return f"{median(values):.4g}" + (f" ({least} to {greatest})" if least != greatest else "")


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
