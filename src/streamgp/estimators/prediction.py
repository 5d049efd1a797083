"""Predictive distributions as users ask about them: `predict_dist` returns one for all rows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from streamgp.evaluation.metrics.shares import probabilities, share
from streamgp.evaluation.regression_scores import apply_in_batches
from streamgp.likelihoods import AnyPredictive, NumericPredictive
from streamgp.likelihoods.conditional import Conditional
from streamgp.models.option_type import whole_number
from streamgp.numerics import keys
from streamgp.numerics.precision import float64
from streamgp.table.given import to_floats


class Prediction:
    """The predictive distributions of the targets of some rows, noise included.

    It stays as it is when the estimator learns on. Arrays have shape (n,), or (n, E) with several targets.

    Parameters
    ----------
    predictive
        Of the learner.
    single
        Whether targets have no axis of their own.
    draws
        What `sample` depends on: the seed, and the rows learnt.
    """

    def __init__(self, predictive: AnyPredictive, single: bool, draws: tuple[int, int]) -> None:
        self._predictive = predictive
        self._single = single
        self._draws = draws

    def __len__(self) -> int:
        return len(self._predictive.loc)

    def __repr__(self) -> str:
        return f"Prediction of {len(self):,} row{'' if len(self) == 1 else 's'}"

    @property
    def mean(self) -> np.ndarray:
        """Return the means."""
        return self._asked(lambda p: (p.mean,))[0]

    @property
    def std(self) -> np.ndarray:
        """Return the standard deviations."""
        return self._asked(lambda p: (p.std,))[0]

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations, in one pass."""
        mean, std = self._asked(lambda p: (p.mean, p.std))
        return mean, std

    def quantile(self, q: float | Sequence[float]) -> np.ndarray:
        """Return quantiles: for one probability shape (n,), for several one more axis, the last, of them.

        Of counts they are the least counts with that much probability up to them.

        Raises
        ------
        ValueError
            If a probability is not strictly between 0 and 1.
        """
        levels = probabilities("quantiles", q)
        if not levels:
            return np.zeros((*self._expected, 0))
        found = self._asked(lambda p: tuple(p.quantile(level) for level in levels))
        return np.stack(found, axis=-1) if np.ndim(q) else found[0]

    def interval(self, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends of the central bands that hold this share of the targets.

        Raises
        ------
        ValueError
            If `coverage` is not strictly between 0 and 1.
        """
        coverage = share("coverage", coverage)
        ends = self.quantile([0.5 - coverage / 2.0, 0.5 + coverage / 2.0])
        return ends[..., 0], ends[..., 1]

    def sample(self, n: int = 1) -> np.ndarray:
        """Draw n targets for each row, shape (rows, n), or (rows, E, n); the same draws each time.

        Several targets are drawn with the correlation of their errors.
        """
        n = whole_number("n", n)
        seed, rows = self._draws
        with float64():
            key = keys.fold_in(keys.key(seed), rows)
            draws = np.asarray(self._predictive.sample(key, (n,)))
        return np.stack([self._shape(d) for d in draws], axis=-1)

    def log_density(self, y: Any) -> np.ndarray:
        """Return the log density of targets (of counts, the log probability), (n,).

        Of several targets it is the joint one, each expert taking them for independent; where some were given, that
        of the others, which counts the correlation of their errors.
        """
        return self._apply(lambda p, y: (p.log_density(y),), self._targets(y))[0]

    def cdf(self, y: Any) -> np.ndarray:
        """Return the probability of a target of at most `y`."""
        return self._asked(lambda p, y: (p.cdf(y),), self._targets(y))[0]

    @property
    def _expected(self) -> tuple[int, ...]:
        """Return the shape of targets."""
        n, _, outputs = self._predictive.loc.shape
        return (n,) if self._single else (n, outputs)

    def _targets(self, y: Any) -> np.ndarray:
        y = to_floats("y", y)
        if y.shape != self._expected:
            raise ValueError(f"y: expected the targets of the rows of X, shape {self._expected}, got shape {y.shape}")
        return y.reshape(len(y), -1)

    def _asked(self, function: Callable[..., tuple], *arrays: np.ndarray) -> list[np.ndarray]:
        """Return arrays (n, E) of the predictive as users have them."""
        return [self._shape(found) for found in self._apply(function, *arrays)]

    def _apply(self, function: Callable[..., tuple], *arrays: np.ndarray) -> list[np.ndarray]:
        if isinstance(self._predictive, NumericPredictive | Conditional):
            return apply_in_batches(function, self._predictive, *arrays)
        with float64():
            return [np.asarray(found) for found in function(self._predictive, *arrays)]

    def _shape(self, a: np.ndarray) -> np.ndarray:
        """Return (n, E) as (n,) where y came without an axis of targets."""
        return a[:, 0] if self._single else a
