"""Changes that are no glitches: how soon the default follows them, with its guard and without.

``python -m benchmarks.robustness.jumps`` lets the level, the function or the noise of generated streams jump, writes
``results/jumps.json`` and prints the table of docs/research/robustness.md. Counted are the rows after the jump until
the root mean squared error of 20 rows is within 1.5 times of its final value, and the density of the first 100.
"""

import copy
import json
from typing import Annotated

import jax
import numpy as np
import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

RESULTS = RESULTS_DIR / "jumps.json"
WARMUP, JUMP, ROWS = 1_000, 1_500, 3_000
WINDOW, NEAR, FIRST = 20, 1.5, 100
NOISE = 0.1


def stream(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets; all kinds are the same up to the jump."""
    rng = np.random.default_rng(seed)
    X, noise = rng.uniform(-2, 2, (ROWS, 2)), NOISE * rng.normal(size=ROWS)
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    late = np.arange(ROWS) >= JUMP
    size = {"level, 10 sd of the noise": 10 * NOISE, "level, 10 sd of the target": 10 * f.std()}.get(kind, 0.0)
    if kind == "function":
        f = np.where(late, np.cos(3 * X[:, 1]) - X[:, 0], f)
    return X, f + size * late + noise * np.where(late & (kind == "noise, four times"), 4.0, 1.0)


KINDS = ("level, 10 sd of the noise", "level, 10 sd of the target", "function", "noise, four times")


def followed(learner: StreamLearner, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Score a learner that stands before the jump on the rows after it."""
    means, densities, at = [], [], JUMP
    for info in learner.learn(X[JUMP:], y[JUMP:, None]):
        p = info.predictive
        with jax.enable_x64(True):
            densities.append(np.asarray(p.log_density(y[at : at + len(p.loc), None])))
        means.append(p.mean[:, 0])
        at += len(p.loc)
    squares = np.square(np.concatenate(means) - y[JUMP:])
    windows = np.sqrt(np.convolve(squares, np.ones(WINDOW) / WINDOW, mode="valid"))
    final = np.sqrt(squares[-500:].mean())
    return {
        "rows": int(np.argmax(windows <= NEAR * final)),
        "log_density": float(np.concatenate(densities)[:FIRST].mean()),
        "rmse_first": float(np.sqrt(squares[:FIRST].mean())),
    }


def main(seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 5) -> None:
    """Run, store and print the table."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {kind: {"robust": [], "plain": []} for kind in KINDS}
    for seed in range(seeds):
        for model in ("robust", "plain"):
            spec = make_spec("default", robust=model == "robust")
            learner = StreamLearner(StreamSettings(spec, num_inputs=2, warmup=WARMUP, seed=seed))
            X, y = stream(KINDS[0], seed)
            list(learner.learn(X[:JUMP], y[:JUMP, None]))
            for kind in KINDS:
                found[kind][model].append(followed(copy.deepcopy(learner), *stream(kind, seed)))
                print(seed, model, kind, found[kind][model][-1], flush=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "jumps": found}, indent=1) + "\n")
    print("\n| jump | rows with the guard | without | log density of 100 rows with | without |\n" + "|---" * 5 + "|")
    for kind, models in found.items():
        cells = [
            f"{np.median([r[what] for r in models[model]]):.{digits}f}"
            for what, digits in (("rows", 0), ("log_density", 2))
            for model in ("robust", "plain")
        ]
        print(f"| {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    typer.run(main)
