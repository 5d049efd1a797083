"""SFG-MKL put right beside Raker, in a table: ``python -m benchmarks.pages.corrected_sfg``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from benchmarks.accuracy.corrected_sfg import CHOOSING, CONFIRMING, KERNELS, NEIGHBOURS, ORDERS, RESULTS
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS

PAGE = DOCS / "research" / "multikernel.md"
OURS = "Corrected SFG"
RIVALS = ("Raker, 41 kernels", "Raker, 5 spread", "Raker, 5 spread, both corrected")
HINDSIGHT = ("Raker, 5 around the best in hindsight, both", "Raker, best 5 in hindsight, both")


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"corrected-sfg": table(json.loads(RESULTS.read_text()))})}


def table(found: dict[str, Any]) -> str:
    """Render errors, in order and shuffled, and on how many streams the corrected SFG errs less and more."""
    learners = next(iter(found.values()))["mse"]
    heads = (f"1,000 x MSE, {' / '.join(ORDERS)}", "kernels a row", *CONFIRMING, "SFG better, worse", "when choosing")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in learners:
        cells = [name, str(KERNELS if "41" in name else NEIGHBOURS)]
        for data in CONFIRMING:
            means = (float(np.mean(found[f"{data}, {order}"]["mse"][name])) for order in ORDERS)
            cells.append(" / ".join(f"{mean:#.3g}" for mean in means))
        cells += [_count(found, name, sets) if name != OURS else "" for sets in (CONFIRMING, CHOOSING)]
        lines.append(f"| {' | '.join(cells)} |")
    for name, rival in (*((OURS, rival) for rival in RIVALS), *((name, RIVALS[-1]) for name in HINDSIGHT)):
        cells = [f"*{name}* less *{rival}*", ""]
        for data in CONFIRMING:
            scores = (found[f"{data}, {order}"]["mse"] for order in ORDERS)
            gaps = (difference(each[name], each[rival]) for each in scores)
            cells.append(" / ".join(f"{mean:+.2f} ± {half:.2f}" for mean, half in gaps))
        lines.append(f"| {' | '.join((*cells, '', ''))} |")
    return "\n".join(lines)


def difference(one: list[float], other: list[float]) -> tuple[float, float]:
    """Return the mean over the seeds of one less other, and half of its paired 95% interval."""
    each = np.subtract(one, other)
    half = float(student.ppf(0.975, len(each) - 1)) * np.std(each, ddof=1) / np.sqrt(len(each))
    return float(each.mean()), float(half)


def _count(found: dict[str, Any], name: str, sets: tuple[str, ...]) -> str:
    scores = [found[f"{data}, {order}"]["mse"] for data in sets for order in ORDERS]
    gaps = [difference(each[OURS], each[name]) for each in scores]
    better, worse = (sum(sign * mean > half for mean, half in gaps) for sign in (-1, 1))
    return f"{better}, {worse} of {len(gaps)}"


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
