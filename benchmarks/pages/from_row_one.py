"""The tables of docs/research/first-rows.md: ``python -m benchmarks.pages.from_row_one``."""

import json
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.accuracy.from_row_one import PARTS, RESULTS, WARMUP
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS

PAGE = DOCS / "research" / "first-rows.md"
CHOSEN_ON = (
    *("elevators_ucids", "cadata", "cpusmall", "kin40k", "naval", "schunk_arm", "beijing_pm25", "sml2010_stream"),
    *("kin8nm", "pumadyn8nm"),
)
MODELS = (
    *("running mean", "last value", "Bayesian linear", "no first fits", "fast", "default"),
    *("Gaussian process", "hindsight"),
)
ALL = len(PARTS)  # the place of the mean over the rows of the warm-up but the first


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    sets = json.loads(RESULTS.read_text())["sets"]
    tables = {"sets": _sets(sets), "parts": _parts(sets), "scores": _scores(sets)}
    return {PAGE: markdown.with_tables(PAGE, tables)}


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


def _sets(sets: dict[str, Any]) -> str:
    """Show the mean log density of each set's warm-up, and what hindsight would gain."""
    lines = [f"| set | {' | '.join(MODELS)} |", "|---" * (len(MODELS) + 1) + "|"]
    for name, of in sets.items():
        cells = [f"{of[model]['log_density'][ALL]:.2f}" for model in MODELS]
        lines.append(f"| {name}{'' if name in CHOSEN_ON else ' (apart)'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _parts(sets: dict[str, Any]) -> str:
    """Show by part of the stream what the first fits gain in log density: on each set, and in the middle."""
    ends = [f"{a + 1} to {b}" for a, b in pairwise(PARTS[1:])]
    lines = [f"| set | {' | '.join(ends)} |", "|---" * (len(ends) + 1) + "|"]
    rows = []
    for name, of in sets.items():
        gains = [of["fast"]["log_density"][i] - of["no first fits"]["log_density"][i] for i in range(2, len(PARTS))]
        rows.append(gains)
        lines.append(f"| {name} | {' | '.join(f'{gain:+.2f}' for gain in gains)} |")
    middle = [f"{median(column):+.2f}" for column in zip(*rows, strict=True)]
    return "\n".join([*lines, f"| median | {' | '.join(middle)} |"])


def _scores(sets: dict[str, Any]) -> str:
    """Show the other scores over rows 11 to 1,000, in the mean or the middle over the sets."""
    lines = ["| model | CRPS, median | nMSE, median | coverage of 90% bands |", "|---|---|---|---|"]
    for model in MODELS:
        crps, nmse, coverage = (
            [_after_ten(of[model][key]) for of in sets.values()] for key in ("crps", "nmse", "coverage")
        )
        lines.append(
            f"| {model} | {median(crps):.3f} | {median(nmse):.3f} | {median(coverage):.1%} "
            f"({min(coverage):.1%} to {max(coverage):.1%}) |"
        )
    return "\n".join(lines)


def _after_ten(parts: list[float]) -> float:
    """Return the mean over the rows of the warm-up but the first ten, of means over parts."""
    last = PARTS.index(WARMUP)
    sizes = [b - a for a, b in pairwise(PARTS[1 : last + 1])]
    return sum(size * part for size, part in zip(sizes, parts[2:], strict=False)) / sum(sizes)


if __name__ == "__main__":
    main()
