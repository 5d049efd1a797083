"""Features that come and go by name, in arrays of a fixed number of columns."""

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


class FeatureSlots:
    """A column for every feature, and spare ones for those to come.

    The first row decides how many columns there are; new features take spare ones, in the order of their names if
    they come together. A feature that is absent is NaN, to be filled from what came before. A column that is still
    spare is zero.

    Parameters
    ----------
    spare
        How many features beyond those of the first row there may be. Further ones are left out, with a warning.
    """

    def __init__(self, spare: int) -> None:
        if isinstance(spare, bool) or not isinstance(spare, int) or spare < 0:
            raise ValueError(f"spare_features: expected a whole number from 0, got {spare!r}")
        self.spare = spare
        self.columns: dict[Any, int] = {}
        self.width = -1
        self.warned = False

    def admit(self, names: Iterable[Any]) -> None:
        """Give new features a column, if there is one left."""
        new = sorted(
            (name for name in names if name not in self.columns), key=lambda name: (str(type(name)), str(name))
        )
        if self.width < 0:
            self.width = len(new) + self.spare
        left = self.width - len(self.columns)
        self.columns |= {name: len(self.columns) + i for i, name in enumerate(new[:left])}
        if len(new) > left and not self.warned:
            self.warned = True
            warnings.warn(
                f"the feature {new[left]!r} is left out, and so are further new ones: there was room for "
                f"{self.spare} beyond those of the first row; give more of it (spare_features=)",
                stacklevel=4,
            )

    def row(self, x: Mapping[Any, Any]) -> np.ndarray:
        """Return a row as numbers (D,); features without a column are left out.

        Raises
        ------
        ValueError
            If a value is no number.
        """
        row = np.zeros(self.width)
        row[: len(self.columns)] = np.nan
        for name, value in x.items():
            if name in self.columns:
                row[self.columns[name]] = _number(name, value)
        return row


def _number(name: Any, value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"x: expected a number for the feature {name!r}, got {value!r}; encode text first, for instance by "
            f"river.preprocessing.OneHotEncoder"
        ) from None
