"""How good the predictions of a stream were: over all rows, and over the latest."""

from typing import Any

import numpy as np

from streamgp.evaluation.regression import COVERAGE_LEVELS

RECENT = 1_000  # scored rows


def overall(found: dict[str, Any]) -> dict[str, Any]:
    """Return the scores over all rows, with the naive baselines under one name."""
    kept = {name: value for name, value in found.items() if name not in ("naive", "unflagged")}
    return kept | {"baselines": found.get("naive", {})}


def recent(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the scores over some of the latest scored rows, from the columns of a history."""
    rows = len(columns.get("row", ()))
    if not rows:
        return {"rows": 0}
    density = np.asarray(columns["log_density"], dtype=float)
    if "probability" in columns:
        right = np.array([a == b for a, b in zip(columns["y"], columns["label"], strict=True)])
        return {"rows": rows, "error_rate": float(1.0 - right.mean()), "log_loss": float(-density.mean())}
    y, mean, pit = (np.asarray(columns[name], dtype=float) for name in ("y", "mean", "pit"))
    variance = float(y.var())

    def nmse(predicted: Any) -> float | None:
        error = np.asarray(predicted, dtype=float) - y
        error = error[np.isfinite(error)]
        return float(np.mean(error**2)) / variance if len(error) and variance > 0.0 else None

    return {
        "rows": rows,
        "nmse": nmse(mean),
        "pll": float(density.mean()),
        "coverage": {str(c): float(np.mean(np.abs(pit - 0.5) <= c / 200.0)) for c in COVERAGE_LEVELS},
        "baselines": {name: {"nmse": nmse(columns[name])} for name in ("persistence", "running_mean")},
    }
