"""Scores of predicted measurements, row by row."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.joint import energy_of, joint_log_density
from streamgp.evaluation.kinds_of_rows import MAX_COLUMNS
from streamgp.likelihoods import MappedPredictive, NumericPredictive, Predictive, SideBySide, recalibration
from streamgp.likelihoods.conditional import Conditional
from streamgp.numerics import batching, mixtures, student_t, tree
from streamgp.numerics.crps import mixture_crps
from streamgp.numerics.quantiles import mixture_quantiles

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
