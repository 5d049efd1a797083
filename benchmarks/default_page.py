"""The tables of docs/default.md, put between their marks; the text around them is written by hand."""

from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from datasets import APART, CHOOSING

PAGE = Path(__file__).parent.parent / "docs" / "default.md"


def write_page(stored: dict[str, Any]) -> None:
    """Renew both tables."""
    text = PAGE.read_text()
    for mark, table in (("parts", _parts(stored)), ("sets", _sets(stored["runs"]))):
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text)


def _median(runs: dict[str, Any], name: str, candidate: str, score: str) -> float:
    return median(run[candidate][score] for run in runs[name].values())


def _parts(stored: dict[str, Any]) -> str:
    """What a candidate changes: geometric mean of the nMSE's ratio to the default's, mean difference in PLL."""
    runs = stored["runs"]
    lines = [
        "| candidate | filters | experts | nMSE, choosing | PLL, choosing | nMSE, apart | PLL, apart "
        "| 95% bands hold | fit, s | stream, us a row |",
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
        cells += [f"{taken['warmup']:.0f}", f"{1e6 * taken['stream'] / taken['rows']:.0f}"] if taken else ["", ""]
        lines.append(f"| {candidate} | {' | '.join(cells)} |")
    return "\n".join(lines)


_SIZES = ("filters", "experts")


def _sets(runs: dict[str, Any]) -> str:
    """The default on every set: medians over the seeds and, in brackets, the range."""
    lines = ["| data | half | seeds | nMSE | PLL | 95% bands hold |", "|---|---|---|---|---|---|"]
    for name in (*CHOOSING, *APART):
        if runs.get(name):
            cells = []
            for score in ("nmse", "pll", "coverage_95"):
                values = [run["default"][score] for run in runs[name].values()]
                digits = 5 if abs(median(values)) < 0.01 else 3
                middle, low, high = (f"{v:.{digits}f}" for v in (median(values), min(values), max(values)))
                cells.append(f"{middle} ({low} to {high})")
            half = "choosing" if name in CHOOSING else "apart"
            lines.append(f"| {name} | {half} | {len(runs[name])} | {' | '.join(cells)} |")
    return "\n".join(lines)
