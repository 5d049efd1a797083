"""Forecasts of the next 24 rows, in a table: ``python -m benchmarks.pages.ahead``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "ahead.json"
PAGE = DOCS / "research" / "ahead.md"


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"forecasts": table(json.loads(RESULTS.read_text())["data"])})}


def table(data: dict[str, Any]) -> str:
    """Render the scores as Markdown; the best CRPS of a stream is bold."""
    lines = [
        "| stream | model | CRPS | of step 1 / 6 / 24 | energy score | 80 / 95% hold | processor seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in data.items():
        best = min(scores["crps"] for scores in found["models"].values() if "crps" in scores)
        for label, scores in found["models"].items():
            crps, energy, held = "", "", ""
            if "crps" in scores:  # a model of all steps
                crps, energy = f"{scores['crps']:.3f}", f"{scores['energy_score']:.3f}"
                held = " / ".join(f"{100.0 * scores['coverage'][level]:.0f}" for level in ("80", "95"))
                crps = f"**{crps}**" if scores["crps"] == best else crps
            steps = " / ".join(f"{scores['crps_by_step'][step - 1]:.3f}" for step in (1, 6, 24))
            lines.append(
                f"| {name} | {label} | {crps} | {steps} | {energy} | {held} | {scores['processor_seconds']:.0f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
