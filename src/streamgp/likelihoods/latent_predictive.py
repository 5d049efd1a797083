"""The predictive distribution of targets with a likelihood: a mixture over experts, integrated over latent values."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.likelihoods.base import Likelihood
from streamgp.likelihoods.count_integrals import is_tabulated
from streamgp.likelihoods.search import least_count, point_of
from streamgp.likelihoods.side_by_side import NumericPredictive
from streamgp.numerics import keys, tree
from streamgp.numerics.arrays import AnyArray, logsumexp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field

# Integrals whose terms are held in memory at a time: so many that they stay in a processor's cache.
_AT_ONCE = 1 << 10
_TABULATED_AT_ONCE = 1 << 8
_TINY = float(np.finfo(float).tiny)


@register
class LatentPredictive(Module):
    """A mixture over k experts for every row; under each, the latent values f are N(loc, cov) and y ~ p(y | f).

    Which methods make sense is up to the likelihood: labels have no mean, and numbers no list of probabilities.
    The others raise a TypeError. Labels and grades are numbered from 0.

    Parameters
    ----------
    log_weights
        Log of the mixture weights of each row; each row sums to one in probability. ``-inf`` marks an expert that is
        switched off.
    loc, cov
        Mean and covariance of the latent values.
    likelihood
        The likelihoods of the k experts for every row: their arrays have two leading axes (n, k).
    known
        How many classes have come so far, where the likelihood has slots for more; None: all.
    """

    log_weights: Float[AnyArray, "n k"]
    loc: Float[AnyArray, "n k c"]
    cov: Float[AnyArray, "n k c c"]
    likelihood: Likelihood
    known: int | None = static_field(default=None)

    @property
    def weights(self) -> Float[AnyArray, "n k"]:
        """Return the mixture weights; rows sum to one."""
        with np.errstate(under="ignore"):
            return np.exp(self.log_weights)

    def component_log_density(self, y: Float[AnyArray, "n 1"]) -> Float[AnyArray, "n k"]:
        """Return the log probability (density) of `y` under each expert."""
        return self._each(Likelihood.log_predictive.__name__, np.asarray(y))

    def log_density(self, y: Float[AnyArray, "n 1"]) -> Float[AnyArray, " n"]:
        """Return the log probability (density) of `y` under the mixture."""
        return logsumexp(self.log_weights + self.component_log_density(y))

    def probabilities(self) -> Float[AnyArray, "n j"]:
        """Return the probability of every label or grade that is known; rows sum to one, and none is zero."""
        each = self._each(Likelihood.log_probabilities.__name__)
        log_mixture = logsumexp(np.asarray(self.log_weights)[:, :, None] + each, axis=1)[:, : self.known]
        with np.errstate(under="ignore"):
            p = np.exp(log_mixture - logsumexp(log_mixture, keepdims=True))
        # A probability that is too small for a number stays one that has a logarithm.
        return np.maximum(p, _TINY)

    @property
    def mean(self) -> Float[AnyArray, "n 1"]:
        """Return the mean of the target; infinite where it overflows."""
        return self._moments()[0][:, None]

    @property
    def variance(self) -> Float[AnyArray, "n 1"]:
        """Return the variance of the target, noise included; infinite where it overflows."""
        return self._moments()[1][:, None]

    @property
    def std(self) -> Float[AnyArray, "n 1"]:
        """Return the standard deviation of the target."""
        return np.sqrt(self.variance)

    def cdf(self, y: Float[AnyArray, "n 1"]) -> Float[AnyArray, "n 1"]:
        """Return the probability of a target of `y` or less; of counts and grades, that of less is ``cdf(y - 1)``."""
        each = self._each(Likelihood.cdf.__name__, np.asarray(y))
        return np.clip((self.weights * each).sum(1), 0.0, 1.0)[:, None]

    def of_rows(self, rows: Int[np.ndarray, " m"]) -> "LatentPredictive":
        """Return the prediction of some rows."""
        return tree.map(lambda a: np.asarray(a)[rows], self)

    def cdf_from_zero(self, counts: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n m"]:
        """Return the distribution function of counts at 0, 1, ..., so many of each row; NaN beyond.

        Rows that are not tabulated (see `streamgp.likelihoods.count_integrals.is_tabulated`) have NaN alone.
        """
        weights, loc, cov = (np.asarray(a) for a in (self.weights, self.loc, self.cov))
        counted: Any = self.likelihood
        chosen = np.flatnonzero(
            is_tabulated(counts, counted.sharpness(counts[:, None].astype(float), cov).max(axis=1))
        )
        chosen = chosen[np.argsort(counts[chosen], kind="stable")]
        found = np.full((len(counts), counts[chosen].max(initial=0)), np.nan)
        size = max(_TABULATED_AT_ONCE // weights.shape[1], 1)
        for at in range(0, len(chosen), size):
            rows = chosen[at : at + size]
            likelihood: Any = tree.map(lambda a, rows=rows: np.asarray(a)[rows], self.likelihood)
            table = likelihood.tabulate(int(counts[rows[-1]]), weights[rows], loc[rows], cov[rows])
            found[rows, : table.shape[1]] = np.minimum(np.cumsum(table, axis=1), 1.0)
        return np.where(np.arange(found.shape[1]) < counts[:, None], found, np.nan)

    def quantile(self, probability: float | Float[AnyArray, ""]) -> Float[AnyArray, "n 1"]:
        """Return the least count or grade whose `cdf` is no less than a probability; of other targets to 1e-9."""
        mean, variance = self._moments()
        search = least_count if self.likelihood.whole else point_of

        def below(rows: Any, y: Any) -> Any:
            return self.of_rows(rows).cdf(y[:, None])[:, 0]

        return search(below, float(probability), mean, variance)[:, None]

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Float[AnyArray, "... n 1"]:
        """Draw targets: an expert for each row, then latent values from it, then the target."""
        draws, n = keys.generator(key), len(self.loc)
        below = np.cumsum(self.weights, axis=1)
        u = draws.random((prod(shape), n)) * below[:, -1]
        component = (u[:, :, None] >= below[:, :-1]).sum(-1)
        loc, cov, likelihood = tree.map(
            lambda a: np.asarray(a)[np.arange(n), component], (self.loc, self.cov, self.likelihood)
        )
        # Targets that can be drawn have one latent value.
        f = loc[..., :1] + np.sqrt(cov[..., 0, :1]) * draws.normal(size=(*component.shape, 1))
        return likelihood.sample(draws, f).reshape(*shape, n, 1)

    def _moments(self) -> tuple[Any, Any]:
        """Return mean and variance of each row."""
        mean, var = self.likelihood.moments(np.asarray(self.loc), np.asarray(self.cov))
        weights = self.weights
        with np.errstate(over="ignore", invalid="ignore"):
            mixed = (weights * np.where(weights > 0.0, mean, 0.0)).sum(1)
            second = np.where(weights > 0.0, var + (mean - mixed[:, None]) ** 2, 0.0)
            return mixed, np.where(np.isfinite(mixed), (weights * second).sum(1), np.inf)

    def _each(self, method: str, *y: AnyArray) -> Any:
        """Return what a method of the likelihood gives for all rows and experts, a few rows at a time."""
        n, k = np.shape(self.log_weights)
        parts = []
        for at in range(0, max(n, 1), max(_AT_ONCE // k, 1)):
            rows = slice(at, at + max(_AT_ONCE // k, 1))
            likelihood, loc, cov = tree.map(
                lambda a, rows=rows: np.asarray(a)[rows], (self.likelihood, self.loc, self.cov)
            )
            function: Callable[..., Any] = getattr(likelihood, method)
            parts.append(function(*(each[rows] for each in y), loc, cov))
        return np.concatenate(parts)


AnyPredictive = NumericPredictive | LatentPredictive
"""The predictions of models: mixtures of Gaussians or Student's t of the target, or of Gaussians of latent values."""
