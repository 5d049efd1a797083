"""Numbers with outliers: Student's t around the latent value."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from streamgp.likelihoods.base import Expansion, Likelihood, Values
from streamgp.likelihoods.quadrature import FALL, NODES, WEIGHTS
from streamgp.numerics.arrays import logsumexp
from streamgp.numerics.checkpoint.encoding import register
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

    intercept: Float[Values, "*batch"]
    scale: Float[Values, "*batch"]
    dof: Float[Values, "*batch"]

    def log_prob(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return the log density of the residual over the scale."""
        half, z = 0.5 * self.dof, (y - f[..., 0] - self.intercept) / self.scale
        norm = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(np.pi * self.dof) - np.log(self.scale)
        return norm - (half + 0.5) * np.log1p(z * z / self.dof)

    def expand(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Expansion:
        """Return the log density, its gradient and minus its second derivative, which is negative for outliers."""
        residual, spread, bottom, more = self._parts(f, y)
        gradient = more * residual / bottom
        precision = more * ((spread - residual * residual) / bottom) / bottom
        return Expansion(self.log_prob(f, y), gradient[..., None], precision[..., None, None])

    def bend(
        self, f: Float[Values, "... 1"], y: Float[Values, "..."], along: Float[Values, "... 1 1"]
    ) -> Float[Values, "... 1"]:
        """Return the derivative of the precision."""
        residual, spread, bottom, more = self._parts(f, y)
        third = 2.0 * more * (residual / bottom) * ((3.0 * spread - residual * residual) / bottom) / bottom
        return third[..., None] * along[..., 0]

    def by_hyperparameters(
        self,
        f: Float[Values, "... 1"],
        y: Float[Values, "..."],
        slope: Float[Values, "... 1"],
        along: Float[Values, "... 1 1"],
    ) -> dict[str, Float[Values, "..."]]:
        """Return the gradient by the scale."""
        residual, spread, bottom, more = self._parts(f, y)
        squares = residual * residual
        of_gradient = -2.0 * more * (residual / bottom) * (spread / bottom)
        of_precision = 2.0 * more * ((3.0 * squares - spread) / bottom) * (spread / bottom) / bottom
        of_log_p = more * squares / bottom - 1.0
        total = of_log_p + slope[..., 0] * of_gradient + along[..., 0, 0] * of_precision
        return {"scale": total / self.scale}

    def log_predictive(
        self, y: Float[Values, "..."], loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> Float[Values, "..."]:
        """Return the log density of a Gaussian with t noise: a mixture over the precision of t."""
        residual = (y - loc[..., 0] - self.intercept)[..., None]
        log_weight, var = self._precisions(residual, cov[..., 0])
        return logsumexp(log_weight - 0.5 * (residual**2 / var + np.log(2.0 * np.pi * var)))

    def cdf(
        self, y: Float[Values, "..."], loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> Float[Values, "..."]:
        """Return the distribution function of the same mixture."""
        residual = (y - loc[..., 0] - self.intercept)[..., None]
        log_weight, var = self._precisions(residual, cov[..., 0])
        with np.errstate(under="ignore"):
            return np.clip((np.exp(log_weight) * ndtr(residual / np.sqrt(var))).sum(-1), 0.0, 1.0)

    def moments(
        self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> tuple[Float[Values, "..."], Float[Values, "..."]]:
        """Return mean and variance; the variance is infinite for two degrees of freedom or less."""
        heavy = self.dof <= 2.0
        noise_var = np.where(heavy, np.inf, self.scale**2 * self.dof / np.where(heavy, 1.0, self.dof - 2.0))
        return loc[..., 0] + self.intercept, cov[..., 0, 0] + noise_var

    def sample(self, draws: np.random.Generator, f: Float[Values, "... 1"]) -> Float[Values, "..."]:
        """Draw targets."""
        return f[..., 0] + self.intercept + self.scale * draws.standard_t(np.broadcast_to(self.dof, f.shape[:-1]))

    def _parts(self, f: Any, y: Any) -> tuple[Any, Any, Any, Any]:
        """Return the residual, dof scale^2, that and the residual's square, and dof + 1."""
        residual, spread = y - f[..., 0] - self.intercept, self.dof * self.scale**2
        return residual, spread, spread + residual * residual, self.dof + 1.0

    def _precisions(self, residual: Any, var: Any) -> tuple[Any, Any]:
        """Return log weights of the precisions of t, and the variance of the target given each, along the last axis.

        The precision p of t is a Gamma(dof / 2) variable of mean one. Given it, y is Gaussian with variance
        var + scale^2 / p. In x = log p, segments on both sides of the mode of p, and of that of p given the target
        where f is known, from where they fall by exp(-37).
        """

        def around(shape: Any, place: Any) -> tuple[Any, Any, Any]:
            wide = np.sqrt(2.0 * FALL / shape)
            return place - FALL / shape - wide, place, place + np.log1p(FALL / shape + wide)

        dof, scale = self.dof[..., None], self.scale[..., None]
        a = 0.5 * dof
        low, mode, high = around(a, np.zeros_like(residual + var))
        squares = (residual / scale) ** 2
        least, below, up = around(a + 0.5, np.log((dof + 1.0) / (dof + squares)))
        least, below = np.minimum(least, low), np.minimum(below, mode)
        up = np.clip(up, below, mode)
        ends = [least, below, up, np.clip(low, up, mode), mode, high]
        x = np.concatenate([left + (right - left) * NODES for left, right in pairwise(ends)], axis=-1)
        width = np.concatenate([(right - left) * WEIGHTS for left, right in pairwise(ends)], axis=-1)
        log_density = a * (x - np.exp(x)) + a * np.log(a) - gammaln(a)
        return log_density + np.log(np.maximum(width, 1e-300)), var + scale**2 * np.exp(-x)

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start around the median, as wide as the median distance from it, with four degrees of freedom."""
        centre = float(np.median(y)) if len(y) else 0.0
        width = float(np.median(np.abs(y - centre))) / _MAD if len(y) else 0.0
        width = width or (float(np.std(y)) if len(y) else 0.0) or 1.0
        return cls(np.asarray(centre), np.asarray(width), np.asarray(4.0))
