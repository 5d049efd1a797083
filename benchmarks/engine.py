"""How fast the filters are, and what limits them: ratios and shares, all of one run in one process.

``python benchmarks/engine.py`` measures (a) the block engine against the textbook per-row filter as one `lax.scan`,
(b) the share of the machine's own matrix-product rate, (c) a whole ensemble against one compiled scan per expert,
how the block length matters,
(d) the latency of single rows, (e) growth with rows, features, experts and outputs; it prints a table and writes
``results/engine.json``. Medians of `--runs` runs after one that is thrown away, except where compilation counts.
"""

import json
import os
import platform
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from jax.scipy.stats import norm

from streamgp import StreamingGPRegressor
from streamgp.bases import FAMILIES, Fourier
from streamgp.dynamics import random_walk, static
from streamgp.engine import blocks
from streamgp.ensemble import Ensemble, Expert, ensemble
from streamgp.weights import BMA, share

RESULTS = Path(__file__).parent / "results" / "engine.json"
LEVELS = (0.0, 1e-4, 1e-3)
V, S2 = 1.0, 0.1


def timed(run: Callable[[], Any], runs: int) -> float:
    """Median seconds of a run, the first one thrown away."""
    run()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def rows(n: int, inputs: int = 8, outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Standardised inputs and a smooth target: the time does not depend on what they say."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, inputs))
    return X, np.sin(X[:, :1] + np.arange(outputs)) + 0.3 * rng.normal(size=(n, outputs))


def fourier_experts(bases: int, features: int, inputs: int = 8) -> list[Expert]:
    """Experts of so many bases, each static and at two rates of forgetting."""
    X, _ = rows(50, inputs)
    experts = []
    for i in range(bases):
        basis = Fourier.from_data(X, num_features=features, start=1.0, key=jax.random.key(i))
        experts += [Expert(basis, jnp.asarray(V), jnp.asarray(S2), random_walk(q) if q else static()) for q in LEVELS]
    return experts


def stream(model: Ensemble, X: np.ndarray, y: np.ndarray, state: Any = None, piece: int = 1024) -> Any:
    """Learn all rows, in pieces of one length as the estimators hand them over, the last one filled up."""
    state = model.init(jax.random.key(0)) if state is None else state
    info = None
    for at in range(0, len(X), piece):
        now, filling = slice(at, at + piece), [(0, max(at + piece - len(X), 0)), (0, 0)]
        mask = np.arange(at, at + piece) < len(X)
        X_now, y_now = (jnp.asarray(np.pad(a[now], filling)) for a in (X, y))
        state, info = model.update(state, X_now, y_now, jnp.asarray(mask))
    return jax.block_until_ready((state, info))


def per_row(cubic: bool) -> Callable[..., Any]:
    """The textbook filter of one expert over precomputed features, one row after another."""

    def step(state: tuple, row: tuple) -> tuple:
        mean, cov, q = state
        phi, y = row
        F = len(phi)
        ahead = cov + q * jnp.eye(F)
        gain = ahead @ phi
        r = phi @ gain + S2
        loc = phi @ mean
        mean = mean + gain * (y - loc) / r
        # The public scripts write the update as a product of two matrices; the other form costs O(F^2).
        cov = (jnp.eye(F) - jnp.outer(gain / r, phi)) @ ahead if cubic else ahead - jnp.outer(gain, gain) / r
        return (mean, cov, q), (loc, r)

    def run(Phi: jax.Array, y: jax.Array, q: jax.Array) -> tuple:
        F = Phi.shape[1]
        return jax.lax.scan(step, (jnp.zeros(F), V * jnp.eye(F), q), (Phi, y))[1]

    return run


def matrix_rate(runs: int) -> float:
    """The machine's own float64 matrix products on all its cores, in GFLOP/s: the best of a few sizes."""
    rates = []
    for n in (512, 1024, 2048):
        A = np.random.default_rng(0).normal(size=(n, n))
        rates.append(2 * n**3 / timed(lambda A=A: A @ A, runs) / 1e9)
    return max(rates)


def blocks_against_rows(runs: int, rate: float) -> list[dict[str, Any]]:
    """(a) and (b): 18 experts on the same rows, microseconds for a row and expert."""
    found = []
    for F in (100, 500):
        experts, n = fourier_experts(6, F), 1024
        model, (X, y) = ensemble(experts, BMA()), rows(n)
        state = model.init(jax.random.key(0))
        block = timed(partial(stream, model, X, y, state), runs) / n / len(experts)
        q = jnp.asarray(LEVELS * 6)
        scans = {}
        for name, cubic, few in (("O(F^2)", False, n), ("as public code", True, 64 if F > 200 else n)):
            Phi = jnp.stack([experts[3 * i].basis(jnp.asarray(X[:few])) for i in range(6)]).repeat(3, axis=0)
            target = jnp.asarray(y[:few, 0])
            scan = jax.jit(
                lambda Phi, q, target=target, cubic=cubic: jax.lax.map(
                    lambda a: per_row(cubic)(a[0], target, a[1]), (Phi, q)
                )
            )
            scans[name] = timed(lambda: jax.block_until_ready(scan(Phi, q)), runs) / few / len(experts)  # noqa: B023
        flops = 4 * F**2 + 3 * blocks.BLOCK * F
        found.append(
            {
                "features": F,
                "block_us": block * 1e6,
                "scan_us": {name: seconds * 1e6 for name, seconds in scans.items()},
                "ratio": {name: seconds / block for name, seconds in scans.items()},
                "share_of_matrix_rate": flops / block / 1e9 / rate,
            }
        )
    return found


def block_lengths(runs: int) -> dict[int, dict[int, float]]:
    """Microseconds for a row and expert at other block lengths, by number of features."""
    found: dict[int, dict[int, float]] = {}
    X, y = rows(1024)
    length = blocks.BLOCK
    for F in (50, 100, 200, 400, 800):
        model = ensemble(fourier_experts(2, F), BMA())
        state = model.init(jax.random.key(0))
        found[F] = {}
        for size in (16, 32, 64, 128, 256):
            blocks.BLOCK = size
            jax.clear_caches()  # the length is a constant of the compiled arrangement
            found[F][size] = timed(partial(stream, model, X, y, state), runs) / 1024 / 6 * 1e6
    blocks.BLOCK = length
    jax.clear_caches()
    return found


def whole_ensemble(runs: int) -> dict[str, float]:
    """(c): E-DOEBE of 12 experts, F = 100, 15,599 rows of 18 inputs, against one compiled scan for each expert."""
    X, y = rows(15_599, 18)
    warm_up = X[:1000]
    experts, groups = [], []
    for family in ("fourier", "hilbert"):
        for i, start in enumerate((0.3, 1.0, 3.0)):
            key = jax.random.key(i)
            basis = FAMILIES[family].from_data(warm_up, num_features=100, start=start, key=key)
            groups += [len(groups) // 2] * 2
            experts += [Expert(basis, jnp.asarray(V), jnp.asarray(S2), d) for d in (static(), random_walk(1e-3))]
    model = ensemble(experts, share(groups, 0.05))
    start = time.perf_counter()
    stream(model, X, y)
    cold = time.perf_counter() - start
    warm = timed(partial(stream, model, X, y), runs)

    def the_public_way() -> None:
        densities = []
        target = jnp.asarray(y[:, 0])
        for expert in experts:
            run = jax.jit(lambda X, y, q, expert=expert: per_row(True)(expert.basis(X), y, q))
            loc, var = run(jnp.asarray(X), target, expert.dynamics.diffusion)
            densities.append(norm.logpdf(target, loc, jnp.sqrt(var)))
        weights = jax.jit(lambda d: jax.lax.scan(lambda w, d: (w + d - jnp.max(w + d), w), jnp.zeros(12), d))
        jax.block_until_ready(weights(jnp.stack(densities, axis=1)))

    start = time.perf_counter()
    the_public_way()
    public = time.perf_counter() - start
    return {
        "ours_compiling": cold,
        "ours": warm,
        "public": public,
        "ratio_compiling": public / cold,
        "ratio": public / warm,
    }


def latency(runs: int) -> dict[str, float]:
    """(d): predict one row with its distribution, then learn it, from Python; microseconds."""
    X, y = rows(4_000, 20)
    found = {}
    kinds: dict[str, dict[str, Any]] = {
        "linear": {"model": "linear"},
        "12 experts, F = 100": {"bases": ["fourier", "hilbert"], "features_per_basis": 100, "dynamics": [0.0, 1e-3]},
    }
    for name, options in kinds.items():
        with jax.enable_x64(False):
            model = StreamingGPRegressor(warmup=500, **options).partial_fit(X[:600], y[:600, 0])

            def run(model: StreamingGPRegressor = model) -> None:
                for i in range(600, 1_600):
                    model.predict_one(X[i])
                    model.learn_one(X[i], y[i, 0])

            found[f"{name} ({len(model.experts_)} experts)"] = timed(run, runs) * 1e3
    try:
        from river import linear_model
    except ImportError:
        print("river is not installed: no rival for single rows (pip install river)")
        return found
    rival = linear_model.BayesianLinearRegression()
    records: list[dict[Any, Any]] = [{str(j): float(v) for j, v in enumerate(x)} for x in X[:1_600]]
    for record, target in zip(records[:600], y[:600, 0], strict=True):
        rival.learn_one(record, target)

    def run_rival() -> None:
        for i in range(600, 1_600):
            rival.predict_one(records[i], with_dist=True)
            rival.learn_one(records[i], y[i, 0])

    found["river BayesianLinearRegression"] = timed(run_rival, runs) * 1e3
    return found


def growth(runs: int) -> dict[str, Any]:
    """(e): seconds for more rows, features, experts and outputs; memory along the rows."""
    found: dict[str, Any] = {"rows": {}, "memory_mb": {}, "features": {}, "experts": {}, "outputs": {}}
    model = ensemble(fourier_experts(1, 50), BMA())
    for n in (1_000, 10_000, 100_000, 1_000_000):
        X, y = rows(n)
        found["rows"][n] = timed(partial(stream, model, X, y), 1 if n > 100_000 else runs)
        found["memory_mb"][n] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - X.nbytes / 2**20
    few, many = 10_000, 1_000_000
    found["slope"] = float(np.log(found["rows"][many] / found["rows"][few]) / np.log(many / few))
    X, y = rows(1024)
    for F in (32, 64, 128, 256, 512, 1024):
        model = ensemble(fourier_experts(2, F), BMA())
        found["features"][F] = timed(partial(stream, model, X, y), runs) / 1024 / 6 * 1e6
    for bases in (1, 4, 16, 85):
        model = ensemble(fourier_experts(bases, 100), BMA())
        found["experts"][3 * bases] = timed(partial(stream, model, X, y), runs) / 1024 / 3 / bases * 1e6
    for E in (1, 4, 16, 32):
        X, y = rows(1024, outputs=E)
        model = ensemble(fourier_experts(2, 100), BMA(), num_outputs=E)
        found["outputs"][E] = timed(partial(stream, model, X, y), runs) / 1024 / 6 * 1e6
    return found


def main(runs: Annotated[int, typer.Option(help="Timed runs of each kind.")] = 5) -> None:
    """Measure, print, keep."""
    with jax.enable_x64(True):
        rate = matrix_rate(runs)
        found: dict[str, Any] = {
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, {jax.default_backend()}",
            "matrix_gflops": rate,
            "whole_ensemble": whole_ensemble(runs),  # first: its compilation counts
            "blocks_against_rows": blocks_against_rows(runs, rate),
            "block_lengths_us": block_lengths(runs),
            "latency_us": latency(runs),
            "growth": growth(runs),
        }
    print(json.dumps(found, indent=1))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
