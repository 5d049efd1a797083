"""Tables of docs/research/multikernel.md and docs/research/bands.md, from ``results/multikernel.json``.

``python -m benchmarks.pages.multikernel`` renders them.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR
from benchmarks.speed.multikernel import INPUTS
from streamgp_papers.sfg import SECONDS

RESULTS = RESULTS_DIR / "multikernel.json"
PAGE, BANDS = DOCS / "research" / "multikernel.md", DOCS / "research" / "bands.md"
PAPER_ROWS = {"Airfoil": 1503, "Concrete": 1030, "Naval": 11934, "Wine": 4898}


def pages() -> dict[Path, str]:
    """Return both pages with their tables renewed."""
    stored = json.loads(RESULTS.read_text())
    speed, errors = stored["speed"], stored["errors"]
    tables = {"multikernel-speed": table_speed(speed), "multikernel-errors": table_errors(errors)}
    return {
        PAGE: markdown.with_tables(PAGE, tables),
        BANDS: markdown.with_tables(BANDS, {"multikernel-bands": table_bands(errors)}),
    }


def table_speed(found: dict[str, Any]) -> str:
    """Render rows a second as Markdown, the paper's below ours."""
    lines = [
        "| | " + " | ".join(f"{name}, {INPUTS[name]} inputs" for name in found) + " | SFG-MKL is faster by |",
        "|---|" + "---|" * (len(found) + 1),
    ]
    for label in next(iter(found.values())):
        cells = [f"{found[name][label]:,.0f}" for name in found]
        ratios = [found[name]["SFG-MKL"] / found[name][label] for name in found]
        lines.append(f"| {label} | {' | '.join(cells)} | {min(ratios):.1f} to {max(ratios):.1f} |")
        if label in SECONDS:
            paper = [PAPER_ROWS[name] / seconds for name, seconds in zip(found, SECONDS[label], strict=True)]
            lines.append(f"| {label}, the paper's | {' | '.join(f'{rows:,.0f}' for rows in paper)} | |")
    return "\n".join(lines)


def table_errors(found: dict[str, Any]) -> str:
    """Render nMSE as Markdown."""
    models = list(next(iter(found.values())))
    lines = ["| nMSE | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    for model in models:
        lines.append(f"| `{model}` | " + " | ".join(f"{found[name][model]['nmse']:.3f}" for name in found) + " |")
    return "\n".join(lines)


def table_bands(found: dict[str, Any]) -> str:
    """Render coverage and width of bands as Markdown."""
    lines = ["| data | model | own band holds | its width | conformal holds | its width | unbounded rows |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, models in found.items():
        for model in ("sfg-mkl", "raker", "e-doebe", "default"):
            s = models[model]
            lines.append(
                f"| {name} | `{model}` | {100 * s['own_coverage']:.1f}% | {s['own_width']:.2f} | "
                f"{100 * s['coverage']:.1f}% | {s['width']:.2f} | {s['unbounded']:.0f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
