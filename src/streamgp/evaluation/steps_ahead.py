"""Scores of forecasts by how many rows ahead they are made: a rolling origin along the stream."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.evaluation.running_sums import Moments
from streamgp.metrics import crps_ensemble, energy_score
from streamgp.models.base import PathFamily
from streamgp.models.families import family_of
from streamgp.models.spec import Spec
from streamgp.stream.learner import StreamLearner

# The number of paths that are drawn at an origin.
PATHS = 300
LEVELS = (50, 80, 90, 95)
QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}
# So many past targets are kept for the seasonal baseline.
LONGEST_SEASON = 1_000
SHORTEST_SEASON = 4  # lags below are no season
NAMES = ("mean", "std", *QUANTILES)


class RowsAhead(NamedTuple):
    """Forecasts of a batch of rows, each made at the latest origin before it.

    Attributes
    ----------
    step
        How many rows before it each was made, from 1; 0 where there was no origin yet.
    mean, std, q05, q50, q95
        Of shape (n, E), NaN where there was none.
    """

    step: Int[np.ndarray, " n"]
    mean: Float[np.ndarray, "n e"]
    std: Float[np.ndarray, "n e"]
    q05: Float[np.ndarray, "n e"]
    q50: Float[np.ndarray, "n e"]
    q95: Float[np.ndarray, "n e"]


class StepsAhead:
    """Forecast the next `steps` rows at every so many rows after the warm-up, and score each step by itself.

    The inputs of rows to come are taken as missing, but for those that are known ahead. Two naive baselines are
    scored beside it: the last target before the origin and, where the model has a lag of four rows or more, the
    target one season before, whose length is the longest lag. The state is of fixed size.

    Parameters
    ----------
    steps
        How many rows, H.
    targets
        Their names, E.
    known
        Inputs (N, D) of all rows to be added, with NaN where they are not known before their row comes. None: none
        is.

    Raises
    ------
    ValueError
        If `steps` is below 2.
    """

    def __init__(self, steps: int, targets: Sequence[str], known: Float[np.ndarray, "N d"] | None = None) -> None:
        if steps < 2:
            raise ValueError(
                f"steps_ahead: expected at least 2 rows ahead, got {steps}; a single one is the usual run"
            )
        self.steps, self.targets, self._known = steps, list(targets), known
        e = len(self.targets)
        # The number of rows seen.
        self._seen = 0
        self._at = 0  # rows of the forecast under way that have come
        # The draws of this forecast; none before the first origin.
        self._paths = np.empty((0, steps, e))
        # The forecasts by the last target, and by the last season.
        self._naive = np.full((2, steps, e), np.nan)
        self._scale = np.ones(e)
        self._came = np.full((steps, e), np.nan)  # targets of this forecast
        self._past = np.full((LONGEST_SEASON, e), np.nan)
        self._season = 0
        self._moments = [Moments() for _ in self.targets]
        self._rows = np.zeros((steps, e))
        # The sums of squared errors, absolute errors and CRPS.
        self._sums = np.zeros((3, steps, e))
        self._covered = np.zeros((len(LEVELS), steps, e))
        self._naive_sums = np.zeros((2, 2, steps, e))  # rows and squares of each baseline
        self._energy = np.zeros(2)  # forecasts whose targets all came, and their energy scores

    def rows_to_origin(self, learner: StreamLearner) -> int:
        """Return how many rows may be learnt in one go; at an origin the forecast is made first."""
        if not learner.is_warmed_up:
            return learner.warmup
        if not self._at:
            self._forecast(learner)
        return self.steps - self._at

    def add(self, y: Float[np.ndarray, "n e"]) -> RowsAhead:
        """Score the next rows, up to the next origin at most; NaN targets are not scored."""
        n = len(y)
        blank = np.full((n, len(self.targets)), np.nan)
        found = RowsAhead(np.zeros(n, np.int64), *(blank for _ in NAMES))
        if len(self._paths):
            at = slice(self._at, self._at + n)
            found = self._score(at, y)
            self._came[at] = y
            self._at = (self._at + n) % self.steps
            if not self._at:
                self._end()
        self._seen += n
        self._past = np.concatenate([self._past, y])[-LONGEST_SEASON:]
        return found

    def result(self) -> dict[str, Any]:
        """Return the scores: ``by_step`` has an entry for each step, of several targets for each step and target."""
        entries = []
        for h in range(self.steps):
            for e, name in enumerate(self.targets):
                target = {"target": name} if len(self.targets) > 1 else {}
                entries.append({"step": h + 1, **target, **self._result_of(h, e)})
        count, total = self._energy
        return {
            "steps": self.steps,
            "paths": PATHS,
            "season": self._season or None,
            "forecasts": int(count),
            "energy_score": float(total / count) if count else None,
            "by_step": entries,
        }

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        plain = {name: getattr(self, name) for name in ("steps", "targets", "_seen", "_at", "_season")}
        return plain | arrays | {"_moments": [list(each) for each in self._moments]}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "StepsAhead":
        """Restore what `to_tree` returned."""
        ahead = cls(tree["steps"], list(tree["targets"]))
        ahead._seen, ahead._at, ahead._season = tree["_seen"], tree["_at"], tree["_season"]
        ahead._moments = [Moments(*each) for each in tree["_moments"]]
        for name in _ARRAYS:
            setattr(ahead, name, tree[name].copy())
        return ahead

    def _forecast(self, learner: StreamLearner) -> None:
        """Forecast all steps from here."""
        longest = max(learner.spec.lags, default=0)
        self._season = longest if SHORTEST_SEASON <= longest <= LONGEST_SEASON else 0
        inputs = np.full((self.steps, learner.num_inputs), np.nan)
        if self._known is not None:
            known = self._known[self._seen : self._seen + self.steps]
            inputs[: len(known)] = known
        self._paths = learner.paths(inputs, None, PATHS)
        self._scale = np.asarray(learner.target_scale, dtype=np.float64)
        self._came[:] = np.nan
        self._naive[0] = _last_known(self._past)
        self._naive[1] = np.nan
        if self._season:
            season = self._past[len(self._past) - self._season :]
            self._naive[1] = season[np.arange(self.steps) % self._season]

    def _score(self, at: slice, y: Float[np.ndarray, "n e"]) -> RowsAhead:
        drawn = self._paths[:, at]
        mean, std = drawn.mean(axis=0), drawn.std(axis=0, ddof=1)
        known = np.isfinite(y)
        error = np.where(known, y - mean, 0.0)
        crps = crps_ensemble(np.moveaxis(drawn, 0, -1), np.where(known, y, mean))
        self._rows[at] += known
        self._sums[:, at] += np.stack([error**2, np.abs(error), np.where(known, crps, 0.0)])
        for i, level in enumerate(LEVELS):
            low, high = np.quantile(drawn, [0.5 - level / 200.0, 0.5 + level / 200.0], axis=0)
            self._covered[i, at] += known & (low <= y) & (y <= high)
        for i, naive in enumerate(self._naive[:, at]):
            off = y - naive
            scored = np.isfinite(off)
            self._naive_sums[i, :, at] += np.stack([scored, np.where(scored, off, 0.0) ** 2])
        self._moments = [m.add(y[known[:, e], e]) for e, m in enumerate(self._moments)]
        step = np.arange(at.start, at.stop) + 1
        return RowsAhead(step, mean, std, *np.quantile(drawn, list(QUANTILES.values()), axis=0))

    def _end(self) -> None:
        """Score a forecast as a whole, once all its targets are in."""
        if np.isfinite(self._came).all():
            wide = (self._paths / self._scale).reshape(len(self._paths), -1)
            self._energy += 1.0, float(energy_score(wide, (self._came / self._scale).ravel()))

    def _result_of(self, h: int, e: int) -> dict[str, Any]:
        rows = self._rows[h, e]
        moments = self._moments[e]
        variance = moments.m2 / moments.count if moments.count else 0.0
        squared, absolute, crps = (float(each) / rows if rows else None for each in self._sums[:, h, e])
        naive = [float(total / count) if count else None for count, total in self._naive_sums[:, :, h, e]]
        return {
            "rows": int(rows),
            "nmse": _share(squared, variance),
            "rmse": None if squared is None else float(np.sqrt(squared)),
            "mae": absolute,
            "crps": crps,
            "coverage": {
                str(level): float(self._covered[i, h, e] / rows) if rows else None for i, level in enumerate(LEVELS)
            },
            "nmse_persistence": _share(naive[0], variance),
            "nmse_seasonal": _share(naive[1], variance),
        }


_ARRAYS = ("_paths", "_naive", "_scale", "_came", "_past", "_rows", "_sums", "_covered", "_naive_sums", "_energy")


def check_steps(spec: Spec, steps: int) -> None:
    """Check that a model can forecast so many rows at once.

    Raises
    ------
    ValueError
        If it is no ensemble for numbers, or has a horizon, or the steps are fewer than 2.
    """
    if spec.horizon:
        raise ValueError(f"steps_ahead: expected a model without a horizon, got one of {spec.horizon}; leave out one")
    if not isinstance(family_of(spec), PathFamily):
        raise ValueError(f"steps_ahead: expected an ensemble for numbers, got the model {spec.model} of {spec.task}")
    StepsAhead(steps, [""])


def _last_known(past: Float[np.ndarray, "n e"]) -> Float[np.ndarray, " e"]:
    """Return the last target that is known, of each column."""
    found = np.full(past.shape[1], np.nan)
    for e, column in enumerate(past.T):
        known = np.flatnonzero(np.isfinite(column))
        if len(known):
            found[e] = column[known[-1]]
    return found


def _share(squared: float | None, variance: float) -> float | None:
    return None if squared is None or variance <= 0.0 else squared / variance
