"""The scores of a stream's predictions: over all rows, and over the latest."""

from typing import Any

import numpy as np

from streamgp.evaluation.metrics.judgement import Judgement, judge
from streamgp.evaluation.regression import COVERAGE_LEVELS
from streamgp.reports import verdicts

# The recent scores are those of so many latest scored rows.
RECENT = 1_000
# The memory of the naive baseline's errors, in rows.
MEMORY = 1_000
# The naive baseline needs so many errors.
LEAST = 10


class NaiveScore:
    """The log density of each target under a naive baseline: the last one, with the spread of its errors so far.

    The errors have a memory of `MEMORY` rows. Of the first rows there is none.
    """

    def __init__(self) -> None:
        self.last = np.nan
        # The mean of the squared errors.
        self.square = 0.0
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
    kept = {name: value for name, value in found.items() if name not in ("naive", "unflagged", "judgement")}
    judgement = worded(Judgement.from_json(found["judgement"]), found)
    return kept | {"baselines": found.get("naive", {}), "judgement": judgement}


def worded(judgement: Judgement, found: dict[str, Any]) -> dict[str, Any] | None:
    """Return a judgement with its sentence on the best baseline, ``text``; None where there is none.

    `found` has the scores that belong to it, and those of the baselines under ``naive``.
    """
    if judgement.best is None:
        return None
    return judgement.to_json() | {"text": verdicts.sentence(found, judgement, judgement.best)["text"]}


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
        "judgement": _judged(y, mean, columns),
    }


def _judged(y: np.ndarray, mean: np.ndarray, columns: dict[str, Any]) -> dict[str, Any] | None:
    """Return how the model stood beside the baselines in these rows; a fleet's has one of them."""
    squared = {"model": np.square(y - mean)}
    for name in ("persistence", "running_mean"):
        predicted = np.asarray(columns[name], dtype=float)
        squared |= {name: np.square(y - predicted)} if np.isfinite(predicted).any() else {}
    flagged = np.asarray(columns["flagged"], dtype=bool) if "flagged" in columns else None
    return worded(judge("squared_error", squared, flagged), {})


def _mean(values: Any) -> float | None:
    """Return the mean of those that are there."""
    known = np.asarray([] if values is None else values, dtype=float)
    known = known[np.isfinite(known)]
    return float(known.mean()) if len(known) else None
