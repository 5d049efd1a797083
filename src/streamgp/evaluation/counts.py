"""Scores of predicted counts: row by row, and summed up over a stream in constant memory."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.metrics.judgement import Judgement, PairedLosses
from streamgp.evaluation.regression import BASELINES, COVERAGE_LEVELS, SQUARED
from streamgp.evaluation.regression_scores import QUANTILES
from streamgp.evaluation.running_sums import Moments, PointErrors, ScoresInSums
from streamgp.evaluation.seasonal import NO_CLOCK, Clock, SeasonalNaive
from streamgp.numerics.arrays import AnyArray

_SIDE = 24  # cells of the distribution function on each side of the median
# The reach of the cells, in distances from the median to the quantiles at 5% and 95%.
_REACH = 10.0

Column = Float[np.ndarray, "n 1"]


@runtime_checkable
class CountPredictive(Protocol):
    """A prediction of n counts."""

    @property
    def mean(self) -> Any:
        """Return the mean (n, 1)."""
        ...

    @property
    def std(self) -> Any:
        """Return the standard deviation (n, 1)."""
        ...

    def cdf(self, y: Any) -> Any:
        """Return the probability (n, 1) of at most `y` (n, 1)."""
        ...

    def quantile(self, probability: float) -> Any:
        """Return the least count (n, 1) that is reached with at least this probability."""
        ...

    def log_density(self, y: Any) -> Any:
        """Return the log probability (n,) of `y` (n, 1)."""
        ...


@runtime_checkable
class TabulatedPredictive(CountPredictive, Protocol):
    """A prediction whose distribution function at the first counts costs less than at each by itself."""

    def cdf_from_zero(self, counts: Any) -> Any:
        """Return it at 0, 1, ..., so many of each row, and NaN beyond; NaN alone of rows that are not tabulated."""
        ...

    def of_rows(self, rows: Any) -> Any:
        """Return the prediction of some rows, by their numbers."""
        ...


class CountScores(NamedTuple):
    """The scores of every row; arrays (n, 1), but (n,) for the log probability.

    A count has no single quantile level in its predicted distribution: its probability integral transform is uniform
    between P(Y < y), `pit_below`, and P(Y <= y), `pit` (Czado, Gneiting and Held 2009, Eq. 2). `crps` is the ranked
    probability score, the sum over k = 0, 1, ... of (P(Y <= k) - 1{y <= k})^2. The rates of the naive baselines are
    multiplied by `exposure`.
    """

    y: Column
    mean: Column
    std: Column
    q05: Column
    q50: Column
    q95: Column
    pit_below: Column
    pit: Column
    crps: Column
    log_density: Float[np.ndarray, " n"]
    exposure: Column


def score_counts(
    predictive: CountPredictive, y: Float[AnyArray, "n 1"], exposure: Float[AnyArray, "n 1"] | None = None
) -> CountScores:
    """Score predictions of n rows against their counts."""
    y = np.asarray(y, dtype=np.float64)
    low, median, high = (np.asarray(predictive.quantile(p), dtype=np.float64) for p in QUANTILES)
    log_density = np.asarray(predictive.log_density(y))
    at = np.asarray(predictive.cdf(y))
    return CountScores(
        y,
        np.asarray(predictive.mean),
        np.asarray(predictive.std),
        low,
        median,
        high,
        np.where(y > 0, np.maximum(at - _probability(log_density)[:, None], 0.0), 0.0),
        at,
        ranked_probability_score(predictive, y, low, median, high),
        log_density,
        np.ones_like(y) if exposure is None else np.asarray(exposure, dtype=np.float64),
    )


def _probability(log_density: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return probabilities, which are at most 1; the log of one of a count beyond all digits may come out above 0."""
    return np.exp(np.minimum(log_density, 0.0))


def ranked_probability_score(
    predictive: CountPredictive, y: Column, low: Column, median: Column, high: Column
) -> Column:
    """Compute the ranked probability score of counts.

    Where the distribution function is tabulated, it is a sum over all counts. Else the function is computed at some
    50 counts of each row, the observed one among them: every one where they are few, and further apart in the tails
    where they are many. Between two of them it is taken as linear, and the sum over the counts between is in closed
    form. Exact where the central 90% spans few counts; else within 1%, or 4% of a distribution with most of its mass
    on a few counts and a tail of thousands.
    """
    nodes = _nodes(y, low, median, high)
    if not isinstance(predictive, TabulatedPredictive):
        return _by_cells(predictive, y, nodes)
    F = predictive.cdf_from_zero(np.minimum(nodes[:, -1], np.iinfo(np.int64).max // 2).astype(np.int64))
    errors = F - (y <= np.arange(F.shape[1]))
    found = np.nansum(errors * errors, axis=1, keepdims=True)
    rest = np.flatnonzero(np.isnan(F).all(axis=1))
    if len(rest):
        found[rest] = _by_cells(predictive.of_rows(rest), y[rest], nodes[rest])
    return found


def _by_cells(predictive: CountPredictive, y: Column, nodes: Float[np.ndarray, "n m"]) -> Column:
    """Compute the score from the distribution function at some counts in ascending order, the first of them 0."""
    F = _distribution(predictive, nodes)
    start = F[:, :-1] - (y <= nodes[:, :-1])
    step = np.diff(F, axis=1)
    m = np.diff(nodes, axis=1)  # counts of each cell, its upper end left out
    inner = np.maximum(m, 1.0)
    a, b = (inner - 1) / inner, (2 * inner - 1) / inner
    cells = m * (start**2 + start * step * a + step**2 * a * b / 6)
    return cells.sum(axis=1, keepdims=True)


def _distribution(predictive: CountPredictive, nodes: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
    """Compute the distribution function at counts in ascending order, the first of them 0.

    From one count to the next it grows by a probability, which costs a fraction of an integral of its own.
    """
    F = _probability(np.asarray(predictive.log_density(nodes[:, :1])))[:, None]
    columns = [F]
    for last, node in zip(nodes.T[:-1, :, None], nodes.T[1:, :, None], strict=True):
        step = node - last
        if not step.any():
            pass
        elif (step <= 1.0).all():
            F = F + step * _probability(np.asarray(predictive.log_density(node)))[:, None]
        else:
            F = np.asarray(predictive.cdf(node))
        columns.append(F)
    return np.concatenate(columns, axis=1)


def _nodes(y: Column, low: Column, median: Column, high: Column) -> Float[np.ndarray, "n m"]:
    """Choose the counts at which the distribution function is computed, ascending, some of them twice."""
    u = np.arange(1, _SIDE + 1) / _SIDE
    far = np.sinh(3.0 * u) / np.sinh(3.0) * _REACH
    each = np.arange(1.0, _SIDE + 1)
    below = median - np.maximum(each, np.ceil(far * np.maximum(median - low, 1.0)))
    above = median + np.maximum(each, np.ceil(far * np.maximum(high - median, 1.0)))
    # Before the least count, the function is zero; the sum ends beyond the last node and beyond y.
    nodes = np.concatenate([np.zeros_like(y), below, median, above, y, y + 1.0], axis=1)
    nodes = np.sort(np.maximum(nodes, 0.0), axis=1)
    # Repeated nodes go to the end.
    twice = np.diff(nodes, axis=1, prepend=-1.0) == 0.0
    return np.sort(np.where(twice, nodes[:, -1:], nodes), axis=1)


class CountMetrics(ScoresInSums):
    """Scores over the rows after the warm-up, in constant memory.

    deviance
        Mean Poisson deviance of the predicted mean mu: 2 (y log(y / mu) - y + mu), with y log y = 0 at y = 0.
    nmse, rmse, mae
        Of the predicted mean.
    pll
        Mean log probability of the count.
    crps
        Mean ranked probability score.
    coverage
        Of central bands, as under a randomised probability integral transform, in expectation: a calibrated model
        has each nominal level exactly, although its counts are whole.

    Naive baselines are scored on the same rows, as rates per exposure: persistence (the last one), the running mean
    (all counts over all exposure), and each season of the stream (see `streamgp.evaluation.seasonal`). Their deviance
    is None where they gave the observed count probability zero.
    """

    plain = ("target", "_pll", "_crps", "_deviance", "_total", "_exposure")
    copied = ("_covered", "_rates", "_baseline_deviance")

    def __init__(self, target: str, warmup: int, horizon: int = 0) -> None:
        self.target = target
        super().__init__(warmup)
        # The rates that the baselines predict for the next rows.
        self._rates = np.full((max(horizon, 1), 2), np.nan)
        # The total count and exposure of all rows so far.
        self._total = self._exposure = 0.0
        self._scored = Moments()
        self._errors = {name: PointErrors() for name in ("model", *BASELINES)}
        self._seasonal = SeasonalNaive(1, warmup)
        self._paired = PairedLosses(BASELINES)
        self._deviance = self._pll = self._crps = 0.0
        self._baseline_deviance = np.zeros(len(BASELINES))
        self._covered = np.zeros(len(COVERAGE_LEVELS))

    def score(
        self, predictive: CountPredictive, y: Float[AnyArray, "n 1"], exposure: Float[AnyArray, "n 1"] | None = None
    ) -> CountScores:
        """Score the next rows without counting them."""
        return score_counts(predictive, y, exposure)

    def add(
        self, scores: CountScores, seasons: Iterable[int] | None = None, clock: Clock = NO_CLOCK
    ) -> tuple[Column, Column]:
        """Count the next rows; return the predictions of them by persistence and by the running mean.

        `seasons` are those of the stream, in rows, once they are known, and `clock` is what they are counted by.
        """
        if self._seasonal.begin(seasons, clock.timetable):
            # With late labels some rows were scored before; they are not compared.
            names = (*BASELINES, *self._seasonal.errors)
            self._paired, self._baseline_deviance = PairedLosses(names), np.zeros(len(names))
        y, exposure = scores.y[:, 0], scores.exposure[:, 0]
        totals = self._total + np.cumsum(y)
        exposures = self._exposure + np.cumsum(exposure)
        self._total, self._exposure = float(totals[-1]), float(exposures[-1])
        rates = np.concatenate([self._rates, np.stack([y / exposure, totals / exposures], axis=1)])
        baselines, self._rates = rates[: len(y)] * exposure[:, None], rates[len(y) :]
        seasonal = self._seasonal.next((y / exposure)[:, None], rates[: len(y), :1], len(self._rates), clock.times)
        score = slice(max(0, self.warmup - self.labelled_rows), None)
        self.rows += len(y)
        target = y[score]
        self._scored = self._scored.add(target)
        for name, predicted in zip(self._errors, (scores.mean[:, 0], *baselines.T), strict=True):
            self._errors[name].add(predicted[score] - target)
        seasonal = (seasonal[:, :, 0] * exposure)[:, score]
        self._seasonal.add(0, seasonal - target, np.ones(len(target), bool))
        every = [*baselines[score].T, *seasonal]
        each = np.column_stack([scores.mean[score, 0], *every])
        self._paired.add(np.square(each - target[:, None]))
        self._deviance += float(poisson_deviance(target, scores.mean[score, 0]).sum())
        known = np.isfinite(baselines[score, 0])
        self._baseline_deviance += [poisson_deviance(target, mean)[known].sum() for mean in every]
        self._pll += float(scores.log_density[score].sum())
        self._crps += float(scores.crps[score].sum())
        self._covered += _covered(scores.pit_below[score], scores.pit[score]).sum(axis=0)
        return baselines[:, :1], baselines[:, 1:]

    def add_unlabelled(self, scores: CountScores, clock: Clock = NO_CLOCK) -> tuple[Column, Column]:
        """Count rows whose target is missing, which are not scored; return the baselines' predictions of them."""
        rows = len(scores.y)
        self.pass_over(rows)
        baselines = self._rates[:1] * scores.exposure
        last = np.repeat(self._rates[:1, :1], rows, axis=0)
        self._seasonal.next(np.full((rows, 1), np.nan), last, len(self._rates), clock.times)
        return baselines[:, :1], baselines[:, 1:]

    def result(self) -> dict[str, Any]:
        """Return all scores."""
        n = self.scored_rows
        variance = self._scored.m2 / n if n else 0.0
        errors = self._errors | {name: each[0] for name, each in self._seasonal.errors.items()}
        naive = {
            name: errors[name].result(variance) | {"deviance": self._mean(deviance, errors[name].count)}
            for name, deviance in zip((*BASELINES, *self._seasonal.errors), self._baseline_deviance, strict=True)
        }
        return {
            **self.counts(),
            **self._errors["model"].result(variance),
            "deviance": self._mean(self._deviance, n),
            "crps": self._mean(self._crps, n),
            "coverage": {
                str(level): self._mean(total, n) for level, total in zip(COVERAGE_LEVELS, self._covered, strict=True)
            },
            "naive": naive,
            "pll": self._mean(self._pll, n),
        }

    def judgements(self) -> list[Judgement]:
        """Return how the model stands beside the baselines, by squared errors."""
        return [self._paired.judgement(SQUARED)]

    @staticmethod
    def _mean(total: float, rows: int) -> float | None:
        return float(total) / rows if rows and np.isfinite(total) else None

    def to_tree(self) -> dict[str, Any]:
        """Return the running sums for a checkpoint."""
        tree = super().to_tree()
        tree["_errors"] = {name: dict(vars(errors)) for name, errors in self._errors.items()}
        tree |= {"_seasonal": self._seasonal.to_tree()}
        return tree | {"_scored": list(self._scored), "_paired": self._paired.to_tree()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "CountMetrics":
        """Restore the metrics that `to_tree` stored."""
        metrics = cls(tree["target"], tree["warmup"])._restored(tree)
        for name, stored in tree["_errors"].items():
            vars(metrics._errors[name]).update(stored)
        metrics._scored = Moments(*tree["_scored"])
        metrics._seasonal = SeasonalNaive.from_tree(tree["_seasonal"])
        metrics._paired = PairedLosses.from_tree(tree["_paired"])
        return metrics


def poisson_deviance(y: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return twice the log likelihood that mean `mean` loses to the count itself as the mean; may be infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2.0 * (np.where(y > 0, y * np.log(y / mean), 0.0) - y + mean)


def _covered(below: Column, pit: Column) -> Float[np.ndarray, "n l"]:
    """Return the share of each count's transform that lies in each central band."""
    half = np.array(COVERAGE_LEVELS) / 200.0
    low, high = 0.5 - half, 0.5 + half
    inside = np.maximum(np.minimum(pit, high) - np.maximum(below, low), 0.0)
    width = pit - below
    # Where the count was nearly impossible, the width is too small to divide by.
    at = ((low <= pit) & (pit <= high)).astype(np.float64)
    return np.divide(inside, width, out=at, where=width > 1e-14)
