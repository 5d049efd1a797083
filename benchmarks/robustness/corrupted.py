"""Corrupted streams: the loss of accuracy on clean rows by glitches, faults of sensors and disorder.

``python -m benchmarks.robustness.corrupted --data DIR`` spoils streams after (or in) the warm-up and runs the default
model over them, with and without ``robust``, and what others offer: river's adaptive random forest and Bayesian
linear regression, LightGBM refitted every 500 rows, and persistence. Where a name ends in ``+lags`` all have the past
targets as inputs that the default chooses, spoilt ones too. It writes ``results/corrupted.json`` after every
run and goes on where it stopped. It needs `river` and `lightgbm` besides what streamgp itself needs.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import jax
import numpy as np
import typer

from benchmarks.common.baselines import (
    WARMUP,
    Column,
    Rows,
    lightgbm_refitted,
    persistence,
    river_arf,
    river_bayesian_linear,
    standardise,
    with_chosen_lags,
)
from benchmarks.common.datasets import load
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

RESULTS = RESULTS_DIR / "corrupted.json"
ROWS = 5_000
FROM, LONG = 2_000, 500  # the stretch of what lasts
LAGS = "+lags"
SETS = ("sine", "elevators_ucids", "cpusmall", "cadata", "kin40k", "schunk_arm", "beijing_pm25")
SETS += ("schunk_arm" + LAGS, "beijing_pm25" + LAGS)


class Spoilt(NamedTuple):
    """A stream as it is given; of its rows those that count, and their true targets (NaN is not given)."""

    X: Rows
    y: Column
    clean: np.ndarray
    truth: Column


def stream(name: str, data: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a data set, or the generated sine."""
    if name != "sine":
        return load(name.removesuffix(LAGS), data, ROWS)
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (ROWS, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=ROWS)


def targets(value: Callable[[Column, float, float, np.ndarray], Column | float], share: float):
    """Spoil that share of the targets after the warm-up, from them, their mean and deviation, and random signs."""

    def corrupt(X: Rows, y: Column, seed: int) -> Spoilt:
        rng = np.random.default_rng([seed, 1])
        spoilt = (rng.random(len(y)) < share) & (np.arange(len(y)) >= WARMUP)
        sign = rng.choice([-1.0, 1.0], len(y))
        given = np.where(spoilt, value(y, float(y[:WARMUP].mean()), float(y[:WARMUP].std()), sign), y)
        return Spoilt(X, given, ~spoilt, y)

    return corrupt


def inputs(share: float, sds: float, also_targets: bool = False):
    """Spoil that share of the input cells after the warm-up, and of the targets if so; rows with one do not count."""

    def corrupt(X: Rows, y: Column, seed: int) -> Spoilt:
        rng = np.random.default_rng([seed, 2])
        late = np.arange(len(y)) >= WARMUP
        cells = (rng.random(X.shape) < share) & late[:, None]
        given = np.where(cells, X + sds * X[:WARMUP].std(0) * rng.choice([-1.0, 1.0], X.shape), X)
        spoilt = (rng.random(len(y)) < share) & late & also_targets
        return Spoilt(given, np.where(spoilt, y + sds * y[:WARMUP].std(), y), ~(cells.any(1) | spoilt), y)

    return corrupt


def sensor(value: Callable[[Column], Column | float]):
    """Spoil, for `LONG` rows, the input that goes best with the target; the rows after that count."""

    def corrupt(X: Rows, y: Column, seed: int) -> Spoilt:
        with np.errstate(invalid="ignore"):
            related = np.nan_to_num(np.abs([np.corrcoef(x[:WARMUP], y[:WARMUP])[0, 1] for x in X.T]))
        given, rows = X.copy(), slice(FROM, FROM + LONG)
        given[rows, related.argmax()] = value(X[rows, related.argmax()])
        clean = np.ones(len(y), bool)
        clean[rows] = False
        return Spoilt(given, y, clean, y)

    return corrupt


def order(of: Callable[[np.ndarray, np.random.Generator], np.ndarray]):
    """Reorder the rows of a segment, or repeat them; all count once."""

    def corrupt(X: Rows, y: Column, seed: int) -> Spoilt:
        rows = np.arange(len(y))
        stretch = of(rows[FROM : FROM + LONG], np.random.default_rng([seed, 3]))
        rows = np.concatenate([rows[:FROM], stretch, rows[FROM + LONG :]])
        clean = np.isin(np.arange(len(rows)), np.unique(rows, return_index=True)[1])
        return Spoilt(X[rows], y[rows], clean, y[rows])

    return corrupt


def in_warmup(share: float, sds: float):
    """Spoil targets of the warm-up (one at the least); rows from 500 after it on count."""

    def corrupt(X: Rows, y: Column, seed: int) -> Spoilt:
        rng = np.random.default_rng([seed, 4])
        given = y.copy()
        given[rng.choice(WARMUP, max(1, round(share * WARMUP)), replace=False)] += sds * y[:WARMUP].std()
        return Spoilt(X, given, np.arange(len(y)) >= WARMUP + 500, y)

    return corrupt


CORRUPTIONS = {
    "clean": targets(lambda y, mean, sd, sign: y, 0.0),
    "10 sd, 1%": targets(lambda y, mean, sd, sign: y + 10 * sd * sign, 0.01),
    "100 sd, 0.2%": targets(lambda y, mean, sd, sign: y + 100 * sd * sign, 0.002),
    "100 sd, 1%": targets(lambda y, mean, sd, sign: y + 100 * sd * sign, 0.01),
    "100 sd, 5%": targets(lambda y, mean, sd, sign: y + 100 * sd * sign, 0.05),
    "stuck, 5%": targets(lambda y, mean, sd, sign: mean - 3 * sd, 0.05),
    "sign flip, 5%": targets(lambda y, mean, sd, sign: 2 * mean - y, 0.05),
    "1,000 times, 1%": targets(lambda y, mean, sd, sign: 1_000 * y, 0.01),
    "not given, 5%": targets(lambda y, mean, sd, sign: np.nan, 0.05),
    "inputs 100 sd, 0.2%": inputs(0.002, 100.0),
    "both 100 sd, 0.2%": inputs(0.002, 100.0, also_targets=True),
    "clean, without 500 rows": sensor(lambda x: x),
    "sensor stuck": sensor(lambda x: x[0]),
    "sensor dropped": sensor(lambda x: np.nan),
    "rows twice": order(lambda rows, rng: np.repeat(rows, 2)),
    "rows shuffled": order(lambda rows, rng: rng.permutation(rows)),
    "clean, later": in_warmup(0.0, 0.0),
    "one 1,000 sd in the warm-up": in_warmup(0.0, 1_000.0),
    "5% 100 sd in the warm-up": in_warmup(0.05, 100.0),
}
FOR_ALL = ("clean", "10 sd, 1%", "100 sd, 1%", "stuck, 5%")  # those that the others are run on


OTHERS = {
    "river ARF": river_arf,
    "river Bayesian linear": river_bayesian_linear,
    "LightGBM refitted": lightgbm_refitted,
    "persistence": persistence,
}


def scores(learner: StreamLearner, spoilt: Spoilt) -> dict:
    """Return scores of the rows that count after the warm-up, from a learner that has just been warmed up."""
    X, y, clean, truth = (a[WARMUP:] for a in spoilt)
    means, stds, pits, at = [], [], [], 0
    for info in learner.learn(X, y[:, None]):
        p, n = info.predictive, len(info.predictive.loc)
        with jax.enable_x64(True):
            pits.append(np.asarray(p.cdf(truth[at : at + n, None]))[:, 0])
        means.append(p.mean[:, 0])
        stds.append(p.std[:, 0])
        at += n
    mean, std, pit = (np.concatenate(a)[clean] for a in (means, stds, pits))
    error = mean - truth[clean]
    return {
        "nmse": float(np.mean(error**2) / truth.var()),
        "error_over_std": float(np.mean(error**2) / np.mean(std**2)),
        "coverage": {str(level): float(np.mean(np.abs(pit - 0.5) < level / 200)) for level in (50, 90, 95)},
        "flagged": learner.state.flagged_rows,
        "spoilt": int((~clean).sum()),
    }


def other(name: str, model: str, spoilt: Spoilt, seed: int) -> dict:
    """Return the nMSE of another model on the rows that count."""
    y, shift, scale = standardise(spoilt.y)
    X = with_chosen_lags(spoilt.X, spoilt.y)[0] if name.endswith(LAGS) else spoilt.X
    mean = OTHERS[model](standardise(X)[0], y, seed)[0]
    error = (shift + scale * mean - spoilt.truth)[WARMUP:][spoilt.clean[WARMUP:]]
    return {"nmse": float(np.mean(error**2) / spoilt.truth[WARMUP:].var())}


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(SETS),
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 1,
    table_only: Annotated[bool, typer.Option("--table", help="Only print the table.")] = False,
) -> None:
    """Run, store and print a table."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"machine": machine(), "runs": {}}

    def keep(name: str, model: str, kind: str, seed: int, found: dict) -> None:
        stored["runs"].setdefault(name, {}).setdefault(model, {}).setdefault(kind, {})[str(seed)] = found
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
        print(f"{name}, {model}, {kind}: {found}", flush=True)

    def done(name: str, model: str, kind: str, seed: int) -> bool:
        return str(seed) in stored["runs"].get(name, {}).get(model, {}).get(kind, {})

    for seed in range(0 if table_only else seeds):
        for name in names.split(","):
            X, y = stream(name, data, seed)
            for model in ("robust", "plain"):
                kinds = CORRUPTIONS if model == "robust" else FOR_ALL
                left = [kind for kind in kinds if not done(name, model, kind, seed)]
                warm: StreamLearner | None = None  # a clean warm-up serves all that is spoilt after it
                for kind in left:
                    spoilt = CORRUPTIONS[kind](X, y, seed)
                    if warm is None or "warm-up" in kind:
                        lags = "auto" if name.endswith(LAGS) else ()
                        spec = make_spec("default", robust=model == "robust", lags=lags)
                        warm = StreamLearner(StreamSettings(spec, num_inputs=X.shape[1], warmup=WARMUP, seed=seed))
                        list(warm.learn(spoilt.X[:WARMUP], spoilt.y[:WARMUP, None]))
                    keep(name, model, kind, seed, scores(copy.deepcopy(warm), spoilt))
            for model in OTHERS:
                for kind in FOR_ALL:
                    if not done(name, model, kind, seed):
                        keep(name, model, kind, seed, other(name, model, CORRUPTIONS[kind](X, y, seed), seed))
    print_tables(stored["runs"])


def print_tables(runs: dict) -> None:
    """Print nMSE of the rows that count, medians over seeds: of all models, and of the default against clean rows."""

    def nmse(name: str, model: str, kind: str) -> float:
        found = runs.get(name, {}).get(model, {}).get(kind, {})
        return float(np.median([run["nmse"] for run in found.values()])) if found else np.nan

    print("| data | | " + " | ".join(FOR_ALL) + " |\n" + "|---" * (len(FOR_ALL) + 2) + "|")
    for name, models in runs.items():
        for model in models:
            print(f"| {name} | {model} | " + " | ".join(f"{nmse(name, model, kind):.3g}" for kind in FOR_ALL) + " |")
    print("\n| spoilt | " + " | ".join(runs) + " |\n" + "|---" * (len(runs) + 1) + "|")
    for kind in CORRUPTIONS:
        if not kind.startswith("clean"):
            clean = "clean, later" if "warm-up" in kind else "clean"
            clean = "clean, without 500 rows" if "sensor" in kind else clean  # the same rows count
            cells = [f"{nmse(name, 'robust', kind) / nmse(name, 'robust', clean):.3f}" for name in runs]
            print(f"| {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    typer.run(main)
