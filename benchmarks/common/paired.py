"""Runs of several models over the same sets and seeds, kept in a file, so that a stopped comparison goes on."""

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.common.datasets import load
from streamgp import StreamingGPRegressor, evaluate

KEPT = ("nmse", "pll_standardised")


def compare(
    path: Path,
    names: list[str],
    seeds: int,
    models: dict[str, dict[str, Any]],
    *,
    rows: int,
    warmup: int,
    data: Path | None,
) -> dict[str, Any]:
    """Score each set, model and seed; `path` is written after every run.

    Parameters
    ----------
    models
        Arguments of `StreamingGPRegressor` by the names that the table shows.
    """
    runs = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        X, y = load(name, data, rows)
        for seed in range(seeds):
            for label, options in models.items():
                of = runs.setdefault(name, {}).setdefault(label, {})
                if str(seed) in of:
                    continue
                model = StreamingGPRegressor(**options, warmup=warmup, random_state=seed)
                scores = evaluate(model, X, y, progress=False).metrics
                best = max(expert["gain"] for expert in model.experts_)
                of[str(seed)] = {kept: scores[kept] for kept in KEPT} | {"evidence_gain": best}
                path.write_text(json.dumps(runs, indent=1) + "\n")
    return runs


def cell(of: dict[str, dict[str, float]], what: str, digits: int) -> str:
    """Show the mean and standard deviation over the seeds."""
    values = [run[what] for run in of.values()]
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"
