"""The distribution of some targets of a row, given its other targets: a conditional of a Gaussian copula."""

from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float

from streamgp.likelihoods import correlation
from streamgp.likelihoods.predictive import Predictive
from streamgp.likelihoods.side_by_side import SideBySide
from streamgp.numerics import keys
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module

# Abscissas for means over a standard normal: the trapezoidal rule, exact to rounding for polynomials.
_NODES = np.arange(-7.5, 7.6, 0.25)
_NODE_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


class Conditional(Module):
    """The distribution of the targets of each row that are not known, given those that are.

    The scores of the targets (see `correlation`) are jointly Gaussian, and so are those of the others
    given some; each target has the value of its own distribution at its score. A target that is known has its value,
    and no spread. Rows of which none is known are as in `predictive`. All is computed in NumPy.

    Parameters
    ----------
    predictive
        Of the rows, before any target was seen, with their `correlation`.
    given
        The targets (n, E) that are known; NaN for the others.
    """

    predictive: Predictive | SideBySide
    given: Float[AnyArray, "n e"]

    @property
    def loc(self) -> Float[AnyArray, "n k e"]:
        """Return the locations of the predictive's components, whose shape is that of all."""
        return self.predictive.loc

    @property
    def mean(self) -> Float[np.ndarray, "n e"]:
        """Return the means."""
        return self._moments()[0]

    @property
    def variance(self) -> Float[np.ndarray, "n e"]:
        """Return the variances; zero of what is known."""
        return self._moments()[1]

    @property
    def std(self) -> Float[np.ndarray, "n e"]:
        """Return the standard deviations; zero of what is known."""
        return np.sqrt(self.variance)

    def quantile(self, probability: float) -> Float[np.ndarray, "n e"]:
        """Return quantiles; of what is known, the value."""
        mean, cov = self._scores()
        z = mean + _std(cov) * scipy.special.ndtri(probability)
        return self._with_known(self.predictive.at_scores(z))

    def cdf(self, y: Float[AnyArray, "n e"]) -> Float[np.ndarray, "n e"]:
        """Return the distribution function of each target at `y`; of what is known, a step."""
        mean, cov = self._scores()
        z = scipy.special.ndtri(np.asarray(self.predictive.cdf(np.asarray(y))))
        with np.errstate(divide="ignore", invalid="ignore"):
            below = scipy.special.ndtr((z - mean) / _std(cov))
        return np.where(self._known, np.asarray(y) >= self.given, below)

    def log_density(self, y: Float[AnyArray, "n e"]) -> Float[np.ndarray, " n"]:
        """Return the joint log density of the targets that are not known; zero where all are.

        It is the joint log density of all less that of those that are known.
        """
        known = self._known
        whole = np.where(known, self.given, y)
        z, r = correlation.scores_of(np.asarray(self.predictive.cdf(whole))), np.asarray(self.predictive.correlation)
        pairs = known[:, :, None] & known[:, None, :]
        of_known = np.where(pairs | np.eye(known.shape[1], dtype=bool), r, 0.0)
        copula = correlation.log_copula(r, z) - correlation.log_copula(of_known, np.where(known, z, 0.0))
        own = np.asarray(self.predictive.marginal_log_density(whole))
        return np.where(known, 0.0, own).sum(1) + copula

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Float[np.ndarray, "... n e"]:
        """Draw targets jointly; what is known is the same in all draws."""
        mean, cov = self._scores()
        alone = keys.generator(key).standard_normal((*shape, *mean.shape))
        free = ~self._known
        # The rows and columns of what is known are zero: a one on the diagonal makes a root of it.
        lower = np.linalg.cholesky(cov + np.eye(mean.shape[1]) * ~free[:, None, :])
        z = mean + np.where(free, (lower @ alone[..., None])[..., 0], 0.0)
        return self._with_known(self.predictive.at_scores(z))

    @property
    def _known(self) -> Any:
        return ~np.isnan(np.asarray(self.given))

    def _with_known(self, values: Float[np.ndarray, "... n e"]) -> Float[np.ndarray, "... n e"]:
        return np.where(self._known, np.asarray(self.given), values)

    def _scores(self) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e e"]]:
        """Return mean and covariance of the targets' scores."""
        known = self._known
        values = np.where(known, np.asarray(self.given), np.asarray(self.predictive.loc).mean(1))
        z = correlation.scores_of(np.asarray(self.predictive.cdf(values)))
        return correlation.condition(np.asarray(self.predictive.correlation), z, known)

    def _moments(self) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e"]]:
        """Return means and variances, by quadrature over the scores where something is known."""
        p = self.predictive
        mean, cov = self._scores()
        y = p.counted().at_scores(mean + _std(cov) * _NODES[:, None, None])
        first = np.tensordot(_NODE_WEIGHTS, y, 1)
        second = np.tensordot(_NODE_WEIGHTS, np.square(y - first), 1)
        known = self._known
        some = known.any(1)[:, None]
        mean, variance = (np.where(some, a, np.asarray(b)) for a, b in ((first, p.mean), (second, p.variance)))
        return self._with_known(mean), np.where(known, 0.0, variance)


def _std(cov: Float[np.ndarray, "n e e"]) -> Float[np.ndarray, "n e"]:
    return np.sqrt(np.maximum(np.diagonal(cov, axis1=1, axis2=2), 0.0))
