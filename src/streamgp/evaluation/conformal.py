"""Bands with guaranteed coverage on any stream: adaptive conformal inference (Gibbs and Candes 2021).

A model's own band may be too narrow or too wide, and after a change of the stream usually is. The conformal band is
the model's mean give or take a multiple of its standard deviation, and the multiple is a quantile of how many
standard deviations the last targets were off. The level of that quantile moves with every target, up after a miss
and down after a hit, so that in the long run the share of misses is the one asked for: with step size g and forecasts
h rows ahead, after T rows it is within (1 + 2 h g) / (g T) of it on any sequence (their Proposition 4.1 has h = 1),
unless targets are met exactly, which no band can miss: what cannot be missed teaches nothing. With groups of rows
the same holds in each of them (`group_thresholds`), and the model's own band is tested in each (`coverage_tests`).
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from math import ceil, inf, isnan
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.alarm_rows import Alarm
from streamgp.evaluation.alarm_text import describe_coverage
from streamgp.evaluation.coverage_tests import Miscovered
from streamgp.evaluation.group_bands import GroupBands
from streamgp.evaluation.metrics.shares import share
from streamgp.evaluation.regression_scores import predicted_noise
from streamgp.evaluation.row_groups import GroupColumn
from streamgp.likelihoods import MappedPredictive, SideBySide
from streamgp.numerics.precision import float64

STEP = 0.005  # g in Gibbs and Candes (2021), Sec. 2.2
# The memory is so long that about this many errors lie beyond the threshold.
BEYOND = 20


class AdaptiveThreshold:
    """Thresholds for a sequence of scores, each set before its score is known and exceeded by a share 1 - level.

    Parameters
    ----------
    level
        The share of scores at or under their thresholds, in (0, 1).
    horizon
        How many rows before its score a threshold is set, at least 1.
    """

    def __init__(self, level: float, horizon: int = 1) -> None:
        self.level = level
        self.miss = 1.0 - level  # alpha_t
        self._memory = round(BEYOND / (1.0 - level))
        self._last: deque[float] = deque()
        self._sorted: list[float] = []
        self._set: deque[float] = deque([inf] * horizon)

    def update(self, scores: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the thresholds of the next rows, then learn from their scores; infinite where nothing is known.

        A score that is NaN teaches nothing.
        """
        found = np.empty(len(scores))
        for i, score in enumerate(scores.tolist()):
            if isnan(score):
                found[i] = self.next
                continue
            found[i] = threshold = self._set.popleft()
            if max(score, threshold) > 0.0:  # a threshold of 0 cannot be missed by a score of 0
                self.miss += STEP * ((1.0 - self.level) - float(score > threshold))  # Gibbs and Candes (2021), Eq. 2
            self._remember(score)
            self._set.append(self._quantile())
        return found

    @property
    def next(self) -> float:
        """Return the threshold of the next row."""
        return self._set[0]

    def _remember(self, score: float) -> None:
        self._last.append(score)
        insort(self._sorted, score)
        if len(self._last) > self._memory:
            del self._sorted[bisect_left(self._sorted, self._last.popleft())]

    def _quantile(self) -> float:
        """Return the quantile at level 1 - alpha_t of the remembered scores and an infinite one."""
        rank = ceil((1.0 - self.miss) * (len(self._sorted) + 1))
        if rank > len(self._sorted):
            return inf
        return self._sorted[rank - 1] if rank > 0 else 0.0

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"miss": self.miss, "last": np.array(self._last, float), "set": np.array(self._set, float)}

    def restore(self, tree: Mapping[str, Any]) -> None:
        """Take over the state that `to_tree` stored."""
        self.miss = tree["miss"]
        self._last, self._set = deque(tree["last"].tolist()), deque(tree["set"].tolist())
        self._sorted = sorted(self._last)


class Conformal:
    """Conformal bands beside a model's own on a stream of measurements or counts, and the scores of both.

    Parameters
    ----------
    level
        The share of targets that bands are to hold, such as 0.9.
    targets
        Their names.
    warmup
        Rows that come first and are not scored; bands learn from them all the same.
    horizon
        How many rows ahead forecasts are made; 0 and 1: the target of the next row.
    groups
        Columns that part the rows into groups, in each of which bands hold their share; none: all rows are one.
    whole
        Whether targets are whole numbers, of which the model's own bands may hold more.

    Raises
    ------
    ValueError
        If `level` is not between 0 and 1.
    """

    def __init__(
        self,
        level: float,
        targets: list[str],
        warmup: int = 0,
        horizon: int = 0,
        groups: Sequence[GroupColumn] = (),
        whole: bool = False,
    ) -> None:
        self.level = share("conformal", level)
        self.targets = targets
        self.warmup = warmup
        # The number of rows with each target.
        self.rows = np.zeros(len(targets), np.int64)
        self._thresholds = [AdaptiveThreshold(level, max(horizon, 1)) for _ in targets]
        self._sums = np.zeros((len(targets), len(_SUMS)))
        given = groups, level, max(horizon, 1), len(targets), whole, len(_SUMS)
        self.groups = [GroupBands(*given) for _ in targets] if groups else []
        # What the tests of groups found of the latest rows, with the number of the target.
        self.latest: list[tuple[int, Miscovered]] = []

    @property
    def probabilities(self) -> tuple[float, float]:
        """Return the levels of the two quantiles of the model that are its own band."""
        return 0.5 * (1.0 - self.level), 0.5 * (1.0 + self.level)

    def of_rows(
        self, predictive: Any, scores: Any, X: np.ndarray, numbers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the bands of rows that were predicted and scored, and learn from those that have a target.

        `X` are their inputs, by which rows have groups, and `numbers` their numbers in the stream.
        """
        places = None
        if self.groups:
            noise = predicted_noise(predictive, scores.std)
            given = zip(self.groups, noise.T, scores.std.T, strict=True)
            places = [each.groups.place(X, own, std) for each, own, std in given]
        if not np.isfinite(scores.y).any():
            self.latest = []
            return _within(predictive, *self.predict(scores.mean, scores.std, places))
        if self.level == 0.9:
            own = scores.q05, scores.q95
        else:
            with float64():
                low, high = self.probabilities
                own = np.asarray(predictive.quantile(low)), np.asarray(predictive.quantile(high))
        return _within(predictive, *self.add(scores.y, scores.mean, scores.std, own, places, numbers))

    def add(
        self,
        y: np.ndarray,
        mean: np.ndarray,
        std: np.ndarray,
        own: tuple[np.ndarray, np.ndarray],
        places: list[np.ndarray] | None = None,
        numbers: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the bands of the next rows, each from the rows before it, then learn from them.

        Parameters
        ----------
        y, mean, std
            Targets, NaN where one is missing, and the model's predictions, (n, E).
        own
            The model's own band of this level: its lower and upper ends, (n, E) each.
        places, numbers
            Where there are groups: those of the rows for each target (n, C), and the rows' numbers in the stream.

        Returns
        -------
        tuple
            Lower and upper ends, (n, E); infinite where too little is known, and while the share of misses is above
            what was asked for even with the largest of the last errors as the threshold.
        """
        low, high = np.empty_like(y), np.empty_like(y)
        self.latest = []
        for e, threshold in enumerate(self._thresholds):
            # A model may give a standard deviation of zero.
            scale = np.maximum(std[:, e], np.finfo(float).tiny)
            off = np.abs(y[:, e] - mean[:, e]) / scale
            grouped = None if places is None else self.groups[e].thresholds.update(off, places[e])
            half = (threshold.update(off) if grouped is None else grouped) * scale
            low[:, e], high[:, e] = mean[:, e] - half, mean[:, e] + half
            inside = np.abs(y[:, e] - mean[:, e]) <= half
            inside_own = (y[:, e] >= own[0][:, e]) & (y[:, e] <= own[1][:, e])
            bounded, width = np.isfinite(half), own[1][:, e] - own[0][:, e]
            seen = ~np.isnan(y[:, e])
            scored = seen & (self.rows[e] + np.cumsum(seen) > self.warmup)
            each = (np.ones(len(y)), inside, bounded, np.where(bounded, 2.0 * half, 0.0), inside_own, width)
            self._sums[e] += [float(np.sum(values[scored])) for values in each]
            if places is not None and numbers is not None:
                counted = np.stack(each, axis=1)[scored].astype(float)
                found = self.groups[e].count(places[e][scored], counted, ~inside_own[scored], numbers[scored])
                self.latest += [(e, one) for one in found]
            self.rows[e] += seen.sum()
        return low, high

    def predict(
        self, mean: np.ndarray, std: np.ndarray, places: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the bands of rows without a target, each as if it were the next one; learn nothing."""
        if places is None:
            each = np.array([threshold.next for threshold in self._thresholds])
        else:
            none = np.full(len(mean), np.nan)
            given = zip(self.groups, places, strict=True)
            each = np.stack([bands.thresholds.update(none, place) for bands, place in given], axis=1)
        half = each * np.maximum(std, np.finfo(float).tiny)
        return mean - half, mean + half

    def alarms(self, rows: np.ndarray, times: np.ndarray | None) -> list[Alarm]:
        """Return an alarm for each group that was found to be miscovered at the latest rows; their times, if any."""
        found = []
        for e, each in self.latest:
            name = self.targets[e] if len(self.targets) > 1 else None
            at = int(np.searchsorted(rows, each.row))
            group = self.groups[e].groups.name(each.group, at)
            what = describe_coverage(group, each.since, each.coverage, self.level, name)
            time = None if times is None else float(times[at])
            given = (each.row, time, each.since, each.evidence, what, self.targets[e])
            found.append(Alarm("coverage", *given, size=each.coverage))
        return found

    def result(self) -> dict[str, Any]:
        """Return coverage and mean width of the conformal bands and of the model's own, over the scored rows.

        Rows whose band is unbounded count as covered, are counted apart, and are left out of the mean width. The
        scores of the first target are at the top; with several targets each one's own are under ``per_target``.
        With groups there are those of each one that had rows, under ``groups``.
        """
        each = [self._result_of(sums) for sums in self._sums]
        for found, bands in zip(each, self.groups, strict=False):
            found["groups"] = self._by_group(bands)
        result = {"level": self.level, **each[0]}
        return result | {"per_target": dict(zip(self.targets, each, strict=True))} if len(each) > 1 else result

    def _by_group(self, bands: GroupBands) -> list[dict[str, Any]]:
        """Return the scores of each group that had rows, and the evidence that its coverage is another."""
        found, told = [], {each.group for each in bands.found}
        for g in np.flatnonzero(bands.sums[:, 0]).tolist():
            named = {"column": bands.groups.column(g), "group": bands.groups.name(g), "rows": int(bands.sums[g, 0])}
            tested = {"e_value": float(bands.tests.e_values[g]), "miscovered": g in told}
            found.append(named | self._result_of(bands.sums[g]) | tested)
        return found

    def _result_of(self, sums: np.ndarray) -> dict[str, Any]:
        rows, inside, bounded, width, own_inside, own_width = sums.tolist()
        return {
            "coverage": inside / rows if rows else None,
            "width": width / bounded if bounded else None,
            "unbounded_rows": int(rows - bounded),
            "own": {
                "coverage": own_inside / rows if rows else None,
                "width": own_width / rows if rows else None,
            },
        }

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "level": self.level,
            "targets": list(self.targets),
            "warmup": self.warmup,
            "rows": self.rows.copy(),
            "thresholds": [threshold.to_tree() for threshold in self._thresholds],
            "sums": self._sums.copy(),
            "groups": [each.to_tree() for each in self.groups],
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "Conformal":
        """Restore the bands that `to_tree` stored."""
        conformal = cls(tree["level"], list(tree["targets"]), tree["warmup"])
        conformal.rows = tree["rows"].copy()
        conformal._sums = tree["sums"].copy()
        for threshold, stored in zip(conformal._thresholds, tree["thresholds"], strict=True):
            threshold.restore(stored)
        level, count = tree["level"], len(tree["targets"])
        conformal.groups = [GroupBands.from_tree(each, level, count) for each in tree["groups"]]
        return conformal


def _within(predictive: Any, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bands within the bounds of the target, if there are any; they hold what they held."""
    one = predictive.parts[0] if isinstance(predictive, SideBySide) else predictive
    if not isinstance(one, MappedPredictive):
        return low, high
    ends = one.map.low, one.map.high
    return np.clip(low, *ends), np.clip(high, *ends)


_SUMS = ("rows", "inside", "bounded", "width", "own inside", "own width")
