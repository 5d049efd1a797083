"""The tables of docs/research/weights.md, from ``results/stacking.json``: ``python -m benchmarks.pages.weights``."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from benchmarks.accuracy.stacking import MOVING, RESULTS, RULES, STATIC
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS

PAGE = DOCS / "research" / "weights.md"


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    stored = json.loads(RESULTS.read_text())
    return {PAGE: markdown.with_tables(PAGE, {f"rules on {preset}": table(runs) for preset, runs in stored.items()})}


def gains(of: dict[str, Any], rule: str, over: str) -> list[float]:
    """Return how much more log density a rule gave to the targets of a set than another, for each seed."""
    return [run["rules"][rule]["pll"] - run["rules"][over]["pll"] for run in of.values()]


def table(runs: dict[str, Any]) -> str:
    """Show the PLL of BMA on each set and what each rule adds: medians over seeds and, in brackets, their range."""
    rules = [rule for rule in RULES[1:] if all(rule in run["rules"] for of in runs.values() for run in of.values())]
    lines = [f"| data | seeds | experts | bma | {' | '.join(rules)} |", "|---" * (4 + len(rules)) + "|"]
    for name in (*MOVING, *STATIC):
        if of := runs.get(name):
            experts = sorted({run["experts"] for run in of.values()})
            number = f"{experts[0]}" if len(experts) == 1 else f"{experts[0]} to {experts[-1]}"
            kind = "moving" if name in MOVING else "static"
            base = median(run["rules"]["bma"]["pll"] for run in of.values())
            cells = []
            for rule in rules:
                gain = gains(of, rule, "bma")
                cells.append(f"{median(gain):+.3f} ({min(gain):+.3f} to {max(gain):+.3f})")
            lines.append(f"| {name} ({kind}) | {len(of)} | {number} | {base:.3f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n" + tests(runs, rules)


def tests(runs: dict[str, Any], rules: list[str]) -> str:
    """Show two-sided Wilcoxon signed-rank tests of each rule against BMA and against ``auto``.

    Paired by seed within a set, and over the sets by their medians.
    """
    lines = ["| rule | better / worse than bma, sets | over the sets, p | better / worse than auto, sets | p |"]
    lines.append("|---" * 5 + "|")
    for rule in rules:
        cells = []
        for baseline in ("bma", "auto"):
            if rule == baseline:
                cells += ["", ""]
                continue
            each = [gains(of, rule, baseline) for of in runs.values()]
            sure = [np.sign(median(gain)) for gain in each if p_value(gain) < 0.05]
            cells.append(f"{sum(s > 0 for s in sure)} / {sum(s < 0 for s in sure)} of {len(each)}")
            cells.append(f"{p_value([median(gain) for gain in each]):.2g}")
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return "\n".join(lines)


def p_value(gain: list[float]) -> float:
    """Return that of the signed-rank test; 1 where all are equal."""
    return float(np.asarray(wilcoxon(gain))[1]) if np.any(gain) else 1.0


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
