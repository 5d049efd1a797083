"""Likelihoods in a few lines each, for tests that must not depend on those of the package."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from streamgp.likelihoods.base import Likelihood

Kinds = Mapping[str, Literal["positive", "real"]]


class Gaussian(Likelihood):
    trainable: ClassVar[Kinds] = {"noise_var": "positive"}
    noise_var: Float[Array, ""]

    def log_prob(self, f: Any, y: Any) -> Any:
        return -0.5 * ((y - f[0]) ** 2 / self.noise_var + jnp.log(2 * jnp.pi * self.noise_var))


class Bernoulli(Likelihood):
    trainable: ClassVar[Kinds] = {"intercept": "real"}
    intercept: Float[Array, ""]

    def log_prob(self, f: Any, y: Any) -> Any:
        return jax.nn.log_sigmoid((2.0 * y - 1.0) * (f[0] + self.intercept))


class Counts(Likelihood):
    """Poisson, log link."""

    trainable: ClassVar[Kinds] = {"intercept": "real"}
    intercept: Float[Array, ""]

    def log_prob(self, f: Any, y: Any) -> Any:
        eta = f[0] + self.intercept
        return y * eta - jnp.exp(eta) - jax.scipy.special.gammaln(y + 1.0)


class Grades(Likelihood):
    """Cumulative logistic; the first threshold, and the gaps to the next ones."""

    trainable: ClassVar[Kinds] = {"first": "real", "gaps": "positive"}
    first: Float[Array, ""]
    gaps: Float[Array, " j"]

    def log_prob(self, f: Any, y: Any) -> Any:
        edges = self.first + jnp.concatenate([jnp.zeros(1), jnp.cumsum(self.gaps)])
        edges = jnp.concatenate([jnp.array([-60.0]), edges, jnp.array([60.0])])
        grade = y.astype(int)
        upper, lower = edges[grade + 1] - f[0], edges[grade] - f[0]
        return jax.nn.log_sigmoid(upper) + jax.nn.log_sigmoid(-lower) + jnp.log(-jnp.expm1(lower - upper))


class Softmax(Likelihood):
    """C + 1 classes, the last one without a latent value."""

    trainable: ClassVar[Kinds] = {"intercepts": "real"}
    intercepts: Float[Array, " c"]

    @property
    def num_latents(self) -> int:
        return self.intercepts.shape[-1]

    def log_prob(self, f: Any, y: Any) -> Any:
        return jax.nn.log_softmax(jnp.append(f + self.intercepts, 0.0))[y.astype(int)]


class HeavyTails(Likelihood):
    """Student's t: not log-concave."""

    trainable: ClassVar[Kinds] = {"scale": "positive", "dof": "positive"}
    scale: Float[Array, ""]
    dof: Float[Array, ""]

    def log_prob(self, f: Any, y: Any) -> Any:
        return jax.scipy.stats.t.logpdf(y, self.dof, f[0], self.scale)
