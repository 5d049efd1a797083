"""A likelihood's interface, and the Laplace step of an observation: log p(y | f), f = phi' theta the latent values.

The posterior of f after one target is not Gaussian; the step takes the Gaussian at its mode, with its curvature
there (Lu et al. 2022, 3.2; Waxman and Djuric 2024, 3.4; Rasmussen and Williams 2006, 3.4).
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module

# The most steps of Newton's method. From a prior mean, 5 to 8 are usual.
MAX_STEPS = 50
MAX_HALVINGS = 40
# The search ends one step after a step as small as this. That last step is of the order of its square.
TOLERANCE = 1e-9


class Likelihood(Module):
    """log p(y | f) of one target, given C latent values; hyperparameters in natural units.

    Class attributes
    ----------------
    trainable
        The fields that empirical Bayes may move, each ``"positive"`` or ``"real"``.
    whole
        True where targets are 0, 1, 2, ... (labels, counts, grades).
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {}
    whole: ClassVar[bool] = True

    @property
    def num_latents(self) -> int:
        """Return C, the number of latent values of a target."""
        return 1

    def log_prob(self, f: Float[Array, " c"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return log p(y | f); finite for any finite f, or ``-inf`` where it overflows."""
        raise NotImplementedError

    def log_shape(self, f: Float[Array, " c"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return log p(y | f) up to a function of y alone that is expensive: all that a step needs."""
        return self.log_prob(f, y)

    def log_predictive(
        self, y: Float[Array, ""], loc: Float[Array, " c"], cov: Float[Array, "c c"]
    ) -> Float[Array, ""]:
        """Return log of the integral of p(y | f) over f ~ N(loc, cov): the log probability (density) of a target."""
        raise NotImplementedError

    def log_probabilities(self, loc: Float[Array, " c"], cov: Float[Array, "c c"]) -> Float[Array, " j"]:
        """Return the log of the probability of every label or grade, f ~ N(loc, cov); they sum to one."""
        raise TypeError(f"{type(self).__name__}: expected labels or grades, whose probabilities can be listed.")

    def cdf(self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> Float[Array, ""]:
        """Return the probability of a target of `y` or less, f ~ N(loc, cov)."""
        raise TypeError(f"{type(self).__name__}: its targets have no order, and so no cdf and no quantiles.")

    def moments(self, loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return mean and variance of the target, f ~ N(loc, cov); infinite where they overflow."""
        raise TypeError(f"{type(self).__name__}: its targets are labels, which have no mean; use `probabilities`.")

    def sample(self, key: Key, f: Float[Array, " 1"]) -> Float[Array, ""]:
        """Draw a target."""
        raise TypeError(f"{type(self).__name__}: draw labels and grades from their `probabilities`.")

    def start(self, y: Float[Array, ""]) -> Float[Array, ""] | None:
        """Return a latent value that explains `y`, where Newton's method starts if it is better than the prior mean.

        None, where the prior mean is always good enough: where log p(y | f) grows no faster than a parabola.
        """
        return None

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Return the likelihood to begin with, from targets alone."""
        raise NotImplementedError


def derivatives(
    likelihood: Likelihood, f: Float[Array, " c"], y: Float[Array, ""]
) -> tuple[Float[Array, " c"], Float[Array, "c c"]]:
    """Compute the gradient of log p(y | f), and minus its matrix of second derivatives."""

    def along(direction: Array) -> tuple[Array, Array]:
        # One pass gives both; apart they would be compiled apart.
        return jax.jvp(lambda f: jax.grad(likelihood.log_shape)(f, y), (f,), (direction,))

    gradient, curvature = jax.vmap(along, out_axes=(None, 0))(jnp.eye(len(f), dtype=f.dtype))
    return gradient, -curvature


class Step(NamedTuple):
    """The effect of one target on everything that is correlated with its latent values.

    A Gaussian u with covariance V (p x C) with f becomes: mean + V shift, covariance - V shrink V'.
    """

    shift: Float[Array, " c"]
    shrink: Float[Array, "c c"]


def laplace_step(
    likelihood: Likelihood, y: Float[Array, ""], loc: Float[Array, " c"], cov: Float[Array, "c c"]
) -> Step:
    """Compute the Laplace approximation of N(f; loc, cov) p(y | f), as what it changes.

    Newton's method for a in f = loc + cov a (Rasmussen and Williams 2006, Eq. 3.18), from a = 0. A step that does not
    raise the posterior density is halved until it does, so every iterate is at least as good as the one before, and
    nothing is NaN. Where the density is not log-concave (one latent value), steps take the curvature's size; where
    it bends upwards at the mode, the covariance stays as it was: it never grows.

    The error of the mean, in standard deviations of the posterior, is about g v^(3/2) / 2 with g the third derivative
    of log p at the mode and v the posterior variance of f; that of the variance, relatively, is of the order v^2.
    The largest against quadrature, over prior means within 3 of the target:

    ==================  ======================  ==========================
    prior variance      0.01   0.1    1    10   0.01    0.1    1     10
    ==================  ======================  ==========================
    (error of)          mean / deviation        variance, relatively
    logistic            1e-4   0.002  0.04 0.3  2e-5    1e-3   0.03  0.3
    probit, ordinal     2e-4   0.005  0.1  0.5  2e-5    1e-3   0.04  0.5
    Poisson, negative   0.02   0.07   0.2  0.5  5e-4    0.005  0.06  0.3
    binomial
    ==================  ======================  ==========================
    """

    def objective(a: Float[Array, " c"]) -> Float[Array, ""]:
        moved = cov @ a
        return likelihood.log_shape(loc + moved, y) - 0.5 * a @ moved

    def newton(carry: tuple) -> tuple:
        a, value, _, count = carry
        moved = cov @ a
        gradient, precision = derivatives(likelihood, loc + moved, y)
        if precision.shape == (1, 1):
            precision = jnp.abs(precision)
        direction = _solve_shifted(precision, cov, precision @ moved + gradient) - a
        scale, new = halved(objective, a, value, direction)
        length = jnp.max(jnp.abs(cov @ direction)) / (1.0 + jnp.max(jnp.abs(moved)))
        # No multiple of a direction that is no better than rounding: that is the end as well.
        return a + scale * direction, new, jnp.where(scale > 0.0, length, 0.0), count + 1

    def unfinished(carry: tuple) -> Array:
        return (carry[2] > TOLERANCE) & (carry[3] < MAX_STEPS)

    starts = jnp.zeros_like(loc)[None]
    explains = likelihood.start(y)
    if explains is not None:
        other = jnp.where(cov[0, 0] > 0.0, (explains - loc) / jnp.maximum(cov[0, 0], 1e-300), 0.0)
        starts = jnp.stack([starts[0], other])
    values = jax.vmap(objective)(starts)
    # A start that is no number is no better.
    first = jnp.where(values[-1] > values[0], len(starts) - 1, 0)
    a, value = starts[first], values[first]
    a, *_ = jax.lax.while_loop(unfinished, newton, (a, value, jnp.asarray(jnp.inf, loc.dtype), 0))
    _, precision = derivatives(likelihood, loc + cov @ a, y)
    if precision.shape == (1, 1):
        precision = jnp.maximum(precision, 0.0)
    shrink = _solve_shifted(precision, cov, precision)
    return Step(a, 0.5 * (shrink + shrink.T))


def halved(objective: Callable[[Array], Array], a: Array, value: Array, direction: Array) -> tuple[Array, Array]:
    """Find the largest of 1, 1/2, 1/4, ... of a direction that loses nothing, and the objective there; 0 if none."""

    def worse(carry: tuple) -> Array:
        _, new, count = carry
        # Written so that NaN counts as worse.
        return ~(new >= value - 1e-13 * jnp.abs(value)) & (count <= MAX_HALVINGS)

    def halve(carry: tuple) -> tuple:
        scale, _, count = carry
        return 0.5 * scale, objective(a + 0.5 * scale * direction), count + 1

    # From twice the direction, without its value: so that the objective is written out, and compiled, once.
    twice = jnp.full_like(value, 2.0), jnp.full_like(value, jnp.nan), 0
    scale, new, count = jax.lax.while_loop(worse, halve, twice)
    found = count <= MAX_HALVINGS
    return jnp.where(found, scale, 0.0), jnp.where(found, new, value)


def _solve_shifted(precision: Array, cov: Array, right: Array) -> Array:
    """Compute (I + precision cov)^-1 right."""
    if precision.shape == (1, 1):
        return right / (1.0 + precision[0, 0] * cov[0, 0])
    return jnp.linalg.solve(jnp.eye(len(cov), dtype=cov.dtype) + precision @ cov, right)
