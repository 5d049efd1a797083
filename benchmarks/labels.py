"""Counts, grades and speed: a rate that drifts, grades against numbers, and rows a second.

``python benchmarks/labels.py --data DIR`` runs everything and puts the tables into docs/labels.md; ``--part`` names
one of them. Classes on real data are in `streamgp reproduce ie-gp-classification`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import typer
from default_page import put
from river import linear_model

from streamgp import (
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)
from streamgp.bases import Fourier
from streamgp.evaluation.ordinal import score_ordinal
from streamgp.filters.dynamics import random_walk, static
from streamgp.likelihoods import Logistic, laplace_step
from streamgp.models.generalised.model import GeneralisedExpert, generalised_ensemble
from streamgp.weights import BMA

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "labels.json", HERE.parents[0] / "docs" / "labels.md"


def run_counts(data: Path, seeds: int) -> dict[str, Any]:
    """A Poisson rate that grows tenfold along the stream, with a seasonal part."""
    found: dict[str, Any] = {}
    for label, model, dynamics in (
        ("the default", "default", None),
        ("static", "linear", "static"),
        ("forgetting", "linear", "walk 0.001"),
    ):
        runs = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            n = 6_000
            t = np.arange(n)
            X = np.column_stack([rng.normal(size=n), np.sin(t / 24), np.cos(t / 24)])
            rate = np.exp(1.0 + np.log(10.0) * t / n + 0.4 * X[:, 0] + 0.3 * X[:, 1])
            y = rng.poisson(rate)
            estimator = StreamingGPCountRegressor(model, dynamics=dynamics, random_state=seed)
            result = evaluate(estimator, X, y.astype(float), progress=False)
            off = float(np.median(np.abs(np.log(result.mean[n // 2 :] / rate[n // 2 :]))))
            truth = float(np.mean(y[1000:] * np.log(rate[1000:]) - rate[1000:] - _log_factorial(y[1000:])))
            keys = ("deviance", "pll", "coverage", "naive")
            runs.append({key: result.metrics[key] for key in keys} | {"off": off, "truth": truth})
        found[label] = runs
    return found


def _log_factorial(y: np.ndarray) -> np.ndarray:
    return np.asarray(jax.scipy.special.gammaln(y + 1.0))


def table_counts(found: dict[str, Any]) -> str:
    """As Markdown: medians over the seeds."""
    lines = [
        "| experts | rate off by (median, 2nd half) | deviance | log probability (truth's) | 50 / 90 / 95% hold |",
        "|---|---|---|---|---|",
    ]
    for label, runs in found.items():
        off, deviance, pll, truth = (median(run[key] for run in runs) for key in ("off", "deviance", "pll", "truth"))
        held = " / ".join(f"{median(run['coverage'][level] for run in runs):.1%}" for level in ("50", "90", "95"))
        lines.append(f"| {label} | {np.expm1(off):.1%} | {deviance:.3f} | {pll:.3f} ({truth:.3f}) | {held} |")
    return "\n".join(lines)


def run_wine(data: Path, seeds: int) -> dict[str, Any]:
    """Grades of white wine: the ordinal model, and regression on their numbers, as probabilities of the grades."""
    table = pl.read_parquet(data / "wine_white.parquet")
    X, y = table.drop("y").to_numpy().astype(float), table["y"].to_numpy().astype(int)
    grades = np.arange(y.min(), y.max() + 1)
    found: dict[str, Any] = {}
    settings = {"bases": ["linear", "fourier", "rbf"], "features_per_basis": 100, "weights": "auto"}
    settings["dynamics"] = ["static", "walk 0.001", "walk 0.1"]
    for label, make in (
        ("ordinal, the default", lambda seed: StreamingGPOrdinal(random_state=seed)),
        ("regression, the same experts, constant noise", lambda seed: _regressor(seed, settings, "constant")),
        ("regression, the default", lambda seed: StreamingGPRegressor(random_state=seed)),
    ):
        found[label] = [_grade(make, seed, X, y, grades) for seed in range(seeds)]
    return found


def _regressor(seed: int, settings: dict[str, Any], noise: str) -> StreamingGPRegressor:
    return StreamingGPRegressor("oebe", noise=noise, random_state=seed, **settings)


def _grade(make: Callable[[int], Any], seed: int, X: np.ndarray, y: np.ndarray, grades: np.ndarray) -> dict[str, Any]:
    model, scored = make(seed), slice(979, None)  # the warm-up: a fifth of the rows
    if isinstance(model, StreamingGPOrdinal):
        model.partial_fit(X[:1], y[:1], grades=grades)
        result = evaluate(model, X[1:], y[1:], progress=False)
        probabilities = np.concatenate([np.full((1, len(grades)), 1.0 / len(grades)), result.probabilities])
    else:
        probabilities = np.concatenate(list(_rounded(model, X, y.astype(float), grades)))
    scores = score_ordinal(_Listed(probabilities), (y - grades[0]).astype(float)[:, None])
    return {
        "rps": float(scores.rps[scored].mean()),
        "log_loss": float(-scores.log_density[scored].mean()),
        "error_rate": float(np.mean(scores.predicted[scored] != y[scored] - grades[0])),
    }


def _rounded(model: StreamingGPRegressor, X: np.ndarray, y: np.ndarray, grades: np.ndarray) -> Any:
    """Of a regression, the probability that the number rounds to each grade, the lowest and the highest open."""
    model.partial_fit(X[:1], y[:1])
    yield np.full((1, len(grades)), 1.0 / len(grades))
    edges = grades[:-1] + 0.5
    learner = model._learner
    at = 1
    while at < len(X):
        info = next(learner.learn(X[at : at + 256], y[at : at + 256, None]))
        p = info.predictive
        below = np.column_stack([p.cdf(np.full((len(p.loc), 1), edge))[:, 0] for edge in edges])
        yield np.diff(np.column_stack([np.zeros(len(below)), below, np.ones(len(below))]), axis=1)
        at += len(p.loc)


class _Listed:
    """Probabilities, as the scores want them."""

    def __init__(self, probabilities: np.ndarray) -> None:
        self._probabilities = np.maximum(probabilities, 1e-12)

    def probabilities(self) -> np.ndarray:
        return self._probabilities

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return np.log(self._probabilities[np.arange(len(y)), y[:, 0].astype(int)])


def table_wine(found: dict[str, Any]) -> str:
    """As Markdown: medians over the seeds."""
    lines = ["| model | ranked probability score | log loss | error |", "|---|---|---|---|"]
    for label, runs in found.items():
        rps, loss, error = (median(run[key] for run in runs) for key in ("rps", "log_loss", "error_rate"))
        lines.append(f"| {label} | {rps:.4f} | {loss:.4f} | {error:.1%} |")
    return "\n".join(lines)


def run_speed(data: Path, seeds: int) -> dict[str, Any]:
    """Rows a second of 11 and 24 logistic experts, in blocks and row by row, beside river's logistic regression."""
    rng = np.random.default_rng(0)
    n = 4_096
    X = jnp.asarray(rng.normal(size=(n, 4)))
    y = jnp.asarray((rng.random(n) < 0.5).astype(float))
    found: dict[str, Any] = {}
    with jax.enable_x64(True):
        X, y = jnp.asarray(np.asarray(X), float), jnp.asarray(np.asarray(y), float)
        for count, features in ((11, 30), (24, 100), (12, 400)):
            bases = [
                Fourier.from_data(np.asarray(X), num_features=features, start=0.3 + 0.3 * i, key=jax.random.key(i))
                for i in range(count)
            ]
            experts = [
                GeneralisedExpert(
                    basis.precomputed(),
                    jnp.asarray(4.0),
                    Logistic(jnp.asarray(0.0)),
                    random_walk(1e-3) if i % 2 else static(),
                )
                for i, basis in enumerate(bases)
            ]
            model = generalised_ensemble(experts, BMA())
            state = model.init(jax.random.key(0))

            def in_blocks(model: Any = model, state: Any = state) -> Any:
                return model.update(state, X, y[:, None])

            loop = _row_by_row([jnp.asarray(expert.basis(X)) for expert in experts])
            # In turns, so that what else the machine does meets both.
            pairs = [(_seconds(in_blocks), _seconds(lambda loop=loop: loop(y))) for _ in range(7)][2:]
            each = {"blocks": min(a for a, _ in pairs), "row by row": min(b for _, b in pairs)}
            found[f"{count} experts of {features} features"] = {key: n / value for key, value in each.items()}
    rows = [dict(enumerate(row)) for row in np.asarray(X).tolist()]
    labels = np.asarray(y).astype(bool).tolist()

    def river() -> None:
        rival = linear_model.LogisticRegression()
        for x, label in zip(rows, labels, strict=True):
            rival.predict_proba_one(x)
            rival.learn_one(x, label)

    found["river, logistic regression on the 4 inputs"] = {"row by row": n / min(_seconds(river) for _ in range(3))}
    return found


def _row_by_row(Phis: list[jax.Array]) -> Callable[[jax.Array], Any]:
    """What one would write first: for every row a rank-one update of every expert's covariance, and nothing else."""
    Phi, likelihood = jnp.stack(Phis, axis=1), Logistic(jnp.asarray(0.0))

    @jax.jit
    def run(y: jax.Array) -> Any:
        def row(state: tuple, each: tuple) -> tuple:
            def one(mean: jax.Array, cov: jax.Array, phi: jax.Array) -> tuple:
                gain = cov @ phi
                step = laplace_step(likelihood, each[1], (phi @ mean)[None], (phi @ gain)[None, None])
                return mean + gain * step.shift[0], cov - jnp.outer(gain, gain) * step.shrink[0, 0]

            return jax.vmap(one)(*state, each[0]), None

        _, K, F = Phi.shape
        start = jnp.zeros((K, F)), jnp.tile(4.0 * jnp.eye(F), (K, 1, 1))
        return jax.lax.scan(row, start, (Phi, y))[0]

    return run


def _seconds(run: Callable[[], Any]) -> float:
    began = perf_counter()
    jax.block_until_ready(run())
    return perf_counter() - began


def table_speed(found: dict[str, Any]) -> str:
    """As Markdown."""
    lines = ["| | streamgp, rows a second | bare loop | ratio |", "|---|---|---|---|"]
    for label, speeds in found.items():
        blocks, rows = speeds.get("blocks"), speeds["row by row"]
        ratio = "" if blocks is None else f"{blocks / rows:.1f}"
        lines.append(f"| {label} | {'' if blocks is None else f'{blocks:,.0f}'} | {rows:,.0f} | {ratio} |")
    return "\n".join(lines)


PARTS = {
    "counts": (run_counts, table_counts),
    "wine": (run_wine, table_wine),
    "speed": (run_speed, table_speed),
}


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    part: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(PARTS)}; all by default.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds of each run.")] = 3,
) -> None:
    """Run the parts, keep what they found, and put their tables into the page."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in part or PARTS:
        run, table = PARTS[name]
        stored[name] = run(data, seeds)
        RESULTS.write_text(json.dumps(stored) + "\n")
        PAGE.write_text(put(PAGE.read_text(), f"labels-{name}", table(stored[name])))
        print(table(stored[name]), flush=True)


if __name__ == "__main__":
    typer.run(main)
