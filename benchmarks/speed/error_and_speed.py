"""Error against time: streamgp beside other models that learn a stream, in turn and in one process.

``OMP_NUM_THREADS=1 python -m benchmarks.speed.error_and_speed --data DIR`` writes its results after every run, to
``results/error_and_speed.json``; started again, it goes on where it stopped. ``taskset -c 0`` before it holds every
model to one core: without it the filters of streamgp run on all. The others come with ``pip install
'streamgp[benchmarks]'``; one that is not installed is left out.

Every model is tested, then trained: row i is predicted from rows before i alone, standardised by the first 1,000,
from which every model learns and which are not scored. Seconds are by the clock. The presets run once before, so that
nothing is left to compile. The scans are public research code's way to run an ensemble, made anew: the experts that
``e-doebe`` has fitted, of up to 400 features, each its own `lax.scan` over rows, compiled in every run, as it is
there; once with the update as it is written there, once with that of textbooks. They weigh the experts by the
preset's rule, so that only the time differs. What GPyTorch's models do is in `benchmarks.speed.windowed`. The slow
ones (`ONCE`) run once; the file tells how often each did.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

from benchmarks.common import baselines
from benchmarks.common.baselines import WARMUP, Column, Prediction, Rows, Warmed, nothing, standardise
from benchmarks.common.datasets import load
from benchmarks.common.machine import machine
from benchmarks.common.measure import installed, spread
from benchmarks.common.paths import RESULTS_DIR
from benchmarks.speed.filters import per_row
from streamgp import StreamingGPRegressor, evaluate
from streamgp.filters.engine.blocks import member
from streamgp.table.files import write_aside
from streamgp.weights import scan_rule

RESULTS = RESULTS_DIR / "error_and_speed.json"
NAMES = ("elevators_ucids", "kin40k")
SEED = 0
PRESETS = ("linear", "fast", "default", "e-doebe")
SCANS = {"e-doebe, a scan for each expert": True, "e-doebe, a scan for each expert, O(F²)": False}
# Names of packages, what is imported before anything is timed, and models by their names in `baselines`.
OTHERS: dict[str, tuple[str, dict[str, str]]] = {
    "river": (
        "river.forest",
        {
            "river Bayesian linear": "river_bayesian_linear",
            "river Hoeffding tree": "river_hoeffding_tree",
            "river adaptive Hoeffding tree": "river_adaptive_tree",
            "river adaptive random forest": "river_arf",
        },
    ),
    "bayesianbandits": ("bayesianbandits", {"bayesianbandits linear": "bayesianbandits_linear"}),
    "lightgbm": ("lightgbm", {"LightGBM, refitted": "lightgbm_refitted"}),
}
ONCE = (*SCANS, "GPyTorch exact, 5,000 rows", "GPyTorch variational, 5,000 rows")
METRICS = ("nmse", "pll", "seconds", "warmup_seconds", "rows_per_second", "cpu_seconds")

# Mean and, where the model has one, log density of the rows after the warm-up.
Scored = tuple[Column, Column | None]
Run = Callable[[Rows, Column, Warmed], Scored]


def models() -> dict[str, Run]:
    """Return every model that can run here, by the name that the page shows."""
    found: dict[str, Run] = {f"streamgp {name}": partial(preset, name) for name in PRESETS}
    found |= {name: partial(scans, cubic) for name, cubic in SCANS.items()}
    for package, (imported, named) in OTHERS.items():
        if installed(package):
            import_module(imported)
            found |= {name: partial(baseline, getattr(baselines, own)) for name, own in named.items()}
    if installed("gpytorch", "torch"):
        windowed = import_module("benchmarks.speed.windowed")
        found |= {name: partial(baseline, run) for name, run in windowed.MODELS.items()}
    return found


def preset(name: str, X: Rows, y: Column, warmed: Warmed) -> Scored:
    """Run a preset of streamgp."""
    model = StreamingGPRegressor(name, warmup=WARMUP, random_state=SEED).partial_fit(X[:WARMUP], y[:WARMUP])
    warmed()
    result = evaluate(model, X[WARMUP:], y[WARMUP:], weights=False, progress=False)
    return result.mean, result.log_density


def scans(cubic: bool, X: Rows, y: Column, warmed: Warmed) -> Scored:
    """Run the experts of ``e-doebe`` one by one from where the warm-up has left them, then weigh them."""
    model = StreamingGPRegressor("e-doebe", warmup=WARMUP, random_state=SEED).partial_fit(X[:WARMUP], y[:WARMUP])
    state = model._learner.state
    of, scale = state.model, state.targets.scale[0]
    with jax.enable_x64(True):
        inputs = jnp.asarray(state.inputs.standardised(X[WARMUP:]))
        target = jnp.asarray(state.targets.transform(y[WARMUP:, None])[:, 0])
        experts = []  # basis, and what the filter takes beside the rows
        for group, beliefs in zip(of.groups, state.model_state.filters, strict=True):
            for at in np.ndindex(group.noise.prior_var.shape):
                prior_var, noise_var = (jnp.asarray(each[at]) for each in group.noise)
                belief = jnp.asarray(beliefs.mean[at][:, 0]), jnp.asarray(beliefs.cov[at])
                experts.append(
                    (member(group.basis, at[0]), group.dynamics.diffusion[at] * prior_var, noise_var, belief)
                )
        weights = state.model_state.weights
        warmed()
        ahead: list[Any] = [None] * len(experts)
        for position, (basis, *rest) in zip(of.order, experts, strict=True):
            run = jax.jit(lambda X, y, *rest, basis=basis: per_row(cubic)(basis(X), y, *rest))
            ahead[position] = run(inputs, target, *rest)
        loc, var = (jnp.stack(part, axis=1) for part in zip(*ahead, strict=True))
        mean, log_density = jax.jit(partial(mixture, of.rule))(weights, target, loc, var)
        return np.asarray(mean) * scale + state.targets.mean[0], np.asarray(log_density) - np.log(scale)


def mixture(
    rule: Any, weights: Any, target: jax.Array, loc: jax.Array, var: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return mean and log density of each row, by weights that have not seen its target."""
    densities = norm.logpdf(target[:, None], loc, jnp.sqrt(var))
    log_weights = scan_rule(rule, weights, densities)[1].log_weights
    return (jnp.exp(log_weights) * loc).sum(1), logsumexp(log_weights + densities, axis=1)


def baseline(run: Callable[[Rows, Column, int, Warmed], Prediction], X: Rows, y: Column, warmed: Warmed) -> Scored:
    """Run another model; the density is normal where it has a variance."""
    mean, var = (each if each is None else each[WARMUP:] for each in run(X, y, SEED, warmed))
    assert mean is not None
    return mean, None if var is None else -0.5 * (np.log(2 * np.pi * var) + (y[WARMUP:] - mean) ** 2 / var)


def measure(run: Run, X: Rows, y: Column) -> dict[str, float]:
    """Run a model once: scores of the rows after the warm-up, and seconds."""
    marks: list[tuple[float, float]] = []

    def mark() -> None:
        marks.append((time.perf_counter(), time.process_time()))

    mark()
    mean, log_density = run(X, y, mark)
    mark()
    began, warmed, ended = marks
    scored = y[WARMUP:]
    found = {
        "nmse": np.mean((scored - mean) ** 2) / np.var(scored),
        "seconds": ended[0] - began[0],
        "warmup_seconds": warmed[0] - began[0],
        "rows_per_second": len(scored) / (ended[0] - warmed[0]),
        "cpu_seconds": ended[1] - began[1],
    }
    if log_density is not None:
        found["pll"] = np.mean(log_density)
    return {metric: float(value) for metric, value in found.items()}


def summarise(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many runs there are of each data set and model, and the spread of every metric over them."""
    summary: dict[str, Any] = {}
    for run in runs:
        summary.setdefault(run["data"], {}).setdefault(run["model"], []).append(run)
    for of in summary.values():
        for model, each in of.items():
            spreads = {metric: spread([run[metric] for run in each]) for metric in METRICS if metric in each[0]}
            of[model] = {"runs": len(each), **spreads}
    return summary


def write(path: Path, runs: list[dict[str, Any]]) -> None:
    """Write everything so far aside, then rename: a run that is stopped leaves the last whole file."""
    content = {
        "command": "OMP_NUM_THREADS=1 python -m benchmarks.speed.error_and_speed --data DIR",
        "protocol": f"test-then-train, standardised by the first {WARMUP} rows, which are not scored; nmse is over "
        "the population variance of the scored targets; pll is per row with the target standardised; seconds by the "
        "clock, of the whole run and of the warm-up; rows_per_second after the warm-up; cpu_seconds of all threads",
        "machine": machine(),
        "summary": summarise(runs),
        "runs": runs,
    }
    write_aside(path, (json.dumps(content, indent=1) + "\n").encode())


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    out: Annotated[Path, typer.Option(help="JSON file to write, or to go on with.")] = RESULTS,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(NAMES),
    only: Annotated[str | None, typer.Option("--models", help="Models, with semicolons.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Rounds; slow models run in the first alone.")] = 3,
    max_rows: Annotated[int | None, typer.Option(min=WARMUP + 1, help="Rows of each data set at most.")] = None,
) -> None:
    """Run every model in turn, as many rounds as asked for."""
    kept = json.loads(out.read_text())["runs"] if out.exists() else []
    known = models()
    try:
        tables = {name: load(name, data, max_rows) for name in names.split(",")}
        chosen = {name: known[name] for name in (only.split(";") if only else known)}
    except KeyError as missing:
        raise SystemExit(f"models: expected some of {'; '.join(known)}, got {missing}") from None
    except (ValueError, FileNotFoundError) as problem:
        raise SystemExit(str(problem)) from None
    compiled: set[tuple[str, str]] = set()  # data sets and models, this process having run them
    for turn in range(runs):
        for name, (X, y) in tables.items():
            X, y = standardise(X)[0], standardise(y)[0]
            for label, run in chosen.items():
                done = sum((each["data"], each["model"]) == (name, label) for each in kept)
                if done > turn or (turn and label in ONCE):
                    continue
                first = "streamgp e-doebe" if label in SCANS else label
                if first.startswith("streamgp ") and (name, first) not in compiled:
                    known[first](X, y, nothing)
                    compiled.add((name, first))
                found = measure(run, X, y)
                kept.append({"data": name, "rows": len(y), "model": label, **found})
                write(out, kept)
                shown = "  ".join(f"{metric} {found[metric]:.4g}" for metric in METRICS if metric in found)
                typer.echo(f"{name}, {label}: {shown}")


if __name__ == "__main__":
    typer.run(main)
