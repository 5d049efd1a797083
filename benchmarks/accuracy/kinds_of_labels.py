"""What noise by input, or calibration by input, would be worth for counts and classes.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.kinds_of_labels --data DIR`` writes ``results/kinds_of_labels.json``
after every stream and goes on where it stopped.

Counts: the layer of `streamgp.likelihoods.noise_by_input` on the levels at which the targets came, row by row, each
row before its target. With h the log variance of the normal score of the level, P(Y <= k) becomes
Phi(e^(-h/2) Phi^-1(P(Y <= k))), so that the gain in log probability is exact. "One for all" has h the same for all
rows. Classes: the same for a temperature, p ~ softmax(e^h log p), by steps of natural gradient, insured as the layer
is. Coverage of counts is that of the 90% band of levels, drawn evenly within each count's.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from scipy.special import log_softmax, ndtr, ndtri

from benchmarks.accuracy.noise_by_input import fifths
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPClassifier, StreamingGPCountRegressor, evaluate
from streamgp.likelihoods import noise_by_input as layer
from streamgp.likelihoods.noise_features import NoiseInputs, of_moments

RESULTS = RESULTS_DIR / "kinds_of_labels.json"
WARMUP, ROWS, INPUTS, PART = 1_000, 5_000, 30, 5
COUNTS = "abalone", "beijing_pm25", "cpusmall"
CLASSES = "banana", "har_raker", "movement_raker", "device_raker"
_SMALLEST = 1e-12
_MOST = 9.0  # nats, of a row in the share


def standardised(X: np.ndarray) -> np.ndarray:
    """Return inputs in standard deviations of the warm-up's, 0 for what is missing."""
    spread = np.nanstd(X[:WARMUP], axis=0)
    return np.nan_to_num((X - np.nanmean(X[:WARMUP], axis=0)) / np.where(spread > 0.0, spread, 1.0))[:, :INPUTS]


def telling(Z: np.ndarray, size: np.ndarray) -> list[int]:
    """Return the five inputs that go most with the size of errors."""
    linked = [abs(float(np.nan_to_num(np.corrcoef(z, size)[0, 1]))) if z.std() else 0.0 for z in Z.T]
    return np.argsort(linked)[::-1][:PART].tolist()


def of_counts(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Return what the layer would gain, and coverage of the worst fifth with it and without."""
    found = evaluate(StreamingGPCountRegressor(warmup=WARMUP, random_state=seed), X, y, progress=False)
    late, Z = slice(WARMUP, None), standardised(X)
    high = found.pit
    low = np.maximum(high - np.exp(found.log_density), 0.0)
    level = low + np.random.default_rng(seed).random(len(y)) * (high - low)
    log_mean = np.log(np.maximum(found.mean, _SMALLEST))
    m = (log_mean - log_mean[:WARMUP].mean()) / max(log_mean[:WARMUP].std(), _SMALLEST)
    relative = np.square(found.std / np.maximum(found.mean, _SMALLEST))
    phi = of_moments(np.arange(Z.shape[1]), Z, m[:, None], relative[:, None])[late]
    square = layer.squared_scores(level[late, None], np.ones(len(y) - WARMUP, bool), None)
    scores: dict[str, Any] = {"rows": len(y)}
    before = _inside(level[late], 1.0)
    for name, features in (("by inputs", phi), ("one for all", phi * (np.arange(phi.shape[2]) == 0))):
        start = layer.NoiseByInput.start(1, NoiseInputs.of_rows(Z[:WARMUP], y[:WARMUP, None].astype(float)))
        scale = start.learn_rows(features, square)[1][:, 0] ** -0.5
        new = _cdf(high[late], scale) - _cdf(low[late], scale)
        gain = np.log(np.maximum(new, _SMALLEST)) - np.maximum(found.log_density[late], np.log(_SMALLEST))
        by = {"noise": -scale, "mean": found.mean[late]} if name == "by inputs" else {"mean": found.mean[late]}
        by |= {f"x{i}": Z[late, i] for i in telling(Z[late], np.abs(ndtri(np.clip(level[late], 1e-9, 1 - 1e-9))))}
        after = _inside(level[late], scale)
        scores[name] = {
            "gain": float(gain.mean()),
            "error": float(gain.std() / np.sqrt(len(gain))),
            "worst": [min(min(fifths(held, key)) for key in by.values()) for held in (before, after)],
        }
    return scores


def _cdf(level: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return ndtr(scale * ndtri(np.clip(level, _SMALLEST, 1.0 - _SMALLEST)))


def _inside(level: np.ndarray, scale: Any) -> np.ndarray:
    return np.abs(_cdf(level, scale) - 0.5) <= 0.45


def of_classes(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Return what a temperature would gain, and by how much the confidence of the worst fifth is off."""
    found = evaluate(StreamingGPClassifier(warmup=WARMUP, random_state=seed), X, y, progress=False)
    late = slice(WARMUP, None)
    p = np.clip(found.probabilities, 1e-6, 1.0)[late]
    place = {int(name): j for j, name in enumerate(found.metrics["classes"])}
    label = np.array([place[each] for each in y[late].tolist()])
    confidence, right = p.max(axis=1), p.argmax(axis=1) == label
    Z = np.clip(standardised(X), -4.0, 4.0)[late]
    by = {"confidence": confidence} | {f"x{i}": Z[:, i] for i in telling(Z, np.abs(right - confidence))}
    off = [gap for key in by.values() for gap in fifths(right - confidence, key)]
    one = np.ones((len(p), 1))
    phi = np.column_stack([one, Z, np.abs(Z) - 0.8, confidence - 0.8])
    scores: dict[str, Any] = {"rows": len(y), "off": max(off, key=abs), "wrong": float(1.0 - right.mean())}
    for name, features in (("by inputs", phi), ("one for all", one)):
        gain = temperature_gain(np.log(p), label, features)
        scores[name] = {"gain": float(gain.mean()), "error": float(gain.std() / np.sqrt(len(gain)))}
    return scores


def temperature_gain(logits: np.ndarray, label: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """Return by how much each row's log probability grows with a temperature learnt from the rows before."""
    prior = np.array([layer.CONSTANT_VAR, *[layer.PRIOR_VAR] * (phi.shape[1] - 1)])
    w, cov, share, gain = np.zeros(phi.shape[1]), np.diag(prior), 0.5, np.empty(len(label))
    for i, (own, j, x) in enumerate(zip(logits, label, phi, strict=True)):
        h = np.clip(w @ x, -layer.MAX_LOG_VARIANCE, layer.MAX_LOG_VARIANCE)
        plain, full, used = (log_softmax(np.exp(each) * own) for each in (0.0, h, share * h))
        gain[i] = used[j] - plain[j]
        p, steep = np.exp(full), np.exp(h)
        mean = p @ own
        slope, fisher = steep * (own[j] - mean), steep**2 * (p @ (own - mean) ** 2)
        odds = share * np.exp(np.clip(full[j] - plain[j], -_MOST, _MOST))
        share = (1.0 - layer.SWITCHING) * odds / (odds + 1.0 - share) + 0.5 * layer.SWITCHING
        cov = cov + layer.WALK * np.diag(prior)
        toward = cov @ x
        s = 1.0 + fisher * (x @ toward)
        w, cov = w + toward * slope / s, cov - fisher * np.outer(toward, toward) / s
    return gain


def constructed(seed: int) -> dict[str, tuple[str, np.ndarray, np.ndarray]]:
    """Return streams whose law is known: kind of target, inputs and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(ROWS, 4))
    mean = np.exp(1.5 + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1])
    step, smooth = np.where(X[:, 2] > 0.0, 1.5, 1e6), np.exp(3.0 - 3.0 * X[:, 2])
    z = np.sin(4.0 * X[:, 0]) + 2.0 * X[:, 1] > 0.0
    flipped = rng.random(ROWS) < np.where(X[:, 2] > 0.0, 0.3, 0.02)
    return {
        "Poisson": ("count", X, rng.poisson(mean)),
        "dispersion jumps": ("count", X, rng.poisson(mean * rng.gamma(step, 1.0 / step))),
        "dispersion grows": ("count", X, rng.poisson(mean * rng.gamma(smooth, 1.0 / smooth))),
        "zeros by an input": ("count", X, rng.poisson(mean) * ((X[:, 2] < 0.0) | (rng.random(ROWS) > 0.3))),
        "wrong labels by an input": ("class", X, (z != flipped).astype(int)),
    }


def given(name: str, kind: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the first rows of a set that have a target."""
    target = "y" if kind == "count" else "label"
    frame = pl.read_parquet(data / f"{name}.parquet").filter(pl.col(target).cast(float).is_finite()).head(ROWS)
    X = frame.select(pl.col("^x.*$").cast(float)).to_numpy()
    return X, frame[target].to_numpy().astype(int)


def main(data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")], seed: int = 0) -> None:
    """Run what is missing of the results."""
    found: dict[str, Any] = {"machine": machine(), "runs": {}}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
    made = constructed(seed)
    kinds = {name: made[name][0] for name in made} | dict.fromkeys(COUNTS, "count") | dict.fromkeys(CLASSES, "class")
    for name, kind in kinds.items():
        if name in found["runs"]:
            continue
        X, y = made[name][1:] if name in made else given(name, kind, data)
        scores = (of_counts if kind == "count" else of_classes)(X, y, seed)
        found["runs"][name] = {"kind": kind, "constructed": name in made} | scores
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(name, json.dumps(scores), flush=True)


if __name__ == "__main__":
    typer.run(main)
