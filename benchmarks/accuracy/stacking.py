"""A comparison of all weight rules on the same experts' predictions of the same streams.

``python -m benchmarks.accuracy.stacking --data DIR`` runs the experts of a preset once over each data set and seed,
and replays all rules on the log densities that they gave to the targets: experts never see the weights. ``--experts``
names the presets. It writes ``results/stacking.json`` after every run and goes on where it stopped; ``python -m
benchmarks.pages.weights`` renders the tables of docs/research/weights.md.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from scipy.special import logsumexp

from benchmarks.common.datasets import load
from benchmarks.common.paths import RESULTS_DIR
from benchmarks.common.replay import ROWS, WARMUP, by_basis, run_experts, weigh
from streamgp.models.presets import PRESETS
from streamgp.models.spec import Spec
from streamgp.weights.by_name import make_rule

RESULTS = RESULTS_DIR / "stacking.json"
MOVING = ("schunk_arm", "beijing_pm25", "sml2010_stream", "household_power_hourly", "appliances_energy", "cadata")
STATIC = ("elevators_ucids", "cpusmall", "wine_white", "abalone")
STACKING = ("soft-bayes", "stacking", "stacking-share", "stacking-newton")
RULES = ("bma", "auto", "switching", "e-doebe", "dma", *STACKING)
NEWTON_EXPERTS = 100  # a row of the Newton step costs the cube of their number


def replay(spec: Spec, log_density: np.ndarray, mean: np.ndarray, groups: list[int], y: np.ndarray) -> dict[str, Any]:
    """Return PLL and nMSE of the experts' mixture by every rule, from equal weights; `y` are the targets."""
    scores = {}
    for name in RULES:
        if name == "stacking-newton" and len(groups) > NEWTON_EXPERTS:
            continue
        with jax.enable_x64(True):
            rule = make_rule(name, groups, delta=spec.delta, share_rate=spec.share, switch=spec.switch)
            log_weights = np.asarray(weigh(rule, jnp.asarray(log_density)))
        error = (np.exp(log_weights) * mean).sum(1) - y
        pll = float(np.mean(logsumexp(log_weights + log_density, axis=1)))
        scores[name] = {"pll": pll, "nmse": float(np.mean(error**2) / np.var(y))}
    return {"experts": len(groups), "rules": scores}


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join((*MOVING, *STATIC)),
    experts: Annotated[str, typer.Option(help="Presets whose experts are weighed, with commas.")] = "e-doebe,default",
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 10,
) -> None:
    """Run what is missing, and replay."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    wanted = [
        (seed, preset, name) for seed in range(seeds) for preset in experts.split(",") for name in names.split(",")
    ]
    for seed, preset, name in wanted:
        of = stored.setdefault(preset, {}).setdefault(name, {})
        if str(seed) in of:
            continue
        X, y = load(name, data, ROWS)
        log_density, mean, fitted = run_experts(PRESETS[preset], X, y, seed)
        scored = (y[WARMUP:] - y[:WARMUP].mean()) / y[:WARMUP].std()
        of[str(seed)] = replay(PRESETS[preset], log_density, mean, by_basis(fitted), scored)
        print(
            preset, name, seed, {rule: round(s["pll"], 3) for rule, s in of[str(seed)]["rules"].items()}, flush=True
        )
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
