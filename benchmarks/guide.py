"""What forgetting and switching do: every pace of forgetting, every delta, and a collapse, on the same experts.

``python benchmarks/guide.py --data DIR`` runs linear, Hilbert-space and Fourier experts of constant noise at many
paces of forgetting once over each data set and seed, and replays subsets of them. It writes ``results/guide.json``
after every run, goes on where it stopped, and renews the tables of docs/guide.md and its pictures; ``--page`` does
only that.
"""

import json
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import typer
from datasets import load
from default import weigh
from default_page import put
from scipy.special import logsumexp
from stacking import ROWS, WARMUP, by_basis, run_experts

from streamgp import StreamingGPRegressor, evaluate
from streamgp.models.spec import Spec
from streamgp.weights import BMA, WeightRule, share

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "guide.json"
PAGE = HERE.parent / "docs" / "guide.md"
IMAGES = HERE.parent / "docs" / "images"
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
    """PLL of each pace of forgetting by itself (weights by Bayes), and of static and moving copies by each delta."""
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
    """Mean log density of a mixture of experts, from theirs (n, K)."""
    with jax.enable_x64(True):
        log_weights = np.asarray(weigh(rule, jnp.asarray(log_density)))
    return float(logsumexp(log_weights + log_density, axis=1).mean())


def collapse(seed: int) -> dict[str, Any]:
    """A plane that stands still and then walks, by one static and one moving expert, under several rules."""
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


def dynamics_table(runs: dict[str, Any]) -> str:
    """PLL of static experts, and what each pace of forgetting adds; medians over the seeds."""
    lines = ["| data | seeds | " + " | ".join(DYNAMICS) + " |", "|---" * (2 + len(DYNAMICS)) + "|"]
    for name, of in runs.items():
        base = median(run["dynamics"]["static"] for run in of.values())
        gains = [median(r["dynamics"][d] - r["dynamics"]["static"] for r in of.values()) for d in DYNAMICS[1:]]
        lines.append(f"| {name} | {len(of)} | {base:.3f} | " + " | ".join(f"{gain:+.3f}" for gain in gains) + " |")
    return "\n".join(lines)


def delta_table(runs: dict[str, Any]) -> str:
    """PLL without switching (Bayes), and what each delta adds; medians over the seeds."""
    lines = [
        "| data | seeds | Bayes | " + " | ".join(f"{delta:g}" for delta in DELTAS[1:]) + " |",
        "|---" * (2 + len(DELTAS)) + "|",
    ]
    for name, of in runs.items():
        base = median(run["delta"]["0"] for run in of.values())
        gains = [median(run["delta"][f"{d:g}"] - run["delta"]["0"] for run in of.values()) for d in DELTAS[1:]]
        lines.append(f"| {name} | {len(of)} | {base:.3f} | " + " | ".join(f"{gain:+.3f}" for gain in gains) + " |")
    return "\n".join(lines)


def collapse_table(runs: dict[str, Any]) -> str:
    """PLL before and after the stream begins to move, and how long the static expert still leads."""
    lines = [
        "| rule | PLL while it stands | PLL while it moves | rows led by the static expert while it moves |",
        "|---|---|---|---|",
    ]
    for rule in COLLAPSE_RULES:
        of = [run[rule] for run in runs.values()]
        led = sorted(run["led_by_static"] for run in of)
        calm, storm = (median(run[part] for run in of) for part in ("calm", "storm"))
        lines.append(f"| {rule} | {calm:.3f} | {storm:.3f} | {median(led):,.0f} ({led[0]:,} to {led[-1]:,}) |")
    return "\n".join(lines)


def plot_dynamics(runs: dict[str, Any]) -> None:
    """What forgetting adds to the log density, against its pace."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, kind, paces in ((axes[0], "walk", WALKS), (axes[1], "revert", [1.0 - decay for decay in DECAYS])):
        names = [name for name in DYNAMICS if name.startswith(kind)]
        for i, (data, of) in enumerate(runs.items()):
            gains = [median(r["dynamics"][n] - r["dynamics"]["static"] for r in of.values()) for n in names]
            axis.plot(paces, gains, "o-" if data in MOVING else "s--", color=f"C{i}", label=data, markersize=4)
        axis.axhline(0.0, color="0.5", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("symlog", linthresh=0.1)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_xlabel("variance of the walk, Q")
    axes[1].set_xlabel("1 - LAMBDA of mean-reverting weights")
    axes[0].set_ylabel("log density a row over static experts, nats")
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(IMAGES / "dynamics.png", dpi=130)


def plot_collapse(runs: dict[str, Any]) -> None:
    """The weight of the moving expert along the constructed stream, of the first seed."""
    figure, axis = plt.subplots(figsize=(9, 3.4), layout="constrained")
    for rule in COLLAPSE_RULES:
        weight = runs["0"][rule]["weight"]
        axis.plot(np.arange(len(weight)) * 20, weight, label=rule, linewidth=1.3)
    axis.axvline(CALM, color="0.5", linewidth=0.8, linestyle="--")
    axis.annotate(
        "the plane begins to move", (CALM, 0.93), xytext=(-6, 0), textcoords="offset points", ha="right", fontsize=9
    )
    axis.set_xlabel("rows after the warm-up")
    axis.set_ylabel("weight of the moving expert")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(IMAGES / "collapse.png", dpi=130)


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join((*STATIC, *MOVING)),
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 3,
    page_only: Annotated[bool, typer.Option("--page", help="Only render docs/guide.md and its pictures.")] = False,
) -> None:
    """Run what is missing, replay, and write the page."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"collapse": {}, "sets": {}}
    for seed in [] if page_only else map(str, range(seeds)):
        if seed not in stored["collapse"]:
            stored["collapse"][seed] = collapse(int(seed))
            print("collapse", seed, {r: (s["calm"], s["storm"]) for r, s in stored["collapse"][seed].items()})
        for name in names.split(","):
            of = stored["sets"].setdefault(name, {})
            if seed not in of:
                of[seed] = scores(*load(name, data, ROWS), int(seed))
                print(name, seed, of[seed], flush=True)
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    text = PAGE.read_text()
    text = put(text, "dynamics", dynamics_table(stored["sets"]))
    text = put(text, "delta", delta_table(stored["sets"]))
    PAGE.write_text(put(text, "collapse", collapse_table(stored["collapse"])))
    plot_dynamics(stored["sets"])
    plot_collapse(stored["collapse"])


if __name__ == "__main__":
    typer.run(main)
