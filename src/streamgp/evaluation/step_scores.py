"""Scores of forecasts by how many rows ahead they are, beside those of naive forecasts of the same rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.evaluation.metrics.judgement import PairedLosses
from streamgp.evaluation.running_sums import Moments

LEVELS = (50, 80, 90, 95)
_ARRAYS = ("_rows", "_sums", "_covered", "_naive", "_scaled")


class StepScores:
    """Sums of the errors of forecasts, by step and target: a state of fixed size.

    Parameters
    ----------
    steps
        How many rows are forecast, H.
    targets
        Their names, E.
    by_key
        Whether the rows are those of many keys, of different sizes: then the forecasts are judged by their errors
        over each key's usual change, and there is no variance of all targets to compare with.
    """

    def __init__(self, steps: int, targets: Sequence[str], *, by_key: bool = False) -> None:
        self.steps, self.targets, self.by_key = steps, list(targets), by_key
        shape = (steps, len(self.targets))
        self._moments = [Moments() for _ in self.targets]
        self._rows = np.zeros(shape)
        # The sums of squared errors, absolute errors and CRPS.
        self._sums = np.zeros((3, *shape))
        self._covered = np.zeros((len(LEVELS), *shape))
        # How many rows every baseline says something of, and its squared errors there; none before the first origin.
        self._naive = np.zeros((1, *shape))
        # The absolute errors over the usual change, and how many they are.
        self._scaled = np.zeros((2, *shape))
        # The losses of the model and of each baseline, by step and target.
        self._losses: list[list[PairedLosses]] = []

    def begin(self, baselines: Sequence[str]) -> None:
        """Take in which naive forecasts stand beside the model; the first call decides."""
        if not self._losses:
            self._losses = [[PairedLosses(baselines) for _ in self.targets] for _ in range(self.steps)]
            self._naive = np.zeros((1 + len(baselines), *self._rows.shape))

    def add(
        self,
        step: Int[np.ndarray, " n"],
        y: Float[np.ndarray, "n e"],
        mean: Float[np.ndarray, "n e"],
        crps: Float[np.ndarray, "n e"],
        inside: Bool[np.ndarray, "l n e"],
        naive: Float[np.ndarray, "b n e"],
        usual: Float[np.ndarray, "n e"],
    ) -> None:
        """Score forecasts of rows with these targets, of which NaN are not scored.

        Parameters
        ----------
        step
            How many rows ahead each was made, counted from 0.
        inside
            Whether the target lies in the band of each of `LEVELS`.
        naive
            What each baseline says.
        usual
            The usual change of the target, see `streamgp.evaluation.step_baselines`; NaN or 0 where none is known.
        """
        known = np.asarray(np.isfinite(y))
        error = np.where(known, y - mean, 0.0)
        is_scaled = known & (usual > 0.0)
        scaled = np.where(is_scaled, np.abs(error) / np.where(is_scaled, usual, 1.0), 0.0)
        _add(self._rows[None], step, known[None])
        _add(self._scaled, step, np.stack([scaled, is_scaled]))
        _add(self._sums, step, np.stack([error**2, np.abs(error), np.where(known, crps, 0.0)]))
        _add(self._covered, step, known & inside)
        squared = np.concatenate([np.square(y - mean)[None], np.square(y - naive)])
        compared = ~np.isnan(squared.sum(axis=0))
        _add(self._naive, step, np.concatenate([compared[None], np.where(compared, squared[1:], 0.0)]))
        losses = np.where(is_scaled, squared / np.square(usual), np.nan) if self.by_key else squared
        for h in np.unique(step).tolist():
            for e, paired in enumerate(self._losses[h]):
                paired.add(losses[:, step == h, e].T)
        self._moments = [m.add(y[known[:, e], e]) for e, m in enumerate(self._moments)]

    def entries(self) -> list[dict[str, Any]]:
        """Return the scores of each step, of several targets of each step and target."""
        found = []
        for h in range(self.steps):
            for e, name in enumerate(self.targets):
                target = {"target": name} if len(self.targets) > 1 else {}
                found.append({"step": h + 1, **target, **self._entry(h, e)})
        return found

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        losses = [[each.to_tree() for each in step] for step in self._losses]
        plain = {"steps": self.steps, "targets": self.targets, "by_key": self.by_key}
        return plain | arrays | {"moments": [list(each) for each in self._moments], "losses": losses}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "StepScores":
        """Restore what `to_tree` returned."""
        found = cls(tree["steps"], list(tree["targets"]), by_key=tree["by_key"])
        for name in _ARRAYS:
            setattr(found, name, tree[name].copy())
        found._moments = [Moments(*each) for each in tree["moments"]]
        found._losses = [[PairedLosses.from_tree(each) for each in step] for step in tree["losses"]]
        return found

    def _entry(self, h: int, e: int) -> dict[str, Any]:
        rows, moments = self._rows[h, e], self._moments[e]
        # The targets of keys of different sizes have no variance of use.
        variance = moments.m2 / moments.count if moments.count and not self.by_key else 0.0
        squared, absolute, crps = (_mean(total, rows) for total in self._sums[:, h, e])
        judgement = self._losses[h][e].judgement("squared_error") if self._losses else None
        found = {
            "rows": int(rows),
            "nmse": _share(squared, variance),
            "rmse": _root(squared),
            "mae": absolute,
            "mase": _mean(*self._scaled[:, h, e]),
            "crps": crps,
            "coverage": {
                str(level): _mean(held, rows) for level, held in zip(LEVELS, self._covered[:, h, e], strict=True)
            },
            "naive": {} if judgement is None else self._naive_of(h, e, variance),
            "judgement": None if judgement is None else judgement.to_json(),
        }
        if self.by_key and judgement is not None:
            found["scaled_rmse"] = _root(judgement.loss)
            for each in judgement.against:
                found["naive"][each.baseline]["scaled_rmse"] = _root(each.loss)
        return found

    def _naive_of(self, h: int, e: int, variance: float) -> dict[str, dict[str, float | None]]:
        """Return the errors of each baseline at a step."""
        rows, *totals = self._naive[:, h, e]
        names, squared = self._losses[h][e].baselines, [_mean(total, rows) for total in totals]
        return {
            name: {"nmse": _share(each, variance), "rmse": _root(each)}
            for name, each in zip(names, squared, strict=True)
        }


def _add(sums: Float[np.ndarray, "k h e"], step: Int[np.ndarray, " n"], values: Any) -> None:
    """Add values (k, n, e) of rows to the sums of their steps."""
    for own, each in zip(sums, values, strict=True):
        np.add.at(own, step, each)


def _mean(total: float, rows: float) -> float | None:
    return float(total / rows) if rows else None


def _root(squared: float | None) -> float | None:
    return None if squared is None else float(np.sqrt(squared))


def _share(squared: float | None, variance: float) -> float | None:
    return None if squared is None or variance <= 0.0 else squared / variance
