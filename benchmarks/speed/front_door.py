"""The cost of a row through the estimator, at this version and at an earlier one, in alternating processes.

``python -m benchmarks.speed.front_door [--before FOLDER]`` writes ``results/front_door.json``; FOLDER is the `src` of
another version. Every process measures the machine's own rates as well: a product of float64 matrices on all cores,
and the copy of an array that no cache holds.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.paths import RESULTS_DIR, ROOT

WARMUP, INPUTS, CHUNK, SINGLE = 1_000, 8, 1_024, 1_000
NINE = {"bases": ["fourier"], "dynamics": [0.0, 1e-4, 1e-3]}  # three lengthscales of each basis
# Options, inputs and rows after the warm-up.
BLOCKS: dict[str, tuple[dict[str, Any], int, int]] = {
    "9 experts of 100 features": ({"model": "e-doebe", **NINE, "features_per_basis": 100}, INPUTS, 20 * CHUNK),
    "9 experts of 500 features": ({"model": "e-doebe", **NINE, "features_per_basis": 500}, INPUTS, 4 * CHUNK),
    "fast": ({"model": "fast"}, INPUTS, 8 * CHUNK),
    "default": ({"model": "default"}, INPUTS, 8 * CHUNK),
}
TWELVE = {"bases": ["fourier", "hilbert"], "features_per_basis": 100, "dynamics": [0.0, 1e-3]}
SINGLES: dict[str, tuple[dict[str, Any], int]] = {
    "default": ({"model": "default"}, INPUTS),
    "e-doebe": ({"model": "e-doebe"}, INPUTS),
    "12 experts of 100 features": ({"model": "e-doebe", **TWELVE}, INPUTS),
    "linear, 20 inputs": ({"model": "linear"}, 20),
}


def rows(n: int, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and a smooth target with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, inputs))
    return X, np.sin(X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=n)


def once() -> dict[str, Any]:
    """Measure everything in this process."""
    begun = time.process_time()
    from streamgp import StreamingGPRegressor

    found: dict[str, Any] = {"import": time.process_time() - begun, "machine": rates(), "blocks": {}, "singles": {}}
    found["first rows"] = first_rows(StreamingGPRegressor)
    found["scan, 100 features"] = scan(100, 2 * CHUNK)
    for name, (options, inputs, n) in BLOCKS.items():
        with suppress(ValueError):  # a preset that the version does not have
            found["blocks"][name] = in_chunks(StreamingGPRegressor, options, inputs, n)
    for name, (options, inputs) in SINGLES.items():
        found["singles"][name] = one_by_one(StreamingGPRegressor, options, inputs)
    found["singles"]["river's Bayesian linear regression, 20 inputs"] = river_one_by_one(20)
    return found


def rates() -> dict[str, float]:
    """Return the rate of matrix products and of copies here."""
    A = np.random.default_rng(0).normal(size=(2_048, 2_048))
    large = np.zeros(32 << 20)  # 256 MB
    product, copy = best(lambda: A @ A), best(large.copy)
    return {"gflops": 2e-9 * len(A) ** 3 / product, "gb_a_second": 2e-9 * large.nbytes / copy}


def best(job: Callable[[], Any], times: int = 5) -> float:
    """Return the least seconds of several."""
    each = []
    for _ in range(times):
        start = time.perf_counter()
        job()
        each.append(time.perf_counter() - start)
    return min(each)


def first_rows(make: Any) -> dict[str, float]:
    """Return the seconds of a first `partial_fit` over the warm-up and 100 rows, with nothing compiled."""
    X, y = rows(WARMUP + 100, INPUTS)
    start, processor = time.perf_counter(), time.process_time()
    make(model="default", warmup=WARMUP, random_state=0).partial_fit(X, y)
    return {"clock": time.perf_counter() - start, "processor": time.process_time() - processor}


def in_chunks(make: Any, options: dict[str, Any], inputs: int, n: int) -> dict[str, float]:
    """Return microseconds of a row in chunks, when first run and once all is compiled, and the number of experts.

    Renewals of experts are among what is timed.
    """
    X, y = rows(WARMUP + n, inputs)
    found: dict[str, float] = {}
    for name in ("first", "us"):
        model = make(**options, warmup=WARMUP, random_state=0).partial_fit(X[:WARMUP], y[:WARMUP])
        start = time.perf_counter()
        for at in range(WARMUP, len(X), CHUNK):
            model.partial_fit(X[at : at + CHUNK], y[at : at + CHUNK])
        found |= {name: 1e6 * (time.perf_counter() - start) / n, "experts": len(model.experts_)}
    return found | work(model)


def one_by_one(make: Any, options: dict[str, Any], inputs: int) -> dict[str, float]:
    """Return microseconds of `predict_one` and `learn_one` together: the median and the 99th percentile."""
    X, y = rows(WARMUP + 100 + SINGLE, inputs)
    model = make(**options, warmup=WARMUP, random_state=0).partial_fit(X[:WARMUP], y[:WARMUP])

    def step(i: int) -> None:
        model.predict_one(X[i])
        model.learn_one(X[i], y[i])

    return percentiles(step, WARMUP, len(X)) | work(model)


def work(model: Any) -> dict[str, float]:
    """Return what filters must do for a row at least: operations in chunks, and bytes of covariances one by one.

    A filter of F features takes 4 F^2 + 3 B F operations for each row of a block of B. By itself a row needs one
    product with the covariance, into which the rows learnt are folded `PENDING` at a time, by reading and writing it;
    of a large one with one triangle.
    """
    # Earlier versions have no such state.
    if not hasattr(model._learner, "state"):
        return {}
    from streamgp.filters.engine.blockfilter import LARGE
    from streamgp.filters.engine.blocks import BLOCK
    from streamgp.filters.engine.rowfilter import PENDING

    filters = model._learner.state.model_state.filters
    sizes = [(np.prod(belief.cov.shape[:-2]), belief.cov.shape[-1]) for belief in filters]
    operations = sum(count * (4 * F**2 + 3 * BLOCK * F) for count, F in sizes)
    read = sum((4 if F >= LARGE else 8) * n * F**2 * (1 + 2 / PENDING) for n, F in sizes)
    return {"operations": float(operations), "bytes": float(read)}


def river_one_by_one(inputs: int) -> dict[str, float]:
    """Return the same of river's model."""
    from river import linear_model

    X, y = rows(WARMUP + 100 + SINGLE, inputs)
    records: list[dict[Any, Any]] = [dict(enumerate(row)) for row in X.tolist()]
    model = linear_model.BayesianLinearRegression()
    for record, target in zip(records[:WARMUP], y[:WARMUP], strict=True):
        model.learn_one(record, target)

    def step(i: int) -> None:
        model.predict_one(records[i], with_dist=True)
        model.learn_one(records[i], y[i])

    return percentiles(step, WARMUP, len(X))


def percentiles(step: Callable[[int], None], start: int, end: int) -> dict[str, float]:
    """Time each of some rows; the first hundred do not count."""
    each = []
    for i in range(start, end):
        begun = time.perf_counter()
        step(i)
        each.append(1e6 * (time.perf_counter() - begun))
    return {"p50": float(np.percentile(each[100:], 50)), "p99": float(np.percentile(each[100:], 99))}


def scan(features: int, n: int) -> float:
    """Return microseconds of a row in a compiled scan over rows: one expert, O(F^2), nothing of this package."""
    import jax
    import jax.numpy as jnp

    def step(state: tuple, row: tuple) -> tuple:
        mean, cov = state
        phi, y = row
        gain = cov @ phi
        r = phi @ gain + 0.1
        return (mean + gain * (y - phi @ mean) / r, cov - jnp.outer(gain, gain) / r), (phi @ mean, r)

    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        Phi, y = jnp.asarray(rng.normal(size=(n, features))), jnp.asarray(rng.normal(size=n))
        run = jax.jit(lambda Phi, y: jax.lax.scan(step, (jnp.zeros(features), jnp.eye(features)), (Phi, y))[1])
        jax.block_until_ready(run(Phi, y))
        return 1e6 * best(lambda: jax.block_until_ready(run(Phi, y))) / n


def main(
    before: Annotated[Path | None, typer.Option(help="The `src` folder of an earlier version.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Processes of each version.")] = 5,
    only: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Measure, keep and print."""
    if only:
        print(json.dumps(once()))
        return
    sources = ({} if before is None else {"before": before}) | {"now": ROOT / "src"}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in sources}
    for _ in range(runs):
        for name, source in sources.items():
            environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "STREAMGP_CACHE": "off"}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are there as bytecode, as in an installation
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.front_door", "--only"]
            done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(name, done.stdout.splitlines()[-1], flush=True)
    from benchmarks.common.machine import machine  # imports what a process that is timed has yet to import

    (RESULTS_DIR / "front_door.json").write_text(json.dumps({"machine": machine()} | found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
