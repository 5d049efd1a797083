"""K classes: the softmax of K functions, of which only the K - 1 contrasts count."""

from functools import lru_cache
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from scipy.special import log_expit

from streamgp.likelihoods.base import Expansion, Likelihood, Values, picked
from streamgp.likelihoods.binary import bend_logistic, expand_logistic
from streamgp.likelihoods.quadrature import log_logistic_normal, log_softmax_normal
from streamgp.numerics.arrays import logsumexp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import static_field

SLOPE = np.sqrt(2.0)  # of the log odds of two classes, by their contrast


@lru_cache
def contrasts(num_classes: int) -> Float[np.ndarray, "c k"]:
    """Return Helmert contrasts: row k (k = 1, 2, ...) is (1, ..., 1 (k times), -k, 0, ..., 0) / sqrt(k (k + 1)).

    Rows are orthonormal, and orthogonal to ones. So functions of the classes that are independent and of equal priors
    make contrasts that are so too, and those of K classes are the first of those of K + 1.
    """
    k = np.arange(1.0, num_classes)[:, None]
    j = np.arange(num_classes)
    return np.where(j < k, 1.0, np.where(j == k, -k, 0.0)) / np.sqrt(k * (k + 1.0))


@register
class Categorical(Likelihood):
    """p(y = j | g) = softmax(H'g + intercept)_j, H the contrasts: K - 1 latent values for K classes.

    Two classes are one latent value with the logistic function, of slope sqrt(2).

    Parameters
    ----------
    num_classes
        K, at least 2.
    intercept
        The log probabilities where g is zero, up to a constant.
    """

    num_classes: int = static_field()
    intercept: Float[Values, "*batch k"]

    @property
    def num_latents(self) -> int:
        """Return K - 1, the number of contrasts."""
        return self.num_classes - 1

    def log_prob(self, f: Float[Values, "... c"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return the log of the softmax, at the class `y`."""
        if self.num_classes == 2:
            return log_expit((2.0 * y - 1.0) * self._log_odds(f))
        return picked(self._softmax(f)[0], y)

    def expand(self, f: Float[Values, "... c"], y: Float[Values, "..."]) -> Expansion:
        """Return the log probability, its gradient and minus its matrix of second derivatives."""
        if self.num_classes == 2:
            value, slope, curve = expand_logistic(self._log_odds(f), y)
            return Expansion(value, (-SLOPE * slope)[..., None], (2.0 * curve)[..., None, None])
        # Rasmussen and Williams (2006), Eqs. 3.32 and 3.38.
        H = contrasts(self.num_classes)
        log_p, p = self._softmax(f)
        mean = p @ H.T
        gradient = H.T[np.asarray(y).astype(int)] - mean
        precision = (p[..., None, :] * H) @ H.T - mean[..., :, None] * mean[..., None, :]
        return Expansion(picked(log_p, y), gradient, precision)

    def bend(
        self, f: Float[Values, "... c"], y: Float[Values, "..."], along: Float[Values, "... c c"]
    ) -> Float[Values, "... c"]:
        """Return third derivatives."""
        if self.num_classes == 2:
            return (-2.0 * SLOPE * bend_logistic(self._log_odds(f)))[..., None] * along[..., 0]
        H = contrasts(self.num_classes)
        p = self._softmax(f)[1]
        turned = along @ H
        by_p = (H * turned).sum(-2) - 2.0 * ((p @ H.T)[..., None, :] @ turned)[..., 0, :]
        return (p * (by_p - (p * by_p).sum(-1, keepdims=True))) @ H.T

    def log_probabilities(self, loc: Float[Values, "... c"], cov: Float[Values, "... c c"]) -> Float[Values, "... k"]:
        """Return the log probability of every class; they sum to one. See `quadrature.log_softmax_normal`."""
        if self.num_classes == 2:
            return log_logistic_normal(self._log_odds(loc), 2.0 * cov[..., 0, 0])
        return log_softmax_normal(self._logits(loc), cov, contrasts(self.num_classes))

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"], num_classes: int | None = None) -> Self:
        """Start from the frequencies of the classes, as if there were half a target more of each.

        `num_classes` is given where classes may come that `y` does not hold.
        """
        count = max(int(y.max(initial=0)) + 1, 2) if num_classes is None else num_classes
        log_share = np.log(np.bincount(y.astype(int), minlength=count) + 0.5)
        return cls(count, log_share - log_share.mean())

    def with_class(self, num_classes: int, rows: int) -> "Categorical":
        """Return the likelihood with a class after the first `num_classes`, as if it had had half a row of `rows`."""
        intercept = np.asarray(self.intercept)
        known = intercept[..., :num_classes]
        new = logsumexp(known, keepdims=True) + np.log(0.5 / max(rows, 1))
        intercept = np.concatenate([known, new, intercept[..., num_classes + 1 :]], axis=-1)
        return Categorical(intercept.shape[-1], intercept)

    def _log_odds(self, f: Float[Values, "... 1"]) -> Any:
        """Return those of the second of two classes."""
        return (self.intercept[..., 1] - self.intercept[..., 0]) - SLOPE * f[..., 0]

    def _logits(self, f: Float[Values, "... c"]) -> Any:
        return f @ contrasts(self.num_classes) + self.intercept

    def _softmax(self, f: Float[Values, "... c"]) -> tuple[Any, Any]:
        """Return the log probability of every class at the latent values, and its probability."""
        logits = self._logits(f)
        logits -= logits.max(-1, keepdims=True)
        each = np.exp(logits)
        # The sum is one and the others, summed apart, so that the log of a probability near one keeps its digits.
        is_top = logits == 0.0
        others = np.where(is_top, 0.0, each).sum(-1, keepdims=True) + (is_top.sum(-1, keepdims=True) - 1.0)
        return logits - np.log1p(others), each / (1.0 + others)
