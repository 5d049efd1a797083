"""K classes: the softmax of K functions, of which only the K - 1 contrasts count."""

from functools import lru_cache
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from streamgp.likelihoods.base import Likelihood
from streamgp.likelihoods.quadrature import log_logistic_normal, log_softmax_normal
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import static_field


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
    intercept: Float[Array, " k"]

    @property
    def num_latents(self) -> int:
        """Return K - 1, the number of contrasts."""
        return self.num_classes - 1

    def log_prob(self, f: Float[Array, " c"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return the log of the softmax, at the class `y`."""
        logits = f @ self._contrasts(f) + self.intercept
        # This form is far cheaper to differentiate.
        if self.num_classes == 2:
            return jax.nn.log_sigmoid((2.0 * y - 1.0) * (logits[1] - logits[0]))
        return jax.nn.log_softmax(logits)[y.astype(int)]

    def log_predictive(
        self, y: Float[Array, ""], loc: Float[Array, " c"], cov: Float[Array, "c c"]
    ) -> Float[Array, ""]:
        """Return the log probability of the class `y`."""
        return self.log_probabilities(loc, cov)[y.astype(int)]

    def log_probabilities(self, loc: Float[Array, " c"], cov: Float[Array, "c c"]) -> Float[Array, " k"]:
        """Return the log probability of every class; they sum to one. See `quadrature.log_softmax_normal`."""
        H = self._contrasts(loc)
        mean = loc @ H + self.intercept
        if self.num_classes == 2:
            return log_logistic_normal(mean[1] - mean[0], 2.0 * cov[0, 0])
        return log_softmax_normal(mean, cov, H)

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"], num_classes: int | None = None) -> Self:
        """Start from the frequencies of the classes, as if there were half a target more of each.

        `num_classes` is given where classes may come that `y` does not hold.
        """
        count = max(int(y.max(initial=0)) + 1, 2) if num_classes is None else num_classes
        log_share = np.log(np.bincount(y.astype(int), minlength=count) + 0.5)
        return cls(count, jnp.asarray(log_share - log_share.mean()))

    def with_class(self, num_classes: int, rows: int) -> "Categorical":
        """Return the likelihood with a class after the first `num_classes`, as if it had had half a row of `rows`."""
        known = self.intercept[:num_classes]
        new = jax.nn.logsumexp(known) + np.log(0.5 / max(rows, 1))
        rest = self.intercept[num_classes + 1 :]
        intercept = jnp.concatenate([known, new[None], rest])
        return Categorical(len(intercept), intercept)

    def _contrasts(self, like: Array) -> Array:
        return jnp.asarray(contrasts(self.num_classes), like.dtype)
