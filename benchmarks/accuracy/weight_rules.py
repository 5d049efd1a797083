"""The choice of the default's switching rates: one run of the experts, many rules on their likelihoods.

``python -m benchmarks.accuracy.weight_rules --data DIR`` fits the default's experts once for every data set, lets
them learn the stream, keeps the density that each gave to every target, and replays rates of E-DOEBE and of its
background share on them; it writes ``results/weight_rules.json`` and prints a table.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from scipy.special import logsumexp

from benchmarks.common.datasets import NAMES, load
from benchmarks.common.paths import RESULTS_DIR
from streamgp.models.gaussian.warmup import fit_ensemble
from streamgp.models.registry import make_spec
from streamgp.numerics import keys
from streamgp.numerics.standardise import Standardiser
from streamgp.weights import share

RESULTS = RESULTS_DIR / "weight_rules.json"
WARMUP, CHUNK = 1_000, 1_024
RATES = tuple((delta, background) for delta in (0.0, 0.01, 0.02, 0.05) for background in (0.0, 0.001, 0.003, 0.01))


def run_experts(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return each expert's log density and mean for every scored row (n, K), y standardised, and its basis."""
    inputs = Standardiser.empty(X.shape[1]).update(X[:WARMUP])
    targets = Standardiser.empty(1).update(y[:WARMUP, None])
    X, y = inputs.transform(X), (y[:, None] - np.asarray(targets.mean)) / targets.scale
    model, experts = fit_ensemble(make_spec("e-doebe"), X[:WARMUP], y[:WARMUP], seed=seed, time_unit=1.0)
    state, densities, means = model.init(keys.key(seed)), [], []
    for at in range(0, len(y), CHUNK):
        rows = slice(at, at + CHUNK)
        state, info = model.update(state, jnp.asarray(X[rows]), jnp.asarray(y[rows]))
        densities.append(np.asarray(info.predictive.component_log_density(jnp.asarray(y[rows]))))
        means.append(np.asarray(info.predictive.loc[:, :, 0]))
    bases = list(dict.fromkeys(expert.basis for expert in experts))
    groups = [bases.index(expert.basis) for expert in experts]
    return np.concatenate(densities)[WARMUP:], np.concatenate(means)[WARMUP:], groups


def replay(density: np.ndarray, mean: np.ndarray, y: np.ndarray, rule: Any) -> dict[str, float]:
    """Return nMSE and PLL of the mixture under a rule."""

    def step(state: Any, row: jax.Array) -> tuple:
        return rule.update(state, row), rule.predict(state)

    start = rule.init(jnp.full(density.shape[1], -np.log(density.shape[1])))
    log_weights = np.asarray(jax.lax.scan(step, start, jnp.asarray(density))[1])
    error = (np.exp(log_weights) * mean).sum(1) - y
    pll = float(logsumexp(log_weights + density, axis=1).mean())
    return {"pll": pll, "nmse": float(np.mean(error**2) / np.var(y))}


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(NAMES),
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
) -> None:
    """Replay all rates on all data sets."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print("| data |" + "".join(f" {delta:g}, {background:g} |" for delta, background in RATES))
    print("|---|" + "---|" * len(RATES))
    for name in names.split(","):
        if name not in stored:
            with jax.enable_x64(True):
                X, y = load(name, data)
                density, mean, groups = run_experts(X, y, seed)
                scored = (y[WARMUP:] - y[:WARMUP].mean()) / y[:WARMUP].std()
                stored[name] = {
                    f"{delta:g}, {background:g}": replay(density, mean, scored, share(groups, delta, background))
                    for delta, background in RATES
                }
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
        cells = (f" {cell['pll']:.3f} / {cell['nmse']:.4f} |" for cell in stored[name].values())
        print(f"| {name} |" + "".join(cells), flush=True)


if __name__ == "__main__":
    typer.run(main)
