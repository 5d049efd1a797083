"""The Laplace step of an observation: the Gaussian at the mode of what is known of f, with the curvature there.

The posterior of f after one target is not Gaussian (Lu et al. 2022, 3.2; Waxman and Djuric 2024, 3.4; Rasmussen and
Williams 2006, 3.4).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods.base import Expansion, Likelihood, Values

# The most steps of Newton's method. From a prior mean, 5 to 8 are usual.
MAX_STEPS = 50
MAX_HALVINGS = 40
# The search ends one step after a step as small as this. That last step is of the order of its square.
TOLERANCE = 1e-9
# What an objective may lose by rounding, relatively.
ROUNDING = 1e-13


class Step(NamedTuple):
    """The effect of one target on everything that is correlated with its latent values.

    A Gaussian u with covariance V (p x C) with f becomes: mean + V shift, covariance - V shrink V'.
    """

    shift: Float[Values, "... c"]
    shrink: Float[Values, "... c c"]


def laplace_step(
    likelihood: Likelihood,
    y: Float[Values, "..."],
    loc: Float[Values, "... c"],
    cov: Float[Values, "... c c"],
) -> Step:
    """Compute the Laplace approximation of N(f; loc, cov) p(y | f), as what it changes, of many targets at once.

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
    products = _One(cov[..., 0, 0]) if loc.shape[-1] == 1 else _Several(cov)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        a, expansion = _mode(likelihood, y, loc, products)
        return Step(a, products.shrink(expansion.precision))


class _One:
    """Products with the prior variance of a single latent value: numbers in place of matrices."""

    def __init__(self, var: Any) -> None:
        self._var = var[..., None]

    def times(self, a: Any) -> Any:
        return self._var * a

    def target(self, moved: Any, expansion: Expansion) -> Any:
        """Return where a whole step of Newton's method leads."""
        precision = np.abs(expansion.precision[..., 0])
        return (precision * moved + expansion.gradient) / (1.0 + precision * self._var)

    def shrink(self, precision: Any) -> Any:
        precision = np.maximum(precision, 0.0)
        return precision / (1.0 + precision * self._var[..., None])

    def explaining(self, distance: Any) -> Any:
        """Return a that moves f by a distance; zero where f is known."""
        return np.where(self._var > 0.0, distance / np.maximum(self._var, 1e-300), 0.0)

    @staticmethod
    def dot(a: Any, b: Any) -> Any:
        return (a * b)[..., 0]

    @staticmethod
    def largest(a: Any) -> Any:
        return np.abs(a)[..., 0]


class _Several:
    """Products with the prior covariance of several latent values."""

    def __init__(self, cov: Any) -> None:
        self._cov = cov
        self._eye = np.eye(cov.shape[-1])

    def times(self, a: Any) -> Any:
        return (self._cov @ a[..., None])[..., 0]

    def target(self, moved: Any, expansion: Expansion) -> Any:
        precision = expansion.precision
        right = (precision @ moved[..., None])[..., 0] + expansion.gradient
        return np.linalg.solve(self._eye + precision @ self._cov, right[..., None])[..., 0]

    def shrink(self, precision: Any) -> Any:
        shrink = np.linalg.solve(self._eye + precision @ self._cov, precision)
        return 0.5 * (shrink + np.swapaxes(shrink, -1, -2))

    def explaining(self, distance: Any) -> Any:
        raise TypeError("expected a likelihood of one latent value to name a start")

    @staticmethod
    def dot(a: Any, b: Any) -> Any:
        return (a * b).sum(-1)

    @staticmethod
    def largest(a: Any) -> Any:
        return np.abs(a).max(-1)


def _mode(likelihood: Likelihood, y: Any, loc: Any, products: "_One | _Several") -> tuple[Any, Expansion]:
    """Find a at the mode, and the likelihood's expansion there."""
    expand = likelihood.around(y)

    def at(a: Any) -> tuple[Any, Any, Expansion]:
        moved = products.times(a)
        expansion = expand(loc + moved)
        return moved, expansion.value - 0.5 * products.dot(a, moved), expansion

    a = np.zeros(np.broadcast_shapes(loc.shape, (*np.shape(y), loc.shape[-1])))
    explains = likelihood.start(y)
    if explains is None:
        moved, value, expansion = at(a)
    else:
        starts = np.stack([a, products.explaining(np.asarray(explains)[..., None] - loc)])
        both = at(starts)
        better = both[1][1] > both[1][0]  # not where it is no number
        (a, (moved, value, expansion)) = _where(better, *(_member((starts, both), i) for i in (1, 0)))
    going: Any = None
    for _ in range(MAX_STEPS):
        direction = products.target(moved, expansion) - a
        if going is not None:
            direction = direction * going[..., None]
        ahead = a + direction
        found = at(ahead)
        # Written so that NaN counts as worse.
        enough = value - ROUNDING * np.abs(value)
        worse = ~(found[1] >= enough)
        is_long = products.largest(products.times(direction)) > TOLERANCE * (1.0 + products.largest(moved))
        going = is_long if going is None else going & is_long
        if worse.any():
            scale, found = halved(at, a, (moved, value, expansion), direction, found, enough, worse)
            # No multiple of a direction that is no better than rounding: that is the end as well.
            going = going & (scale > 0.0)
            ahead = np.where(scale[..., None] > 0.0, a + scale[..., None] * direction, a)
        a, (moved, value, expansion) = ahead, found
        if not going.any():
            break
    return a, expansion


def halved(
    at: Callable[[Any], Any], a: Any, before: Any, direction: Any, found: Any, enough: Any, worse: Any
) -> tuple[Any, Any]:
    """Find the largest of 1, 1/2, 1/4, ... of directions that loses nothing; return it, zero if none, and `at` there.

    Parameters
    ----------
    at
        What there is at a point; its second part is the objective.
    a, before
        The points, and `at` there.
    direction, found
        The directions, and `at` their ends.
    enough, worse
        The least objective that loses nothing, and where that was missed at the ends.
    """
    scale = np.ones(worse.shape)
    for _ in range(MAX_HALVINGS - 1):
        scale = np.where(worse, 0.5 * scale, scale)
        found = _where(worse, at(a + scale[..., None] * direction), found)
        worse = worse & ~(found[1] >= enough)
        if not worse.any():
            return scale, found
    return np.where(worse, 0.0, scale), _where(worse, before, found)


def _member(parts: Any, index: int) -> Any:
    """Return one of the stacked arrays of a tree."""
    if isinstance(parts, tuple):
        found = [_member(part, index) for part in parts]
        return type(parts)(*found) if hasattr(parts, "_fields") else tuple(found)
    return parts[index]


def _where(chosen: Any, one: Any, other: Any) -> Any:
    """Return a tree of arrays of one or of the other, by their leading axes."""
    if isinstance(one, tuple):
        parts = [_where(chosen, a, b) for a, b in zip(one, other, strict=True)]
        return type(one)(*parts) if hasattr(one, "_fields") else tuple(parts)
    return np.where(chosen.reshape(chosen.shape + (1,) * (np.ndim(one) - chosen.ndim)), one, other)
