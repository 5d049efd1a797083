"""A likelihood's interface, log p(y | f), f = phi' theta the latent values, and what a fit needs of its derivatives.

Everything is vectorised: arrays of f (..., C) and y (...) have any leading axes, and so have the hyperparameters,
one for each expert of a stack; they broadcast.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from jaxtyping import Float

from streamgp.numerics.module import Module

if TYPE_CHECKING:
    Values: TypeAlias = np.ndarray
else:
    Values: TypeAlias = Any
"""An array of NumPy or, where there is no axis, a number of its."""


class Expansion(NamedTuple):
    """The second-order expansion of log p(y | f) in f.

    Attributes
    ----------
    value
        As `Likelihood.log_shape` has it.
    gradient, precision
        The gradient by f, and minus the matrix of second derivatives.
    """

    value: Float[Values, "..."]
    gradient: Float[Values, "... c"]
    precision: Float[Values, "... c c"]


class Likelihood(Module):
    """log p(y | f) of a target, given C latent values; hyperparameters in natural units.

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

    def log_prob(self, f: Float[Values, "... c"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f); finite for any finite f, or ``-inf`` where it overflows."""
        raise NotImplementedError

    def expand(self, f: Float[Values, "... c"], y: Float[Values, "..."]) -> Expansion:
        """Return log p(y | f), up to a function of y alone that is expensive, with its first two derivatives by f."""
        raise NotImplementedError

    def around(self, y: Float[Values, "..."]) -> Callable[[Values], Expansion]:
        """Return `expand` of these targets as a function of f alone: what depends on y is worked out once."""
        return lambda f: self.expand(f, y)

    def log_shape(self, f: Float[Values, "... c"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f) up to a function of y alone that is expensive: all that a step needs."""
        return self.log_prob(f, y)

    def bend(
        self, f: Float[Values, "... c"], y: Float[Values, "..."], along: Float[Values, "... c c"]
    ) -> Float[Values, "... c"]:
        """Return the gradient by f of the sum of `along` (symmetric) times the precision: third derivatives."""
        raise NotImplementedError

    def by_hyperparameters(
        self,
        f: Float[Values, "... c"],
        y: Float[Values, "..."],
        slope: Float[Values, "... c"],
        along: Float[Values, "... c c"],
    ) -> dict[str, Float[Values, "..."]]:
        """Return the gradient, of each target, of log p + slope' gradient + sum(along * precision) by `trainable`."""
        return {}

    def log_predictive(
        self, y: Float[Values, "..."], loc: Float[Values, "... c"], cov: Float[Values, "... c c"]
    ) -> Float[Values, "..."]:
        """Return log of the integral of p(y | f) over f ~ N(loc, cov): the log probability (density) of a target."""
        return picked(self.log_probabilities(loc, cov), y)

    def log_probabilities(self, loc: Float[Values, "... c"], cov: Float[Values, "... c c"]) -> Float[Values, "... j"]:
        """Return the log of the probability of every label or grade, f ~ N(loc, cov); they sum to one."""
        raise TypeError(f"{type(self).__name__}: expected labels or grades, whose probabilities can be listed.")

    def cdf(
        self, y: Float[Values, "..."], loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> Float[Values, "..."]:
        """Return the probability of a target of `y` or less, f ~ N(loc, cov)."""
        raise TypeError(f"{type(self).__name__}: its targets have no order, and so no cdf and no quantiles.")

    def moments(
        self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> tuple[Float[Values, "..."], Float[Values, "..."]]:
        """Return mean and variance of the target, f ~ N(loc, cov); infinite where they overflow."""
        raise TypeError(f"{type(self).__name__}: its targets are labels, which have no mean; use `probabilities`.")

    def sample(self, draws: np.random.Generator, f: Float[Values, "... 1"]) -> Float[Values, "..."]:
        """Draw targets."""
        raise TypeError(f"{type(self).__name__}: draw labels and grades from their `probabilities`.")

    def start(self, y: Float[Values, "..."]) -> Float[Values, "..."] | None:
        """Return a latent value that explains `y`, where Newton's method starts if it is better than the prior mean.

        None, where the prior mean is always good enough: where log p(y | f) grows no faster than a parabola.
        """
        return None

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Return the likelihood to begin with, from targets alone."""
        raise NotImplementedError


def picked(values: Float[Values, "... j"], y: Float[Values, "..."]) -> Float[Values, "..."]:
    """Return of the values of all labels or grades those of `y`."""
    if np.ndim(y) == 0:
        return values[..., int(y)]
    lead = np.broadcast_shapes(values.shape[:-1], np.shape(y))
    at = np.broadcast_to(np.asarray(y).astype(int), lead)[..., None]
    return np.take_along_axis(np.broadcast_to(values, (*lead, values.shape[-1])), at, axis=-1)[..., 0]
