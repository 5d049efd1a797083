"""The gain of the correlation between the errors of several targets: known targets sharpen missing ones.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.several_targets --data DIR`` runs each case in this process; it
writes ``results/several_targets.json`` after every run, and goes on where it stopped. ``python -m
benchmarks.pages.several_targets`` renews the tables of docs/research/several-targets.md.

- *Constructed*: two targets, each a plane over three inputs, whose noise is correlated by 0, 0.5 or 0.8. *Real*: the
  temperatures of two rooms, and the torques of an arm's joints.
- *All seen*: every row has all targets. The joint log density against the sum of the targets' own.
- *Every tenth*: the last target comes with every tenth row alone; the others with all rows. Scored is the last target
  of every row, given the others, against a separate model of it, which sees the same tenth, and against such a model
  that has the others among its inputs.

Log densities a row, in nats, the targets in units of their deviation in the first 1,000 rows.
"""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp.evaluation.regression_scores import apply_in_batches
from streamgp.likelihoods.conditional import Conditional
from streamgp.models.registry import make_spec
from streamgp.numerics.precision import float64
from streamgp.stream.apart import new_learner
from streamgp.stream.settings import StreamSettings

RESULTS = RESULTS_DIR / "several_targets.json"
CORRELATIONS = (0.0, 0.5, 0.8)
ROOMS, ARM = "sml2010, two rooms", "schunk_arm, six joints"
CONSTRUCTED = tuple(f"noise correlated by {r:g}" for r in CORRELATIONS)
MODEL_OF = {**dict.fromkeys(CONSTRUCTED, "linear"), ROOMS: "fast", ARM: "fast"}
WARMUP, SCORED_FROM, EVERY = 200, 2_500, 10


def constructed(r: float, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, 3) and two targets (n, 2), planes over them with correlated noise."""
    rng = np.random.default_rng([seed, 28])
    X = rng.normal(size=(rows, 3))
    noise = rng.multivariate_normal([0.0, 0.0], [[1.0, r], [r, 1.0]], size=rows)
    return X, X @ rng.normal(size=(3, 2)) + 0.5 * noise


def real(name: str, rows: int, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of a data set, the first rows."""
    file, targets, drop = {
        ROOMS: ("sml2010_stream", ["x0", "y"], ["timestamp"]),
        ARM: ("schunk_arm", ["y", "y2", "y3", "y4", "y5", "y6"], ["traj", "time"]),
    }[name]
    frame = pl.read_parquet(data / f"{file}.parquet").head(rows)
    return frame.drop(targets + drop).to_numpy().astype(float), frame[targets].to_numpy().astype(float)


def densities(model: str, X: np.ndarray, y: np.ndarray, truth: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Learn a stream with the targets `y`; return log densities of the true ones, row by row."""
    spec = make_spec(model, lags="none") if model != "linear" else make_spec(model)
    learner = new_learner(
        StreamSettings(spec, num_inputs=X.shape[1], num_outputs=y.shape[1], warmup=WARMUP, seed=seed)
    )
    several, at = y.shape[1] > 1, 0
    parts: list[list[np.ndarray]] = []
    for info in learner.learn(X, y):
        rows = truth[at : at + len(info.outside)]
        known = np.column_stack([rows[:, :-1], np.full(len(rows), np.nan)])
        at += len(rows)
        with float64():

            def scores(p: Any, rows: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, ...]:
                each = p.marginal_log_density(rows)
                if not several:
                    return each, each.sum(1), each[:, -1], each.sum(1)
                return each, p.joint_log_density(rows), Conditional(p, known).log_density(rows), p.log_density(rows)

            parts.append(apply_in_batches(scores, info.predictive, rows, known))
    names = ("each", "joint", "last_given_others", "by_expert")
    found = {name: np.concatenate(part) for name, part in zip(names, zip(*parts, strict=True), strict=True)}
    return found | {"correlation": learner.state.error_correlation}


def one_run(name: str, model: str, seed: int, rows: int, data: Path | None) -> dict[str, Any]:
    """Run all cases of one stream."""
    began = time.perf_counter()
    if name in CONSTRUCTED:
        X, y = constructed(CORRELATIONS[CONSTRUCTED.index(name)], rows, seed)
    elif data is None:
        raise ValueError(f"--data: expected the directory of the Parquet files for {name}")
    else:
        X, y = real(name, rows, data)
    y = (y - y[:1000].mean(0)) / y[:1000].std(0)
    score = slice(SCORED_FROM, None)
    seen = densities(model, X, y, y, seed)
    alone = [densities(model, X, y[:, [e]], y[:, [e]], seed)["each"][score, 0].mean() for e in range(y.shape[1])]
    scarce = y.copy()
    scarce[np.arange(len(y)) % EVERY != 0, -1] = np.nan
    some, last = densities(model, X, scarce, y, seed), densities(model, X, scarce[:, -1:], y[:, -1:], seed)
    informed = densities(model, np.column_stack([X, y[:, :-1]]), scarce[:, -1:], y[:, -1:], seed)
    return {
        "all_seen": {
            "joint": seen["joint"][score].mean(),
            "product": seen["each"][score].sum(1).mean(),
            "by_expert": seen["by_expert"][score].mean(),
            "separate": float(np.sum(alone)),
            "correlation": seen["correlation"].tolist(),
        },
        "every_tenth": {
            "given": some["last_given_others"][score].mean(),
            "not_given": some["each"][score, -1].mean(),
            "separate": last["each"][score, 0].mean(),
            "as_inputs": informed["each"][score, 0].mean(),
            "others": some["each"][score, :-1].sum(1).mean(),
            "others_separate": float(np.sum(alone[:-1])),
            "correlation": some["correlation"].tolist(),
        },
        "seconds": time.perf_counter() - began,
    }


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds of the constructed streams, from 0.")] = 5,
    rows: Annotated[int, typer.Option(help="Rows of a stream.")] = 4_000,
    streams: Annotated[str, typer.Option(help="Which streams: constructed, real or both.")] = "both",
) -> None:
    """Run, store and print."""
    stored: dict[str, Any] = {"machine": machine(), "runs": {}}
    if RESULTS.exists():
        stored = json.loads(RESULTS.read_text())
    wanted = [(name, seed) for seed in range(seeds) for name in CONSTRUCTED] if streams != "real" else []
    wanted += [(name, 0) for name in (ROOMS, ARM)] if streams != "constructed" else []
    for name, seed in wanted:
        label = f"{name}; {MODEL_OF[name]}; {seed}; {rows}"
        if label not in stored["runs"]:
            stored["runs"][label] = one_run(name, MODEL_OF[name], seed, rows, data)
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
            print(label, stored["runs"][label], flush=True)


if __name__ == "__main__":
    typer.run(main)
