"""Search spaces: a box with names, log scales, integers and categories, or a finite set of points.

Inside, a point is a row of unit coordinates: every number in [0, 1] (in logs where its scale is one), every category
a column of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Real as Number
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import qmc

from streamgp.bandits.parameters import SLACK, Choice, Parameter, Real
from streamgp.numerics.checkpoint.encoding import register
from streamgp.table.cells import LARGEST
from streamgp.table.given import shown, to_float

_TINY = np.finfo(float).tiny


@register
@dataclass(frozen=True)
class Box:
    """Parameters side by side; with `names` a point is a dictionary, without them an array of numbers."""

    parameters: tuple[Parameter, ...]
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.parameters:
            raise ValueError("space: expected at least one parameter, got none")
        if self.names is not None and len(set(self.names)) != len(self.parameters):
            raise ValueError(f"space: expected {len(self.parameters)} different names, got {self.names!r}")
        if self.names is None and any(isinstance(one, Choice) for one in self.parameters):
            raise ValueError("space: expected names where there are categories, got none; pass a dictionary")

    @property
    def groups(self) -> Int[np.ndarray, " d"]:
        """Return, for each unit coordinate, the number of its parameter."""
        return np.repeat(np.arange(len(self.parameters)), [one.width for one in self.parameters])

    @property
    def columns(self) -> list[slice]:
        """Return the unit coordinates of each parameter."""
        ends = np.cumsum([0, *(one.width for one in self.parameters)])
        return [slice(a, b) for a, b in pairwise(ends.tolist())]

    @property
    def continuous(self) -> Bool[np.ndarray, " d"]:
        """Mark the unit coordinates that may take any value in [0, 1]."""
        return np.array([isinstance(self.parameters[i], Real) for i in self.groups])

    def encode(self, x: Any, name: str = "x") -> Float[np.ndarray, " d"]:
        """Return the unit coordinates of a point; raise ValueError if it is none of the box."""
        values = self._values(x, name)
        labels = self.names or [f"[{i}]" for i in range(len(values))]
        parts = [
            one.encode(value, f"{name}{label}" if self.names is None else f"{name}[{label!r}]")
            for one, value, label in zip(self.parameters, values, labels, strict=True)
        ]
        return np.concatenate(parts)

    def _values(self, x: Any, name: str) -> list[Any]:
        if self.names is not None:
            if not isinstance(x, Mapping) or set(x) != set(self.names):
                got = ", ".join(map(str, x)) if isinstance(x, Mapping) else repr(x)
                raise ValueError(f"{name}: expected a dictionary of {', '.join(self.names)}, got {got}")
            return [x[one] for one in self.names]
        # Values of an object array keep their types, which `encode` checks.
        given = np.asarray(x, dtype=object)
        if given.ndim == 0 and len(self.parameters) == 1:
            given = given[None]
        if given.shape != (len(self.parameters),):
            raise ValueError(
                f"{name}: expected {len(self.parameters)} numbers, one per parameter, got shape {given.shape}"
            )
        return given.tolist()

    def decode(self, u: Float[np.ndarray, " d"]) -> Any:
        """Return a point as a dictionary, or as an array where the box has no names."""
        values = [one.decode(u[columns]) for one, columns in zip(self.parameters, self.columns, strict=True)]
        return np.array(values, dtype=float) if self.names is None else dict(zip(self.names, values, strict=True))

    def encode_all(self, X: Any, name: str = "X") -> Float[np.ndarray, "n d"]:
        """Return the unit coordinates of several points."""
        return np.array([self.encode(x, f"{name}[{i}]") for i, x in enumerate(X)]).reshape(-1, len(self.groups))

    def decode_all(self, U: Float[np.ndarray, "n d"]) -> Any:
        """Return points as a list of dictionaries, or as an array (n, d)."""
        points = [self.decode(u) for u in U]
        return points if self.names is not None else np.array(points).reshape(-1, len(self.parameters))

    def snap(self, U: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return the nearest points that stand for values: whole numbers are whole, one category is chosen."""
        parts = [one.snap(U[:, columns]) for one, columns in zip(self.parameters, self.columns, strict=True)]
        return np.concatenate(parts, axis=1)

    def draw(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n d"]:
        """Draw a scrambled Sobol sequence, snapped."""
        if n == 0:
            return np.zeros((0, len(self.groups)))
        sobol = qmc.Sobol(len(self.groups), rng=rng)
        return self.snap(sobol.random_base2(max(n - 1, 0).bit_length())[:n])


@register
@dataclass(frozen=True, eq=False)
class Candidates:
    """A finite set of points, such as the positions of sensors.

    Parameters
    ----------
    points
        One row each, (n, d): what the kernel measures distances by, each column scaled by its range.
    labels
        What to call them; without labels a point is its row.
    """

    points: Any
    labels: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        points = np.array(self.points, dtype=float)
        if points.ndim != 2 or points.size == 0 or not np.isfinite(points).all():
            raise ValueError(f"Candidates: expected finite numbers of shape (n, d), got shape {points.shape}")
        if np.abs(points).max() > LARGEST:
            raise ValueError(
                f"Candidates: expected numbers of at most {LARGEST:g}, got {np.abs(points).max():g}; give them in "
                f"another unit"
            )
        if len(np.unique(points, axis=0)) != len(points):
            raise ValueError("Candidates: expected different points, got the same one twice; leave it out")
        labels = None if self.labels is None else tuple(self.labels)
        if labels is not None and (len(labels) != len(points) or len(set(labels)) != len(labels)):
            raise ValueError(f"Candidates: expected {len(points)} different labels, got {len(set(labels))}")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "labels", labels)

    @property
    def groups(self) -> Int[np.ndarray, " d"]:
        """Return the number of each column: every one is a parameter."""
        return np.arange(self.points.shape[1])

    @cached_property
    def unit(self) -> Float[np.ndarray, "n d"]:
        """Return the unit coordinates of all points."""
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        return (self.points - low) / np.where(high > low, high - low, 1.0)

    def encode(self, x: Any, name: str = "x") -> Float[np.ndarray, " d"]:
        """Return the unit coordinates of a point; raise ValueError if it is none of the candidates."""
        return self.unit[self._find(x, name)]

    def _find(self, x: Any, name: str) -> int:
        if self.labels is not None:
            if x not in self.labels:
                raise ValueError(
                    f"{name}: expected one of the {len(self.labels)} labels of the candidates, got {x!r}"
                )
            return self.labels.index(x)
        try:
            given = np.atleast_1d(np.asarray(x, dtype=float))
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name}: expected {self.points.shape[1]} numbers, got {shown(x)}") from None
        if given.shape != self.points.shape[1:]:
            raise ValueError(f"{name}: expected {self.points.shape[1]} numbers, got shape {given.shape}")
        # Rounding is relative to a column's greatest number, and columns may be in different units.
        apart = (np.abs(self.points - given) / np.maximum(np.abs(self.points).max(axis=0), _TINY)).max(axis=1)
        nearest = int(np.argmin(apart))
        if not apart[nearest] <= SLACK:
            raise ValueError(f"{name}: expected one of the {len(self.points)} candidates, got {x!r}")
        return nearest

    def decode(self, u: Float[np.ndarray, " d"]) -> Any:
        """Return the candidate's label, or its row."""
        nearest = int(np.argmin(np.square(self.unit - u).sum(axis=1)))
        return self.points[nearest].copy() if self.labels is None else self.labels[nearest]

    def encode_all(self, X: Any, name: str = "X") -> Float[np.ndarray, "n d"]:
        """Return the unit coordinates of several points."""
        unit = self.unit
        return unit[[self._find(x, f"{name}[{i}]") for i, x in enumerate(X)]].reshape(-1, unit.shape[1])

    def decode_all(self, U: Float[np.ndarray, "n d"]) -> Any:
        """Return points as a list of labels, or as an array (n, d)."""
        unit = self.unit
        nearest = [int(np.argmin(np.square(unit - u).sum(axis=1))) for u in U]
        return self.points[nearest] if self.labels is None else [self.labels[i] for i in nearest]

    def draw(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n d"]:
        """Draw candidates without replacement, all of them if there are no more than n."""
        return self.unit[rng.permutation(len(self.points))[:n]]


def as_space(space: Any) -> Box | Candidates:
    """Convert what users write to a space.

    Parameters
    ----------
    space
        A `Box` or `Candidates`; a dictionary from names to `Real`, `Integer`, `Choice`, a pair ``(low, high)`` for
        `Real`, or a list of strings or other values for `Choice`; or a sequence of pairs, for points that are arrays.

    Raises
    ------
    ValueError
        If it is something else.
    """
    if isinstance(space, Box | Candidates):
        return space
    if isinstance(space, Mapping):
        parameters = tuple(
            Choice(tuple(value)) if isinstance(value, list) else _as_parameter(value, f"space[{name!r}]")
            for name, value in space.items()
        )
        return Box(parameters, tuple(map(str, space)))
    if isinstance(space, np.ndarray):
        space = space.tolist()
    if isinstance(space, Sequence) and not isinstance(space, str):
        return Box(tuple(_as_parameter(value, f"space[{i}]") for i, value in enumerate(space)))
    raise ValueError(
        f"space: expected a dictionary such as {{'gain': (0.1, 10.0)}}, a list of pairs (low, high), or Candidates, "
        f"got {space!r}"
    )


def _as_parameter(value: Any, name: str) -> Parameter:
    if isinstance(value, Parameter):
        return value
    if isinstance(value, tuple | list):
        numbers = all(isinstance(each, Number) and not isinstance(each, bool) for each in value)
        if len(value) == 2 and numbers:
            return Real(to_float(name, value[0]), to_float(name, value[1]))
        if isinstance(value, list) or not numbers:
            return Choice(tuple(value))
    raise ValueError(f"{name}: expected (low, high), Real, Integer, Choice or a list of categories, got {value!r}")
