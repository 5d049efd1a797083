"""Which weight rule: every rule that a name chooses, on the same experts' predictions of the same streams.

``python benchmarks/stacking.py --data DIR`` runs the experts of a preset once over each data set and seed, and
replays all rules on the log densities that they gave to the targets: experts never see the weights. ``--experts``
names the presets. It writes ``results/stacking.json`` after every run, goes on where it stopped, and renews the
tables of docs/weights.md; ``--page`` does only that.
"""

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from datasets import load
from default import weigh
from default_page import put
from scipy.special import logsumexp
from scipy.stats import wilcoxon

from streamgp.models.base import FittedExpert
from streamgp.models.registry import PRESETS
from streamgp.models.spec import Spec
from streamgp.stream.learner import StreamLearner

RESULTS = Path(__file__).parent / "results" / "stacking.json"
PAGE = Path(__file__).parent.parent / "docs" / "weights.md"
WARMUP, ROWS = 1_000, 10_000
MOVING = ("schunk_arm", "beijing_pm25", "sml2010_stream", "household_power_hourly", "appliances_energy", "cadata")
STATIC = ("elevators_ucids", "cpusmall", "wine_white", "abalone")
STACKING = ("soft-bayes", "stacking", "stacking-share", "stacking-newton")
RULES = ("bma", "auto", "switching", "e-doebe", "dma", *STACKING)
NEWTON_EXPERTS = 100  # a row of the Newton step costs the cube of their number


def run_experts(
    spec: Spec, X: np.ndarray, y: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, list[FittedExpert]]:
    """Log density and mean of every expert for every scored row (n, K), y standardised, and the experts."""
    learner = StreamLearner(spec, num_inputs=X.shape[1], warmup=WARMUP, seed=seed)
    list(learner.learn(X[:WARMUP], y[:WARMUP, None]))
    centre, scale = y[:WARMUP].mean(), y[:WARMUP].std()
    log_density, mean, at = [], [], WARMUP
    for info in learner.learn(X[WARMUP:], y[WARMUP:, None]):
        p = info.predictive
        target = y[at : at + len(p.loc), None]
        at += len(target)
        with jax.enable_x64(True):
            log_density.append(np.asarray(p.component_log_density(jnp.asarray(target))) + np.log(scale))
        mean.append((np.asarray(p.loc)[:, :, 0] - centre) / scale)
    return np.concatenate(log_density), np.concatenate(mean), learner.experts


def by_basis(experts: list[FittedExpert]) -> list[int]:
    """The number of each expert's basis."""
    bases = list(dict.fromkeys(expert.basis for expert in experts))
    return [bases.index(expert.basis) for expert in experts]


def replay(spec: Spec, log_density: np.ndarray, mean: np.ndarray, groups: list[int], y: np.ndarray) -> dict[str, Any]:
    """Mean log density and nMSE of the experts' mixture by every rule, from equal weights; `y` are the targets."""
    scores = {}
    for name in RULES:
        if name == "stacking-newton" and len(groups) > NEWTON_EXPERTS:
            continue
        with jax.enable_x64(True):
            log_weights = np.asarray(weigh(replace(spec, rule=name).make_rule(groups), jnp.asarray(log_density)))
        error = (np.exp(log_weights) * mean).sum(1) - y
        pll = float(np.mean(logsumexp(log_weights + log_density, axis=1)))
        scores[name] = {"pll": pll, "nmse": float(np.mean(error**2) / np.var(y))}
    return {"experts": len(groups), "rules": scores}


def gains(of: dict[str, Any], rule: str, over: str) -> list[float]:
    """Of each seed, how much more log density a rule gave to the targets of a set than another."""
    return [run["rules"][rule]["pll"] - run["rules"][over]["pll"] for run in of.values()]


def table(runs: dict[str, Any]) -> str:
    """Of each set the PLL of BMA and what each rule adds: medians over the seeds and, in brackets, their range."""
    rules = [rule for rule in RULES[1:] if all(rule in run["rules"] for of in runs.values() for run in of.values())]
    lines = [f"| data | seeds | experts | bma | {' | '.join(rules)} |", "|---" * (4 + len(rules)) + "|"]
    for name in (*MOVING, *STATIC):
        if of := runs.get(name):
            experts = sorted({run["experts"] for run in of.values()})
            number = f"{experts[0]}" if len(experts) == 1 else f"{experts[0]} to {experts[-1]}"
            kind = "moving" if name in MOVING else "static"
            base = median(run["rules"]["bma"]["pll"] for run in of.values())
            cells = []
            for rule in rules:
                gain = gains(of, rule, "bma")
                cells.append(f"{median(gain):+.3f} ({min(gain):+.3f} to {max(gain):+.3f})")
            lines.append(f"| {name} ({kind}) | {len(of)} | {number} | {base:.3f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n" + tests(runs, rules)


def tests(runs: dict[str, Any], rules: list[str]) -> str:
    """Two-sided Wilcoxon signed-rank tests of each rule against BMA and against ``auto``.

    Paired by seed within a set, and over the sets by their medians.
    """
    lines = ["| rule | better / worse than bma, sets | over the sets, p | better / worse than auto, sets | p |"]
    lines.append("|---" * 5 + "|")
    for rule in rules:
        cells = []
        for rival in ("bma", "auto"):
            if rule == rival:
                cells += ["", ""]
                continue
            each = [gains(of, rule, rival) for of in runs.values()]
            sure = [np.sign(median(gain)) for gain in each if p_value(gain) < 0.05]
            cells.append(f"{sum(s > 0 for s in sure)} / {sum(s < 0 for s in sure)} of {len(each)}")
            cells.append(f"{p_value([median(gain) for gain in each]):.2g}")
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return "\n".join(lines)


def p_value(gain: list[float]) -> float:
    """That of the signed-rank test; 1 where all are equal."""
    return float(np.asarray(wilcoxon(gain))[1]) if np.any(gain) else 1.0


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join((*MOVING, *STATIC)),
    experts: Annotated[str, typer.Option(help="Presets whose experts are weighed, with commas.")] = "e-doebe,default",
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 10,
    page_only: Annotated[bool, typer.Option("--page", help="Only render docs/weights.md.")] = False,
) -> None:
    """Run what is missing, replay, and write the page."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    wanted = [
        (seed, preset, name) for seed in range(seeds) for preset in experts.split(",") for name in names.split(",")
    ]
    for seed, preset, name in [] if page_only else wanted:
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
    text = PAGE.read_text()
    for preset, runs in stored.items():
        text = put(text, f"rules on {preset}", table(runs))
    PAGE.write_text(text)


if __name__ == "__main__":
    typer.run(main)
