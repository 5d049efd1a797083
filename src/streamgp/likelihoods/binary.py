"""Two classes, y in {0, 1}: logistic and probit."""

from typing import Any, Self

import numpy as np
import scipy.special
from jaxtyping import Float
from scipy.special import log_expit, log_ndtr

from streamgp.likelihoods.base import Expansion, Likelihood, Values
from streamgp.likelihoods.quadrature import log_logistic_normal
from streamgp.numerics.checkpoint.encoding import register

# Left of it, the curvature of log Phi is that of its asymptotic series, to eleven digits.
_FAR = -60.0


def expand_logistic(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the log probability of the class y at log odds x, its slope, and minus its second derivative."""
    sign = 2.0 * y - 1.0
    z = sign * x
    small = np.exp(-np.abs(x))
    share = 1.0 / (1.0 + small)
    slope = sign * share * np.where(z > 0.0, small, 1.0)
    return np.minimum(z, 0.0) - np.log1p(small), slope, small * share * share


def bend_logistic(x: Any) -> Any:
    """Return the derivative by the log odds of minus the second derivative of the log probability."""
    small = np.exp(-np.abs(x))
    share = 1.0 / (1.0 + small)
    return -small * share * share * np.tanh(0.5 * x)


@register
class Logistic(Likelihood):
    """p(y = 1 | f) = 1 / (1 + exp(-(f + intercept))).

    Predictive probabilities have 13 digits, see `quadrature.log_logistic_normal`.

    Parameters
    ----------
    intercept
        The log odds where f is zero.
    """

    intercept: Float[Values, "*batch"]

    def log_prob(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return the log of the logistic function of the log odds, with the sign of the class."""
        return log_expit((2.0 * y - 1.0) * (f[..., 0] + self.intercept))

    def expand(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Expansion:
        """Return the log probability, its gradient and minus its second derivative."""
        value, slope, curve = expand_logistic(f[..., 0] + self.intercept, y)
        return Expansion(value, slope[..., None], curve[..., None, None])

    def bend(
        self, f: Float[Values, "... 1"], y: Float[Values, "..."], along: Float[Values, "... 1 1"]
    ) -> Float[Values, "... 1"]:
        """Return the derivative of the precision."""
        return bend_logistic(f + self.intercept[..., None]) * along[..., 0]

    def log_probabilities(self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]) -> Float[Values, "... 2"]:
        """Return both log probabilities, by quadrature."""
        return log_logistic_normal(loc[..., 0] + self.intercept, cov[..., 0, 0])

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the log odds of the smoothed share of ones."""
        share = _smoothed_share(y)
        return cls(np.asarray(np.log(share / (1.0 - share))))


@register
class Probit(Likelihood):
    """p(y = 1 | f) = Phi(f + intercept), Phi the distribution function of a standard normal; predictions are exact.

    Parameters
    ----------
    intercept
        Phi^-1 of the probability of a one where f is zero.
    """

    intercept: Float[Values, "*batch"]

    def log_prob(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return the log of Phi of the score, with the sign of the class."""
        return log_ndtr((2.0 * y - 1.0) * (f[..., 0] + self.intercept))

    def expand(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Expansion:
        """Return the log probability, its gradient and minus its second derivative."""
        sign = 2.0 * y - 1.0
        z = sign * (f[..., 0] + self.intercept)
        # Rasmussen and Williams (2006), Eq. 3.16.
        slope, curve = hazard(z)
        return Expansion(log_ndtr(z), (sign * slope)[..., None], curve[..., None, None])

    def bend(
        self, f: Float[Values, "... 1"], y: Float[Values, "..."], along: Float[Values, "... 1 1"]
    ) -> Float[Values, "... 1"]:
        """Return the derivative of the precision."""
        sign = 2.0 * y - 1.0
        z = sign * (f[..., 0] + self.intercept)
        slope, curve = hazard(z)
        far = np.minimum(z, _FAR)
        squared = 1.0 / far**2
        series = 2.0 / far**3 * (1.0 - squared * (12.0 - 150.0 * squared))
        third = np.where(z < _FAR, series, slope * (1.0 - curve) - curve * (slope + z))
        return (sign * third)[..., None] * along[..., 0]

    def log_probabilities(self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]) -> Float[Values, "... 2"]:
        """Return both log probabilities, in closed form."""
        # Rasmussen and Williams (2006), Eq. 3.82.
        z = (loc[..., 0] + self.intercept) / np.sqrt(1.0 + cov[..., 0, 0])
        return log_ndtr(np.stack([-z, z], axis=-1))

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the normal score of the smoothed share of ones."""
        return cls(np.asarray(scipy.special.ndtri(_smoothed_share(y))))


def hazard(z: Any) -> tuple[Any, Any]:
    """Return the derivative h of log Phi at z, and minus the second one, h (h + z)."""
    # Right of 37 the density is zero to working precision; there `erfcx` would overflow.
    slope = np.where(z < 37.0, np.sqrt(2.0 / np.pi) / scipy.special.erfcx(-np.minimum(z, 37.0) / np.sqrt(2.0)), 0.0)
    squared = 1.0 / np.minimum(z, _FAR) ** 2
    series = 1.0 - squared * (1.0 - squared * (6.0 - 50.0 * squared))
    return slope, np.where(z < _FAR, series, slope * (slope + z))


def _smoothed_share(y: Float[np.ndarray, " n"]) -> float:
    """Return the share of ones, as if there were half a target more of either class."""
    return (float(np.sum(y)) + 0.5) / (len(y) + 1.0)
