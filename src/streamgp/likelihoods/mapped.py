"""The predictive distribution of a target that is learnt on another scale, or is known to keep within bounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import recalibration
from streamgp.likelihoods.predictive import Predictive
from streamgp.likelihoods.target_map import TargetMap
from streamgp.likelihoods.within_reach import WithinReach
from streamgp.numerics import student_t, tree
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field

_NEGLIGIBLE = 1e-4  # of the probability beyond a bound: its part in the CRPS is of its square
_LEVEL_ENDS = 1e-10, 1.0 - 1e-10
_PINBALL_NODES, _PINBALL_SHARES = np.polynomial.legendre.leggauss(16)

Rows = Float[np.ndarray, "n e"]


class MappedPredictive(Module):
    """The distribution of y, where z has that of `base` and y is the `map` of z: in NumPy.

    Quantiles, distribution function, density and draws are exact. What `base` has beyond a bound is at the bound: so
    quantiles, bands and the CRPS of a target within the bounds are never worse than without. The log density is that
    of `base` itself with the change of variables, at a bound too, where there is probability rather than a density:
    so it compares with that of other predictions, as they have none.

    Of a transformed target mean, std and CRPS are those of one distribution, that of Y: of y with its tails moved to
    the ends of `TargetMap.reach`, and within the `limits` of `base`, but to its median at least. The exponential of a
    Student's t has no mean and no CRPS, and tails that far out are believed rather than learnt. With Y' another draw,
    m the median of Y and D = E|Y - m|, up to quadrature:

    - CRPS(y) = E|Y - y| - E|Y - Y'| / 2 is at most E|Y - y|, and so at most sqrt(std^2 + (mean - y)^2).
    - CRPS(y) is at most |y - m| + D / 2: E|Y - y| is at most |y - m| + D, and E|Y - Y'| at least D, as no point has a
      smaller mean distance from Y than m.
    - The mean of CRPS(Y) is at most D, the mean error of the median: it is E|Y - Y'| / 2, and E|Y - Y'| is at most
      E|Y - m| + E|m - Y'|.

    Parameters
    ----------
    base
        The distribution on the scale on which the model learns.
    map
        From that scale to the target.
    """

    base: Predictive
    map: TargetMap = static_field()

    @property
    def log_weights(self) -> Float[AnyArray, "n k"]:
        """Return the log of the mixture weights."""
        return self.base.log_weights

    @property
    def weights(self) -> Float[AnyArray, "n k"]:
        """Return the mixture weights; rows sum to one."""
        return self.base.weights

    @property
    def loc(self) -> Float[AnyArray, "n k e"]:
        """Return the location of each component on the scale on which the model learns."""
        return self.base.loc

    @property
    def correlation(self) -> Any:
        """Return the correlation of the outputs' normal scores, which the map leaves as they are."""
        return self.base.correlation

    @property
    def mean(self) -> Rows:
        """Return the mean, see `moments`."""
        return self.moments[0]

    @property
    def variance(self) -> Rows:
        """Return the variance, see `moments`."""
        return self.moments[1]

    @property
    def moments(self) -> tuple[Rows, Rows]:
        """Return the mean, and the mean squared distance from it: by the factor of `base` for its recalibration.

        Of bounds alone the mean is that of `base`, moved to a bound where it lies beyond: what was learnt from
        targets within the bounds is their mean already, and no target is further from it than without. Of a
        transformed target both are those of y within its reach, as recalibrated.
        """
        if self.map.transform is not None:
            return self._within_reach.moments()
        loc, var = _clipped_moments(self.base, *self.map.ends)
        parts = replace(self.base, loc=loc, var=var, dof=None)
        expected, variance = (np.asarray(a) for a in parts.moments)
        mean = np.clip(self.base.mean, *self.map.ends)
        v = self.base.recalibration
        factor = 1.0 if v is None else recalibration.variance_factor(v)
        return mean, variance + factor * (expected - mean) ** 2

    @property
    def std(self) -> Rows:
        """Return the standard deviation (the square root of `variance`)."""
        return np.sqrt(self.variance)

    def log_density(self, y: Rows) -> Float[np.ndarray, " n"]:
        """Return the joint log density of all outputs, in the units of y; -inf outside the bounds."""
        return self._density(y, self.base.log_density)

    def joint_log_density(self, y: Rows) -> Float[np.ndarray, " n"]:
        """Return the joint log density of all outputs with their correlation; -inf outside the bounds."""
        return self._density(y, self.base.joint_log_density)

    def moment_log_density(self, y: Rows) -> Float[np.ndarray, " n"]:
        """Return the log density under one Gaussian with the same mean and variance (Waxman and Djuric 2024)."""
        mean, variance = self.moments
        return np.asarray(student_t.log_density(y - mean, variance, None)).sum(-1)

    def cdf(self, y: Rows) -> Rows:
        """Return the distribution function of each output at `y`."""
        within = np.clip(y, self.map.low, self.map.high)
        found = self._below(self.map.forward(within))
        return np.where(y >= self.map.high, 1.0, np.where(y < self.map.low, 0.0, found))

    def pit(self, y: Rows) -> Rows:
        """Return the level at which each target came: at a bound, of all levels there, the one nearest to a half."""
        level = self._below(self.map.forward(np.clip(y, self.map.low, self.map.high)))
        level = np.where((y <= self.map.low) & (level > 0.5), 0.5, level)
        return np.where((y >= self.map.high) & (level < 0.5), 0.5, level)

    def quantile(self, probability: float | Rows) -> Rows:
        """Return the quantile of each output."""
        return self.map.inverse(self.base.quantile(np.broadcast_to(probability, self.loc.shape[::2])))

    def at_scores(self, z: Float[np.ndarray, "... n e"]) -> Float[np.ndarray, "... n e"]:
        """Return the targets whose normal scores are z."""
        return self.map.inverse(self.base.at_scores(z))

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Float[np.ndarray, "... n e"]:
        """Draw targets."""
        return self.map.inverse(self.base.sample(key, shape))

    def crps(self, y: Rows) -> Rows:
        """Return the continuous ranked probability score of targets within the bounds, to some 0.5%.

        Of bounds alone that of `base` where next to nothing lies beyond them, and otherwise the integral of the
        pinball loss over all levels (Gneiting and Ranjan 2011, Eq. 6), below that of y and above it by 16 nodes
        each. Of a transformed target the integral of (F - 1[y below])^2 within its reach.
        """
        if self.map.transform is not None:
            return self._within_reach.crps(y)
        crps = np.array(self.base.crps(y))
        low, high = (self._below(np.full_like(y, bound)) for bound in (self.map.low, self.map.high))
        rows = ((low > _NEGLIGIBLE) | (1.0 - high > _NEGLIGIBLE)).any(axis=1)
        some = MappedPredictive(tree.map(lambda a: a[rows], self.base), self.map)
        crps[rows] = np.minimum(crps[rows], some._pinball(y[rows], low[rows], high[rows]))
        return crps

    def _density(self, y: Rows, of_base: Callable[[Rows], Any]) -> Float[np.ndarray, " n"]:
        inside = (y >= self.map.low) & (y <= self.map.high)
        z = self.map.forward(np.where(inside, y, self._middle))
        whole = inside & np.isfinite(z)
        slope = self.map.log_slope(np.where(whole, y, self._middle)).sum(-1)
        return np.where(whole.all(-1), of_base(np.where(whole, z, 0.0)) + slope, -np.inf)

    @property
    def _middle(self) -> float:
        """Return some target inside the bounds."""
        if np.isinf(self.map.low):
            return 0.0 if np.isinf(self.map.high) else self.map.high - 1.0
        return self.map.low + 1.0 if np.isinf(self.map.high) else 0.5 * (self.map.low + self.map.high)

    def _below(self, z: Rows) -> Rows:
        """Return the distribution function of `base`, at the ends of its axis too."""
        finite = np.isfinite(z)
        return np.where(finite, np.asarray(self.base.cdf(np.where(finite, z, 0.0))), np.where(z > 0.0, 1.0, 0.0))

    def _pinball(self, y: Rows, first: Rows, last: Rows) -> Rows:
        """Return twice the integral of the pinball loss over all levels; quantiles beyond two levels are as there.

        From either of the two to the level of y levels go with the square of a variable, in which tails are smooth.
        """
        first, last = np.clip(first, *_LEVEL_ENDS), np.clip(last, *_LEVEL_ENDS)
        ends = self.quantile(first), self.quantile(last)
        inside = np.clip(y, *ends)
        level, total = np.clip(self._below(self.map.forward(inside)), first, last), np.abs(y - inside)
        for tail, end, upper in ((first, ends[0], False), (1.0 - last, ends[1], True)):
            span = (1.0 - level if upper else level) - tail
            total += tail**2 * np.abs(inside - end)
            for node, share in zip(0.5 * (1.0 + _PINBALL_NODES), 0.5 * _PINBALL_SHARES, strict=True):
                side = tail + span * node**2
                found = self.quantile(1.0 - side if upper else side)
                total += share * 4.0 * node * span * side * np.abs(inside - found)
        return total

    def reach(self, q05: Rows, q50: Rows, q95: Rows) -> tuple[Rows, Rows]:
        """Return how far out, on the scale that is learnt, `base` is believed, which has these quantiles."""
        return self._within_reach.reach(q05, q50, q95)

    @property
    def _within_reach(self) -> WithinReach:
        """Return what integrates over y within its reach."""
        return WithinReach(self.base, self.map)


def _scales(p: Predictive) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the scale of each component, and its degrees of freedom with an axis of outputs."""
    if p.dof is None:
        return np.sqrt(p.var), None
    dof = np.asarray(p.dof)[:, :, None]
    return np.sqrt(student_t.squared_scale(p.var, dof)), dof


def _below(p: Predictive, z: np.ndarray | float, scale: np.ndarray, dof: np.ndarray | None) -> np.ndarray:
    """Return the distribution function of each component."""
    t = (z - p.loc) / scale
    return np.asarray(student_t.ndtr(t) if dof is None else student_t.cdf(t, np.broadcast_to(dof, t.shape)))


def _clipped_moments(p: Predictive, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each component cut off at the ends, by its partial moments.

    With density f and distribution function F of a t of unit scale and nu degrees of freedom, those up to x are F, of
    the first power -(1 + x^2 / nu) / (1 - 1 / nu) f(x) and of the second, by parts, (F - x (1 + x^2 / nu) f(x)) /
    (1 - 2 / nu); of a Gaussian with 1 / nu = 0.
    """
    scale, dof = _scales(p)
    inverse = np.zeros(1) if dof is None else 1.0 / dof
    first, second = np.zeros_like(p.loc), np.ones_like(p.loc) / (1.0 - 2.0 * inverse)  # of the whole axis
    for end, upper in ((low, False), (high, True)):
        if np.isinf(end):
            continue
        x = (end - p.loc) / scale
        density = np.exp(student_t.log_density(end - p.loc, p.var, dof)) * scale
        below = _below(p, end, scale, dof)
        swell = (1.0 + x * x * inverse) * density
        up_to = -swell / (1.0 - inverse), (below - x * swell) / (1.0 - 2.0 * inverse)
        # What is beyond moves to the end.
        beyond = (1.0 - below, -up_to[0], 1.0 / (1.0 - 2.0 * inverse) - up_to[1]) if upper else (below, *up_to)
        first = first + x * beyond[0] - beyond[1]
        second = second + x * x * beyond[0] - beyond[2]
    return np.asarray(p.loc) + scale * first, scale**2 * np.maximum(second - first * first, 0.0)
