"""Scores of forecasts by how many rows ahead they are made: a rolling origin along the stream."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.evaluation.metrics import crps_ensemble, energy_score
from streamgp.evaluation.step_baselines import StepBaselines, rows_between_origins
from streamgp.evaluation.step_scores import LEVELS, StepScores
from streamgp.models.base import PathFamily
from streamgp.models.families import family_of
from streamgp.models.spec import Spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.passed_rows import SHORTEST_SEASON

# The number of paths that are drawn at an origin.
PATHS = 300
QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}
NAMES = ("mean", "std", *QUANTILES)
_TIMES = 32  # the last times, from which the usual step comes


class RowsAhead(NamedTuple):
    """Forecasts of a batch of rows, each made at the latest origin before it.

    Attributes
    ----------
    step
        How many rows before it each was made, from 1; 0 where there was none.
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

    Forecasts do not overlap. Where the stream has seasons, a few rows lie between two of them, so that each step
    meets every hour of the day, or whatever a season has.

    The inputs of rows to come are taken as missing, but for those that are known ahead, and for columns of times,
    which go on at the usual step. Naive baselines are scored beside it: the last target before the origin and, of
    each season of the stream from four to 1,000 rows, the target one season before; without any, of the model's
    longest such lag. The state is of fixed size.

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
        check_count(steps)
        self.steps, self.targets, self._known = steps, list(targets), known
        e = len(self.targets)
        # The number of rows seen.
        self._seen = 0
        # How many rows have come since the last origin, and after how many the next one is due.
        self._at, self._every = 0, steps
        # The draws of this forecast; none before the first origin.
        self._paths = np.empty((0, steps, e))
        self._baselines, self._scores = StepBaselines(steps, e), StepScores(steps, self.targets)
        self._scale = np.ones(e)
        self._came = np.full((steps, e), np.nan)  # targets of this forecast
        self._clock = np.full((0, 0), np.nan)  # the last times of each column of times
        self._energy = np.zeros(2)  # forecasts whose targets all came, and their energy scores

    def rows_to_origin(self, learner: StreamLearner, clock: Float[np.ndarray, " n"] | None = None) -> int:
        """Return how many rows may be learnt in one go; at an origin the forecast is made first.

        `clock` has the times of the next rows by the stream's clock, where it has one.
        """
        if not learner.is_warmed_up:
            return learner.warmup
        if not self._at:
            self._forecast(learner)
        if clock is None:
            return self._every - self._at
        last = np.flatnonzero(self._steps_of(clock) >= self._every - 1)
        return int(last[0]) + 1 if len(last) else len(clock)

    def add(
        self,
        y: Float[np.ndarray, "n e"],
        times: Float[np.ndarray, "n c"] | None = None,
        clock: Float[np.ndarray, " n"] | None = None,
    ) -> RowsAhead:
        """Score the next rows, up to the next origin at most; NaN targets are not scored.

        `times` are what their columns of times hold, and `clock` are their times by the stream's clock. A step of
        this that had no row counts as one, and is not scored.
        """
        n = len(y)
        clock = np.full(n, np.nan) if clock is None else clock
        found = RowsAhead(np.zeros(n, np.int64), *(np.full((n, len(self.targets)), np.nan) for _ in NAMES))
        if len(self._paths) and n:
            steps = self._steps_of(clock)
            within = steps < self.steps
            if within.any():
                for every, some in zip(found, self._score(steps[within], y[within]), strict=True):
                    every[within] = some
                self._came[steps[within]] = y[within]
            if self._at < self.steps <= steps[-1] + 1:
                self._end()
            self._at = (int(steps[-1]) + 1) % self._every if steps[-1] < self._every else 0
        self._seen += n
        self._baselines.take_in(y, clock)
        if times is not None:
            before = self._clock if len(self._clock) else times[:0]
            self._clock = np.concatenate([before, times])[-_TIMES:]
        return found

    def _steps_of(self, clock: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return which steps of this forecast the next rows are, from 0: beyond the last one they are of none."""
        return self._at + np.cumsum(1 + self._baselines.missed(clock)) - 1

    def result(self) -> dict[str, Any]:
        """Return the scores: ``by_step`` has an entry for each step, of several targets for each step and target."""
        count, total = self._energy
        return {
            "steps": self.steps,
            "paths": PATHS,
            "origins_every": self._every,
            "seasons": list(self._baselines.seasons),
            "forecasts": int(count),
            "energy_score": float(total / count) if count else None,
            "by_step": self._scores.entries(),
        }

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        plain = {name: getattr(self, name) for name in ("steps", "targets", "_seen", "_at", "_every")}
        return plain | arrays | {"_baselines": self._baselines.to_tree(), "_scores": self._scores.to_tree()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "StepsAhead":
        """Restore what `to_tree` returned."""
        ahead = cls(tree["steps"], list(tree["targets"]))
        ahead._seen, ahead._at, ahead._every = tree["_seen"], tree["_at"], tree["_every"]
        ahead._baselines = StepBaselines.from_tree(tree["_baselines"])
        ahead._scores = StepScores.from_tree(tree["_scores"])
        for name in _ARRAYS:
            setattr(ahead, name, tree[name].copy())
        return ahead

    def _forecast(self, learner: StreamLearner) -> None:
        """Forecast all steps from here."""
        lags = [lag for lag in learner.spec.lags if lag >= SHORTEST_SEASON]
        self._baselines.forecast(sorted(learner.seasons or lags[-1:]), learner.latest_fit.timetable)
        self._scores.begin(self._baselines.names)
        self._every = rows_between_origins(self.steps, self._baselines.seasons)
        inputs = np.full((self.steps, learner.num_inputs), np.nan)
        dates = learner.settings.categories.dates
        if dates and len(self._clock):  # a model that was learnt before has shown no time yet
            inputs[:, dates] = _going_on(self._clock, self.steps)
        if self._known is not None:
            known = self._known[self._seen : self._seen + self.steps]
            clock = None if learner.timed else learner.settings.clock(known, None)
            steps = np.arange(len(known)) if clock is None else self._steps_of(clock)
            known, steps = known[steps < self.steps], steps[steps < self.steps]
            inputs[steps] = np.where(np.isnan(known), inputs[steps], known)
        self._paths = learner.paths(inputs, None, PATHS)
        self._scale = np.asarray(learner.target_scale, dtype=np.float64)
        self._came[:] = np.nan

    def _score(self, at: Int[np.ndarray, " n"], y: Float[np.ndarray, "n e"]) -> RowsAhead:
        drawn = self._paths[:, at]
        mean, std = drawn.mean(axis=0), drawn.std(axis=0, ddof=1)
        crps = crps_ensemble(np.moveaxis(drawn, 0, -1), np.where(np.isfinite(y), y, mean))
        ends = [np.quantile(drawn, [0.5 - level / 200.0, 0.5 + level / 200.0], axis=0) for level in LEVELS]
        inside = np.stack([(low <= y) & (y <= high) for low, high in ends])
        usual = np.broadcast_to(self._baselines.scales, y.shape)
        self._scores.add(at, y, mean, crps, inside, self._baselines.naive(at), usual)
        return RowsAhead(at + 1, mean, std, *np.quantile(drawn, list(QUANTILES.values()), axis=0))

    def _end(self) -> None:
        """Score a forecast as a whole, once all its targets are in."""
        if np.isfinite(self._came).all():
            wide = (self._paths / self._scale).reshape(len(self._paths), -1)
            self._energy += 1.0, float(energy_score(wide, (self._came / self._scale).ravel()))


_ARRAYS = ("_paths", "_scale", "_came", "_clock", "_energy")


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
    check_count(steps)


def check_count(steps: int) -> None:
    """Raise ValueError if so many rows ahead are too few to be forecast one by one."""
    if steps < 2:
        raise ValueError(f"steps_ahead: expected at least 2 rows ahead, got {steps}; a single one is the usual run")


def _going_on(times: Float[np.ndarray, "n c"], steps: int) -> Float[np.ndarray, "h c"]:
    """Return the times of rows to come, at the median step of the last ones; NaN where these do not say it."""
    found = np.full((steps, times.shape[1]), np.nan)
    for c, column in enumerate(times.T):
        known = np.flatnonzero(np.isfinite(column))
        gaps = np.diff(column[known])
        if (gaps > 0.0).any():
            step, since = np.median(gaps[gaps > 0.0]), len(column) - 1 - known[-1]
            found[:, c] = column[known[-1]] + step * (since + np.arange(1, steps + 1))
    return found
