"""Parameters of a box: numbers, whole numbers and categories, each with its unit coordinates."""

from dataclasses import dataclass, fields
from math import isfinite, nan
from numbers import Integral
from numbers import Real as Number
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.numerics.checkpoint.encoding import register
from streamgp.table.cells import LARGEST
from streamgp.table.given import shown, to_float

# How far, of the width of a range, a point may stick out of it and count as one that rounding has moved.
SLACK = 1e-9
# The smallest width of a range: ratios to smaller numbers overflow.
SMALLEST = 1.0 / LARGEST
_WHOLE = 2**53


@register
@dataclass(frozen=True)
class Real:
    """A number from `low` to `high`; with `log`, steps of equal ratio count as equally far."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self)

    @property
    def width(self) -> int:
        """Return how many unit coordinates it takes."""
        return 1

    def encode(self, value: Any, name: str) -> list[float]:
        """Return the unit coordinates of a value; raise ValueError if it is none of the parameter."""
        number = _as_number(value, name)
        slack = SLACK * (self.high - self.low)
        if not self.low - slack <= number <= self.high + slack:
            raise ValueError(f"{name}: expected a number from {self.low:g} to {self.high:g}, got {value!r}")
        return [float(_to_unit(self, np.clip(number, self.low, self.high)))]

    def decode(self, u: Float[np.ndarray, " w"]) -> float:
        """Return the number at a unit coordinate."""
        return float(np.clip(_from_unit(self, u[0]), self.low, self.high))

    def snap(self, U: Float[np.ndarray, "n w"]) -> Float[np.ndarray, "n w"]:
        """Return the nearest coordinates that stand for a value."""
        return np.clip(U, 0.0, 1.0)


@register
@dataclass(frozen=True)
class Integer:
    """A whole number from `low` to `high`, both included; with `log`, steps of equal ratio count as equally far."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.low, Integral) and isinstance(self.high, Integral)):
            raise ValueError(f"Integer: expected whole numbers, got {self.low!r} and {self.high!r}; or use Real")
        for name in ("low", "high"):
            # Integers of NumPy lack `bit_length` and cannot be written as JSON.
            object.__setattr__(self, name, int(getattr(self, name)))
        _check_range(self)

    @property
    def width(self) -> int:
        """Return how many unit coordinates it takes."""
        return 1

    def encode(self, value: Any, name: str) -> list[float]:
        """Return the unit coordinates of a value; raise ValueError if it is none of the parameter."""
        number = _as_number(value, name)
        if number != round(number) or not self.low <= number <= self.high:
            raise ValueError(f"{name}: expected a whole number from {self.low} to {self.high}, got {value!r}")
        return [float(_to_unit(self, number))]

    def decode(self, u: Float[np.ndarray, " w"]) -> int:
        """Return the whole number at a unit coordinate."""
        return int(np.clip(np.round(_from_unit(self, u[0])), self.low, self.high))

    def snap(self, U: Float[np.ndarray, "n w"]) -> Float[np.ndarray, "n w"]:
        """Return the nearest coordinates that stand for a value."""
        whole = np.clip(np.round(_from_unit(self, np.clip(U, 0.0, 1.0))), self.low, self.high)
        return np.asarray(_to_unit(self, whole))


@register
@dataclass(frozen=True)
class Choice:
    """One of several values in no order: any two of them are equally far apart."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not _is_storable(self.values):
            raise ValueError(
                f"Choice: expected strings, numbers, None or tuples, which can be saved, got {self.values!r}"
            )
        if len(set(self.values)) != len(self.values) or len(self.values) < 2:
            raise ValueError(f"Choice: expected two or more different values, got {self.values!r}")

    @property
    def width(self) -> int:
        """Return how many unit coordinates it takes."""
        return len(self.values)

    def encode(self, value: Any, name: str) -> list[float]:
        """Return the unit coordinates of a value; raise ValueError if it is none of the parameter."""
        if value not in self.values:
            raise ValueError(f"{name}: expected one of {', '.join(map(repr, self.values))}, got {value!r}")
        # Such that two different values are at a distance of one, as the ends of a number's range are.
        return [np.sqrt(0.5) if each == value else 0.0 for each in self.values]

    def decode(self, u: Float[np.ndarray, " w"]) -> Any:
        """Return the value whose coordinate is the greatest."""
        return self.values[int(np.argmax(u))]

    def snap(self, U: Float[np.ndarray, "n w"]) -> Float[np.ndarray, "n w"]:
        """Return the nearest coordinates that stand for a value."""
        return np.sqrt(0.5) * np.eye(self.width)[np.argmax(U, axis=1)]


Parameter = Real | Integer | Choice


def _is_storable(value: Any) -> bool:
    return (
        all(map(_is_storable, value))
        if isinstance(value, tuple)
        else value is None or isinstance(value, str | Number)
    )


def _check_range(one: Real | Integer) -> None:
    low, high = (getattr(one, field.name) for field in fields(one)[:2])
    name = type(one).__name__
    if isinstance(one, Integer) and max(abs(low), abs(high)) > _WHOLE:
        raise ValueError(
            f"{name}: expected whole numbers of at most 2^53, beyond which floating point skips some, got a range "
            f"beyond; use Real"
        )
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError(f"{name}: expected finite low < high, got {low!r} and {high!r}")
    if max(abs(low), abs(high)) > LARGEST or high - low < SMALLEST:
        raise ValueError(
            f"{name}: expected numbers of at most {LARGEST:g} that are at least {SMALLEST:g} apart, got {low!r} and "
            f"{high!r}; give it in another unit"
        )
    if one.log and low <= 0:
        raise ValueError(f"{name}: expected low > 0 on a log scale, got {low!r}")
    if one.log and low < SMALLEST:
        raise ValueError(f"{name}: expected low of at least {SMALLEST:g} on a log scale, got {low!r}")


def _as_number(value: Any, name: str) -> float:
    if getattr(value, "shape", None) == ():
        # Scalars of NumPy and JAX become Python numbers.
        value = value.item()
    number = to_float(name, value) if isinstance(value, Number) and not isinstance(value, bool) else nan
    if not isfinite(number):
        raise ValueError(f"{name}: expected a finite number, got {shown(value)}")
    return number


def _to_unit(one: Real | Integer, value: Any) -> Any:
    if one.log:
        return np.log(value / one.low) / np.log(one.high / one.low)
    return (value - one.low) / (one.high - one.low)


def _from_unit(one: Real | Integer, u: Any) -> Any:
    if one.log:
        return one.low * (one.high / one.low) ** u
    return one.low + (one.high - one.low) * u
