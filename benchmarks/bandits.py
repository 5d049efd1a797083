"""Time-varying optimisation: how long a step takes, and the tables of docs/bandits.md.

``python benchmarks/bandits.py`` times steps on one core and renders the page from that and from the runs of
`streamgp reproduce sparq-...` that are kept in benchmarks/results/reproductions; ``--part`` names one of the two.
"""

import json
import os
from collections.abc import Callable
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


def swap_sentence(swaps: dict[str, float]) -> str:
    """What a proposal of the chain saves."""
    ratio = f"A swap proposal takes {swaps['swap']:.1f} us, a fresh determinant {swaps['determinant']:.1f} us"
    return f"{ratio}: {swaps['determinant'] / swaps['swap']:.1f} times as long (38 of 200 points)."


class Kept:
    """The runs of a reproduction."""

    def __init__(self, name: str) -> None:
        self.runs = json.loads((RUNS / f"{name}.json").read_text())["runs"]

    def cell(
        self, data: str, model: str, metric: str = "regret", take: Callable[[list[float]], float] = median
    ) -> str:
        """Median, or another choice, over the seeds; empty where there is no such run."""
        found = [
            run["models"][model][metric]
            for key, run in self.runs.items()
            if key.rsplit(" ", 1)[0] == data and metric in run["models"].get(model, {})
        ]
        return f"{take(found):.3g}" if found else ""


def table(rows: dict[str, list[str]], *columns: str) -> str:
    """Markdown."""
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()])


def rules() -> str:
    """Where side queries should be: median regret, and the worst of the seeds."""
    beyond, data = Kept("sparq-beyond"), "moving-bump-new"
    rows = {}
    for rule in ("past", "grid", "domain", "random", "maximisers"):
        suffix = "" if rule == "past" else f", {rule}"
        models = [f"SparQ-GP-UCB{suffix}, beta {beta}" for beta in ("log", "2")]
        rows[f'`"{rule}"`'] = [beyond.cell(data, model, take=take) for take in (median, max) for model in models]
    return table(rows, "beta log", "beta 2", "worst, log", "worst, 2")


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
    text = PAGE.read_text()
    if RESULTS.exists():
        stored = json.loads(RESULTS.read_text())
        text = put(text, "bandits-speed", speed_table(stored) + "\n\n" + swap_sentence(stored["swaps"]))
    text = put(text, "bandits-rules", rules())
    PAGE.write_text(text)


if __name__ == "__main__":
    typer.run(main)
