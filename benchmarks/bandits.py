"""Time-varying optimisation: how long a step takes, and the tables of docs/bandits.md.

``python benchmarks/bandits.py`` times steps on one core and renders the page from that and from the runs of
`streamgp reproduce sparq-...` that are kept in benchmarks/results/reproductions; ``--part`` names one of the two.
"""

import json
import os
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from default_page import put

from streamgp.bandits import TimeVaryingOptimizer
from streamgp.bandits.kdpp import SwapChain, greedy
from streamgp.bandits.problems import MovingBump, play

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "bandits.json"
RUNS = HERE / "results" / "reproductions"
PAGE = HERE.parent / "docs" / "bandits.md"
KNOWN = {"lengthscales": 0.059, "variance": 0.248, "noise_var": 0.01, "mean": 1.548}
METHODS = ("sparq-gp-ucb", "gp-ucb", "r-gp-ucb", "sw-gp-ucb", "tv-gp-ucb", "w-gp-ucb", "ensemble")
STEPS = 2_000
MARKS = (100, 500, 1_000, 2_000)


def step_times(method: str, steps: int, seed: int, **settings: Any) -> list[float]:
    """Milliseconds of ask and tell, with queries and answers where the method has them, in every step."""
    problem = MovingBump()
    fixed = {} if method == "ensemble" else {"hyperparameters": KNOWN}
    optimizer = TimeVaryingOptimizer(problem.space, method, random_state=seed, **fixed, **settings)
    played = play(problem, optimizer, steps, seed, answers=method == "sparq-gp-ucb")
    assert played.seconds is not None
    return (1e3 * played.seconds).tolist()


def run_steps(seeds: int) -> dict[str, Any]:
    """Median milliseconds of a step around some steps, and seconds of the first 500."""
    found: dict[str, Any] = {}
    variants: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in METHODS}
    variants["sparq-gp-ucb, past"] = ("sparq-gp-ucb", {"query_rule": "past", "swaps": 50})
    variants["sparq-gp-ucb, past, at most 100"] = (
        "sparq-gp-ucb",
        {"query_rule": "past", "swaps": 50, "memory": 100},
    )
    for name, (method, settings) in variants.items():
        steps = 500 if method == "ensemble" else STEPS
        runs = [step_times(method, steps, seed, **settings) for seed in range(seeds)]
        found[name] = {
            "ms": {mark: median(median(run[mark - 50 : mark]) for run in runs) for mark in MARKS if mark <= steps},
            "first_500_s": median(sum(run[:500]) / 1e3 for run in runs),
        }
    return found


def run_swaps() -> dict[str, float]:
    """Microseconds of a swap proposal of a chain, and of a fresh determinant (38 of 200 points)."""
    x = np.linspace(-50.0, 50.0, 200)
    K = np.exp(-0.5 * np.square((x[:, None] - x) / 5.0))
    chosen = greedy(lambda i: K[:, i], np.ones(200), 38, tolerance=1e-6).chosen
    chain = SwapChain(K, chosen, 1e-6)
    outside = np.setdiff1d(np.arange(200), chosen)
    jittered = K + 1e-6 * np.eye(200)
    rng = np.random.default_rng(0)
    proposals = [(int(rng.integers(len(chosen))), int(rng.choice(outside))) for _ in range(5_000)]

    def fresh(i: int, j: int) -> float:
        other = chosen.copy()
        other[i] = j
        return float(np.linalg.slogdet(jittered[np.ix_(other, other)])[1])

    return {name: _microseconds(work, proposals) for name, work in (("swap", chain.ratio), ("determinant", fresh))}


def _microseconds(work: Any, proposals: list[tuple[int, int]]) -> float:
    times = []
    for _ in range(5):
        start = perf_counter()
        for i, j in proposals:
            work(i, j)
        times.append(1e6 * (perf_counter() - start) / len(proposals))
    return median(times)


def speed_table(stored: dict[str, Any]) -> str:
    """Milliseconds of a step."""
    lines = [
        f"| | {' | '.join(f'step {mark:,}' for mark in MARKS)} | first 500 steps |",
        "|---" * (len(MARKS) + 2) + "|",
    ]
    for name, one in stored["steps"].items():
        cells = [f"{one['ms'][str(m)]:.2f} ms" if str(m) in one["ms"] else "" for m in MARKS]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {one['first_500_s']:.1f} s |")
    return "\n".join(lines)


class Kept:
    """The runs of a reproduction."""

    def __init__(self, name: str) -> None:
        self.runs = json.loads((RUNS / f"{name}.json").read_text())["runs"]

    def cell(self, data: str, model: str, metric: str = "regret") -> str:
        """Median over the seeds; empty where there is no such run."""
        found = [
            run["models"][model][metric]
            for key, run in self.runs.items()
            if key.rsplit(" ", 1)[0] == data and metric in run["models"].get(model, {})
        ]
        return f"{median(found):.3g}" if found else ""


def table(rows: dict[str, list[str]], *columns: str) -> str:
    """Markdown."""
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()])


def overview() -> str:
    """All methods on all problems, beta = 2."""
    synthetic, sensors = Kept("sparq-synthetic"), Kept("sparq-sensors")
    elsewhere, beyond = Kept("sparq-elsewhere"), Kept("sparq-beyond")
    names = {
        "GP-UCB": "GP-UCB, beta 2",
        "R-GP-UCB": "R-GP-UCB, beta 2",
        "SW-GP-UCB": "SW-GP-UCB, beta 2",
        "TV-GP-UCB": "TV-GP-UCB, beta 2",
        "W-GP-UCB": "W-GP-UCB, beta 2",
        "ensemble": "Ensemble, beta 2",
        "**with side queries:** SparQ-GP-UCB, past inputs": "SparQ-GP-UCB, beta 2",
        "SparQ-GP-UCB, grid": "SparQ-GP-UCB, grid, beta 2",
        "SparQ-GP-UCB, grid, answers reused": "SparQ-GP-UCB, grid, reuse, beta 2",
        "ensemble, grid": "Ensemble with grid, beta 2",
        "TV-GP-UCB, random readings": "TV-GP-UCB with random readings, beta 2",
        "ensemble, random readings": "Ensemble with random readings, beta 2",
        "**without a method:** random point": "random point",
        "best fixed point": "best fixed point",
        "best of the step before": "best of the step before",
    }
    rows = {
        label: [
            synthetic.cell("moving-bump", model) or beyond.cell("moving-bump", model),
            elsewhere.cell("moving-bump-0.3", model),
            elsewhere.cell("moving-bump-1", model),
            elsewhere.cell("moving-motor", model),
            sensors.cell("ny-ozone", model),
            sensors.cell("midwest-ozone", model),
        ]
        for label, model in names.items()
    }
    return table(rows, "bump", "omega 0.3", "omega 1", "motor", "ozone, New York", "ozone, Midwest")


def fairness() -> str:
    """The baselines with as many evaluations, regret and regret per evaluation."""
    beyond, synthetic = Kept("sparq-beyond"), Kept("sparq-synthetic")
    rows = {}
    for name in ("GP-UCB", "R-GP-UCB", "SW-GP-UCB", "TV-GP-UCB", "W-GP-UCB"):
        models = [f"{name} with {rule}, beta log" for rule in ("random", "grid", "maximisers")]
        rows[name] = [synthetic.cell("moving-bump", f"{name}, beta log")] + [
            f"{beyond.cell('moving-bump', model)} ({beyond.cell('moving-bump', model, 'per_evaluation')})"
            for model in models
        ]
    three = "SW-GP-UCB of 3 with grid, beta log"
    rows["SW-GP-UCB, window 3"] = [
        "", "", f"{beyond.cell('moving-bump', three)} ({beyond.cell('moving-bump', three, 'per_evaluation')})", ""
    ]  # fmt: skip
    models = [f"SparQ-GP-UCB, {rule}, beta log" for rule in ("random", "grid", "maximisers")]
    rows["SparQ-GP-UCB"] = [""] + [
        f"{beyond.cell('moving-bump', model)} ({beyond.cell('moving-bump', model, 'per_evaluation')})"
        for model in models
    ]
    past = "SparQ-GP-UCB, beta log"
    rows["SparQ-GP-UCB, past inputs (the paper)"] = [
        "", f"{beyond.cell('moving-bump', past)} ({beyond.cell('moving-bump', past, 'per_evaluation')})", "", ""
    ]  # fmt: skip
    return table(rows, "no queries", "random", "grid", "own maximisers")


def rules() -> str:
    """Where side queries should be."""
    beyond, synthetic = Kept("sparq-beyond"), Kept("sparq-synthetic")
    rows = {}
    for rule in ("past", "grid", "domain", "random", "maximisers"):
        suffix = "" if rule == "past" else f", {rule}"
        cells = [beyond.cell("moving-bump", f"SparQ-GP-UCB{suffix}, beta {b}") for b in ("theory", "log", "2")]
        if rule == "past":
            cells[0] = synthetic.cell("moving-bump", "SparQ-GP-UCB, beta theory")
        cells += [beyond.cell("moving-bump-new", f"SparQ-GP-UCB{suffix}, beta {b}") for b in ("log", "2")]
        cells += [_worst(beyond, "moving-bump-new", f"SparQ-GP-UCB{suffix}, beta {b}") for b in ("log", "2")]
        rows[f'`"{rule}"`'] = cells
    return table(rows, "bump, theory", "bump, log", "bump, 2", "new optimum, log", "2", "worst of 10 seeds, log", "2")


def _worst(kept: Kept, data: str, model: str) -> str:
    found = [run["models"][model]["regret"] for key, run in kept.runs.items() if key.rsplit(" ", 1)[0] == data]
    return f"{max(found):.3g}"


def fewer() -> str:
    """Reuse and budgets."""
    beyond = Kept("sparq-beyond")
    rows = {}
    for label, suffix in (
        ("past inputs, 6 log t a step", ""),
        ("the same, answers reused", ", reuse"),
        ("8 a step on average, where they tell most", ", 8 a step"),
        ("the same, answers reused", ", 8 a step, reuse"),
    ):
        key = label if label not in rows else label + " "
        rows[key] = [beyond.cell("moving-bump", f"SparQ-GP-UCB{suffix}, beta {b}") for b in ("log", "2")]
    return table(rows, "beta log", "beta 2")


def failures() -> str:
    """What must fail."""
    beyond = Kept("sparq-beyond")
    rows = {
        "6 log t queries, answers as good as observations, [-50, 50]": [
            beyond.cell("moving-bump", "SparQ-GP-UCB, beta log")
        ],
        "1 log t queries": [beyond.cell("moving-bump", "SparQ-GP-UCB, 1 log t queries, beta log")],
        "answers of variance 1": [beyond.cell("moving-bump", "SparQ-GP-UCB, answers of variance 1, beta log")],
        "[-200, 200]": [beyond.cell("moving-bump-wide", "SparQ-GP-UCB, beta log")],
        "random point": [beyond.cell("moving-bump", "random point")],
    }
    return table(rows, "R_T / T")


def main(
    part: Annotated[str, typer.Option(help="speed, tables or all.")] = "all",
    seeds: Annotated[int, typer.Option(min=1)] = 3,
) -> None:
    """Time, and render the page."""
    if part in ("speed", "all"):
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        found = {"steps": run_steps(seeds), "swaps": run_swaps()}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    stored = json.loads(RESULTS.read_text())
    text = put(PAGE.read_text(), "bandits-speed", speed_table(stored))
    swaps = stored["swaps"]
    ratio = f"A swap proposal takes {swaps['swap']:.1f} us, a fresh determinant {swaps['determinant']:.1f} us"
    text = put(text, "bandits-swaps", f"{ratio}: {swaps['determinant'] / swaps['swap']:.1f} times as long.")
    for mark, make in (
        ("bandits-overview", overview),
        ("bandits-fairness", fairness),
        ("bandits-rules", rules),
        ("bandits-fewer", fewer),
        ("bandits-failures", failures),
    ):
        text = put(text, mark, make())
    PAGE.write_text(text)


if __name__ == "__main__":
    typer.run(main)
