"""The slow corners: rows with gaps, labels that come late, rows one by one, rows after a restart.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.corners --out benchmarks/results/corners.json [--model fast]

Each corner stands beside the ordinary path: chunks of 64 rows, rows that are predicted and learnt one by one, or a
whole evaluation of labels in time. All are past their warm-up. They take turns on the same rows, and what counts is
processor time, from which other work takes little; a ratio is that of the same round. After a restart it is the time
that a caller waits, row by row.
"""

import argparse
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.machine import machine
from benchmarks.common.measure import ratio, spread
from streamgp import StreamingGPRegressor, evaluate

INPUTS, WARMUP, LEARNT = 8, 500, 1_000
CHUNK, ROWS, ROUNDS = 64, 256, 3
# The number of rows right after a restart, and right before.
RESTARTED = 200
Rows = tuple[np.ndarray, np.ndarray]


class Corner(NamedTuple):
    """What is timed: the ordinary path that it stands beside, the rows, and what is done with some of them."""

    name: str
    ordinary: str
    rows: Rows
    work: Callable[[np.ndarray, np.ndarray], None]


def stream(n: int, targets: int = 1) -> Rows:
    """Return rows of smooth functions with noise; one target is (n,)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, INPUTS))
    y = np.sin(X[:, :1]) + 0.5 * X[:, 1:2] + 0.2 * rng.normal(size=(n, targets))
    return X, y if targets > 1 else y[:, 0]


def with_gaps(values: np.ndarray, every: int, column: int | None = None) -> np.ndarray:
    """Return values of which every so many rows lack one, or a column."""
    found = values.copy()
    found[(slice(None, None, every), *(() if column is None else (column,)))] = np.nan
    return found


# What is done with rows


def in_chunks(model: StreamingGPRegressor, rows: int = CHUNK) -> Callable[[np.ndarray, np.ndarray], None]:
    """Learn so many rows at a time."""

    def work(X: np.ndarray, y: np.ndarray) -> None:
        for at in range(0, len(X), rows):
            model.partial_fit(X[at : at + rows], y[at : at + rows])

    return work


def singly(model: StreamingGPRegressor, *, learns: bool = True) -> Callable[[np.ndarray, np.ndarray], None]:
    """Predict each row, and learn it."""

    def work(X: np.ndarray, y: np.ndarray) -> None:
        for x, target in zip(X, y, strict=True):
            model.predict_one(x)
            if learns:
                model.learn_one(x, target)

    return work


def evaluated(model: StreamingGPRegressor, delay: int = 0) -> Callable[[np.ndarray, np.ndarray], None]:
    """Evaluate the rows, whose labels are so many rows late."""
    return lambda X, y: evaluate(model, X, y, delay=delay, progress=False) and None


def later(model: StreamingGPRegressor, delay: int) -> Callable[[np.ndarray, np.ndarray], None]:
    """Predict each row, and learn the one that came so many rows before."""

    def work(X: np.ndarray, y: np.ndarray) -> None:
        waiting: deque[Any] = deque()
        for x, target in zip(X, y, strict=True):
            waiting.append((model.predict_later(x), target))
            if len(waiting) > delay:
                model.learn_later(*waiting.popleft())
        for token, target in waiting:
            model.learn_later(token, target)

    return work


def in_any_order(model: StreamingGPRegressor, most: int) -> Callable[[np.ndarray, np.ndarray], None]:
    """Predict each row, and learn it up to so many rows later."""

    def work(X: np.ndarray, y: np.ndarray) -> None:
        arrives = np.arange(len(X)) + np.random.default_rng(0).integers(1, most + 1, len(X))
        tokens: list[Any] = []
        for row in range(len(X) + most):
            if row < len(X):
                tokens.append(model.predict_later(X[row]))
            for came in np.flatnonzero(arrives == row):
                model.learn_later(tokens[came], y[came])

    return work


# Measured


def fitted(name: str, rows: Rows, **options: Any) -> StreamingGPRegressor:
    """Return an estimator that has learnt the first rows."""
    model = StreamingGPRegressor(name, warmup=WARMUP, random_state=0, **options)
    return model.partial_fit(*(each[:LEARNT] for each in rows))


def corners(name: str) -> list[Corner]:
    """Return what is timed, the ordinary paths first."""
    n = LEARNT + ROWS * (ROUNDS + 1)
    (X, y), two = stream(n), stream(n, 2)
    plain, gaps, blanks = (X, y), (X, with_gaps(y, 2)), (with_gaps(X, 2, 3), y)
    one_of_two = two[0], with_gaps(two[1], 2, 1)

    def model(rows: Rows = plain, **options: Any) -> StreamingGPRegressor:
        return fitted(name, rows, **options)

    return [
        Corner("chunks", "chunks", plain, in_chunks(model())),
        Corner("single rows", "single rows", plain, singly(model())),
        Corner("evaluation", "evaluation", plain, evaluated(model())),
        Corner("chunks of one row", "single rows", plain, in_chunks(model(), 1)),
        Corner("single rows, predicted alone", "single rows", plain, singly(model(), learns=False)),
        Corner("chunks, every second target missing", "chunks", gaps, in_chunks(model())),
        Corner("single rows, every second target missing", "single rows", gaps, singly(model())),
        Corner("chunks, an input of every second missing", "chunks", blanks, in_chunks(model(blanks))),
        Corner("single rows, an input of every second missing", "single rows", blanks, singly(model(blanks))),
        Corner("chunks, two targets", "chunks", two, in_chunks(model(two))),
        Corner("single rows, two targets", "single rows", two, singly(model(two))),
        Corner("chunks, two targets, one of every second missing", "chunks", one_of_two, in_chunks(model(two))),
        Corner(
            "single rows, two targets, one of every second missing", "single rows", one_of_two, singly(model(two))
        ),
        Corner("chunks, past targets as inputs", "chunks", plain, in_chunks(model(lags=[1, 2]))),
        Corner("single rows, past targets as inputs", "single rows", plain, singly(model(lags=[1, 2]))),
        Corner("chunks, past targets as inputs, every second missing", "chunks", gaps, in_chunks(model(lags=[1, 2]))),
        Corner("chunks, three rows ahead", "chunks", plain, in_chunks(model(horizon=3))),
        Corner("single rows, three rows ahead", "single rows", plain, singly(model(horizon=3))),
        Corner("evaluation, labels 10 rows late", "evaluation", plain, evaluated(model(), 10)),
        Corner("evaluation, labels 100 rows late", "evaluation", plain, evaluated(model(), 100)),
        Corner("single rows, labels 10 rows late", "single rows", plain, later(model(), 10)),
        Corner("single rows, labels 100 rows late", "single rows", plain, later(model(), 100)),
        Corner("single rows, labels 1 to 20 rows late", "single rows", plain, in_any_order(model(), 20)),
    ]


def measured(found: list[Corner]) -> list[dict[str, Any]]:
    """Time all corners in rounds; return rows a second, and how many times the ordinary path's time each takes."""
    seconds: dict[str, list[float]] = {each.name: [] for each in found}
    for turn in range(ROUNDS + 1):
        at = LEARNT + turn * ROWS
        for each in found:
            X, y = (a[at : at + ROWS] for a in each.rows)
            began = time.process_time()
            each.work(X, y)
            if turn:
                seconds[each.name].append(time.process_time() - began)
    return [
        {"corner": each.name, "ordinary": each.ordinary}
        | {"rows_a_second": spread([ROWS / s for s in seconds[each.name]])}
        | {"times_the_ordinary": ratio(seconds[each.name], seconds[each.ordinary])}
        for each in found
    ]


def restarted(name: str) -> dict[str, dict[str, float]]:
    """Return how long single rows take before a checkpoint is written, and after it was read."""
    X, y = stream(LEARNT + 2 * RESTARTED)
    model = fitted(name, (X, y))
    before = waits(model, X[LEARNT : LEARNT + RESTARTED], y[LEARNT : LEARNT + RESTARTED])
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/checkpoint")
        began = time.perf_counter()
        model = StreamingGPRegressor.load(f"{folder}/checkpoint")
        loaded = 1e3 * (time.perf_counter() - began)
    return {"before": before, "after": {"loaded_ms": loaded} | waits(model, X[-RESTARTED:], y[-RESTARTED:])}


def waits(model: StreamingGPRegressor, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the milliseconds that single rows take to be predicted and learnt."""
    work, took = singly(model), []
    for i in range(len(X)):
        began = time.perf_counter()
        work(X[i : i + 1], y[i : i + 1])
        took.append(1e3 * (time.perf_counter() - began))
    p50, p99 = np.quantile(took, [0.5, 0.99]).tolist()
    return {"first_ms": took[0], "p50_ms": p50, "p99_ms": p99}


def table(found: dict[str, Any]) -> str:
    """Return the figures as text."""
    lines = [f"{'':56}{'rows a second':>15}{'times the ordinary':>20}"]
    for each in found["corners"]:
        rate, times = each["rows_a_second"]["median"], each["times_the_ordinary"]["median"]
        lines.append(f"{each['corner']:56}{rate:>15,.0f}{times:>20.2f}")
    for when, each in found["restart"].items():
        said = ", ".join(f"{name.removesuffix('_ms')} {value:.2f} ms" for name, value in each.items())
        lines.append(f"single rows {when} a restart: {said}")
    return "\n".join(lines)


def main() -> None:
    """Measure, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="fast")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = {"corners": measured(corners(args.model)), "restart": restarted(args.model)}
    if args.out is not None:
        args.out.write_text(json.dumps({"machine": machine(), "model": args.model, **found}, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
