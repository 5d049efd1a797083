"""The time of a step of time-varying optimisation, on one core.

``python -m benchmarks.speed.bandits`` writes ``results/bandits.json``; ``python -m benchmarks.pages.bandits`` renders
the tables of docs/research/bandits.md.
"""

import json
import os
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.paths import RESULTS_DIR
from streamgp.bandits import TimeVaryingOptimizer
from streamgp.bandits.kdpp import SwapChain
from streamgp.bandits.problems import MovingBump, play
from streamgp.numerics.pivoted_cholesky import pivoted_cholesky

RESULTS = RESULTS_DIR / "bandits.json"
KNOWN = {"lengthscales": 0.059, "variance": 0.248, "noise_var": 0.01, "mean": 1.548}
METHODS = ("sparq-gp-ucb", "gp-ucb", "r-gp-ucb", "sw-gp-ucb", "tv-gp-ucb", "w-gp-ucb", "ensemble")
STEPS = 2_000
MARKS = (100, 500, 1_000, 2_000)


def step_times(method: str, steps: int, seed: int, **settings: Any) -> list[float]:
    """Return milliseconds of ask and tell, with queries and answers where the method has them, in every step."""
    problem = MovingBump()
    fixed = {} if method == "ensemble" else {"hyperparameters": KNOWN}
    optimizer = TimeVaryingOptimizer(problem.space, method, random_state=seed, **fixed, **settings)
    played = play(problem, optimizer, steps, seed, answers=method == "sparq-gp-ucb")
    assert played.seconds is not None
    return (1e3 * played.seconds).tolist()


def run_steps(seeds: int) -> dict[str, Any]:
    """Return median milliseconds of a step around some steps, and seconds of the first 500."""
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
    """Return microseconds of a swap proposal of a chain, and of a fresh determinant (38 of 200 points)."""
    x = np.linspace(-50.0, 50.0, 200)
    K = np.exp(-0.5 * np.square((x[:, None] - x) / 5.0))
    chosen = pivoted_cholesky(lambda i: K[:, i], np.ones(200), 38, tolerance=1e-6).chosen
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


def main(seeds: Annotated[int, typer.Option(min=1)] = 3) -> None:
    """Time steps and swaps."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found = {"steps": run_steps(seeds), "swaps": run_swaps()}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
