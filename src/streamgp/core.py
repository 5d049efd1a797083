"""The contract of every online model, and the predictive distribution that it returns."""

from types import ModuleType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtr, ndtri
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Key

AnyArray = Array | np.ndarray


def namespace(*arrays: Any) -> ModuleType:
    """NumPy for its own arrays alone, which must not wait for JAX; JAX's NumPy as soon as one is not."""
    return np if all(isinstance(a, np.ndarray | np.generic) for a in arrays) else jnp


class Predictive(eqx.Module):
    """A mixture of Gaussians for every row: the distribution of the next target, noise included.

    Parameters
    ----------
    log_weights
        Log of the mixture weights of each row; each row sums to one in probability. ``-inf`` marks
        a component that is switched off.
    loc, var
        Mean and variance of each component and output, in the units of the target.
    """

    log_weights: Float[AnyArray, "n k"]
    loc: Float[AnyArray, "n k e"]
    var: Float[AnyArray, "n k e"]

    @property
    def weights(self) -> Float[Array, "n k"]:
        """Mixture weights; rows sum to one."""
        return jnp.exp(self.log_weights)

    @property
    def mean(self) -> Float[Array, "n e"]:
        """Mean of the mixture."""
        return jnp.einsum("nk,nke->ne", self.weights, self.loc)

    @property
    def variance(self) -> Float[Array, "n e"]:
        """Variance of the mixture: within components plus between their means."""
        spread = jnp.square(self.loc - self.mean[:, None, :])
        return jnp.einsum("nk,nke->ne", self.weights, self.var + spread)

    @property
    def std(self) -> Float[Array, "n e"]:
        """Standard deviation of the mixture (the square root of `variance`)."""
        return jnp.sqrt(self.variance)

    def component_log_density(self, y: Float[AnyArray, "n e"]) -> Float[Array, "n k"]:
        """Log density of `y` under each component, summed over outputs (they are independent given it)."""
        return norm.logpdf(y[:, None, :], self.loc, jnp.sqrt(self.var)).sum(-1)

    def log_density(self, y: Float[AnyArray, "n e"]) -> Float[Array, " n"]:
        """Joint log density of all outputs under the mixture."""
        return logsumexp(self.log_weights + self.component_log_density(y), axis=1)

    def moment_log_density(self, y: Float[AnyArray, "n e"]) -> Float[Array, " n"]:
        """Log density under one Gaussian with the mean and variance of the mixture (Waxman and Djuric 2024)."""
        return norm.logpdf(y, self.mean, self.std).sum(-1)

    def cdf(self, y: Float[AnyArray, "n e"]) -> Float[Array, "n e"]:
        """Distribution function of each output at `y`: the probability integral transform."""
        scaled = (y[:, None, :] - self.loc) / jnp.sqrt(self.var)
        return jnp.einsum("nk,nke->ne", self.weights, ndtr(scaled))

    def quantile(self, probability: float | Float[Array, ""]) -> Float[Array, "n e"]:
        """Quantile of each output, by Newton's method inside a shrinking bracket (to about 1e-12 of the scale)."""
        return _quantile(self, jnp.asarray(probability, self.loc.dtype))

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "... n e"]:
        """Draw targets: a component for each row, then its Gaussian."""
        pick, noise = jax.random.split(key)
        n, _, e = self.loc.shape
        component = jax.random.categorical(pick, self.log_weights, shape=(*shape, n))
        rows = jnp.arange(n)
        z = jax.random.normal(noise, (*shape, n, e), self.loc.dtype)
        return self.loc[rows, component] + jnp.sqrt(self.var[rows, component]) * z

    def crps(self, y: Float[AnyArray, "n e"]) -> Float[Array, "n e"]:
        """Continuous ranked probability score of each output (Grimit et al. 2006, Eq. 5)."""
        first = _expected_abs(y[:, None, :] - self.loc, self.var)
        first = jnp.einsum("nk,nke->ne", self.weights, first)
        difference = self.loc[:, :, None, :] - self.loc[:, None, :, :]
        pooled = self.var[:, :, None, :] + self.var[:, None, :, :]
        second = jnp.einsum("nk,nj,nkje->ne", self.weights, self.weights, _expected_abs(difference, pooled))
        return first - 0.5 * second


def _expected_abs(mean: AnyArray, var: AnyArray) -> AnyArray:
    """E|Z| of Z ~ N(mean, var)."""
    sd = jnp.sqrt(var)
    z = mean / sd
    return mean * (2.0 * ndtr(z) - 1.0) + 2.0 * sd * norm.pdf(z)


@eqx.filter_jit
def _quantile(p: Predictive, probability: Float[Array, ""]) -> Float[Array, "n e"]:
    live = jnp.isfinite(p.log_weights)[:, :, None]
    each = p.loc + jnp.sqrt(p.var) * ndtri(probability)
    # The mixture's quantile lies between the smallest and the largest of its live components' quantiles.
    low = jnp.min(jnp.where(live, each, jnp.inf), axis=1)
    high = jnp.max(jnp.where(live, each, -jnp.inf), axis=1)
    sd = jnp.sqrt(p.var)

    def step(carry: tuple) -> tuple:
        low, high, x, _, steps = carry
        scaled = (x[:, None, :] - p.loc) / sd
        gap = jnp.einsum("nk,nke->ne", p.weights, ndtr(scaled)) - probability
        slope = jnp.einsum("nk,nke->ne", p.weights, norm.pdf(scaled) / sd)
        low = jnp.where(gap <= 0, x, low)
        high = jnp.where(gap >= 0, x, high)
        newton = x - gap / slope
        inside = (newton > low) & (newton < high)
        # A step within the tolerance is the last one, even where rounding puts it just outside the bracket.
        done = jnp.abs(newton - x) <= tolerance * p.std
        moved = jnp.where(done, jnp.clip(newton, low, high), jnp.where(inside, newton, 0.5 * (low + high)))
        return low, high, moved, jnp.max(jnp.abs(moved - x) / p.std), steps + 1

    def unfinished(carry: tuple) -> Array:
        *_, change, steps = carry
        return (change > tolerance) & (steps < 100)

    tolerance = 100 * jnp.finfo(p.loc.dtype).eps
    start = jnp.clip(p.mean + p.std * ndtri(probability), low, high)
    first = (low, high, start, jnp.asarray(jnp.inf, p.loc.dtype), 0)
    return jax.lax.while_loop(unfinished, step, first)[2]


class Info(NamedTuple):
    """What `update` tells about the rows that it has just learnt from.

    Attributes
    ----------
    predictive
        The one-step-ahead prediction of each row, made before its own target was seen.
    outside
        True where a row lay outside the region that some basis was built for.
    rules
        Of each row, how much each of several weight rules counted before the target was seen; each row sums to one.
        None where a single rule weighs the experts.
    """

    predictive: Predictive
    outside: Bool[AnyArray, " n"]
    rules: Float[AnyArray, "n r"] | None = None


@runtime_checkable
class OnlineModel(Protocol):
    """A streaming model as three pure functions of an explicit state (a fixed-size pytree of arrays).

    `times`, where a model uses them, are the rows' own time stamps; ``None`` counts rows.
    """

    num_inputs: int
    num_outputs: int

    def init(self, key: Key[Array, ""]) -> Any:
        """The state before any row."""
        ...

    def predict(self, state: Any, X: Float[Array, "n d"], times: Float[Array, " n"] | None = None) -> Predictive:
        """Predict each row as if it were the next one. Never sees a target, never changes the state."""
        ...

    def update(
        self,
        state: Any,
        X: Float[Array, "n d"],
        y: Float[Array, "n e"],
        mask: Bool[Array, " n"] | None = None,
        times: Float[Array, " n"] | None = None,
    ) -> tuple[Any, Info]:
        """Learn from the rows in order; rows with a false `mask` are passed over and cost no time step."""
        ...
