"""Single rows from Python: predict with the distribution, then learn, here and in other packages.

``python -m benchmarks.speed.latency`` prints, as JSON, (d): microseconds a row, and how many times ours each baseline
takes. The baselines come with ``pip install 'streamgp[benchmarks]'``; one that is not installed is left out.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from rich import print_json
from threadpoolctl import threadpool_limits

from benchmarks.common.measure import RUNS, in_turn, installed, ratio, spread
from benchmarks.common.workload import rows
from benchmarks.speed.front_door import SINGLES
from streamgp import StreamingGPRegressor

LEARNT = 600  # rows before the first that is timed
# The number of rows of one run.
ROWS = 1_000
INPUTS = 20
TWELVE = "12 experts of 100 features"
ENSEMBLE = f"streamgp, {TWELVE}"


def latency(runs: int = RUNS) -> list[dict[str, Any]]:
    """Time (d): rounds of `ROWS` single rows each; linear models of 20 and of 100 features, and an ensemble."""
    # A user's process has the same setting.
    with jax.enable_x64(False):
        return [linear(F, runs) for F in (20, 100)] + [whole_ensemble(runs)]


def linear(features: int, runs: int) -> dict[str, Any]:
    """Time Bayesian linear regression of so many features, on one thread: its products are too small for more."""
    X, y = rows(LEARNT + ROWS, features)
    jobs = {"streamgp, linear": ours(X, y[:, 0], model="linear")}
    if installed("river"):
        jobs["river BayesianLinearRegression"] = river(X, y[:, 0])
    if installed("bayesianbandits"):
        jobs["bayesianbandits NormalRegressor"] = bayesianbandits(X, y[:, 0])
    with threadpool_limits(1):
        seconds = in_turn(jobs, runs)
    return {"task": f"linear, {features} features"} | compared(
        {name: [s / ROWS for s in values] for name, values in seconds.items()}, "streamgp, linear"
    )


def whole_ensemble(runs: int) -> dict[str, Any]:
    """Time twelve experts against an exact Gaussian process that takes in one row."""
    X, y = rows(2 * ROWS, INPUTS)
    options, _ = SINGLES[TWELVE]
    jobs: dict[str, Callable[[], Any]] = {ENSEMBLE: ours(X, y[:, 0], **options)}
    counts = {ENSEMBLE: ROWS}
    found: dict[str, Any] = {"task": "ensemble, 20 inputs"}
    if installed("gpytorch", "torch"):
        from benchmarks.speed import fantasies

        baselines, found["gpytorch_settings"] = fantasies.jobs(X, y[:, 0])
        jobs |= baselines
        counts |= dict.fromkeys(baselines, fantasies.ROWS)
    seconds = in_turn(jobs, runs)
    each = {name: [s / counts[name] for s in values] for name, values in seconds.items()}
    return found | compared(each, ENSEMBLE)


def compared(seconds: dict[str, list[float]], ours: str) -> dict[str, Any]:
    """Return microseconds of a row, and every baseline's time over ours."""
    return {
        "us": {name: spread(values, 1e6) for name, values in seconds.items()},
        "ratio": {name: ratio(values, seconds[ours]) for name, values in seconds.items() if name != ours},
    }


def ours(X: np.ndarray, y: np.ndarray, **options: Any) -> Callable[[], None]:
    """Send rows through `predict_one` and `learn_one`."""
    model = StreamingGPRegressor(warmup=500, **options).partial_fit(X[:LEARNT], y[:LEARNT])

    def run() -> None:
        for i in range(LEARNT, LEARNT + ROWS):
            model.predict_one(X[i])
            model.learn_one(X[i], y[i])

    return run


def river(X: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """Send rows through river's model, which are dictionaries there; making them is not timed."""
    from river import linear_model

    model = linear_model.BayesianLinearRegression()
    records: list[dict[Any, Any]] = [{str(j): float(v) for j, v in enumerate(x)} for x in X]
    for record, target in zip(records[:LEARNT], y[:LEARNT], strict=True):
        model.learn_one(record, target)

    def run() -> None:
        for i in range(LEARNT, LEARNT + ROWS):
            model.predict_one(records[i], with_dist=True)
            model.learn_one(records[i], y[i])

    return run


def bayesianbandits(X: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """Send rows through bayesianbandits' model.

    It has no call that gives a row's standard deviation. The cheapest public one that works it out is
    `sample_marginal`, which draws from the row's predictive distribution; `predict` gives the mean.
    """
    from bayesianbandits import NormalRegressor

    model = NormalRegressor(alpha=1.0, beta=10.0, random_state=0).fit(X[:LEARNT], y[:LEARNT])

    def run() -> None:
        for i in range(LEARNT, LEARNT + ROWS):
            row = X[i : i + 1]
            model.predict(row)
            model.sample_marginal(row)
            model.partial_fit(row, y[i : i + 1])

    return run


if __name__ == "__main__":
    print_json(data=latency())
