"""The tables of docs/research/default.md, put between their marks: ``python -m benchmarks.pages.default``."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.accuracy.default import RESULTS, RULES
from benchmarks.common import markdown
from benchmarks.common.datasets import APART, CHOOSING
from benchmarks.common.paths import DOCS, RESULTS_DIR

WARMUPS = RESULTS_DIR / "warmup.json"
BASELINES = RESULTS_DIR / "baselines.json"
PAGE = DOCS / "research" / "default.md"


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    stored = json.loads(RESULTS.read_text())
    runs, warmups = stored["runs"], json.loads(WARMUPS.read_text())
    tables = {"parts": _parts(stored), "rules": _rules(runs), "sets": _sets(runs), "warmups": _warmups(warmups)}
    return {PAGE: markdown.with_tables(PAGE, tables)}


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


def _median(runs: dict[str, Any], name: str, candidate: str, score: str) -> float:
    return median(run[candidate][score] for run in runs[name].values())


def _parts(stored: dict[str, Any]) -> str:
    """Show what a candidate changes: geometric mean of the nMSE's ratio to the default's, mean difference in PLL."""
    runs = stored["runs"]
    lines = [
        "| candidate | filters | experts | nMSE, choosing | PLL, choosing | nMSE, apart | PLL, apart "
        "| coverage of 95% intervals | fit, s | stream, us a row |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    halves = [[name for name in half if runs.get(name)] for half in (CHOOSING, APART)]
    first = next(iter(next(iter(runs.values())).values()))
    for candidate in first:
        cells = [f"{max(run[candidate][what] for of in runs.values() for run in of.values())}" for what in _SIZES]
        for half in halves:
            ratios = [_median(runs, n, candidate, "nmse") / _median(runs, n, "default", "nmse") for n in half]
            gains = [_median(runs, n, candidate, "pll") - _median(runs, n, "default", "pll") for n in half]
            if candidate == "default":
                cells += ["1", "0"]
            else:
                cells += [f"{np.exp(np.mean(np.log(ratios))):.3f}", f"{np.mean(gains):+.3f}"] if half else ["", ""]
        holds = [_median(runs, n, candidate, "coverage_95") for half in halves for n in half]
        cells.append(f"{min(holds):.3f} to {max(holds):.3f}")
        taken = stored["seconds"].get(candidate)
        cells += [f"{taken['warmup']:.1f}", f"{1e6 * taken['stream'] / taken['rows']:.0f}"] if taken else ["", ""]
        lines.append(f"| {candidate} | {' | '.join(cells)} |")
    return "\n".join(lines)


_SIZES = ("filters", "experts")


def _rules(runs: dict[str, Any]) -> str:
    """Show the PLL of the mixture over weight rules on every set beside that of each rule; medians over the seeds."""
    lines = ["| data | auto | " + " | ".join(RULES) + " | auto minus the best |", "|---" * (len(RULES) + 3) + "|"]
    for name in (*CHOOSING, *APART):
        if runs.get(name):
            ours, *theirs = (_median(runs, name, rule, "pll") for rule in ("default", *RULES))
            cells = " | ".join(f"{pll:.3f}" for pll in (ours, *theirs))
            lines.append(f"| {name} | {cells} | {ours - max(theirs):+.3f} |")
    return "\n".join(lines)


def _warmups(stored: dict[str, Any]) -> str:
    """Return nMSE and PLL of the same later rows, by the length of the warm-up; medians over the seeds."""
    lengths = sorted({int(length) for of in stored.values() for length in of})
    lines = ["| data | " + " | ".join(f"{n:,} rows" for n in lengths) + " |", "|---" * (len(lengths) + 1) + "|"]
    for name in (*CHOOSING, *APART):
        if name in stored:
            runs = [[*stored[name].get(str(n), {}).values()] for n in lengths]
            cells = [
                f"{median(r['nmse'] for r in of):.3g} / {median(r['pll'] for r in of):.3f}" if of else ""
                for of in runs
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _sets(runs: dict[str, Any]) -> str:
    """Show the default on every set: medians over seeds, in brackets the range; baselines where they were run."""
    baselines = json.loads(BASELINES.read_text())["summary"]
    lines = [
        "| data | half | seeds | nMSE | PLL | coverage of 95% intervals | nMSE: last value again "
        "| nMSE: HistGradientBoosting |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in (*CHOOSING, *APART):
        if runs.get(name):
            cells = []
            for score in ("nmse", "pll", "coverage_95"):
                values = [run["default"][score] for run in runs[name].values()]
                digits = 5 if abs(median(values)) < 0.01 else 3
                middle, low, high = (f"{v:.{digits}f}" for v in (median(values), min(values), max(values)))
                cells.append(f"{middle} ({low} to {high})")
            half = "choosing" if name in CHOOSING else "apart"
            for baseline in ("persistence", "boosting_refitted"):
                found = baselines.get(name, {}).get(baseline)
                cells.append(f"{found['nmse']['median']:.3g}" if found else "")
            lines.append(f"| {name} | {half} | {len(runs[name])} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
