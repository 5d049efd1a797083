"""Forecasts of the next 24 rows, in tables: ``python -m benchmarks.pages.ahead``."""

import json
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.accuracy.ahead import DIRECT, MODELS
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "ahead.json"
PAGE = DOCS / "research" / "ahead.md"


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    runs = by_stream(json.loads(RESULTS.read_text())["runs"])
    return {PAGE: markdown.with_tables(PAGE, {"forecasts": table(runs), "direct": direct(runs)})}


def by_stream(runs: dict[str, Any]) -> dict[str, dict[str, list[Any]]]:
    """Return the scores of all stretches, by stream and model."""
    found: dict[str, dict[str, list[Any]]] = {}
    for key, scores in runs.items():
        name, label, _ = key.split("; ")
        found.setdefault(name, {}).setdefault(label, []).append(scores)
    return {
        name: dict(sorted(models.items(), key=lambda each: MODELS.index(each[0]))) for name, models in found.items()
    }


def table(runs: dict[str, dict[str, list[Any]]]) -> str:
    """Render medians over stretches as Markdown; the best CRPS of a stream is bold."""
    lines = [
        "| stream | model | CRPS (range) | of step 1 / 6 / 24 | energy score | 80 / 95% hold | processor seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, models in runs.items():
        models = {label: each for label, each in models.items() if "crps" in each[0]}
        each_crps = {label: [scores["crps"] for scores in each] for label, each in models.items()}
        best = min(map(median, each_crps.values()))
        for label, each in models.items():
            crps = each_crps[label]
            shown = f"**{median(crps):.3f}**" if median(crps) == best else f"{median(crps):.3f}"
            steps = " / ".join(f"{median(s['crps_by_step'][step - 1] for s in each):.3f}" for step in DIRECT)
            held = " / ".join(f"{100.0 * mean(s['coverage'][level] for s in each):.0f}" for level in ("80", "95"))
            lines.append(
                f"| {name} | {label} | {shown} ({min(crps):.3f} to {max(crps):.3f}) | {steps} "
                f"| {median(s['energy_score'] for s in each):.3f} | {held} "
                f"| {median(s['processor_seconds'] for s in each):.0f} |"
            )
    return "\n".join(lines)


def direct(runs: dict[str, dict[str, list[Any]]]) -> str:
    """Render the CRPS of direct horizons beside that of the same steps of forecasts, all of the first stretch."""
    lines = ["| stream | model | step 1 | step 6 | step 24 | processor seconds |", "|---|---|---|---|---|---|"]
    for name, models in runs.items():
        for label in (label for label in models if label.startswith("streamgp")):
            scores = models[label][0]
            steps = " | ".join(f"{scores['crps_by_step'][step - 1]:.3f}" for step in DIRECT)
            lines.append(f"| {name} | {label} | {steps} | {scores['processor_seconds']:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
