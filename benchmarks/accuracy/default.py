"""The choice of the default model: the gain of each of its parts, in accuracy and in time.

``python -m benchmarks.accuracy.default --data DIR`` runs a wide ensemble, the default's parts and more, over each
data set and seed, and replays on the experts' predictions what subsets of them would have made of the stream. A
replay is what a run of that subset would give, since experts never see each other, but for the draws of the features.
It writes ``results/default.json`` after every run and goes on where it stopped. ``--seconds`` measures the time that
each candidate takes on one set, by runs of its own. ``python -m benchmarks.pages.default`` renders
docs/research/default.md.

The parts were chosen on the sets of `CHOOSING`; those of `APART` were first run when the choice was made.
"""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from scipy.special import logsumexp

from benchmarks.common.datasets import APART, CHOOSING, load
from benchmarks.common.paths import RESULTS_DIR
from benchmarks.common.replay import ROWS, WARMUP, weigh
from streamgp.models.presets import PRESETS
from streamgp.models.spec import Spec
from streamgp.numerics import student_t
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streamgp.weights import Mixture, WeightRule, auto

RESULTS = RESULTS_DIR / "default.json"
DEFAULT = PRESETS["default"]
_MORE_DYNAMICS = ("walk 1e-05", "walk 0.01", "revert 0.9")
_MORE_NOISE = ("adaptive 1.0", "adaptive 0.9")
WIDE = replace(
    DEFAULT,
    model="wide",
    bases=(*DEFAULT.bases, "nystrom"),
    dynamics=(*DEFAULT.dynamics, *_MORE_DYNAMICS),
    noise=(*DEFAULT.noise, *_MORE_NOISE),
    rule="bma",
    most_features=None,
)
_TWO = auto([0, 0])
assert isinstance(_TWO, Mixture)
RULES = _TWO.names
_PLAIN = tuple(kind for kind in DEFAULT.noise if " ar " not in kind)


def _without(part: str) -> Spec:
    return replace(DEFAULT, bases=tuple(family for family in DEFAULT.bases if family != part))


CANDIDATES: dict[str, Spec] = {
    "default": DEFAULT,
    **{f"without {family}": _without(family) for family in DEFAULT.bases},
    "with nystrom alone too": replace(DEFAULT, bases=WIDE.bases),
    "one start of each basis": replace(DEFAULT, most_features=1),
    "all starts of each basis": replace(DEFAULT, most_features=None),
    "static only": replace(DEFAULT, dynamics=("static",)),
    "no mean-reverting": replace(DEFAULT, dynamics=("static", "walk 1e-05", "walk 0.001", "walk 0.01", "walk 0.1")),
    "no walks": replace(DEFAULT, dynamics=("static", "revert 0.999", "revert 0.99", "revert 0.95", "revert 0.9")),
    "nine dynamics": replace(DEFAULT, dynamics=WIDE.dynamics),
    "constant noise only": replace(DEFAULT, noise=("constant",)),
    "noise adapts slowly (1, .99, .9)": replace(DEFAULT, noise=("adaptive 1.0", "adaptive 0.99", "adaptive 0.9")),
    "errors never correlated": replace(DEFAULT, noise=_PLAIN),
    "seven kinds of noise": replace(DEFAULT, noise=WIDE.noise),
    # The rules that auto mixes, each by itself.
    **{rule: replace(DEFAULT, rule=rule) for rule in RULES},
    "auto, share 0.003": replace(DEFAULT, rule="auto 0.003"),
    "auto without share": replace(DEFAULT, rule="auto 0"),
}


def run_wide(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[list[Any], dict[str, np.ndarray]]:
    """Return the experts of the wide model, and for every scored row and expert: mean, log density and PIT."""
    learner = StreamLearner(StreamSettings(WIDE, num_inputs=X.shape[1], warmup=WARMUP, seed=seed))
    parts: dict[str, list[np.ndarray]] = {"mean": [], "log_density": [], "pit": []}
    list(learner.learn(X[:WARMUP], y[:WARMUP, None]))
    centre, scale = y[:WARMUP].mean(), y[:WARMUP].std()
    at = WARMUP
    for info in learner.learn(X[WARMUP:], y[WARMUP:, None]):
        p = info.predictive
        target = y[at : at + len(p.loc)]
        at += len(p.loc)
        dof = np.asarray(p.dof)
        z = (target[:, None] - p.loc[:, :, 0]) / np.sqrt(student_t.squared_scale(p.var[:, :, 0], dof))
        with jax.enable_x64(True):
            log_density = np.asarray(p.component_log_density(jnp.asarray(target[:, None]))) + np.log(scale)
            pit = np.asarray(student_t.cdf(jnp.asarray(z), jnp.asarray(dof)))
        for name, value in (("mean", (p.loc[:, :, 0] - centre) / scale), ("log_density", log_density), ("pit", pit)):
            parts[name].append(value)
    return learner.experts, {name: np.concatenate(values) for name, values in parts.items()}


def members(spec: Spec, experts: list[Any]) -> np.ndarray:
    """Return which of the wide model's experts a candidate has."""
    starts: dict[str, dict[str, Any]] = {}
    for expert in experts:
        starts.setdefault(expert.basis.split()[0], {})[expert.basis] = expert
    kept = set()
    for family in spec.bases:
        ranked = sorted(starts.get(family, {}).values(), key=lambda e: -e.gain)
        kept |= {e.basis for e in ranked[: spec.starts_kept([e.features for e in ranked])]}
    chosen = [
        i for i, e in enumerate(experts) if e.basis in kept and e.dynamics in spec.dynamics and e.noise in spec.noise
    ]
    return np.asarray(chosen)


def make_rule(name: str, groups: list[int]) -> Mixture | WeightRule:
    """Make ``auto``, that with another share, or one of the rules that it mixes."""
    rule = auto(groups)
    assert isinstance(rule, Mixture)
    if name in rule.names:
        return rule.rules[rule.names.index(name)]
    return Mixture(rule.rules, rule.names, float(name.split()[1])) if name.startswith("auto ") else rule


def replay(spec: Spec, experts: list[Any], recorded: dict[str, np.ndarray], y: np.ndarray) -> dict[str, float]:
    """Score a candidate; `y` are the scored targets, standardised."""
    chosen = members(spec, experts)
    labels = list(dict.fromkeys(experts[i].basis for i in chosen))
    groups = [labels.index(experts[i].basis) for i in chosen]
    log_density = recorded["log_density"][:, chosen]
    with jax.enable_x64(True):
        log_weights = np.asarray(weigh(make_rule(spec.rule, groups), jnp.asarray(log_density)))
    weights = np.exp(log_weights)
    error = (weights * recorded["mean"][:, chosen]).sum(1) - y
    pit = (weights * recorded["pit"][:, chosen]).sum(1)
    return {
        "nmse": float(np.mean(error**2) / np.var(y)),
        "pll": float(logsumexp(log_weights + log_density, axis=1).mean()),
        "coverage_95": float(np.mean(np.abs(pit - 0.5) < 0.475)),
        "filters": len({(experts[i].basis, experts[i].dynamics) for i in chosen}),
        "experts": len(chosen),
    }


def seconds(spec: Spec, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Time a candidate's own run, everything compiled: the fit, and the stream after it; the better of two."""
    found = []
    for _ in range(3):
        learner = StreamLearner(StreamSettings(spec, num_inputs=X.shape[1], warmup=WARMUP, seed=0))
        start = time.perf_counter()
        list(learner.learn(X[:WARMUP], y[:WARMUP, None]))
        fitted = time.perf_counter()
        list(learner.learn(X[WARMUP:], y[WARMUP:, None]))
        found.append((fitted - start, time.perf_counter() - fitted))
    warmup, stream = np.min(found[1:], axis=0)
    return {"warmup": float(warmup), "stream": float(stream), "rows": len(X) - WARMUP}


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join((*CHOOSING, *APART)),
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 5,
    time_on: Annotated[str, typer.Option("--seconds", help="Measure seconds on this set instead.")] = "",
) -> None:
    """Run what is missing and replay, or time the candidates."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}, "seconds": {}}
    if time_on:
        X, y = load(time_on, data, ROWS)
        for candidate, spec in CANDIDATES.items():
            if spec.rule == "auto":
                stored["seconds"][candidate] = seconds(spec, X, y) | {"data": time_on}
                print(candidate, stored["seconds"][candidate], flush=True)
    else:
        for seed in range(seeds):
            for name in names.split(","):
                of = stored["runs"].setdefault(name, {})
                if str(seed) in of:
                    continue
                X, y = load(name, data, ROWS)
                experts, recorded = run_wide(X, y, seed)
                scored = (y[WARMUP:] - y[:WARMUP].mean()) / y[:WARMUP].std()
                of[str(seed)] = {c: replay(spec, experts, recorded, scored) for c, spec in CANDIDATES.items()}
                print(name, seed, of[str(seed)]["default"], flush=True)
                RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
