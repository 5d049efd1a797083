"""Noise that follows the inputs: bands by kind of row, with it and without, on tables and on constructed noises.

``python -m benchmarks.accuracy.noise_by_input --data DIR`` runs `fast` on every ``jmlr_*.parquet`` in the directory
and on the sixteen sets of docs/research/default.md, writes ``results/noise_by_input.json`` after every run and goes
on where it stopped. Of the tables, every second one by name was looked at when the layer was chosen; of the sixteen
sets those of `benchmarks.common.datasets.CHOOSING`.
"""

import json
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl
import typer
from scipy.stats import norm

from benchmarks.common.datasets import CHOOSING, TABLES, load
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate
from streamgp.evaluation.metrics import interval_score

RESULTS = RESULTS_DIR / "noise_by_input.json"
WARMUP, ROWS = 1_000, 6_000


def fifths(held: np.ndarray, key: np.ndarray) -> list[float]:
    """Return the share of rows held in each fifth of them by a key, rising."""
    place = np.argsort(np.argsort(key, kind="stable")) * 5 // len(key)
    return [round(float(held[place == i].mean()), 4) for i in range(5)]


def run(X: np.ndarray, y: np.ndarray, model: str, seed: int) -> dict:
    """Return scores with the layer and without, and the coverage of 90% bands by fifths known before each row."""
    late, found = slice(WARMUP, None), {}
    with_it, without = (
        evaluate(
            StreamingGPRegressor(model, warmup=WARMUP, random_state=seed, noise_by_input=on), X, y, progress=False
        )
        for on in (True, False)
    )
    noise = np.log(with_it.std / without.std)[late]
    size = np.log(np.square(y - with_it.mean) + 1e-4 * np.square(without.std))[late]
    linked = [abs(float(np.nan_to_num(np.corrcoef(x, size)[0, 1]))) if x.std() else 0.0 for x in X[late].T]
    for name, result in (("with", with_it), ("without", without)):
        held = (result.q05 <= y) & (y <= result.q95)
        scores = {key: float(result.metrics[key]) for key in ("pll", "crps", "nmse")}
        scores["width"] = float(np.mean((result.q95 - result.q05)[late]))
        scores["interval_score"] = float(np.mean(interval_score(result.q05[late], result.q95[late], y[late], 0.9)))
        by = {"predicted_noise": noise, "predicted_std": result.std[late]}
        by |= {f"x{i}": X[late, i] for i in np.argsort(linked)[::-1][:5]}
        found[name] = scores | {"coverage_by": {key: fifths(held[late], each) for key, each in by.items()}}
    return found


class Law(NamedTuple):
    """A stream whose law is known: N(mean, std) given the inputs."""

    X: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    y: np.ndarray

    def crps(self) -> float:
        """Return the score of the law itself, of the rows that are scored."""
        z = (self.y - self.mean) / self.std
        each = self.std * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
        return float(each[WARMUP:].mean())


def constructed(seed: int) -> dict[str, Law]:
    """Return streams of one function, with noise of several kinds."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(ROWS, 4))
    X[:, 3] = rng.integers(0, 2, ROWS)
    f, t = np.sin(3.0 * X[:, 0]) + X[:, 1], np.linspace(0.0, 1.0, ROWS)
    kinds = {
        "constant": np.full(ROWS, 0.3),
        "linear": 0.1 + 0.25 * (X[:, 0] + 1.0),
        "step": np.where(X[:, 1] > 0.3, 0.6, 0.15),
        "multiplicative": 0.05 + 0.2 * np.abs(f),
        "category": np.where(X[:, 3] > 0, 0.6, 0.15),
        "moving": 0.1 + 0.25 * (1.0 + X[:, 0] * np.cos(np.pi * t)),
    }
    return {f"constructed {name}": Law(X, f, std, f + std * rng.normal(size=ROWS)) for name, std in kinds.items()}


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    model: str = "fast",
    seed: int = 0,
    only: Annotated[str, typer.Option(help="Run the sets whose names begin so.")] = "",
) -> None:
    """Run what is missing of the results."""
    found = (
        json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"machine": machine(), "runs": {}}
    )
    tables = sorted(path.stem for path in data.glob("jmlr_*.parquet"))
    apart = {*tables[1::2], *(name for name in TABLES if name not in CHOOSING)}
    made = constructed(seed)
    for name in [*made, *tables, *TABLES]:
        key = f"{name}, {model}, seed {seed}"
        if key in found["runs"] or not name.startswith(only):
            continue
        if name in made:
            X, y = made[name].X, made[name].y
        elif name in TABLES:
            X, y = load(name, data, ROWS)
        else:
            words = pl.col(pl.String).cast(pl.Categorical).to_physical()
            frame = pl.read_parquet(data / f"{name}.parquet").head(ROWS).with_columns(words)
            X, y = frame.drop("y").to_numpy().astype(float), frame["y"].to_numpy().astype(float)
        scores = run(X, y, model, seed)
        if name in made:
            scores["true_crps"] = made[name].crps()
        found["runs"][key] = scores | {"chosen_on": name not in apart and name not in made}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        gain = scores["with"]["pll"] - scores["without"]["pll"]
        crps = 100.0 * (scores["with"]["crps"] / scores["without"]["crps"] - 1.0)
        worst = {
            which: min(min(each) for each in scores[which]["coverage_by"].values()) for which in ("with", "without")
        }
        noise = [scores[which]["coverage_by"]["predicted_noise"] for which in ("without", "with")]
        print(f"{key}: {gain:+.4f} nats, CRPS {crps:+.2f}%, worst {worst}, {noise}", flush=True)


if __name__ == "__main__":
    typer.run(main)
