"""Forecasts of 48 rows from many origins, in tables: ``python -m benchmarks.pages.many_origins``."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.many_origins import ARIMA, ETS, LEVELS, MODELS, NAIVE, OURS, RESULTS, STREAMS
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS

PAGE = DOCS / "research" / "ahead.md"
PARTS = slice(0, 24), slice(24, 48)  # of the steps
NEAR = 4.0  # points that a band may be off
Runs = dict[str, dict[str, Any]]


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    runs = json.loads(RESULTS.read_text())["runs"]
    return {PAGE: markdown.with_tables(PAGE, {"origins": scores(runs), "bands by step": bands(runs)})}


def scores(runs: Runs) -> str:
    """Render the CRPS of models at the origins of all as Markdown, blank where one did not run; the best is bold."""
    lines = [f"| stream | steps | {' | '.join(MODELS)} |", "|---" * (2 + len(MODELS)) + "|"]
    for name in STREAMS:
        for part in PARTS:
            found = [runs.get(f"{name}; {label}") for label in MODELS]
            each = [float(np.mean(one["crps_of_fewer"][part])) if one else np.nan for one in found]
            shown = [
                "" if np.isnan(crps) else f"**{crps:.3f}**" if crps == np.nanmin(each) else f"{crps:.3f}"
                for crps in each
            ]
            lines.append(f"| {name} | {part.start + 1} to {part.stop} | {' | '.join(shown)} |")
    return "\n".join(lines)


def bands(runs: Runs) -> str:
    """Render what holds at each step of our forecasts from all origins, and the processor time, as Markdown."""
    lines = [
        f"| stream | steps behind the naive model | 80% hold | 95% hold | steps off by more than {NEAR:.0f} points "
        f"| seconds an origin: ours / {ARIMA} / {ETS} |",
        "|---" * 6 + "|",
    ]
    for name in STREAMS:
        if f"{name}; {OURS}" not in runs:
            continue
        ours, naive = (runs[f"{name}; {label}"] for label in (OURS, NAIVE))
        behind = int(np.sum(np.array(ours["crps"]) >= naive["crps"]))
        held = {level: 100.0 * np.array(ours["coverage"][str(level)]) for level in LEVELS}
        shares = " | ".join(f"{each.mean():.0f} ({each.min():.0f} to {each.max():.0f})" for each in held.values())
        off = " / ".join(str(int(np.sum(np.abs(each - level) > NEAR))) for level, each in held.items())
        timed = (runs.get(f"{name}; {label}") for label in (OURS, ARIMA, ETS))
        spent = " / ".join(f"{each['processor_seconds'] / each['origins']:.2f}" if each else "–" for each in timed)
        lines.append(f"| {name} | {behind} | {shares} | {off} | {spent} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
