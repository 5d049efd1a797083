"""Rows of many keys, one row of each key a tick, for programs that time fleets."""

import numpy as np
import polars as pl

INPUTS = 2


class Ticks:
    """Rows of many keys, one of each a tick: autoregressive, with two inputs, each key in a scale of its own."""

    def __init__(self, keys: int) -> None:
        self._rng = np.random.default_rng(0)
        self._ids = pl.Series("unique_id", [f"key-{i:07d}" for i in range(keys)])
        self._level, self._scale = 5.0 * self._rng.normal(size=keys), np.exp(self._rng.normal(size=keys))
        self._last, self._tick = np.zeros(keys), 0

    def next(self) -> pl.DataFrame:
        """Return the rows of the next tick."""
        X = self._rng.normal(size=(len(self._ids), INPUTS))
        self._last = 0.7 * self._last + 0.3 * X[:, 0] + 0.5 * self._rng.normal(size=len(self._ids))
        rows = {"unique_id": self._ids, "ds": np.full(len(self._ids), float(self._tick))}
        self._tick += 1
        return pl.DataFrame(rows | {"y": self._level + self._scale * self._last, "a": X[:, 0], "b": X[:, 1]})
