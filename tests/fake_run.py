"""A simulated run: the files that a report is made from, and the scores by their definitions."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import norm

from streamgp.evaluation.metrics.judgement import judge

DYNAMICS = ("static", "walk q=1e-4", "walk q=1e-3")
NAMES = [
    f"{basis} x{start:g}, {dynamics}"
    for basis, starts in (
        ("linear", (1,)),
        ("hilbert", (0.1, 1, 10)),
        ("fourier", (0.1, 1, 10)),
        ("rbf", (0.1, 1)),
    )
    for start in starts
    for dynamics in DYNAMICS
]


def fake_run(
    out: Path,
    rows: int = 9000,
    warmup: int = 1000,
    *,
    names: list[str] = NAMES,
    noise: float = 0.5,
    sharpness: float = 1.0,
    smooth: bool = False,
    constant: bool = False,
    seed: int = 0,
    **extra: Any,
) -> dict[str, Any]:
    """A drifting stream with the quantiles of its true law; `sharpness` below one makes them too narrow."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows)
    x = rng.normal(size=rows)
    slope = np.where(t < 0.6 * rows, 2.0, 2.0 * np.cos(2.5 * (t / max(rows, 1) - 0.6) / 0.4))
    level = 40 + 3 * np.sin(2 * np.pi * t / 1700) + 1.5 * np.sin(2 * np.pi * t / 160)
    loc = level if smooth else level + slope * x
    sd = noise * (1 + 0.4 * np.sin(2 * np.pi * t / 900)) * (1 + 3 * np.exp(-t / 100))
    y = loc + sd * rng.normal(size=rows)
    mean = loc + 0.15 * rng.normal(size=rows) + (2.5 * rng.normal(size=rows) if smooth else 0)
    std = sharpness * np.sqrt(sd**2 + 0.15**2 + (6.25 if smooth else 0))
    if constant:
        y, mean = np.full(rows, 7.0), np.full(rows, 7.0) + 0.01 * rng.normal(size=rows)
    z = (y - mean) / std
    before = np.concatenate([[math.nan], np.cumsum(y)[:-1] / np.arange(1, rows)])
    frame = pl.DataFrame(
        {
            "row": t + 2 * (t > rows // 2),  # two rows were skipped half-way
            "y": y,
            "mean": mean,
            "std": std,
            "q05": mean + norm.ppf(0.05) * std,
            "q50": mean,
            "q95": mean + norm.ppf(0.95) * std,
            "log_density": norm.logpdf(y, mean, std),
            "pit": norm.cdf(z),
            "crps": std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / math.sqrt(math.pi)),
            "persistence_mean": np.concatenate([[math.nan], y[:-1]]),
            "running_mean": before,
            "time": 1.7e9 + 600.0 * t,
        }
    )
    drift = np.cumsum(rng.normal(size=(40, len(names))), axis=0)
    knots = np.linspace(0, max(rows, 2), 40)
    logits = np.stack([np.interp(t, knots, drift[:, i]) for i in range(len(names))], axis=1)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    out.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(out / "predictions.parquet")
    late = slice(warmup, None)  # the experts predict after the warm-up, and have weights only then
    columns = {n: weights[late, i] for i, n in enumerate(names)} if rows > warmup else {}
    pl.DataFrame({"row": frame["row"].to_numpy()[late], **columns}).write_parquet(out / "weights.parquet")
    metrics = textbook_metrics(frame, warmup) | {
        "model": "e-doebe",
        "data": "turbine.csv",
        "targets": ["power_kw"],
        "rows": rows,
        "warmup": warmup,
        "seconds": {"read": 0.021, "warmup": 6.5, "stream": 4.81, "total": 11.4},
        "rows_per_second": rows / 4.81,
        "skipped_rows": 2,
        "outside_rows": 13,
        "interrupted": False,
        "experts": [
            dict(zip(("basis", "dynamics", "noise"), n.split(", "), strict=False))
            | {"name": n, "weight": float(weights[-1, i])}
            for i, n in enumerate(names)
        ],
        "warnings": ["2 experts ended in a flat optimum and were restarted."],
        "command": "streamgp run turbine.csv --target power_kw --warmup 1000 --seed 0",
    }
    metrics |= extra
    (out / "metrics.json").write_text(json.dumps(metrics))
    return metrics


def textbook_metrics(frame: pl.DataFrame, warmup: int) -> dict[str, Any]:
    """The scores by their definitions, in plain NumPy."""
    c = {name: frame[name].to_numpy()[warmup:] for name in frame.columns}
    n = len(c["y"])
    if n == 0:
        nothing = dict.fromkeys(("nmse", "rmse", "mae", "pll", "pll_moment", "crps"))
        empty = {"nmse": None, "rmse": None, "mae": None}
        coverage = {"50": None, "90": None, "95": None}
        return nothing | {
            "scored_rows": 0,
            "coverage": coverage,
            "naive": {"persistence": empty, "running_mean": empty},
        }

    def errors(name: str) -> dict[str, float | None]:
        e = (c["y"] - c[name])[~np.isnan(c[name])]
        if not len(e):
            return {"nmse": None, "rmse": None, "mae": None}
        mse = float(np.mean(e**2))
        variance = float(np.var(c["y"]))
        return {
            "nmse": mse / variance if variance > 0 else None,
            "rmse": math.sqrt(mse),
            "mae": float(np.mean(np.abs(e))),
        }

    squared = {name: np.square(c["y"] - c[name]) for name in ("mean", "persistence_mean", "running_mean")}
    squared["persistence"] = squared.pop("persistence_mean")
    return errors("mean") | {
        "judgement": judge("squared_error", squared).to_json(),
        "scored_rows": n,
        "pll": float(c["log_density"].mean()),
        "pll_moment": float(c["log_density"].mean()) - 0.01,
        "crps": float(c["crps"].mean()),
        "coverage": {str(p): float(np.mean(np.abs(c["pit"] - 0.5) <= p / 200)) for p in (50, 90, 95)},
        "naive": {"persistence": errors("persistence_mean"), "running_mean": errors("running_mean")},
    }
