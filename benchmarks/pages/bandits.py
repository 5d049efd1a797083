"""The tables of docs/research/bandits.md, from the results: ``python -m benchmarks.pages.bandits``."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

SPEED = RESULTS_DIR / "bandits.json"
RUNS = RESULTS_DIR / "reproductions"
PAGE = DOCS / "research" / "bandits.md"
BASELINES = ("GP-UCB", "R-GP-UCB", "SW-GP-UCB", "TV-GP-UCB", "W-GP-UCB")
RULES = ("past", "grid", "domain", "random", "maximisers")


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    speed = json.loads(SPEED.read_text())
    tables = {
        "overview": overview(),
        "fairness": fairness(),
        "failures": failures(),
        "rules": rules(),
        "fewer": fewer(),
        "speed": speed_table(speed["steps"]) + "\n\n" + swap_sentence(speed["swaps"]),
    }
    return {PAGE: markdown.with_tables(PAGE, {f"bandits-{mark}": table for mark, table in tables.items()})}


class Kept:
    """The runs of a reproduction."""

    def __init__(self, name: str) -> None:
        self.runs = json.loads((RUNS / f"{name}.json").read_text())["runs"]

    def cell(
        self, data: str, model: str, metric: str = "regret", take: Callable[[list[float]], float] = median
    ) -> str:
        """Return median, or another choice, over the seeds; empty where there is no such run."""
        found = [
            run["models"][model][metric]
            for key, run in self.runs.items()
            if key.rsplit(" ", 1)[0] == data and metric in run["models"].get(model, {})
        ]
        return f"{take(found):.3g}" if found else ""

    def both(self, model: str) -> str:
        """Return regret of a step, and of an evaluation in brackets, on the paper's function."""
        return f"{self.cell('moving-bump', model)} ({self.cell('moving-bump', model, 'per_evaluation')})"


def table(rows: Sequence[tuple[str, list[str]]], *columns: str) -> str:
    """Render rows as Markdown."""
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows])


def overview() -> str:
    """Compare all methods on all problems, beta = 2."""
    synthetic, sensors = Kept("sparq-synthetic"), Kept("sparq-sensors")
    elsewhere, beyond = Kept("sparq-elsewhere"), Kept("sparq-beyond")
    names = {
        **{name: f"{name}, beta 2" for name in BASELINES},
        "ensemble": "Ensemble, beta 2",
        "**side queries:** SparQ-GP-UCB, past inputs": "SparQ-GP-UCB, beta 2",
        "SparQ-GP-UCB, grid": "SparQ-GP-UCB, grid, beta 2",
        "SparQ-GP-UCB, grid, answers reused": "SparQ-GP-UCB, grid, reuse, beta 2",
        "ensemble, grid": "Ensemble with grid, beta 2",
        "TV-GP-UCB, random readings": "TV-GP-UCB with random readings, beta 2",
        "ensemble, random readings": "Ensemble with random readings, beta 2",
        "**no method:** random point": "random point",
        "best fixed point": "best fixed point",
        "best of the step before": "best of the step before",
    }
    rows = [
        (
            label,
            [
                synthetic.cell("moving-bump", model) or beyond.cell("moving-bump", model),
                *(elsewhere.cell(f"moving-{name}", model) for name in ("bump-0.3", "bump-1", "motor")),
                *(sensors.cell(name, model) for name in ("ny-ozone", "midwest-ozone")),
            ],
        )
        for label, model in names.items()
    ]
    return table(rows, "bump", "omega 0.3", "omega 1", "motor", "ozone, New York", "ozone, Midwest")


def fairness() -> str:
    """Compare baselines with as many evaluations: regret, and regret of an evaluation."""
    beyond, synthetic = Kept("sparq-beyond"), Kept("sparq-synthetic")
    rules = ("random", "grid", "maximisers")
    rows = [
        (
            name,
            [
                synthetic.cell("moving-bump", f"{name}, beta log"),
                *(beyond.both(f"{name} with {rule}, beta log") for rule in rules),
                "",
            ],
        )
        for name in BASELINES
    ]
    rows += [
        ("SW-GP-UCB, window 3", ["", "", beyond.both("SW-GP-UCB of 3 with grid, beta log"), "", ""]),
        (
            "SparQ-GP-UCB",
            [
                "",
                *(beyond.both(f"SparQ-GP-UCB, {rule}, beta log") for rule in rules),
                beyond.both("SparQ-GP-UCB, beta log"),
            ],
        ),
    ]
    return table(rows, "no queries", "random points", "grid", "own maximisers", "past inputs")


def failures() -> str:
    """Show what must fail."""
    beyond, sparq = Kept("sparq-beyond"), "SparQ-GP-UCB"
    models = {
        "as in the paper: 6 log t queries, answers as good as observations, [-50, 50]": ("", f"{sparq}, beta log"),
        "1 log t queries": ("", f"{sparq}, 1 log t queries, beta log"),
        "answers of variance 1": ("", f"{sparq}, answers of variance 1, beta log"),
        "[-200, 200]": ("-wide", f"{sparq}, beta log"),
        "a random point": ("", "random point"),
    }
    rows = [(name, [beyond.cell(f"moving-bump{data}", model)]) for name, (data, model) in models.items()]
    return table(rows, "regret of a step")


def rules() -> str:
    """Compare where side queries are: median regret, and the worst of the seeds."""
    beyond, synthetic = Kept("sparq-beyond"), Kept("sparq-synthetic")
    rows = []
    for rule in RULES:
        model = "SparQ-GP-UCB" if rule == "past" else f"SparQ-GP-UCB, {rule}"
        bump = [beyond.cell("moving-bump", f"{model}, beta {beta}") for beta in ("log", "2")]
        theory = (synthetic if rule == "past" else beyond).cell("moving-bump", f"{model}, beta theory")
        new = [
            f"{beyond.cell('moving-bump-new', one)} ({beyond.cell('moving-bump-new', one, take=max)})"
            for one in (f"{model}, beta log", f"{model}, beta 2")
        ]
        rows.append((f'`"{rule}"`', [theory, *bump, *new]))
    return table(rows, "bump, theory", "bump, log", "bump, 2", "new optimum, log", "new optimum, 2")


def fewer() -> str:
    """Compare reuse and budgets."""
    beyond = Kept("sparq-beyond")
    variants = {
        "past inputs, 6 log t a step": "",
        "past inputs, answers reused": ", reuse",
        "8 a step on average, where they are most informative": ", 8 a step",
        "8 a step, answers reused": ", 8 a step, reuse",
    }
    rows = [
        (label, [beyond.cell("moving-bump", f"SparQ-GP-UCB{suffix}, beta {beta}") for beta in ("log", "2")])
        for label, suffix in variants.items()
    ]
    return table(rows, "beta log", "beta 2")


def speed_table(steps: dict[str, Any]) -> str:
    """Return milliseconds of a step."""
    marks = list(next(iter(steps.values()))["ms"])
    rows = [
        (
            f"`{name}`",
            [f"{one['ms'][mark]:.2f} ms" if mark in one["ms"] else "" for mark in marks]
            + [f"{one['first_500_s']:.1f} s"],
        )
        for name, one in steps.items()
    ]
    return table(rows, *(f"step {int(mark):,}" for mark in marks), "first 500 steps")


def swap_sentence(swaps: dict[str, float]) -> str:
    """Say what a proposal of the chain saves."""
    ratio = f"A swap proposal takes {swaps['swap']:.1f} us, a fresh determinant {swaps['determinant']:.1f} us"
    return f"{ratio}: {swaps['determinant'] / swaps['swap']:.1f} times as long (38 of 200 points)."


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
