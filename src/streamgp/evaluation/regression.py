"""Scores of predicted measurements, summed up over a stream in constant memory."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from streamgp.evaluation.baseline_bands import BaselineBands
from streamgp.evaluation.kinds_of_rows import CLOCKS, Bands, Kinds, KindsOfRows
from streamgp.evaluation.metrics.bands import interval_score
from streamgp.evaluation.metrics.judgement import Judgement, PairedLosses
from streamgp.evaluation.regression_scores import RegressionScores, score_regression
from streamgp.evaluation.running_sums import Moments, PointErrors, ScoresInSums
from streamgp.evaluation.seasonal import NO_CLOCK, Clock, SeasonalNaive
from streamgp.likelihoods import NumericPredictive

COVERAGE_LEVELS = (50, 90, 95)
# Fields of `RegressionMetrics` in a checkpoint.
_MOMENTS = ("_seen", "_scored", "_unflagged")
_ERRORS = (
    "_model",
    "_persistence",
    "_running",
    *(f"{name}_unflagged" for name in ("_model", "_persistence", "_running")),
)
BASELINES = ("persistence", "running_mean")
# The score of means, by which a baseline without a distribution is at no disadvantage.
SQUARED = "squared_error"


class RegressionMetrics(ScoresInSums):
    """Scores over the rows after the warm-up, for every target, in constant memory.

    Naive baselines are scored on the same rows: persistence (the last target), the running mean, and each season of
    the stream (see `streamgp.evaluation.seasonal`). With a horizon h the baselines, like the model, know the targets
    only up to the row h before. Where rows were flagged as outliers, the errors of the others are kept as well:
    otherwise a few absurd targets decide every squared error.
    """

    plain = ("_flagged", "_pll", "_pll_moment", "_joint", "_energy")
    copied = ("targets", "_baselines", "_crps", "_covered", "_bands", "_relative")

    def __init__(self, targets: list[str], warmup: int, horizon: int = 0) -> None:
        self.targets = targets
        super().__init__(warmup)
        # What the baselines predict of the next rows, the oldest first: (rows, baseline, target).
        self._baselines = np.full((max(horizon, 1), 2, len(targets)), np.nan)
        self._seasonal = SeasonalNaive(len(targets), warmup)
        # Sums of errors as shares of the targets, and how many targets are 0.
        self._relative = np.zeros((len(targets), 2))
        self._seen = [Moments() for _ in targets]
        self._scored = [Moments() for _ in targets]
        self._model = [PointErrors() for _ in targets]
        self._persistence = [PointErrors() for _ in targets]
        self._running = [PointErrors() for _ in targets]
        # The number of scored rows that were flagged as outliers.
        self._flagged = 0
        self._unflagged = [Moments() for _ in targets]  # the targets of the rows that were not flagged
        self._model_unflagged = [PointErrors() for _ in targets]
        self._persistence_unflagged = [PointErrors() for _ in targets]
        self._running_unflagged = [PointErrors() for _ in targets]
        self._paired = [PairedLosses(BASELINES) for _ in targets]
        self._naive_bands = [[BaselineBands(max(horizon, 1) - 1) for _ in BASELINES] for _ in targets]
        self._crps = np.zeros(len(targets))
        self._covered = np.zeros((len(targets), len(COVERAGE_LEVELS)))
        self._bands = np.zeros((len(targets), 2))  # sums of width and interval score of the 90% bands
        self.kinds: KindsOfRows | None = None
        self._pll = 0.0
        self._pll_moment = 0.0
        self._joint = 0.0
        self._energy = 0.0

    def score(self, predictive: NumericPredictive, y: np.ndarray) -> RegressionScores:
        """Score the next rows without counting them."""
        return score_regression(predictive, y)

    def add(
        self,
        scores: RegressionScores,
        flagged: np.ndarray | None = None,
        beforehand: np.ndarray | None = None,
        times: np.ndarray | None = None,
        seasons: Iterable[int] | None = None,
        clock: Clock = NO_CLOCK,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Count the next rows; return the predictions of them by persistence and by the running mean, (n, E) each.

        Some of the targets may be missing, NaN: a row counts for those that are there, and jointly if all are.
        `flagged` marks those that the model set aside as outliers, `beforehand` is what `values_known` gave, and
        `times` are those of the rows, where they have any; `seasons` are those of the stream, in rows, once they are
        known, and `clock` is what they are counted by.
        """
        y = scores.y
        there = ~np.isnan(y)
        known = np.empty((len(y), 2, y.shape[1]))  # after each row: the last target, and the mean so far
        before = np.array([self._seen[e].count for e in range(y.shape[1])])
        for e, seen in enumerate(there.T):
            count, mean, _ = self._seen[e]
            came = y[seen, e]
            means = (count * mean + np.cumsum(came)) / (count + 1.0 + np.arange(len(came)))
            # The number of the latest row with a target; 0 if none of these rows has one.
            at = np.cumsum(seen)
            known[:, 0, e] = np.append(self._baselines[-1, 0, e], came)[at]
            known[:, 1, e] = np.append(self._baselines[-1, 1, e], means)[at]
            self._seen[e] = self._seen[e].add(came)
        baselines = np.concatenate([self._baselines, known])
        (persistence, running), self._baselines = np.moveaxis(baselines[: len(y)], 1, 0), baselines[len(y) :]
        if self._seasonal.begin(seasons, clock.timetable):
            # With late labels some rows were scored before; they are not compared.
            self._paired = [PairedLosses((*BASELINES, *self._seasonal.errors)) for _ in self.targets]
        seasonal = self._seasonal.next(y, persistence, len(self._baselines), clock.times)
        whole = there.all(1)
        joint = whole & (self.labelled_rows + np.cumsum(whole) > self.warmup)
        is_usual = np.ones(len(y), bool) if flagged is None else ~flagged
        self.rows += len(y)
        self.unlabelled_rows += int(np.sum(~whole))
        scored = there & (before + np.cumsum(there, axis=0) > self.warmup)
        self._flagged += int(np.sum(~is_usual & scored.any(1)))
        for e in range(y.shape[1]):
            score = scored[:, e]
            target, usual = y[score, e], is_usual[score]
            self._unflagged[e] = self._unflagged[e].add(target[usual])
            self._model_unflagged[e].add((scores.mean[score, e] - target)[usual])
            self._persistence_unflagged[e].add((persistence[score, e] - target)[usual])
            self._running_unflagged[e].add((running[score, e] - target)[usual])
            self._scored[e] = self._scored[e].add(target)
            self._model[e].add(scores.mean[score, e] - target)
            self._persistence[e].add(persistence[score, e] - target)
            self._running[e].add(running[score, e] - target)
            for bands, predicted in zip(self._naive_bands[e], (persistence, running), strict=True):
                bands.add(y[:, e] - predicted[:, e], score)
            self._seasonal.add(e, seasonal[:, score, e] - target, usual)
            self._relative[e] += _relative_errors(scores.mean[score, e], target)
            every = (scores.mean, persistence, running, *seasonal)
            each = np.stack([predicted[score, e] for predicted in every], axis=1)
            self._paired[e].add(np.square(each - target[:, None]), None if flagged is None else ~usual)
            centred = np.abs(scores.pit[score, e] - 0.5)
            for i, level in enumerate(COVERAGE_LEVELS):
                self._covered[e, i] += np.sum(centred <= level / 200.0)
            self._crps[e] += np.sum(scores.crps[score, e])
            self._bands[e] += _band_sums(scores.q05[score, e], scores.q95[score, e], target)
        if beforehand is not None:
            self.kinds = self.kinds or KindsOfRows(y.shape[1], beforehand.shape[1])
            bands = Bands(np.abs(scores.pit - 0.5) <= 0.45, scored, scores.q95 - scores.q05)
            self.kinds.add(beforehand, bands, times)
        self._pll += float(np.sum(scores.log_density[joint]))
        self._pll_moment += float(np.sum(scores.moment_log_density[joint]))
        self._joint += float(np.sum(scores.joint_log_density[joint]))
        self._energy += float(np.sum(scores.energy[joint]))
        return persistence, running

    def add_unlabelled(self, scores: RegressionScores, clock: Clock = NO_CLOCK) -> tuple[np.ndarray, np.ndarray]:
        """Count rows whose target is missing, which are not scored; return the baselines' predictions of them."""
        rows = len(scores.y)
        self.pass_over(rows)
        baselines = np.repeat(self._baselines[:1], rows, axis=0)
        self._seasonal.next(scores.y, baselines[:, 0], len(self._baselines), clock.times)
        return baselines[:, 0], baselines[:, 1]

    def result(self) -> dict[str, Any]:
        """Return all scores; of several targets the first's at the top, and each one's own under ``per_target``."""
        n = self.scored_rows
        each = [self._result_of(e) for e in range(len(self.targets))]
        joint = {
            "pll": self._pll / n if n else None,
            "pll_moment": self._pll_moment / n if n else None,
        }
        result: dict[str, Any] = self.counts() | each[0] | joint
        if len(self.targets) > 1:
            result["joint_pll"] = self._joint / n if n else None
            result["energy"] = self._energy / n if n else None
            result["per_target"] = dict(zip(self.targets, each, strict=True))
        return result

    def judgements(self) -> list[Judgement]:
        """Return how the model stands beside the baselines, by squared errors, for each target."""
        return [paired.judgement(SQUARED) for paired in self._paired]

    def _result_of(self, e: int) -> dict[str, Any]:
        n = self._scored[e].count
        variance = self._scored[e].m2 / n if n else 0.0
        errors = self._model[e].result(variance)
        return {
            **errors,
            "unflagged": self._result_of_unflagged(e) if self._flagged else None,
            "mase": self._seasonal.scaled(e, errors["mae"]),
            "mape": float(self._relative[e, 0] / n) if n and not self._relative[e, 1] else None,
            "crps": float(self._crps[e] / n) if n else None,
            "width": float(self._bands[e, 0] / n) if n else None,
            "interval_score": float(self._bands[e, 1] / n) if n else None,
            **self._coverage_by(e),
            "coverage": {
                str(level): float(self._covered[e, i] / n) if n else None for i, level in enumerate(COVERAGE_LEVELS)
            },
            "naive": {
                "persistence": self._persistence[e].result(variance) | self._naive_bands[e][0].result(),
                "running_mean": self._running[e].result(variance) | self._naive_bands[e][1].result(),
                **self._seasonal.result(e, variance),
            },
        }

    def _coverage_by(self, e: int) -> dict[str, Any]:
        """Return coverage and mean width of 90% bands by fifths and by the clock, and how many rows these have.

        Inputs have their numbers for names.
        """
        found: dict[str, Kinds] = {}
        if self.kinds is not None:
            E = len(self.targets)
            names = {"predicted_noise": e, "predicted_std": E + e}
            names |= {str(g - 2 * E): g for g in range(2 * E, self.kinds.values)}
            found = {name: self.kinds.result(e, g) for name, g in names.items()}
            found |= {name: self.kinds.on_clock(e, name) for name in CLOCKS}
        told = {name: kinds for name, kinds in found.items() if sum(kinds.rows)}
        entries = {"coverage_by": "coverage", "width_by": "width", "coverage_by_rows": "rows"}
        return {key: {name: getattr(kinds, field) for name, kinds in told.items()} for key, field in entries.items()}

    def _result_of_unflagged(self, e: int) -> dict[str, Any]:
        rows = int(self._unflagged[e].count)
        variance = self._unflagged[e].m2 / rows if rows else 0.0
        return {
            "rows": rows,
            **self._model_unflagged[e].result(variance),
            "naive": {
                "persistence": self._persistence_unflagged[e].result(variance),
                "running_mean": self._running_unflagged[e].result(variance),
                **self._seasonal.result(e, variance, unflagged=True),
            },
        }

    def to_tree(self) -> dict[str, Any]:
        """Return the running sums for a checkpoint."""
        tree = super().to_tree()
        tree |= {name: [list(m) for m in getattr(self, name)] for name in _MOMENTS}
        tree |= {name: [dict(vars(p)) for p in getattr(self, name)] for name in _ERRORS}
        tree["kinds"] = None if self.kinds is None else self.kinds.to_tree()
        tree["_seasonal"] = self._seasonal.to_tree()
        tree["_paired"] = [paired.to_tree() for paired in self._paired]
        tree["naive_bands"] = [[bands.to_tree() for bands in each] for each in self._naive_bands]
        return tree

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "RegressionMetrics":
        """Restore the metrics that `to_tree` stored."""
        metrics = cls(tree["targets"], tree["warmup"])._restored(tree)
        for name in _MOMENTS:
            setattr(metrics, name, [Moments(*m) for m in tree[name]])
        for name in _ERRORS:
            for errors, stored in zip(getattr(metrics, name), tree[name], strict=True):
                vars(errors).update(stored)
        metrics.kinds = None if tree["kinds"] is None else KindsOfRows.from_tree(tree["kinds"])
        metrics._seasonal = SeasonalNaive.from_tree(tree["_seasonal"])
        metrics._paired = [PairedLosses.from_tree(each) for each in tree["_paired"]]
        metrics._naive_bands = [[BaselineBands.from_tree(bands) for bands in each] for each in tree["naive_bands"]]
        return metrics


def _relative_errors(mean: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the sum of errors as shares of their targets, and how many targets are zero."""
    usual = y != 0.0
    return float(np.sum(np.abs(mean - y)[usual] / np.abs(y[usual]))), float(np.sum(~usual))


def _band_sums(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the sums of widths and of interval scores of 90% bands."""
    return float(np.sum(high - low)), float(np.sum(interval_score(low, high, y, 0.9)))
