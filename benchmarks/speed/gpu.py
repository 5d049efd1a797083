"""What an accelerator is worth: filters, whole ensembles and small models, its host's cores beside it.

``python -m benchmarks.speed.gpu`` measures every part below on the machine at hand and writes
``results/gpu.json``, after each part; it takes some five minutes. ``--only NAME`` measures a part anew, and keeps the
others; parts that are there are not measured again with ``--resume``. Needs ``pip install 'streamgp[gpu]'`` and an
accelerator that JAX finds.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor
from streamgp.bases import Fourier
from streamgp.filters.dynamics import parse
from streamgp.filters.engine import cpu, placement
from streamgp.filters.engine.blocks import in_blocks
from streamgp.filters.engine.device_programs import Rows
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics import keys, tree
from streamgp.numerics.precision import float64
from streamgp.numerics.threads import one_blas_thread
from streamgp.weights import BMA

DYNAMICS = ("static", "walk 0.001", "revert 0.999", "walk 0.0001", "revert 0.99", "walk 0.01")
# Bases, dynamics of each, features: experts with a guard, of one output.
FILTERS = ((11, 6, 2000), (43, 6, 500), (32, 2, 1000), (3, 6, 500), (11, 6, 100), (3, 6, 100), (1, 6, 300))
ROWS = 1_024  # of a call


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a smooth function of four inputs with noise of a tenth."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 4))
    clean = np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, 1]) + 0.3 * X[:, 2]
    return X, clean + 0.1 * rng.normal(size=n)


def rates() -> dict[str, float]:
    """Measure the accelerator's rates of products in float64, in TFLOP/s, and of copies, in TB/s; and the host's."""
    n = 8_192
    with float64():
        A = jax.random.normal(jax.random.key(0), (n, n), np.float64)
        product, copy = jax.jit(lambda A: A @ A), jax.jit(lambda A: A + 1.0)
        times = [best(lambda f=f: jax.block_until_ready(f(A))) for f in (product, copy)]
    B = np.random.default_rng(0).normal(size=(4_096, 4_096))
    host = best(lambda: B @ B)
    return {
        "products": 2e-12 * n**3 / times[0],
        "copies": 16e-12 * n**2 / times[1],
        "host": 2e-12 * len(B) ** 3 / host,
    }


def best(job: Callable[[], Any], runs: int = 4) -> float:
    """Return the median seconds of a job, after one run that is thrown away."""
    job()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def filters() -> dict[str, Any]:
    """Measure groups of experts, rows and predictions carried both ways, by the rows of a call."""
    found = {}
    for bases, dynamics, features in FILTERS:
        found[f"{bases * dynamics} x {features}"] = one_group(bases, dynamics, features)
        print(json.dumps(found[f"{bases * dynamics} x {features}"]), flush=True)
    return found


def one_group(bases: int, dynamics: int, features: int) -> dict[str, Any]:
    """Measure one group on both."""
    X, y = stream(ROWS)
    y = y[:, None]
    one, noise = np.asarray(1.0), np.asarray(0.05)
    each = [Fourier.from_data(X, num_features=features, start=1.0, key=keys.key(i)) for i in range(bases)]
    experts = [Expert(basis, one, noise, parse(name)) for basis in each for name in DYNAMICS[:dynamics]]
    model = ensemble(experts, BMA(0.0), guarded=True)
    group, beliefs = model.groups[0], model.init(keys.key(0)).filters[0]
    live, there = np.ones((bases, dynamics), bool), placement.accelerator()
    F, k = beliefs.cov.shape[-1], bases * dynamics

    def rows(n: int) -> Rows:
        return Rows(X[:n], y[:n], np.ones(n, bool), np.arange(1.0, n + 1), None)

    start = time.perf_counter()
    programs = there.programs(group, beliefs, X[:64], True)
    found: dict[str, Any] = {"compiled_s": time.perf_counter() - start, "gpu_us": {}, "cpu_us": {}}
    for n in (64, 256, ROWS):

        def learn(n: int = n) -> None:
            nonlocal beliefs
            beliefs, *_ = there.update(programs, group, beliefs, rows(n), live)
            jax.block_until_ready(beliefs.cov)

        found["gpu_us"][n] = 1e6 * best(learn) / n / k
    found["tflops"] = 1e-12 * (4.0 * F**2 + 192.0 * F) / (found["gpu_us"][ROWS] * 1e-6)
    here, longest = tree.map(np.asarray, beliefs), ROWS if F < 1_000 else 256 if F < 2_000 else 64
    for n in sorted({64, longest}):
        blocks = in_blocks(X[:n], y[:n], np.ones(n, bool), np.arange(1.0, n + 1))
        with one_blas_thread():
            seconds = best(lambda blocks=blocks: cpu.update_groups([group], [here], blocks, [live]), 2)
        found["cpu_us"][n] = 1e6 * seconds / n / k
    return found


def whole() -> dict[str, Any]:
    """Measure e-doebe of 66 experts of 1,000 features through `partial_fit`, scores and all, in us a row."""
    names = [*DYNAMICS, "walk 1e-05", "revert 0.9999", "walk 0.003", "revert 0.995", "walk 0.03"]
    X, y = stream(12_500)
    model = StreamingGPRegressor("e-doebe", bases=["fourier"], dynamics=names, n_samples=2, warmup=200)
    model.set_params(features_per_basis=1_000, delta=0.01, device="gpu")
    start = time.perf_counter()
    model.partial_fit(X[:200], y[:200])
    found: dict[str, Any] = {"warmup_s": time.perf_counter() - start, "experts": len(model.experts_)}
    model.partial_fit(X[200:1_224], y[200:1_224])
    start = time.perf_counter()
    model.partial_fit(X[1_224:11_464], y[1_224:11_464])
    found["gpu_us_per_row"] = 1e6 * (time.perf_counter() - start) / 10_240
    on_cpu(model)
    model.partial_fit(X[11_464:11_476], y[11_464:11_476])
    start = time.perf_counter()
    model.partial_fit(X[11_476:11_988], y[11_476:11_988])
    found["cpu_us_per_row"] = 1e6 * (time.perf_counter() - start) / 512
    return found


def on_cpu(model: StreamingGPRegressor) -> None:
    """Let an estimator go on, on the processor."""
    learner = model._learner
    learner.settings = replace(learner.settings, spec=replace(learner.settings.spec, device="cpu"))


_SMALL = """
import sys, time, resource, json
import numpy as np
from benchmarks.speed.gpu import stream
from streamgp import StreamingGPRegressor
name, device, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
X, y = stream(rows + 300)
start = time.perf_counter()
model = StreamingGPRegressor(name, warmup=500, device=device).partial_fit(X[:rows], y[:rows])
stream_s = time.perf_counter() - start
each = []
for x, target in zip(X[rows:], y[rows:]):
    start = time.perf_counter()
    model.predict_one(x), model.learn_one(x, target)
    each.append(time.perf_counter() - start)
print(json.dumps({"stream_s": stream_s, "single_us": 1e6 * float(np.median(each))}))
"""


def small() -> dict[str, Any]:
    """Measure models that stay on the processor, with an accelerator at hand and told to leave it alone, by turns."""
    found: dict[str, Any] = {}
    for name, rows, turns in (("linear", 20_000, 2), ("fast", 3_000, 2), ("default", 1_500, 2)):
        pairs: dict[str, list[dict[str, float]]] = {"auto": [], "cpu": []}
        for turn in range(2 * turns):
            device = ("auto", "cpu", "cpu", "auto")[turn % 4]
            told = subprocess.run(
                [sys.executable, "-c", _SMALL, name, device, str(rows)], capture_output=True, text=True, check=True
            )
            pairs[device].append(json.loads(told.stdout.splitlines()[-1]))
        found[name] = {
            figure: {device: statistics.median(run[figure] for run in runs) for device, runs in pairs.items()}
            for figure in ("stream_s", "single_us")
        }
        for figures in found[name].values():
            figures["ratio"] = figures["auto"] / figures["cpu"]
        print(name, json.dumps(found[name]), flush=True)
    return found


def parity() -> dict[str, Any]:
    """Measure how far both are apart over 10,000 rows with glitches, gaps and a jump; and after one took over."""
    X, y = stream(10_000, seed=1)
    rng = np.random.default_rng(2)
    y[rng.random(len(y)) < 0.01] += 40.0
    y[5_000:] += 3.0
    y[rng.random(len(y)) < 0.03] = np.nan
    told: dict[str, list[np.ndarray]] = {"cpu": [], "gpu": [], "resumed": []}
    for name in told:
        model = StreamingGPRegressor("e-doebe", bases=["fourier"], features_per_basis=100, warmup=500, robust=True)
        model.set_params(device="cpu" if name == "cpu" else "gpu")
        for at in range(0, len(X), 1_000):
            if at == 6_000 and name == "resumed":
                model.save(Path(RESULTS_DIR) / "gpu_checkpoint")
                model = StreamingGPRegressor.load(Path(RESULTS_DIR) / "gpu_checkpoint")
                on_cpu(model)
            model.partial_fit(X[at : at + 1_000], y[at : at + 1_000])
            mean, std = model.predict(X[:50], return_std=True)
            told[name] += [mean, std]
    flat = {name: np.concatenate(parts) for name, parts in told.items()}
    scale = np.abs(flat["cpu"]) + 0.1
    return {name: float(np.max(np.abs(flat[name] - flat["cpu"]) / scale)) for name in ("gpu", "resumed")}


PARTS: dict[str, Callable[[], Any]] = {
    "rates": rates,
    "filters": filters,
    "small": small,
    "parity": parity,
    "whole": whole,
}


def main(
    only: Annotated[list[str] | None, typer.Option(help=f"Measure only this part: {', '.join(PARTS)}.")] = None,
    resume: Annotated[bool, typer.Option(help="Leave out parts whose figures are there.")] = False,
    out: Annotated[Path, typer.Option(help="The file of the figures.")] = RESULTS_DIR / "gpu.json",
) -> None:
    """Measure, keep and print."""
    if not placement.has_plugin() or placement.accelerator() is None:
        raise SystemExit("expected an accelerator that JAX finds, got none")
    about = machine()
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() and (only or resume) else {"machine": about}
    if found["machine"] != about:
        raise SystemExit(f"{out.name}: expected figures of this machine and these versions; run without --resume")
    for name, measure in PARTS.items():
        if (only and name not in only) or (resume and name in found):
            continue
        start = time.perf_counter()
        found[name] = measure()
        found.setdefault("seconds", {})[name] = time.perf_counter() - start
        out.write_text(json.dumps(found, indent=1) + "\n")
        print(name, json.dumps(found[name]), flush=True)


if __name__ == "__main__":
    typer.run(main)
