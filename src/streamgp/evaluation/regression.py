"""Scores of predicted measurements: row by row, and summed up over a stream in constant memory."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.baseline_bands import BaselineBands
from streamgp.evaluation.joint import energy_of, joint_log_density
from streamgp.evaluation.kinds_of_rows import CLOCKS, MAX_COLUMNS, Bands, Kinds, KindsOfRows
from streamgp.evaluation.metrics.bands import interval_score
from streamgp.evaluation.metrics.judgement import Judgement, PairedLosses
from streamgp.evaluation.running_sums import Moments, PointErrors, ScoresInSums
from streamgp.evaluation.seasonal import SeasonalNaive
from streamgp.likelihoods import MappedPredictive, NumericPredictive, Predictive, SideBySide, recalibration
from streamgp.likelihoods.conditional import Conditional
from streamgp.numerics import batching, mixtures, student_t, tree
from streamgp.numerics.crps import mixture_crps
from streamgp.numerics.quantiles import mixture_quantiles

COVERAGE_LEVELS = (50, 90, 95)
QUANTILES = (0.05, 0.5, 0.95)
# Arrays are processed in parts of so many elements, which fit in a core's cache.
_BATCH_ELEMENTS = 1 << 15


class RegressionScores(NamedTuple):
    """The scores of every row; arrays (n, E), but (n,) for the log densities and the energy score.

    Of these `log_density` takes targets for independent given the expert, `joint_log_density` and `energy` count the
    correlation of their errors. Of one target they are `log_density` and `crps`.
    """

    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    q05: np.ndarray
    q50: np.ndarray
    q95: np.ndarray
    pit: np.ndarray
    crps: np.ndarray
    log_density: np.ndarray
    moment_log_density: np.ndarray
    joint_log_density: np.ndarray
    energy: np.ndarray


def _score(predictive: Predictive, y: np.ndarray, mean: np.ndarray, std: np.ndarray, components: int) -> tuple:
    m = predictive.flat()
    at_y = mixtures.evaluate(m, y.ravel())
    densities = at_y.log_density.reshape(*y.shape, -1)
    log_density = mixtures.log_sum(predictive.log_weights + densities.sum(1))
    pit, crps = mixtures.cdf(m, at_y), mixture_crps(m, y.ravel(), at_y, components)
    if predictive.recalibration is None:
        quantiles = mixture_quantiles(m, QUANTILES)
    else:
        v = predictive.recalibration.reshape(y.size, -1)
        inner = recalibration.level(np.tile(v, (len(QUANTILES), 1)), np.repeat(QUANTILES, y.size))
        levels = [*inner.reshape(-1, y.size)]
        quantiles = mixture_quantiles(m, levels)
        raised = recalibration.log_density(v, pit).reshape(y.shape)
        log_density = log_density + raised.sum(1)
        crps = crps + recalibration.crps_change(v, levels, quantiles, y.ravel(), pit)
        pit = recalibration.below(v, pit)
    each = [a.reshape(y.shape) for a in (*quantiles, pit, crps)]
    joint, energy = log_density, each[-1][:, 0]
    if y.shape[1] > 1:
        own = mixtures.log_sum((predictive.log_weights[:, None] + densities).reshape(y.size, -1)).reshape(y.shape)
        own = own if predictive.recalibration is None else own + raised
        joint, energy = joint_log_density(predictive, np.asarray(own), np.asarray(each[-2])), energy_of(predictive, y)
    moment = student_t.log_density(y - mean, std * std, None).sum(1)
    return mean, std, *each, log_density, moment, joint, energy


def _score_mapped(predictive: MappedPredictive, y: np.ndarray) -> tuple:
    mean, variance = predictive.moments
    crps, log_density = predictive.crps(y), predictive.log_density(y)
    each = (*(predictive.quantile(level) for level in QUANTILES), predictive.pit(y), crps)
    joint, energy = log_density, crps[:, 0]
    if y.shape[1] > 1:
        joint, energy = predictive.joint_log_density(y), energy_of(predictive, y)
    moment = student_t.log_density(y - mean, variance, None).sum(1)
    return mean, np.sqrt(variance), *each, log_density, moment, joint, energy


def score_regression(predictive: NumericPredictive, y: np.ndarray) -> RegressionScores:
    """Score predictions of n rows against their targets `y` (n, E)."""
    if isinstance(predictive, SideBySide):
        return _score_side_by_side(predictive, y)
    if isinstance(predictive, MappedPredictive):
        return RegressionScores(y, *apply_in_batches(_score_mapped, predictive, y))
    whole = tree.map(np.asarray, predictive)
    score = partial(_score, components=whole.loc.shape[1])
    return RegressionScores(y, *apply_in_batches(score, whole.weighted(), y, whole.mean, whole.std))


def _score_side_by_side(predictive: SideBySide, y: np.ndarray) -> RegressionScores:
    each = [score_regression(part, y[:, [e]]) for e, part in enumerate(predictive.parts)]
    apart = RegressionScores(*(np.stack(a, axis=-1) for a in zip(*each, strict=True)))
    own = apart.log_density
    (energy,) = apply_in_batches(lambda p, y: (energy_of(p, y),), predictive, y)
    by_target = {name: a[:, 0] for name, a in apart._asdict().items() if a.ndim == 3}
    return apart._replace(
        **by_target,
        log_density=own.sum(1),
        moment_log_density=apart.moment_log_density.sum(1),
        joint_log_density=joint_log_density(predictive, own, by_target["pit"]),
        energy=energy,
    )


def moments_and_quantiles(predictive: Predictive) -> dict[str, np.ndarray]:
    """Return mean, std and `QUANTILES` (n, E) of a few rows, in fewer and larger calls than `score_regression` makes.

    The numbers are the same.
    """
    m, shape = predictive.flat(), predictive.loc.shape[::2]
    count, several = shape[0] * shape[1], len(QUANTILES)
    levels: Any = np.repeat(QUANTILES, count)
    if predictive.recalibration is not None:
        v = np.asarray(predictive.recalibration).reshape(count, -1)
        levels = recalibration.level(np.tile(v, (several, 1)), levels)
    (found,) = mixture_quantiles(mixtures.repeated(m, several), [levels])
    ends = dict(zip(("q05", "q50", "q95"), found.reshape(several, *shape), strict=True))
    mean, variance = map(np.asarray, predictive.moments)
    return {"mean": mean, "std": np.sqrt(variance)} | ends


def values_known(
    predictive: NumericPredictive, scores: RegressionScores, X: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n g"]:
    """Return what was known of rows before their targets: predicted noise and std of each, and the first inputs."""
    return np.concatenate([predicted_noise(predictive, scores.std), scores.std, X[:, :MAX_COLUMNS]], axis=1)


def predicted_noise(predictive: Any, std: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "n e"]:
    """Return the noise that is predicted of each row, NaN of models that say none; `std` is of the same shape."""
    parts = predictive.parts if isinstance(predictive, SideBySide) else (predictive,)
    each = [part.base if isinstance(part, MappedPredictive) else part for part in parts]
    said = [getattr(part, "noise", None) for part in each]
    absent = np.full((len(std), std.shape[1] // len(each)), np.nan)
    return np.concatenate([absent if noise is None else np.asarray(noise) for noise in said], axis=1)


def apply_in_batches(
    function: Callable[..., tuple],
    predictive: NumericPredictive | Conditional,
    *arrays: np.ndarray,
) -> list[np.ndarray]:
    """Apply a function to a prediction, and to arrays with its rows, in batches that fit in a cache."""
    step = max(1, _BATCH_ELEMENTS // predictive.loc[0].size)
    return batching.apply_in_batches(function, step, *tree.map(np.asarray, (predictive, *arrays)))


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
    ) -> tuple[np.ndarray, np.ndarray]:
        """Count the next rows; return the predictions of them by persistence and by the running mean, (n, E) each.

        Some of the targets may be missing, NaN: a row counts for those that are there, and jointly if all are.
        `flagged` marks those that the model set aside as outliers, `beforehand` is what `values_known` gave, and
        `times` are those of the rows, where they have any; `seasons` are those of the stream, in rows, once they are
        known.
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
        if self._seasonal.begin(seasons):  # with late labels some rows were scored before; they are not compared
            self._paired = [PairedLosses((*BASELINES, *self._seasonal.errors)) for _ in self.targets]
        seasonal = self._seasonal.next(y, persistence, len(self._baselines))
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

    def add_unlabelled(self, scores: RegressionScores) -> tuple[np.ndarray, np.ndarray]:
        """Count rows whose target is missing, which are not scored; return the baselines' predictions of them."""
        rows = len(scores.y)
        self.pass_over(rows)
        baselines = np.repeat(self._baselines[:1], rows, axis=0)
        self._seasonal.next(scores.y, baselines[:, 0], len(self._baselines))
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
