"""Numbers with outliers: Student's t around the latent value."""

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from streamgp.likelihoods.base import Likelihood
from streamgp.likelihoods.quadrature import FALL, NODES, WEIGHTS
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.student_t import ndtr

_MAD = 0.6744897501960817  # median of |z| of a standard normal


@register
class StudentT(Likelihood):
    """y = f + intercept + scale t, t of Student's distribution: outliers are ignored rather than averaged.

    Not log-concave: a target that is far away leaves mean and covariance almost as they were. Predictions are
    mixtures of Gaussians over the precision of t, whose Gamma distribution is integrated to ten digits.

    Parameters
    ----------
    intercept
        The location of targets where f is zero.
    scale
        Half the distance between the quartiles of t is about 0.74 of it (with four degrees of freedom).
    dof
        Degrees of freedom; the variance is finite above two.
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {"scale": "positive"}
    whole: ClassVar[bool] = False

    intercept: Float[Array, ""]
    scale: Float[Array, ""]
    dof: Float[Array, ""]

    def log_prob(self, f: Float[Array, " 1"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return the log density of the residual over the scale."""
        half, z = 0.5 * self.dof, (y - f[0] - self.intercept) / self.scale
        norm = gammaln(half + 0.5) - gammaln(half) - 0.5 * jnp.log(np.pi * self.dof) - jnp.log(self.scale)
        return norm - (half + 0.5) * jnp.log1p(z * z / self.dof)

    def log_predictive(
        self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]
    ) -> Float[Array, ""]:
        """Return the log density of a Gaussian with t noise: a mixture over the precision of t."""
        residual = y - loc[0] - self.intercept
        log_weight, var = self._precisions(residual, cov[0, 0])
        return jax.nn.logsumexp(log_weight - 0.5 * (residual**2 / var + jnp.log(2.0 * np.pi * var)))

    def cdf(self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> Float[Array, ""]:
        """Return the distribution function of the same mixture."""
        residual = y - loc[0] - self.intercept
        log_weight, var = self._precisions(residual, cov[0, 0])
        return jnp.clip(jnp.exp(log_weight) @ ndtr(residual / jnp.sqrt(var)), 0.0, 1.0)

    def moments(self, loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return mean and variance; the variance is infinite for two degrees of freedom or less."""
        noise_var = jnp.where(self.dof > 2.0, self.scale**2 * self.dof / (self.dof - 2.0), jnp.inf)
        return loc[0] + self.intercept, cov[0, 0] + noise_var

    def sample(self, key: Key, f: Float[Array, " 1"]) -> Float[Array, ""]:
        """Draw a target."""
        return f[0] + self.intercept + self.scale * jax.random.t(key, self.dof, dtype=f.dtype)

    def _precisions(self, residual: Array, var: Array) -> tuple[Array, Array]:
        """Return log weights of the precisions of t, and the variance of the target given each.

        The precision p of t is a Gamma(dof / 2) variable of mean one. Given it, y is Gaussian with variance
        var + scale^2 / p. In x = log p, segments on both sides of the mode of p, and of that of p given the target
        where f is known, from where they fall by exp(-37).
        """

        def around(shape: Array, place: Array) -> tuple[Array, Array, Array]:
            wide = jnp.sqrt(2.0 * FALL / shape)
            return place - FALL / shape - wide, place, place + jnp.log1p(FALL / shape + wide)

        a = 0.5 * self.dof
        low, mode, high = around(a, jnp.zeros_like(var))
        squares = (residual / self.scale) ** 2
        least, below, up = around(a + 0.5, jnp.log((self.dof + 1.0) / (self.dof + squares)))
        least, below = jnp.minimum(least, low), jnp.minimum(below, mode)
        up = jnp.clip(up, below, mode)
        ends = [least, below, up, jnp.clip(low, up, mode), mode, high]
        x, width = [], []
        for left, right in pairwise(ends):
            x.append(left + (right - left) * NODES.astype(var.dtype))
            width.append((right - left) * WEIGHTS.astype(var.dtype))
        x, width = jnp.concatenate(x), jnp.concatenate(width)
        log_density = a * (x - jnp.exp(x)) + a * jnp.log(a) - gammaln(a)
        log_weight = log_density + jnp.log(jnp.maximum(width, 1e-300))
        return log_weight, var + self.scale**2 * jnp.exp(-x)

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start around the median, as wide as the median distance from it, with four degrees of freedom."""
        centre = float(np.median(y)) if len(y) else 0.0
        width = float(np.median(np.abs(y - centre))) / _MAD if len(y) else 0.0
        width = width or (float(np.std(y)) if len(y) else 0.0) or 1.0
        return cls(jnp.asarray(centre), jnp.asarray(width), jnp.asarray(4.0))
