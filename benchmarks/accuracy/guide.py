"""The effect of forgetting and of switching: many paces of forgetting, many deltas, and a collapse.

``python -m benchmarks.accuracy.guide --data DIR`` runs linear, Hilbert-space and Fourier experts of constant noise at
many paces of forgetting once over each data set and seed, and replays subsets of them. It writes
``results/guide.json`` after every run and goes on where it stopped. ``python -m benchmarks.pages.guide`` renders the
tables of docs/research/guide.md and its pictures.
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
from streamgp import StreamingGPRegressor, evaluate
from streamgp.models.spec import Spec
from streamgp.weights import BMA, WeightRule, share

RESULTS = RESULTS_DIR / "guide.json"
STATIC = ("elevators_ucids", "kin40k", "cpusmall")
MOVING = ("cadata", "schunk_arm", "beijing_pm25", "sml2010_stream")
WALKS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
DECAYS = (0.9999, 0.999, 0.99, 0.95, 0.9)
DELTAS = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2)
DYNAMICS = ("static", *(f"walk {q:g}" for q in WALKS), *(f"revert {decay:g}" for decay in DECAYS))
SPEC = Spec("guide", bases=("linear", "hilbert", "fourier"), features_per_basis=100, dynamics=DYNAMICS)
COLLAPSE_RULES = ("bma", "bma-shutdown", "e-doebe", "auto")
CALM, STORM = 4_000, 4_000  # rows of the constructed stream, after the warm-up, before and after it begins to move


def scores(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, dict[str, float]]:
    """Score each pace of forgetting by itself (PLL, weights by Bayes), and of static and moving copies by delta."""
    log_density, _, experts = run_experts(SPEC, X, y, seed)
    found: dict[str, dict[str, float]] = {"dynamics": {}, "delta": {}}
    for name in DYNAMICS:
        chosen = [i for i, expert in enumerate(experts) if expert.dynamics == name]
        found["dynamics"][name] = pll(BMA(), log_density[:, chosen])
    chosen = [i for i, expert in enumerate(experts) if expert.dynamics in ("static", "walk 0.001")]
    groups = by_basis([experts[i] for i in chosen])
    for delta in DELTAS:
        found["delta"][f"{delta:g}"] = pll(share(groups, delta), log_density[:, chosen])
    return found


def pll(rule: WeightRule, log_density: np.ndarray) -> float:
    """Return the mean log density of a mixture of experts, from theirs (n, K)."""
    with jax.enable_x64(True):
        log_weights = np.asarray(weigh(rule, jnp.asarray(log_density)))
    return float(logsumexp(log_weights + log_density, axis=1).mean())


def collapse(seed: int) -> dict[str, Any]:
    """Run a plane that stands still and then walks, by one static and one moving expert, under several rules."""
    rng = np.random.default_rng(seed)
    n = WARMUP + CALM + STORM
    X = rng.normal(size=(n, 5))
    steps = np.where(np.arange(n) < WARMUP + CALM, 0.0, 0.02)[:, None] * rng.normal(size=(n, 5))
    y = np.einsum("nd,nd->n", X, rng.normal(size=5) + np.cumsum(steps, axis=0)) + 0.3 * rng.normal(size=n)
    found = {}
    for rule in COLLAPSE_RULES:
        model = StreamingGPRegressor(
            "linear", dynamics=("static", "walk 0.001"), weights=rule, warmup=WARMUP, random_state=seed
        )
        result = evaluate(model, X, y, progress=False)
        moving = np.asarray([expert["dynamics"] != "static" for expert in model.experts_])
        weight = result.weights[WARMUP:, moving].sum(1)
        found[rule] = {
            "calm": float(result.log_density[WARMUP : WARMUP + CALM].mean()),
            "storm": float(result.log_density[WARMUP + CALM :].mean()),
            "led_by_static": int(np.sum(weight[CALM:] < 0.5)),
            "weight": [float(f"{w:.4g}") for w in weight[::20]],
        }
    return found


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join((*STATIC, *MOVING)),
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 3,
) -> None:
    """Run what is missing, and replay."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"collapse": {}, "sets": {}}
    for seed in map(str, range(seeds)):
        if seed not in stored["collapse"]:
            stored["collapse"][seed] = collapse(int(seed))
            print("collapse", seed, {r: (s["calm"], s["storm"]) for r, s in stored["collapse"][seed].items()})
        for name in names.split(","):
            of = stored["sets"].setdefault(name, {})
            if seed not in of:
                of[seed] = scores(*load(name, data, ROWS), int(seed))
                print(name, seed, of[seed], flush=True)
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
