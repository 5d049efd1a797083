"""Two classes, y in {0, 1}: logistic and probit."""

from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float

from streamgp.likelihoods.base import Likelihood
from streamgp.likelihoods.quadrature import log_logistic_normal
from streamgp.numerics.checkpoint.encoding import register


@register
class Logistic(Likelihood):
    """p(y = 1 | f) = 1 / (1 + exp(-(f + intercept))).

    Predictive probabilities have 13 digits, see `quadrature.log_logistic_normal`.

    Parameters
    ----------
    intercept
        The log odds where f is zero.
    """

    intercept: Float[Array, ""]

    def log_prob(self, f: Float[Array, " 1"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return the log of the logistic function of the log odds, with the sign of the class."""
        return jax.nn.log_sigmoid((2.0 * y - 1.0) * (f[0] + self.intercept))

    def log_predictive(
        self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]
    ) -> Float[Array, ""]:
        """Return the log probability of the class `y`."""
        return self.log_probabilities(loc, cov)[y.astype(int)]

    def log_probabilities(self, loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> Float[Array, " 2"]:
        """Return both log probabilities, by quadrature."""
        return log_logistic_normal(loc[0] + self.intercept, cov[0, 0])

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the log odds of the smoothed share of ones."""
        share = _smoothed_share(y)
        return cls(jnp.asarray(np.log(share / (1.0 - share))))


@register
class Probit(Likelihood):
    """p(y = 1 | f) = Phi(f + intercept), Phi the distribution function of a standard normal; predictions are exact.

    Parameters
    ----------
    intercept
        Phi^-1 of the probability of a one where f is zero.
    """

    intercept: Float[Array, ""]

    def log_prob(self, f: Float[Array, " 1"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return the log of Phi of the score, with the sign of the class."""
        return log_ndtr((2.0 * y - 1.0) * (f[0] + self.intercept))

    def log_predictive(
        self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]
    ) -> Float[Array, ""]:
        """Return the log probability of the class `y`."""
        return self.log_probabilities(loc, cov)[y.astype(int)]

    def log_probabilities(self, loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> Float[Array, " 2"]:
        """Return both log probabilities, in closed form."""
        # Rasmussen and Williams (2006), Eq. 3.82.
        z = (loc[0] + self.intercept) / jnp.sqrt(1.0 + cov[0, 0])
        return log_ndtr(jnp.stack([-z, z]))

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the normal score of the smoothed share of ones."""
        return cls(jnp.asarray(scipy.special.ndtri(_smoothed_share(y))))


def _smoothed_share(y: Float[np.ndarray, " n"]) -> float:
    """Return the share of ones, as if there were half a target more of either class."""
    return (float(np.sum(y)) + 0.5) / (len(y) + 1.0)
