"""Runs of time-varying optimisation: methods on moving functions, and their regret."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from streamgp.app.outputs import RunError
from streamgp.bandits import Budget, Candidates, TimeVaryingOptimizer, restart_length, sparq_rate
from streamgp.bandits.problems import Motor, MovingBump, Played, Problem, Stations, play
from streamgp_papers.data_files import describe_source
from streamgp_papers.datasets import DATASETS

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
AUTHORS_WINDOW = restart_length(_WINDOWS["eps"], STEPS)


@dataclass(frozen=True)
class Entry:
    """A method with its settings, as one row of a table."""

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    answers: bool = False
    side_noise_std: float | None = None


def make_entry(label: str, beta: str, *, answers: bool | None = None, suffix: str = "", **settings: Any) -> Entry:
    """Make a method by its label, under one of `BETAS`; SparQ has answers by default."""
    asks = label == SPARQ if answers is None else answers
    noise = settings.pop("side_noise_std", None)
    common = {"beta": BETAS[beta], **_WINDOWS, **settings}
    return Entry(f"{label}{suffix}, beta {beta}", label.lower(), common, asks, noise)


def known(width: float) -> dict[str, float]:
    """Return the hyperparameters of the bumps, lengthscale in shares of the range."""
    return {"lengthscales": LENGTHSCALE / (2.0 * width), "variance": VARIANCE, "noise_var": NOISE_VAR, "mean": MEAN}


def run_entries(
    problem: Problem, entries: Iterator[Entry], steps: int, seed: int, hyper: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Run every entry, and the references, on the same problem; return the scores and curves for the file."""
    models: dict[str, dict[str, float]] = {}
    curves: dict[str, dict[str, list[float]]] = {}

    def keep(name: str, played: Played) -> None:
        models[name] = compute_scores(played)
        curves[name] = average_regret(played.regret)

    for one in entries:
        fixed = {} if one.method == "ensemble" or hyper is None else {"hyperparameters": hyper}
        optimizer = TimeVaryingOptimizer(
            problem.space, one.method, random_state=seed, bound=BOUND, robust=False, **fixed, **one.settings
        )
        keep(
            one.name,
            play(problem, optimizer, steps, seed, answers=one.answers, side_noise_std=one.side_noise_std),
        )
    for name, played in play_references(problem, steps, seed).items():
        keep(name, played)
    return {"rows": steps, "inputs": len(problem.space.groups), "models": models, "dynamic_regret": curves}


def compute_scores(played: Played) -> dict[str, float]:
    """Compute R_T / T, the exponent of R_t from step 100 on, regret per evaluation with side queries, and seconds."""
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


def average_regret(regret: np.ndarray) -> dict[str, list[float]]:
    """Compute R_t / t at some hundred steps."""
    steps = np.unique(np.geomspace(1, len(regret), 100).astype(int))
    counted = np.cumsum(np.isfinite(regret))
    average = np.cumsum(np.nan_to_num(regret)) / np.maximum(counted, 1)
    return {"rows": steps.tolist(), "regret": average[steps - 1].tolist()}


def play_references(problem: Problem, steps: int, seed: int) -> dict[str, Played]:
    """Play random points, the one point that was best over all steps, and the best point of the step before."""
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


def load_stations(name: str, directory: Path | None) -> Stations:
    """Load the readings of a table of stations and days, sorted by station or by day.

    Raises
    ------
    RunError
        If the file is missing, or some station has more days than another.
    """
    data = DATASETS[name]
    if directory is None or not (directory / data.file).is_file():
        raise RunError(f"expected a file {describe_source(name)}; put it into the directory that --data names")
    frame = pl.read_parquet(directory / data.file)
    locations, of_station = np.unique(frame.select("x0", "x1").to_numpy(), axis=0, return_inverse=True)
    of_station, values = of_station.ravel(), frame["y"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    days = np.bincount(of_station)
    if len(set(days.tolist())) > 1:
        raise RunError(
            f"{directory / data.file}: expected as many days of every station, got {min(days)} to {max(days)}"
        )
    order = np.argsort(of_station, kind="stable")  # days stay in the order of the file
    return Stations(locations, values[order].reshape(len(locations), -1).T)


def limit(steps: int, rows: int | None) -> int:
    """Limit the steps to `rows`, if the user asks for fewer."""
    return steps if rows is None else min(steps, rows)


def bound_shape(steps: int) -> dict[str, list[float]]:
    """Compute R_t / t of Theorem 3.1, which has no constants, scaled to one at the end."""
    rows = np.unique(np.geomspace(10, steps, 60).astype(int))
    rate = sparq_rate(rows) / rows
    return {"rows": rows.tolist(), "regret": (rate / rate[-1]).tolist()}


def paper_entries() -> Iterator[Entry]:
    """Yield the six methods of the paper under three choices of beta, and two with the windows of their authors."""
    for beta in BETAS:
        yield make_entry(SPARQ, beta, **PAPER)
        for label in BASELINES:
            yield make_entry(label, beta)
        for label in (RESTART, SLIDING):
            yield make_entry(label, beta, suffix=f" of {AUTHORS_WINDOW}", window=AUTHORS_WINDOW)


def run_synthetic(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run the paper's synthetic problem; `directory` is not used."""
    steps = limit(STEPS, rows)
    run = run_entries(MovingBump(), paper_entries(), steps, seed, known(50.0))
    run["dynamic_regret"]["shape of the bound"] = bound_shape(steps)
    return run


def run_sensors(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run a network of ozone stations, with hyperparameters by marginal likelihood of a method's own observations."""
    problem = load_stations(data, directory)

    def entries() -> Iterator[Entry]:
        for beta in ("log", "2"):
            yield make_entry(SPARQ, beta, **PAPER)
            for label in BASELINES:
                yield make_entry(label, beta)
                yield make_entry(label, beta, answers=True, suffix=" with random readings", query_rule="random")
        yield make_entry("Ensemble", "2")
        yield make_entry("Ensemble", "2", answers=True, suffix=" with random readings", query_rule="random")

    days = limit(len(problem.readings), rows)
    return run_entries(problem, entries(), days, seed, None) | {"rows": problem.readings[:days].size}


def fairness_entries() -> Iterator[Entry]:
    """Yield all methods with equal numbers of fresh evaluations under three rules, and variants of SparQ."""
    yield make_entry(SPARQ, "log", **PAPER)
    for rule in ("grid", "domain", "random", "maximisers"):
        yield make_entry(SPARQ, "log", suffix=f", {rule}", query_rule=rule)
    for rule in ("random", "grid", "maximisers"):
        for label in BASELINES:
            memory = 1000 if label in (GP, RESTART, SLIDING) else 400
            yield make_entry(label, "log", answers=True, suffix=f" with {rule}", query_rule=rule, memory=memory)
    yield make_entry(SLIDING, "log", answers=True, suffix=" of 3 with grid", query_rule="grid", window=3)
    yield make_entry(SPARQ, "log", suffix=", 1 log t queries", **PAPER, num_queries="1 log t")
    yield make_entry(
        SPARQ, "log", suffix=", answers of variance 1", **PAPER, side_noise_std=1.0, expert_noise_var=1.0
    )
    for beta in ("log", "2"):
        if beta == "2":
            yield make_entry(SPARQ, beta, **PAPER)
            yield make_entry(SPARQ, beta, suffix=", grid", query_rule="grid")
        yield make_entry(SPARQ, beta, suffix=", reuse", **PAPER, reuse_answers=True)
        budget = {"query_rule": "domain", "num_queries": Budget(8.0)}
        yield make_entry(SPARQ, beta, suffix=", 8 a step", **budget)
        yield make_entry(SPARQ, beta, suffix=", 8 a step, reuse", **budget, reuse_answers=True)
    yield make_entry(SPARQ, "theory", suffix=", grid", query_rule="grid")
    yield make_entry("Ensemble", "2")
    yield make_entry("Ensemble", "2", answers=True, suffix=" with grid", query_rule="grid")


def extended_entries(beta: str) -> Iterator[Entry]:
    """Yield the methods and the ensemble, for problems that the paper does not have."""
    yield make_entry(SPARQ, beta, **PAPER)
    yield make_entry(SPARQ, beta, suffix=", grid", query_rule="grid")
    yield make_entry(SPARQ, beta, suffix=", grid, reuse", query_rule="grid", reuse_answers=True)
    for label in BASELINES:
        yield make_entry(label, beta)
    yield make_entry("Ensemble", beta)
    yield make_entry("Ensemble", beta, answers=True, suffix=" with grid", query_rule="grid")


def new_optimum_entries() -> Iterator[Entry]:
    """Yield SparQ with each rule for side queries: which of them finds a new optimum far from past inputs."""
    for beta in ("log", "2"):
        yield make_entry(SPARQ, beta, **PAPER)
        for rule in ("grid", "domain", "random", "maximisers"):
            yield make_entry(SPARQ, beta, suffix=f", {rule}", query_rule=rule)


def run_beyond(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run equal evaluations, a new optimum or a wide domain; `directory` is not used."""
    steps = limit(STEPS, rows)
    if data == "moving-bump-new":
        return run_entries(MovingBump(appears=steps // 2), new_optimum_entries(), steps, seed, known(50.0))
    if data == "moving-bump-wide":
        wide = MovingBump(width=200.0, points=4001)
        return run_entries(wide, iter([make_entry(SPARQ, "log", **PAPER)]), steps, seed, known(200.0))
    run = run_entries(MovingBump(), fairness_entries(), steps, seed, known(50.0))
    # Dynamic regret has too many values for a chart.
    return {name: kept for name, kept in run.items() if name != "dynamic_regret"}


def run_elsewhere(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run faster drift, or a motor; `directory` is not used."""
    if data == "moving-motor":
        return run_entries(Motor(), extended_entries("2"), limit(300, rows), seed, None)
    bump = MovingBump(omega=float(data.split("-")[-1]))
    return run_entries(bump, extended_entries("2"), limit(STEPS, rows), seed, known(50.0))
