"""What targets are, and what that changes for the learner: regression, classification, counts, ordinal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import AnyPredictive, Predictive
from streamgp.models.base import FittedExpert, WarmupRows
from streamgp.models.contract import StreamModel
from streamgp.models.fitting.screening import screen
from streamgp.models.gaussian.provisional import (
    PROVISIONAL_NOISE,
    provisional_ensemble,
    provisional_experts,
    provisional_scale,
)
from streamgp.models.gaussian.warmup import prior_log_weights
from streamgp.models.generalised.warmup import provisional_generalised
from streamgp.models.spec import Spec
from streamgp.numerics import tree
from streamgp.numerics.coding import one_hot
from streamgp.numerics.standardise import Standardiser
from streamgp.stream.first_guess import guessed

# Of the weights, over the number of experts: twice what the slowest of the rules that share keeps for each.
TRIM = 0.05
MOST_SHARES = 10  # of classes whose shares say what a level is worth
Moments = Callable[[AnyPredictive], tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e"]]]
"""Means and variances that are predicted: of counts, or of the indicators of labels."""


@dataclass(frozen=True)
class Task:
    """What the learner asks about targets; all arrays of targets are (n, E).

    The answers here are those of targets that are neither screened nor scaled, and are no classes.
    """

    spec: Spec

    @property
    def flags_outliers(self) -> bool:
        """Whether targets may be outliers, which are hardly learnt."""
        return False

    @property
    def correlates(self) -> bool:
        """Whether it is learnt how the errors of several targets go together."""
        return False

    def usual(self, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        """Return the targets of the warm-up without glitches, which set no scale and are not fitted."""
        return y

    def as_lags(self, y: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return targets as they are inputs of later rows; `X` are their own rows as they came."""
        return y

    def expected_lags(self, predictive: Any, X: np.ndarray) -> np.ndarray:
        """Return what stands for missing targets as inputs of later rows, by what was predicted of them."""
        return np.asarray(predictive.mean)

    def as_numbers(self, y: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return targets as numbers of which more is more: labels become one of 0 and 1 for each class."""
        return self.as_lags(y, X)

    def lag_fill(self, past: np.ndarray, targets: Standardiser) -> np.ndarray:
        """Return what stands for past targets before the first row: the mean of those known, as lags."""
        return past.mean(axis=0) if len(past) else np.zeros(past.shape[1])

    def scale(self, y: np.ndarray, provisional: bool) -> Standardiser:
        """Return how targets are standardised, by those of the warm-up, or provisionally by the first of them."""
        return Standardiser.empty(y.shape[1])

    def provisional(self, X: np.ndarray, y: np.ndarray, rows: WarmupRows, seed: int) -> StreamModel:
        """Return the model of the warm-up's next rows; `X` and `y` are those so far, `rows` as a family fits them."""
        raise NotImplementedError

    def best_provisional_expert(self, weights: np.ndarray, width: int, seed: int) -> Any:
        """Return the provisional expert with the largest weight; None where it is of no use to the fit."""
        return None

    def prior_log_weights(self, log_density: np.ndarray, experts: Sequence[FittedExpert]) -> np.ndarray | None:
        """Return what predictions (n, K) of the warm-up's rows add to the prior log weights of the fitted experts."""
        return None

    def in_units(self, predictive: AnyPredictive, n: int, targets: Standardiser, num_classes: int) -> AnyPredictive:
        """Return the first n rows of a prediction, as NumPy arrays in the units of the targets."""
        return tree.map(lambda a: np.asarray(a)[:n], predictive)

    def guessed(self, predictive: AnyPredictive, X: np.ndarray) -> AnyPredictive:
        """Return a prediction made before any target was known, with what the inputs `X` of its rows suggest."""
        return predictive

    def constant(self, targets: Standardiser) -> list[float | None]:
        """Return, for each target, its value where it had a single one in the rows that set its scale, else None."""
        return [None] * len(np.asarray(targets.mean))

    def new_class(self, y: np.ndarray, num_classes: int) -> int | None:
        """Return the first row whose class is none of the first `num_classes`, if there is one."""
        return None

    @property
    def limits_levels(self) -> bool:
        """Whether a target far out counts for no more than a usual one in what its level is worth."""
        return True

    def level_statistics(self, num_outputs: int, num_classes: int) -> int:
        """Return how many numbers say what a level is worth, of a column with many."""
        return num_outputs

    def level_values(self, X: np.ndarray, y: np.ndarray, statistics: int) -> np.ndarray:
        """Return what the means of a level are of, for each row: (n, S), or of each of the targets that there are."""
        return y


@dataclass(frozen=True)
class Regression(Task):
    """Regression: targets are standardised by the warm-up, and predicted in their own units."""

    @property
    def flags_outliers(self) -> bool:
        """Whether the model is robust."""
        return self.spec.robust

    @property
    def correlates(self) -> bool:
        """Always."""
        return True

    def usual(self, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        """Return the targets, screened where the model is robust."""
        return screen(X, y, seed)[0] if self.spec.robust else y

    def lag_fill(self, past: np.ndarray, targets: Standardiser) -> np.ndarray:
        """Return the mean by which targets are standardised."""
        return np.asarray(targets.mean)

    def scale(self, y: np.ndarray, provisional: bool) -> Standardiser:
        """Return mean and standard deviation of each target."""
        targets = Standardiser.empty(y.shape[1]).update(y)
        return provisional_scale(targets) if provisional else targets

    def provisional(self, X: np.ndarray, y: np.ndarray, rows: WarmupRows, seed: int) -> StreamModel:
        """Return experts of which some are fitted to the rows, once there are enough."""
        fits = self.spec.robust and not self.spec.horizon  # forecasts that wait have as many experts as those to come
        return provisional_ensemble(rows, seed, self.spec.robust, self.spec.recalibrate, fits)

    def best_provisional_expert(self, weights: np.ndarray, width: int, seed: int) -> Any:
        """Return the default filter whose kinds of noise have the largest weight together.

        The first fits are left out, since the fit has better ones.
        """
        experts = provisional_experts(width, seed)
        each = weights.reshape(-1, len(PROVISIONAL_NOISE)).sum(axis=1)
        return experts[int(each[: len(experts)].argmax())]

    def prior_log_weights(self, log_density: np.ndarray, experts: Sequence[FittedExpert]) -> np.ndarray | None:
        """Return a tempered sum of log densities, bounded: see `streamgp.models.gaussian.warmup`."""
        return prior_log_weights(log_density, experts)

    def in_units(self, predictive: AnyPredictive, n: int, targets: Standardiser, num_classes: int) -> AnyPredictive:
        """Return the prediction with location and scale as the targets came."""
        assert isinstance(predictive, Predictive)
        scale = np.asarray(targets.scale)
        return Predictive(
            np.asarray(predictive.log_weights)[:n],
            np.asarray(targets.mean) + scale * np.asarray(predictive.loc)[:n],
            np.square(scale) * np.asarray(predictive.var)[:n],
            None if predictive.dof is None else np.asarray(predictive.dof)[:n],
            TRIM if self.spec.robust else 0.0,
            None if predictive.recalibration is None else np.asarray(predictive.recalibration)[:n],
            noise=None if predictive.noise is None else np.asarray(predictive.noise)[:n],
        )

    def guessed(self, predictive: AnyPredictive, X: np.ndarray) -> AnyPredictive:
        """Return the prediction moved to where most inputs are, if targets have their scale: see `first_guess`."""
        if self.spec.horizon or self.spec.target_transform or any(end is not None for end in self.spec.bounds):
            return predictive
        assert isinstance(predictive, Predictive)
        return guessed(predictive, X)

    def constant(self, targets: Standardiser) -> list[float | None]:
        """Return the mean of every target that never varied."""
        return [float(mean) if m2 == 0.0 else None for mean, m2 in zip(targets.mean, targets.m2, strict=True)]


@dataclass(frozen=True)
class Counts(Task):
    """Counts and ordinal targets: neither screened nor scaled."""

    def as_lags(self, y: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return the log of counts over their exposure, 1 added; of grades their numbers.

        Effects on counts multiply, and so they add up on this scale, which a count of 0 has as well.
        """
        if self.spec.task != "count":
            return y
        return np.log1p(y / np.exp(X[:, -1:]) if self.spec.exposure else y)

    def expected_lags(self, predictive: Any, X: np.ndarray) -> np.ndarray:
        """Return the lags of counts with the expected log rate; of grades there are none.

        A mean count would grow with the square of what is not known of the log rate, and then feed on itself.
        """
        log_rate = (predictive.weights * (predictive.loc[..., 0] + predictive.likelihood.intercept)).sum(axis=1)
        return np.logaddexp(0.0, log_rate[:, None] - (X[:, -1:] if self.spec.exposure else 0.0))

    def provisional(self, X: np.ndarray, y: np.ndarray, rows: WarmupRows, seed: int) -> StreamModel:
        """Return experts whose likelihood depends on the targets so far."""
        targets = y[:, 0] / np.exp(X[:, -1]) if self.spec.exposure else y[:, 0]
        return provisional_generalised(self.spec, targets, rows.num_classes, rows.X.shape[1], seed)

    def level_values(self, X: np.ndarray, y: np.ndarray, statistics: int) -> np.ndarray:
        """Return the log of counts, half of one added, over their exposure; of grades their numbers."""
        if self.spec.task != "count":
            return y
        return np.log(y + 0.5) - (X[:, -1:] if self.spec.exposure else 0.0)


@dataclass(frozen=True)
class Classification(Counts):
    """Classification: labels by codes from 0; new ones may come at any time."""

    def as_numbers(self, y: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return a column of 0 and 1 for each class."""
        return one_hot(y[:, 0], int(y.max(initial=0.0)) + 1)

    def in_units(self, predictive: AnyPredictive, n: int, targets: Standardiser, num_classes: int) -> AnyPredictive:
        """Return the prediction, of the classes known so far."""
        return replace(super().in_units(predictive, n, targets, num_classes), known=num_classes)

    def new_class(self, y: np.ndarray, num_classes: int) -> int | None:
        """Return the first row with a code that is too large."""
        new = np.flatnonzero(y[:, 0] >= num_classes)
        return int(new[0]) if len(new) else None

    @property
    def limits_levels(self) -> bool:
        """Never: the label of a rare class is far out, and says most."""
        return False

    def level_statistics(self, num_outputs: int, num_classes: int) -> int:
        """Return the number of classes known but one, `MOST_SHARES` at most."""
        return min(max(num_classes - 1, 1), MOST_SHARES)

    def level_values(self, X: np.ndarray, y: np.ndarray, statistics: int) -> np.ndarray:
        """Return the indicators of the classes after the first."""
        return (y[:, :1] == np.arange(1.0, statistics + 1.0)).astype(np.float64)


def task_of(spec: Spec) -> Task:
    """Return the task of a specification."""
    return {"regression": Regression, "classification": Classification}.get(spec.task, Counts)(spec)


def indicators(predictive: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the variance of each label's or grade's indicator."""
    p = np.asarray(predictive.probabilities())
    return p, p * (1.0 - p)


def mean_and_variance(predictive: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return those of a count."""
    return np.asarray(predictive.mean), np.asarray(predictive.variance)


def moments_of(spec: Spec) -> Moments | None:
    """Return what is predicted of targets that are not standardised: of counts, or of the indicators of labels."""
    return {"count": mean_and_variance, "classification": indicators, "ordinal": indicators}.get(spec.task)
