"""Maps of a target: known bounds, and a scale on which its noise has the same size everywhere."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.digits import shortest

Rows = Float[np.ndarray, "*n"]
Bounds = tuple[float | None, float | None]

# Twice the distance from the median to the ends of the 90% band is 3.3 standard deviations of a Gaussian.
BAND = 2.0
# The largest distance of a logarithm above its median: a factor of 20.
FURTHEST = 3.0
# The largest logarithm whose exponential is finite.
_FINITE = 700.0
# The largest logarithm whose exponential can be squared.
_LARGEST = 300.0


@register
@dataclass(frozen=True)
class TargetMap:
    """An increasing map from the scale z on which a model learns to the target y, cut off at the bounds.

    Parameters
    ----------
    transform
        None: z is y. ``log``: z = log(y - low). ``log1p``: z = log(1 + y - low). ``logit``: the log odds of
        (y - low) / (high - low). A low bound that is not given is 0 for the logarithms.
    low, high
        The bounds; infinite where there is none.

    Raises
    ------
    ValueError
        If the bounds do not go with each other or with the transform.
    """

    transform: str | None = None
    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self) -> None:
        """Check that the parts go together."""
        if not self.low < self.high:
            raise ValueError(
                f"bounds: expected the lower one below the upper, got {shortest(self.low)} and {shortest(self.high)}"
            )
        if self.transform == "logit" and not np.isfinite(self.high - self.low):
            raise ValueError(
                f"target_transform: expected bounds on both sides with logit, got {self.interval}; give "
                f"bounds=(low, high), such as (0, 1)"
            )
        if self.transform in ("log", "log1p") and np.isinf(self.low):
            object.__setattr__(self, "low", 0.0)

    @classmethod
    def of(cls, transform: str | None, bounds: Bounds) -> "TargetMap":
        """Return the map of a transform and of bounds, of which None is none."""
        low, high = bounds
        return cls(transform, -np.inf if low is None else low, np.inf if high is None else high)

    @cached_property
    def changes_nothing(self) -> bool:
        """Whether targets are learnt as they are, and may be anything."""
        return self == TargetMap()

    @property
    def interval(self) -> str:
        """Return the interval of the targets, in words; ends that no target may meet are left open."""
        opens = "(" if np.isinf(self.low) or self.transform in ("log", "logit") else "["
        closes = ")" if np.isinf(self.high) or self.transform == "logit" else "]"
        return f"{opens}{shortest(self.low)}, {shortest(self.high)}{closes}"

    @property
    def ends(self) -> tuple[float, float]:
        """Return where z meets the bounds: all beyond is cut off."""
        if self.transform == "logit":
            return -np.inf, np.inf
        low = {None: self.low, "log": -np.inf, "log1p": 0.0}[self.transform]
        return low, float(self.forward(np.array([self.high]))[0]) if np.isfinite(self.high) else np.inf

    def reach(self, q05: Rows, q50: Rows, q95: Rows) -> tuple[Rows, Rows]:
        """Return how far out, on the scale that is learnt, a distribution with these quantiles is believed.

        That is twice as far from the median as its 90% band reaches, and of a logarithm no further above it than
        `FURTHEST`. So mean and std of y keep within the units of what was learnt, however wide the band of the
        logarithm or heavy its tails. Of a lognormal target this changes the mean by less than one in a thousand where
        the logarithm's standard deviation is up to 0.7, and by 0.3% at 0.9. What bounds the median itself is the
        range of the targets learnt, see `Predictive.limits`.
        """
        low, high = q50 - BAND * (q50 - q05), q50 + BAND * (q95 - q50)
        if self.transform in ("log", "log1p"):
            high = np.minimum(high, q50 + FURTHEST)
        lowest, highest = (float(np.clip(end, -_LARGEST, _LARGEST)) for end in self.ends)
        return np.clip(low, lowest, highest), np.clip(high, lowest, highest)

    def bends(self, high: Rows) -> tuple[Rows, ...]:
        """Return the z between which y, up to that of `high`, is easily integrated over, however wide the range."""
        if self.transform == "logit":
            return tuple(np.full_like(high, z) for z in (-12.0, -5.0, -1.5, 1.5, 5.0, 12.0))
        return high - 12.0, high - 5.0, high - 1.5

    def moments_of_draws(
        self, y: Float[np.ndarray, "n m"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation of n draws of m targets: of a transformed one, within their `reach`."""
        if self.transform is not None:
            z = np.clip(self.forward(y), -_LARGEST, _LARGEST)
            y = self.inverse(np.clip(z, *self.reach(*np.quantile(z, (0.05, 0.5, 0.95), axis=0))))
        return y.mean(axis=0), y.std(axis=0, ddof=1)

    def faults(self, y: Float[np.ndarray, "n e"]) -> dict[int, str]:
        """Return, for each row with a target that cannot be, what is wrong with it; NaN is no fault."""
        outside = (y < self.low) | (y > self.high)
        if self.transform in ("log", "logit"):
            outside |= y == self.low
        if self.transform == "logit":
            outside |= y == self.high
        because = "" if self.transform is None else f" for target_transform={self.transform!r}"
        return {
            int(row): f"expected a target in {self.interval}{because}, got {shortest(y[row][outside[row]][0])}"
            for row in np.flatnonzero(outside.any(axis=1))
        }

    def check(self, y: Float[np.ndarray, "n e"], rows: Any = None) -> None:
        """Raise ValueError if a target cannot be; `rows` are the numbers of the rows, for the message."""
        faults = self.faults(y)
        if faults:
            first, fault = next(iter(faults.items()))
            place = first if rows is None else rows[first]
            raise ValueError(
                f"y: {fault} at row {place}; correct or leave out such rows ({len(faults):,} of {len(y):,}), or give "
                f"NaN, which is predicted and not learnt"
            )

    def learnt(self, y: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "n e"]:
        """Return targets as the model learns them, NaN where they are NaN.

        Raises
        ------
        ValueError
            As `check` does.
        """
        if self.changes_nothing:
            return y
        self.check(y)
        return self.forward(y)

    def scale_at(self, z: Float[np.ndarray, "*n"], scale: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Return a scale of z around `z` as one of y, to first order."""
        return scale * self.slope(z)

    def slope(self, z: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Return dy/dz, finite."""
        match self.transform:
            case "log" | "log1p":
                return np.exp(np.clip(z, -_LARGEST, _LARGEST))
            case "logit":
                odds = np.exp(-np.abs(np.clip(z, -_LARGEST, _LARGEST)))
                return (self.high - self.low) * odds / (1.0 + odds) ** 2
            case _:
                return np.ones_like(z)

    def forward(self, y: Float[AnyArray, "*n"]) -> Any:
        """Return the z of targets within the bounds; infinite ones where the map has no end."""
        xp = namespace(y)
        with np.errstate(divide="ignore"):
            match self.transform:
                case "log":
                    return xp.log(y - self.low)
                case "log1p":
                    return xp.log1p(y - self.low)
                case "logit":
                    return xp.log(y - self.low) - xp.log(self.high - y)
                case _:
                    return y

    def inverse(self, z: Float[AnyArray, "*n"]) -> Any:
        """Return the targets, within the bounds, of any z."""
        xp = namespace(z)
        with np.errstate(over="ignore", under="ignore"):
            match self.transform:
                case "log":
                    y = self.low + xp.exp(xp.minimum(z, _FINITE))
                case "log1p":
                    y = self.low + xp.expm1(xp.minimum(z, _FINITE))
                case "logit":
                    y = self.low + (self.high - self.low) / (1.0 + xp.exp(-z))
                case _:
                    y = z
        return xp.clip(y, self.low, self.high)

    def log_slope(self, y: Float[AnyArray, "*n"]) -> Any:
        """Return log dz/dy, the change of variables in a log density."""
        xp = namespace(y)
        with np.errstate(divide="ignore"):
            match self.transform:
                case "log":
                    return -xp.log(y - self.low)
                case "log1p":
                    return -xp.log1p(y - self.low)
                case "logit":
                    return np.log(self.high - self.low) - xp.log(y - self.low) - xp.log(self.high - y)
                case _:
                    return xp.zeros_like(y)
