"""Two classes, y in {0, 1}: logistic and probit."""

from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from streamgp.likelihoods.base import Likelihood
from streamgp.serialise import register


@register
class Logistic(Likelihood):
    """p(y = 1 | f) = 1 / (1 + exp(-(f + intercept))).

    Parameters
    ----------
    intercept
        The log odds where f is zero.
    """

    intercept: Float[Array, ""]

    def log_prob(self, f: Float[Array, " 1"], y: Float[Array, ""]) -> Float[Array, ""]:
        return jax.nn.log_sigmoid((2.0 * y - 1.0) * (f[0] + self.intercept))

    def log_predictive(
        self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]
    ) -> Float[Array, ""]:
        # MacKay (1992); to be replaced by a quadrature.
        a = loc[0] + self.intercept
        return jax.nn.log_sigmoid((2.0 * y - 1.0) * a / jnp.sqrt(1.0 + jnp.pi * cov[0, 0] / 8.0))

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        ones = float(np.sum(y))
        return cls(jnp.asarray(np.log((ones + 0.5) / (len(y) - ones + 0.5))))
