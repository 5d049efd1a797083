"""Runs of time-varying optimisation: which methods on which moving function, and their regret."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from streamgp.app.outputs import RunError
from streamgp.bandits import Budget, Candidates, TimeVaryingOptimizer, sparq_rate
from streamgp.bandits.problems import Motor, MovingBump, Played, Problem, Stations, play
from streamgp_papers.datasets import DATASETS, where_from

STEPS = 500
# Of greatest marginal likelihood on snapshots of the paper's function at random times, 40 noisy points each.
LENGTHSCALE, VARIANCE, NOISE_VAR, MEAN = 5.9, 0.248, 0.01, 1.548
BOUND = 3.5
EXPONENT_FROM = 100
SPARQ, GP, RESTART, SLIDING, VARYING, WEIGHTED = (
    "SparQ-GP-UCB",
    "GP-UCB",
    "R-GP-UCB",
    "SW-GP-UCB",
    "TV-GP-UCB",
    "W-GP-UCB",
)
BASELINES = (GP, RESTART, SLIDING, VARYING, WEIGHTED)
BETAS: Mapping[str, Any] = {"theory": "theory", "log": "log", "2": 2.0}
# The paper's queries: among past inputs, by a determinantal point process.
PAPER: Mapping[str, Any] = {"query_rule": "past", "swaps": 50}
_WINDOWS: Mapping[str, Any] = {"window": 10, "eps": 0.03, "gamma": 0.9}


@dataclass(frozen=True)
class Entry:
    """A method with its settings, as one row of a table."""

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    answers: bool = False
    side_noise_std: float | None = None


def entry(label: str, beta: str, *, answers: bool | None = None, suffix: str = "", **settings: Any) -> Entry:
    """A method by its label, under one of `BETAS`; SparQ gets answers unless told otherwise."""
    asks = label == SPARQ if answers is None else answers
    noise = settings.pop("side_noise_std", None)
    common = {"beta": BETAS[beta], **_WINDOWS, **settings}
    return Entry(f"{label}{suffix}, beta {beta}", label.lower(), common, asks, noise)


def known(width: float) -> dict[str, float]:
    """The hyperparameters of the bumps, lengthscale in shares of the range."""
    return {"lengthscales": LENGTHSCALE / (2.0 * width), "variance": VARIANCE, "noise_var": NOISE_VAR, "mean": MEAN}


def run_entries(
    problem: Problem, entries: Iterator[Entry], steps: int, seed: int, hyper: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Every entry on the same problem, and what needs no method beside them: what the file keeps of a run."""
    models: dict[str, dict[str, float]] = {}
    curves: dict[str, dict[str, list[float]]] = {}

    def keep(name: str, played: Played) -> None:
        models[name] = scores(played)
        curves[name] = curve(played.regret)

    for one in entries:
        fixed = {} if one.method == "ensemble" or hyper is None else {"hyperparameters": hyper}
        optimizer = TimeVaryingOptimizer(
            problem.space, one.method, random_state=seed, bound=BOUND, robust=False, **fixed, **one.settings
        )
        keep(
            one.name,
            play(problem, optimizer, steps, seed, answers=one.answers, side_noise_std=one.side_noise_std),
        )
    for name, played in yardsticks(problem, steps, seed).items():
        keep(name, played)
    return {"rows": steps, "inputs": len(problem.space.groups), "models": models, "dynamic_regret": curves}


def scores(played: Played) -> dict[str, float]:
    """R_T / T, exponent of R_t from step 100 on, regret per evaluation, side queries among them, and seconds."""
    regret = played.regret[np.isfinite(played.regret)]
    found = {"regret": float(regret.mean())}
    total = np.cumsum(regret)
    if len(total) >= 3 * EXPONENT_FROM and total[EXPONENT_FROM - 1] > 0.0:
        growth = np.log(total[-1] / total[EXPONENT_FROM - 1])
        found["exponent"] = float(growth / np.log(len(total) / EXPONENT_FROM))
    if len(played.side_regret):
        found["per_evaluation"] = float(np.nanmean(np.concatenate([regret, played.side_regret])))
    if played.seconds is not None:
        found["seconds"] = float(played.seconds.sum())
    return found


def curve(regret: np.ndarray) -> dict[str, list[float]]:
    """R_t / t at some hundred steps."""
    steps = np.unique(np.geomspace(1, len(regret), 100).astype(int))
    counted = np.cumsum(np.isfinite(regret))
    average = np.cumsum(np.nan_to_num(regret)) / np.maximum(counted, 1)
    return {"rows": steps.tolist(), "regret": average[steps - 1].tolist()}


def yardsticks(problem: Problem, steps: int, seed: int) -> dict[str, Played]:
    """Random points; the one point that would have been best all along; the best point of the step before."""
    rng = np.random.default_rng([seed, 2])
    space = problem.space
    points = space.unit if isinstance(space, Candidates) else space.draw(np.random.default_rng(0), 2048)
    values = np.array([problem.value(points, t) for t in range(1, steps + 1)])
    best = np.array([problem.best(t) for t in range(1, steps + 1)])
    regrets = best[:, None] - values
    drawn = regrets[np.arange(steps), rng.integers(len(points), size=steps)]
    last = np.r_[np.nan, regrets[np.arange(1, steps), np.nanargmax(values[:-1], axis=1)]]
    fixed = regrets[:, np.nanargmin(np.nanmean(regrets, axis=0))]
    none = np.zeros(0)
    return {
        "random point": Played(drawn, none),
        "best fixed point": Played(fixed, none),
        "best of the step before": Played(last, none),
    }


def stations(name: str, directory: Path | None) -> Stations:
    """The readings of a table of stations and days, stations one after the other or days.

    Raises
    ------
    RunError
        If the file is missing, or some station has more days than another.
    """
    data = DATASETS[name]
    if directory is None or not (directory / data.file).is_file():
        raise RunError(f"expected a file {where_from(name)}; put it into the directory that --data names")
    frame = pl.read_parquet(directory / data.file)
    places, of_station = np.unique(frame.select("x0", "x1").to_numpy(), axis=0, return_inverse=True)
    of_station, values = of_station.ravel(), frame["y"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    days = np.bincount(of_station)
    if len(set(days.tolist())) > 1:
        raise RunError(
            f"{directory / data.file}: expected as many days of every station, got {min(days)} to {max(days)}"
        )
    order = np.argsort(of_station, kind="stable")  # days stay in the order of the file
    return Stations(places, values[order].reshape(len(places), -1).T)


def limited(steps: int, rows: int | None) -> int:
    """So many steps, or fewer if the user wants a quick look."""
    return steps if rows is None else min(steps, rows)


def bound_shape(steps: int) -> dict[str, list[float]]:
    """R_t / t of Theorem 3.1, which has no constants: one at the end."""
    rows = np.unique(np.geomspace(10, steps, 60).astype(int))
    rate = sparq_rate(rows) / rows
    return {"rows": rows.tolist(), "regret": (rate / rate[-1]).tolist()}


def paper_entries() -> Iterator[Entry]:
    """The six methods of the paper under three choices of beta."""
    for beta in BETAS:
        yield entry(SPARQ, beta, **PAPER)
        for label in BASELINES:
            yield entry(label, beta)


def run_synthetic(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """The paper's synthetic problem; `directory` plays no part."""
    steps = limited(STEPS, rows)
    run = run_entries(MovingBump(), paper_entries(), steps, seed, known(50.0))
    run["dynamic_regret"]["shape of the bound"] = bound_shape(steps)
    return run


def run_sensors(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """A network of ozone stations, every hyperparameter by marginal likelihood on what a method has seen."""
    problem = stations(data, directory)

    def entries() -> Iterator[Entry]:
        for beta in ("log", "2"):
            yield entry(SPARQ, beta, **PAPER)
            for label in BASELINES:
                yield entry(label, beta)
                yield entry(label, beta, answers=True, suffix=" with random readings", query_rule="random")
        yield entry("Ensemble", "2")
        yield entry("Ensemble", "2", answers=True, suffix=" with random readings", query_rule="random")

    days = limited(len(problem.readings), rows)
    return run_entries(problem, entries(), days, seed, None) | {"rows": problem.readings[:days].size}


def fairness_entries() -> Iterator[Entry]:
    """All methods with as many fresh evaluations, where three rules put them, and variants of SparQ."""
    yield entry(SPARQ, "log", **PAPER)
    for rule in ("grid", "domain", "random", "maximisers"):
        yield entry(SPARQ, "log", suffix=f", {rule}", query_rule=rule)
    for rule in ("random", "grid", "maximisers"):
        for label in BASELINES:
            memory = 1000 if label in (GP, RESTART, SLIDING) else 400
            yield entry(label, "log", answers=True, suffix=f" with {rule}", query_rule=rule, memory=memory)
    yield entry(SLIDING, "log", answers=True, suffix=" of 3 with grid", query_rule="grid", window=3)
    yield entry(SPARQ, "log", suffix=", 1 log t queries", **PAPER, num_queries="1 log t")
    yield entry(SPARQ, "log", suffix=", answers of variance 1", **PAPER, side_noise_std=1.0, expert_noise_var=1.0)
    for beta in ("log", "2"):
        if beta == "2":
            yield entry(SPARQ, beta, **PAPER)
            yield entry(SPARQ, beta, suffix=", grid", query_rule="grid")
        yield entry(SPARQ, beta, suffix=", reuse", **PAPER, reuse_answers=True)
        budget = {"query_rule": "domain", "num_queries": Budget(8.0)}
        yield entry(SPARQ, beta, suffix=", 8 a step", **budget)
        yield entry(SPARQ, beta, suffix=", 8 a step, reuse", **budget, reuse_answers=True)
    yield entry(SPARQ, "theory", suffix=", grid", query_rule="grid")
    yield entry("Ensemble", "2")
    yield entry("Ensemble", "2", answers=True, suffix=" with grid", query_rule="grid")


def everywhere(beta: str) -> Iterator[Entry]:
    """The methods and the ensemble, on problems that the paper does not have."""
    yield entry(SPARQ, beta, **PAPER)
    yield entry(SPARQ, beta, suffix=", grid", query_rule="grid")
    yield entry(SPARQ, beta, suffix=", grid, reuse", query_rule="grid", reuse_answers=True)
    for label in BASELINES:
        yield entry(label, beta)
    yield entry("Ensemble", beta)
    yield entry("Ensemble", beta, answers=True, suffix=" with grid", query_rule="grid")


def new_optimum() -> Iterator[Entry]:
    """Where side queries must be to find what appears where nobody has been."""
    for beta in ("log", "2"):
        yield entry(SPARQ, beta, **PAPER)
        for rule in ("grid", "domain", "random", "maximisers"):
            yield entry(SPARQ, beta, suffix=f", {rule}", query_rule=rule)


def run_beyond(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Equal evaluations, a new optimum, a wide domain; `directory` plays no part."""
    steps = limited(STEPS, rows)
    if data == "moving-bump-new":
        return run_entries(MovingBump(appears=steps // 2), new_optimum(), steps, seed, known(50.0))
    if data == "moving-bump-wide":
        wide = MovingBump(width=200.0, points=4001)
        return run_entries(wide, iter([entry(SPARQ, "log", **PAPER)]), steps, seed, known(200.0))
    run = run_entries(MovingBump(), fairness_entries(), steps, seed, known(50.0))
    return {name: kept for name, kept in run.items() if name != "dynamic_regret"}  # too many for a chart


def run_elsewhere(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Faster drift, and a motor; `directory` plays no part."""
    if data == "moving-motor":
        return run_entries(Motor(), everywhere("2"), limited(300, rows), seed, None)
    bump = MovingBump(omega=float(data.split("-")[-1]))
    return run_entries(bump, everywhere("2"), limited(STEPS, rows), seed, known(50.0))
