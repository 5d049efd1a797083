"""The predictive distribution of a target that is learnt on another scale, or is known to keep within bounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key

from streamgp.core import recalibration
from streamgp.core.predictive import Predictive
from streamgp.core.target_map import TargetMap
from streamgp.numerics import student_t
from streamgp.numerics.arrays import AnyArray

CUT = 1e-3  # mean and std leave so much of either tail at its quantile: exp of a Student's t has no mean
_SPAN = 10.0  # scales of a component to either side that are integrated over
_INFINITE_DOF = 1e12  # degrees of freedom that are a Gaussian to all digits, where infinity would not do
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_NEGLIGIBLE = 1e-4  # of the probability beyond a bound: its part in the CRPS is of its square
_LEVEL_ENDS = 1e-10, 1.0 - 1e-10
_LEVELS, _SHARES = np.polynomial.legendre.leggauss(16)

Rows = Float[np.ndarray, "n e"]


class MappedPredictive(eqx.Module):
    """The distribution of y, where z has that of `base` and y is the `map` of z: in NumPy.

    Quantiles, distribution function, density and draws are exact. What `base` has beyond a bound is at the bound: so
    quantiles, bands and the CRPS of a target within the bounds are never worse than without. The log density is that
    of `base` itself with the change of variables, at a bound too, where there is probability rather than a density:
    so it compares with that of other predictions, as they have none.

    Parameters
    ----------
    base
        The distribution on the scale on which the model learns.
    map
        From that scale to the target.
    """

    base: Predictive
    map: TargetMap = eqx.field(static=True)

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
        transformed target it is that of y, with the tails beyond `CUT` at their quantiles.
        """
        parts = self._by_components()
        expected, variance = np.asarray(parts.mean), np.asarray(parts.variance)
        if self.map.transform is not None:
            return expected, variance
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

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "... n e"]:
        """Draw targets."""
        return self.map.inverse(self.base.sample(key, shape))

    def crps(self, y: Rows) -> Rows:
        """Return the continuous ranked probability score of targets within the bounds.

        The integral of the pinball loss over all levels (Gneiting and Ranjan 2011, Eq. 6), below that of y and above
        it by 16 nodes each: within 0.5%. Of bounds alone that of `base` where next to nothing lies beyond them. Of a
        transformed target with the tails beyond `CUT` at their quantiles: exp of a Student's t has none otherwise.
        """
        if self.map.transform is not None:
            return self._pinball(y, np.full_like(y, CUT), np.full_like(y, 1.0 - CUT))
        crps = np.array(self.base.crps(y))
        low, high = (self._below(np.full_like(y, bound)) for bound in (self.map.low, self.map.high))
        rows = ((low > _NEGLIGIBLE) | (1.0 - high > _NEGLIGIBLE)).any(axis=1)
        some = MappedPredictive(jax.tree.map(lambda a: a[rows], self.base), self.map)
        crps[rows] = np.minimum(crps[rows], some._pinball(y[rows], low[rows], high[rows]))
        return crps

    def _density(self, y: Rows, of_base: Callable[[Rows], Any]) -> Float[np.ndarray, " n"]:
        inside = (y >= self.map.low) & (y <= self.map.high)
        z = self.map.forward(np.where(inside, y, self._middle))
        whole = inside & np.isfinite(z)
        slope = self.map.log_slope(np.where(whole, y, self._middle)).sum(-1)
        return np.where(whole.all(-1), of_base(np.where(whole, z, 0.0)) + slope, -np.inf)

    def _by_components(self) -> Predictive:
        """Return a mixture of as many components that have the means and variances of these, cut off and mapped."""
        base = self.base
        if self.map.transform is None:
            loc, var = _clipped_moments(base, *self.map.ends)
        else:
            loc, var = self._mapped_moments()
        return Predictive(base.log_weights, loc, var, None, base.trim, base.recalibration)

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
            for node, share in zip(0.5 * (1.0 + _LEVELS), 0.5 * _SHARES, strict=True):
                side = tail + span * node**2
                found = self.quantile(1.0 - side if upper else side)
                total += share * 4.0 * node * span * side * np.abs(inside - found)
        return total

    def _mapped_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of each component of y, by quadrature between the ends."""
        base = replace(self.base, recalibration=None)  # which the mean is not
        scale, dof = _scales(base)
        ends = [np.asarray(base.quantile(p))[:, None, :] for p in (CUT, 1.0 - CUT)]
        low, high = (np.clip(end, *self.map.ends) for end in ends)
        start, stop = (np.clip(base.loc + side * _SPAN * scale, low, high) for side in (-1.0, 1.0))
        half = 0.5 * (stop - start)
        peak = student_t.log_density(np.zeros_like(base.loc), base.var, dof)
        half_dof = 0.0 if dof is None else 0.5 * np.minimum(dof, _INFINITE_DOF)
        beyond = _below(base, low, scale, dof), 1.0 - _below(base, high, scale, dof)
        total = [beyond[0] + beyond[1], beyond[0] * self.map.inverse(low) + beyond[1] * self.map.inverse(high)]
        about = self.map.inverse(np.clip(base.loc, low, high))  # of squares of deviations, few digits are lost
        squares = sum(b * (self.map.inverse(end) - about) ** 2 for b, end in zip(beyond, (low, high), strict=True))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            z = start + (1.0 + node) * half
            squared = ((z - base.loc) / scale) ** 2
            kernel = 0.5 * squared if dof is None else (half_dof + 0.5) * np.log1p(0.5 * squared / half_dof)
            share = weight * half * np.exp(peak - kernel)
            y = self.map.inverse(z)
            total[0] = total[0] + share
            total[1] = total[1] + share * y
            squares = squares + share * (y - about) ** 2
        mean = total[1] / total[0]
        return mean, np.maximum(squares / total[0] - (mean - about) ** 2, 0.0)


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
