"""Grades 0, 1, ..., J - 1, of which only the order counts: the cumulative probit."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float

from streamgp.likelihoods.base import Likelihood
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key


@register
class Ordinal(Likelihood):
    """Grade y where f + noise lies between the thresholds y - 1 and y, the noise being N(0, 1) (McCullagh 1980).

    Predictions are exact: f of variance s makes the noise N(0, 1 + s).

    Parameters
    ----------
    first
        The threshold between grades 0 and 1.
    gaps
        The distances between neighbouring thresholds, J - 2 of them.
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {"first": "real", "gaps": "positive"}

    first: Float[Array, ""]
    gaps: Float[Array, " j"]

    def log_prob(self, f: Float[Array, " 1"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return the log probability of the grade `y` between its thresholds."""
        return self._log_grades(f[0], jnp.ones_like(f[0]))[y.astype(int)]

    def log_predictive(
        self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]
    ) -> Float[Array, ""]:
        """Return the log probability of the grade `y`."""
        return self.log_probabilities(loc, cov)[y.astype(int)]

    def log_probabilities(self, loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> Float[Array, " j"]:
        """Return the log probability of every grade, in closed form."""
        return self._log_grades(loc[0], jnp.sqrt(1.0 + cov[0, 0]))

    def cdf(self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> Float[Array, ""]:
        """Return the sum of the probabilities of the grades up to `y`."""
        p = jnp.exp(self.log_probabilities(loc, cov))
        return jnp.sum(jnp.where(jnp.arange(len(p)) <= y, p, 0.0))

    def moments(self, loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return mean and variance of the grade's number."""
        p = jnp.exp(self.log_probabilities(loc, cov))
        grades = jnp.arange(len(p), dtype=p.dtype)
        mean = p @ grades
        return mean, p @ (grades - mean) ** 2

    def sample(self, key: Key, f: Float[Array, " 1"]) -> Float[Array, ""]:
        """Draw a grade."""
        return jax.random.categorical(key, self._log_grades(f[0], jnp.ones_like(f[0]))).astype(f.dtype)

    def _log_grades(self, mean: Float[Array, ""], scale: Float[Array, ""]) -> Float[Array, " j"]:
        thresholds = self.first + jnp.concatenate([jnp.zeros_like(self.gaps, shape=1), jnp.cumsum(self.gaps)])
        z = (thresholds - mean) / scale
        below, above = log_ndtr(jnp.stack([z, -z]))
        # Between thresholds, the difference of the tails on the side where they are small.
        upper = z[:-1] > 0.0
        larger = jnp.where(upper, above[:-1], below[1:])
        smaller = jnp.where(upper, above[1:], below[:-1])
        inner = larger + jnp.log(-jnp.expm1(jnp.minimum(smaller - larger, -jnp.finfo(z.dtype).tiny)))
        return jnp.concatenate([below[:1], inner, above[-1:]])

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"], num_grades: int | None = None) -> Self:
        """Start from the frequencies of the grades, as if there were half a target more of each.

        `num_grades` is given where grades may come that are above all in `y`; at least 2.
        """
        count = max(int(y.max(initial=0)) + 1, 2) if num_grades is None else num_grades
        counts = np.bincount(y.astype(int), minlength=count) + 0.5
        thresholds = scipy.special.ndtri(np.cumsum(counts)[:-1] / counts.sum())
        return cls(jnp.asarray(thresholds[0]), jnp.asarray(np.diff(thresholds)))
