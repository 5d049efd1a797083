"""Likelihoods in a few lines each, for tests that must not depend on the package's: JAX differentiates them."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import Expansion
from streamgp.likelihoods.base import Likelihood
from streamgp.numerics import accelerator  # noqa: F401 (modules are trees of JAX from then on)

Kinds = Mapping[str, Literal["positive", "real"]]
Array = Any


class Differentiated(Likelihood):
    """A likelihood by `one`, log p(y | f) of one target; all else follows from it."""

    def one(self, f: Any, y: Any) -> Any:
        raise NotImplementedError

    def log_prob(self, f: Any, y: Any) -> Any:
        return _numbers(_log_prob, self, f, y)

    def expand(self, f: Any, y: Any) -> Expansion:
        return Expansion(self.log_prob(f, y), _numbers(_gradient, self, f, y), _numbers(_precision, self, f, y))

    def bend(self, f: Any, y: Any, along: Any) -> Any:
        return _numbers(_bend, self, f, y, along)

    def by_hyperparameters(self, f: Any, y: Any, slope: Any, along: Any) -> dict[str, Any]:
        slopes = _numbers(_by_hyperparameters, self, f, y, slope, along)
        return {name: getattr(slopes, name) for name in self.trainable}


def _numbers(function: Any, *given: Any) -> Any:
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*given))


def over_rows(function: Any) -> Any:
    return jax.jit(lambda likelihood, *rows: jax.vmap(partial(function, likelihood))(*rows))


@over_rows
def _log_prob(likelihood: Any, f: Any, y: Any) -> Any:
    return likelihood.one(f, y)


@over_rows
def _gradient(likelihood: Any, f: Any, y: Any) -> Any:
    return jax.grad(likelihood.one)(f, y)


@over_rows
def _precision(likelihood: Any, f: Any, y: Any) -> Any:
    return -jax.hessian(likelihood.one)(f, y)


@over_rows
def _bend(likelihood: Any, f: Any, y: Any, along: Any) -> Any:
    return jax.grad(lambda f: -jnp.sum(along * jax.hessian(likelihood.one)(f, y)))(f)


@over_rows
def _by_hyperparameters(likelihood: Any, f: Any, y: Any, slope: Any, along: Any) -> Any:
    def total(likelihood: Any) -> Any:
        bent = -jnp.sum(along * jax.hessian(likelihood.one)(f, y))
        return likelihood.one(f, y) + slope @ jax.grad(likelihood.one)(f, y) + bent

    return jax.grad(total)(likelihood)


class Gaussian(Differentiated):
    trainable: ClassVar[Kinds] = {"noise_var": "positive"}
    noise_var: Float[Array, ""]

    def one(self, f: Any, y: Any) -> Any:
        return -0.5 * ((y - f[0]) ** 2 / self.noise_var + jnp.log(2 * jnp.pi * self.noise_var))


class Bernoulli(Differentiated):
    trainable: ClassVar[Kinds] = {"intercept": "real"}
    intercept: Float[Array, ""]

    def one(self, f: Any, y: Any) -> Any:
        return jax.nn.log_sigmoid((2.0 * y - 1.0) * (f[0] + self.intercept))


class Counts(Differentiated):
    """Poisson, log link."""

    trainable: ClassVar[Kinds] = {"intercept": "real"}
    intercept: Float[Array, ""]

    def one(self, f: Any, y: Any) -> Any:
        eta = f[0] + self.intercept
        return y * eta - jnp.exp(eta) - jax.scipy.special.gammaln(y + 1.0)


class Grades(Differentiated):
    """Cumulative logistic; the first threshold, and the gaps to the next ones."""

    trainable: ClassVar[Kinds] = {"first": "real", "gaps": "positive"}
    first: Float[Array, ""]
    gaps: Float[Array, " j"]

    def one(self, f: Any, y: Any) -> Any:
        edges = self.first + jnp.concatenate([jnp.zeros(1), jnp.cumsum(self.gaps)])
        edges = jnp.concatenate([jnp.array([-60.0]), edges, jnp.array([60.0])])
        grade = y.astype(int)
        upper, lower = edges[grade + 1] - f[0], edges[grade] - f[0]
        return jax.nn.log_sigmoid(upper) + jax.nn.log_sigmoid(-lower) + jnp.log(-jnp.expm1(lower - upper))


class Softmax(Differentiated):
    """C + 1 classes, the last one without a latent value."""

    trainable: ClassVar[Kinds] = {"intercepts": "real"}
    intercepts: Float[Array, " c"]

    @property
    def num_latents(self) -> int:
        return self.intercepts.shape[-1]

    def one(self, f: Any, y: Any) -> Any:
        return jax.nn.log_softmax(jnp.append(f + self.intercepts, 0.0))[y.astype(int)]


class HeavyTails(Differentiated):
    """Student's t: not log-concave."""

    trainable: ClassVar[Kinds] = {"scale": "positive", "dof": "positive"}
    scale: Float[Array, ""]
    dof: Float[Array, ""]

    def one(self, f: Any, y: Any) -> Any:
        return jax.scipy.stats.t.logpdf(y, self.dof, f[0], self.scale)
