"""How good the predictions of a stream were: over all rows, and over the latest."""

from typing import Any

import numpy as np

from streamgp.evaluation.regression import COVERAGE_LEVELS

RECENT = 1_000  # scored rows
MEMORY = 1_000  # rows of the naive baseline's errors
LEAST = 10  # errors before it says anything


class NaiveScore:
    """The log density of each target under a naive baseline: the last one, with the spread of its errors so far.

    The errors have a memory of `MEMORY` rows. Of the first rows there is none.
    """

    def __init__(self) -> None:
        self.last = np.nan
        self.square = 0.0  # mean of the squared errors
        self.count = 0

    def add(self, y: np.ndarray) -> np.ndarray:
        """Return the log densities of the next targets, of each before it is known."""
        found = np.full(len(y), np.nan)
        for i, target in enumerate(y.tolist()):
            error = target - self.last
            if self.count >= LEAST and self.square > 0.0:
                found[i] = -0.5 * (np.log(2.0 * np.pi * self.square) + error**2 / self.square)
            if np.isfinite(error):
                self.count += 1
                self.square += (error**2 - self.square) / min(self.count, MEMORY)
            self.last = target
        return found

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return dict(vars(self))

    def restore(self, tree: dict[str, Any]) -> None:
        """Go on from what `to_tree` returned."""
        vars(self).update(tree)


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
        "baselines": {
            "persistence": {"nmse": nmse(columns["persistence"]), "pll": _mean(columns.get("log_density_baseline"))},
            "running_mean": {"nmse": nmse(columns["running_mean"])},
        },
    }


def _mean(values: Any) -> float | None:
    """Return the mean of those that are there."""
    known = np.asarray([] if values is None else values, dtype=float)
    known = known[np.isfinite(known)]
    return float(known.mean()) if len(known) else None
