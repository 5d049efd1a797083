"""The contract of every online model, and the predictive distribution that it returns."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp, ndtr, ndtri
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Key

from streamgp import student_t
from streamgp.arrays import AnyArray as AnyArray
from streamgp.arrays import namespace as namespace

# Components of a mixture that its CRPS takes one by one; beyond them, the lightest count as one Gaussian.
HEAVIEST = 32


class Predictive(eqx.Module):
    """A mixture for every row, of Gaussians or Student's t: the distribution of the next target, noise included.

    Parameters
    ----------
    log_weights
        Log of the mixture weights of each row; each row sums to one in probability. ``-inf`` marks
        a component that is switched off.
    loc, var
        Mean and variance of each component and output, in the units of the target.
    dof
        Degrees of freedom of each component, at least 5; infinite for a Gaussian. None: all are Gaussians.
    """

    log_weights: Float[AnyArray, "n k"]
    loc: Float[AnyArray, "n k e"]
    var: Float[AnyArray, "n k e"]
    dof: Float[AnyArray, "n k"] | None = None

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

    def component_log_density(self, y: Float[AnyArray, "n e"]) -> Float[AnyArray, "n k"]:
        """Log density of `y` under each component, summed over outputs (they are independent given it)."""
        return self._log_densities(y).sum(-1)

    def _log_densities(self, x: Float[AnyArray, "n e"]) -> Float[AnyArray, "n k e"]:
        """Log density of every component and output."""
        dof = None if self.dof is None else self.dof[:, :, None]
        return student_t.log_density(x[:, None, :] - self.loc, jnp.asarray(self.var), dof)

    def _cdfs(self, x: Float[AnyArray, "n e"]) -> Float[AnyArray, "n k e"]:
        """Distribution function of every component and output."""
        if self.dof is None:
            return ndtr((x[:, None, :] - self.loc) / jnp.sqrt(self.var))
        scale2 = student_t.squared_scale(self.var, self.dof[:, :, None])
        return student_t.cdf((x[:, None, :] - self.loc) / jnp.sqrt(scale2), self.dof[:, :, None])

    def log_density(self, y: Float[AnyArray, "n e"]) -> Float[Array, " n"]:
        """Joint log density of all outputs under the mixture."""
        return logsumexp(self.log_weights + self.component_log_density(y), axis=1)

    def moment_log_density(self, y: Float[AnyArray, "n e"]) -> Float[Array, " n"]:
        """Log density under one Gaussian with the mean and variance of the mixture (Waxman and Djuric 2024)."""
        return norm.logpdf(y, self.mean, self.std).sum(-1)

    def cdf(self, y: Float[AnyArray, "n e"]) -> Float[Array, "n e"]:
        """Distribution function of each output at `y`: the probability integral transform."""
        return jnp.einsum("nk,nke->ne", self.weights, self._cdfs(y))

    def quantile(self, probability: float | Float[Array, ""]) -> Float[Array, "n e"]:
        """Quantile of each output, by Newton's method inside a shrinking bracket (to about 1e-12 of the scale)."""
        return _quantile(self, jnp.asarray(probability, self.loc.dtype))

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "... n e"]:
        """Draw targets: a component for each row, then from it (a t is a Gaussian of random variance)."""
        pick, noise, spread = jax.random.split(key, 3)
        n, _, e = self.loc.shape
        component = jax.random.categorical(pick, self.log_weights, shape=(*shape, n))
        rows = jnp.arange(n)
        var = self.var[rows, component]
        if self.dof is not None:
            dof = jnp.asarray(self.dof)[rows, component][..., None]
            half = 0.5 * jnp.where(jnp.isinf(dof), 2.0, dof)
            gamma = jax.random.gamma(spread, jnp.broadcast_to(half, var.shape), dtype=self.loc.dtype)
            var = jnp.where(jnp.isinf(dof), var, student_t.squared_scale(var, dof) * half / gamma)
        z = jax.random.normal(noise, (*shape, n, e), self.loc.dtype)
        return self.loc[rows, component] + jnp.sqrt(var) * z

    def crps(self, y: Float[AnyArray, "n e"]) -> Float[Array, "n e"]:
        """Continuous ranked probability score of each output: E|Y - y| - E|Y - Y'| / 2 (Grimit et al. 2006, Eq. 5).

        With Student's t, the distance of two draws counts as a t of the same first four moments. That makes the score
        of a mixture of t's at its centre too large by 3% at 5 degrees of freedom, by 1.3% at 6, and 0.25% at 10.
        """
        return _crps(self, jnp.asarray(y))


@eqx.filter_jit
def _crps(p: Predictive, y: Float[Array, "n e"]) -> Float[Array, "n e"]:
    p = _heaviest(p)
    dof = jnp.full(p.loc.shape[:2], jnp.inf, p.loc.dtype) if p.dof is None else jnp.asarray(p.dof)
    first = student_t.expected_distance(y[:, None, :] - p.loc, p.var, dof[:, :, None])
    first = jnp.einsum("nk,nke->ne", p.weights, first)
    excess = jnp.square(p.var) * (6.0 / (dof - 4.0))[:, :, None]  # fourth cumulants
    pooled = p.var[:, :, None, :] + p.var[:, None, :, :]
    tails = (excess[:, :, None, :] + excess[:, None, :, :]) / jnp.square(pooled)
    pair_dof = jnp.where(tails > 0.0, 4.0 + 6.0 / jnp.where(tails > 0.0, tails, 1.0), jnp.inf)
    difference = p.loc[:, :, None, :] - p.loc[:, None, :, :]
    second = student_t.expected_distance(difference, pooled, pair_dof)
    return first - 0.5 * jnp.einsum("nk,nj,nkje->ne", p.weights, p.weights, second)


def _heaviest(p: Predictive) -> Predictive:
    """The same mixture with at most `HEAVIEST` components: the lightest become one Gaussian of their moments."""
    n, k, _ = p.loc.shape
    if k <= HEAVIEST:
        return p
    top = jax.lax.top_k(jnp.asarray(p.log_weights), HEAVIEST - 1)[1]
    rows = jnp.arange(n)[:, None]
    rest = p.weights.at[rows, top].set(0.0)
    mass = rest.sum(1)
    share = rest / jnp.where(mass > 0.0, mass, 1.0)[:, None]
    # With nothing left over, the component has no weight; it still needs a variance.
    share = jnp.where(mass[:, None] > 0.0, share, 1.0 / k)
    loc = jnp.einsum("nk,nke->ne", share, p.loc)[:, None]
    var = jnp.einsum("nk,nke->ne", share, p.var + jnp.square(p.loc - loc))[:, None]
    dof = None
    if p.dof is not None:
        dof = jnp.concatenate([jnp.asarray(p.dof)[rows, top], jnp.full((n, 1), jnp.inf, p.loc.dtype)], axis=1)
    return Predictive(
        jnp.concatenate([jnp.asarray(p.log_weights)[rows, top], jnp.log(mass)[:, None]], axis=1),
        jnp.concatenate([jnp.asarray(p.loc)[rows, top], loc], axis=1),
        jnp.concatenate([jnp.asarray(p.var)[rows, top], var], axis=1),
        dof,
    )


@eqx.filter_jit
def _quantile(p: Predictive, probability: Float[Array, ""]) -> Float[Array, "n e"]:
    # No distribution has its quantile further from the mean (Cantelli's inequality).
    low = p.mean - p.std * jnp.sqrt((1.0 - probability) / probability)
    high = p.mean + p.std * jnp.sqrt(probability / (1.0 - probability))

    def step(carry: tuple) -> tuple:
        low, high, x, _, steps = carry
        gap = p.cdf(x) - probability
        slope = jnp.einsum("nk,nke->ne", p.weights, jnp.exp(p._log_densities(x)))
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
