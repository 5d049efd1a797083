"""The tables of docs/research/labels.md, from ``benchmarks/results``: ``python -m benchmarks.pages.labels``."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS, PAGE = RESULTS_DIR / "labels.json", DOCS / "research" / "labels.md"


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    stored = json.loads(RESULTS.read_text())
    tables = {
        "labels-counts": table_counts(stored["counts"]),
        "labels-wine": table_wine(stored["wine"]),
        "labels-speed": table_speed(stored["speed"]),
        "labels-presets": table_presets(_stored("label_presets")),
        "labels-lags": table_lags(_stored("lagged_counts")),
        "labels-rare": table_rare(_stored("rare_classes")),
    }
    return {PAGE: markdown.with_tables(PAGE, tables)}


def _stored(name: str) -> dict[str, Any]:
    return json.loads((RESULTS_DIR / f"{name}.json").read_text())


def table_presets(found: dict[str, Any]) -> str:
    """Render medians over the seeds as Markdown."""
    lines = [
        "| set | log loss: default | fast | linear | seconds: default | fast | linear | fast beside the default |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, of in found.items():
        each = {
            (model, key): median(run[key] for run in runs.values())
            for model, runs in of.items()
            for key in ("log_loss", "seconds")
        }
        losses, seconds = ([each[model, key] for model in of] for key in ("log_loss", "seconds"))
        cells = [*(f"{loss:.4f}" for loss in losses), *(f"{value:.1f}" for value in seconds)]
        ratio = f"{losses[1] / losses[0] - 1.0:+.1%} log loss, {seconds[1] / seconds[0]:.0%} of the time"
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines)


def table_lags(found: dict[str, Any]) -> str:
    """Render the median seed by what lags save, and its intervals, as Markdown."""
    lines = [
        "| counts | model | lags | RPS | of the last count | difference (95% interval) | log probability | without "
        "lags | log loss saved (95% interval) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, models in found.items():
        for model, runs in models.items():
            run = sorted(runs, key=lambda run: run["log loss beside no lags"][0])[len(runs) // 2]
            ours, last, none = run["with lags"], run["crps beside the last count"], run["log loss beside no lags"]
            saved = f"{-none[0]:.4f} ({-none[2]:.4f} to {-none[1]:.4f})" if run["lags"] else ""
            lags = ", ".join(map(str, run["lags"])) or "none"
            lines.append(
                f"| {name} | {model} | {lags} | {ours['crps']:.3f} | {run['last']:.3f} | "
                f"{last[0]:.3f} ({last[1]:.3f} to {last[2]:.3f}) | {ours['pll']:.4f} | "
                f"{run['without']['pll']:.4f} | {saved} |"
            )
    return "\n".join(lines)


def table_rare(found: dict[str, Any]) -> str:
    """Render medians over the seeds, with the least and the largest, as Markdown."""
    lines = [
        "| stream | model | area under precision and recall | ROC AUC | log loss | cost | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, models in found.items():
        for model, runs in models.items():
            cells = []
            for key in ("average_precision", "roc_auc", "log_loss", "cost"):
                values = [run[key] for run in runs]
                cells.append(f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})")
            seconds = median(run["seconds"] for run in runs)
            lines.append(f"| {name} | {model} | {' | '.join(cells)} | {seconds:.1f} |")
    return "\n".join(lines)


def table_counts(found: dict[str, Any]) -> str:
    """Render medians over the seeds as Markdown."""
    lines = [
        "| experts | rate off by (median, 2nd half) | deviance | log probability (truth's) | 50 / 90 / 95% hold |",
        "|---|---|---|---|---|",
    ]
    for label, runs in found.items():
        off, deviance, pll, truth = (median(run[key] for run in runs) for key in ("off", "deviance", "pll", "truth"))
        held = " / ".join(f"{median(run['coverage'][level] for run in runs):.1%}" for level in ("50", "90", "95"))
        lines.append(f"| {label} | {np.expm1(off):.1%} | {deviance:.3f} | {pll:.3f} ({truth:.3f}) | {held} |")
    return "\n".join(lines)


def table_wine(found: dict[str, Any]) -> str:
    """Render medians over the seeds as Markdown."""
    lines = ["| model | ranked probability score | log loss | error |", "|---|---|---|---|"]
    for label, runs in found.items():
        rps, loss, error = (median(run[key] for run in runs) for key in ("rps", "log_loss", "error_rate"))
        lines.append(f"| {label} | {rps:.4f} | {loss:.4f} | {error:.1%} |")
    return "\n".join(lines)


def table_speed(found: dict[str, Any]) -> str:
    """Render rows a second as Markdown."""
    lines = ["| | streamgp, rows a second | bare loop | ratio |", "|---|---|---|---|"]
    for label, speeds in found.items():
        blocks, rows = speeds.get("blocks"), speeds["row by row"]
        ratio = "" if blocks is None else f"{blocks / rows:.1f}"
        lines.append(f"| {label} | {'' if blocks is None else f'{blocks:,.0f}'} | {rows:,.0f} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
