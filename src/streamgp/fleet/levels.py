"""Text inputs of a fleet: each level is worth what its targets were above the usual, learnt from all keys together.

Targets of different keys have different sizes: that of a row counts in standard deviations of its key's targets from
their mean, both by the rows before. What the levels are worth is then that of `streamgp.stream.level_effects`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet.directory import Directory
from streamgp.fleet.warmup import rounds
from streamgp.stream.level_effects import LIMIT, UNLIMITED_ROWS, LevelEffects

MEMORY = 256.0  # rows, of the mean and the variance of a key's targets


class TextInputs:
    """The columns of text among the inputs of a fleet, and what their levels are worth.

    Parameters
    ----------
    columns
        Which inputs hold codes of levels.
    directory
        Which knows mean and variance of the targets of every key.
    """

    def __init__(self, columns: Sequence[int], directory: Directory) -> None:
        self._columns, self._directory = list(columns), directory
        self._effects = LevelEffects.empty(len(self._columns), 1, 0, limited=True)

    def encode(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return the inputs of rows, each as if it were the next one, with what levels are worth for their codes."""
        return self._with(X, self._effects.encode(X[:, self._columns])) if self._columns else X

    def learn(
        self, key: Int[np.ndarray, " n"], X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n d"]:
        """Return the inputs of rows, each by the rows before it, and learn the targets that are not NaN."""
        if not self._columns:
            return X
        targets = self._in_units(key, y)[:, None]
        self._effects, worth = self._effects.learn(X[:, self._columns], targets, in_place=True)
        return self._with(X, worth)

    def _with(self, X: np.ndarray, worth: Float[np.ndarray, "n c 1"]) -> np.ndarray:
        found = X.copy()
        found[:, self._columns] = worth[..., 0]
        return found

    def _in_units(self, key: Int[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return targets in units of their keys', NaN before a key has two; then their keys know them as well."""
        of, found = self._directory, np.full(len(y), np.nan)
        labelled = np.flatnonzero(~np.isnan(y))
        count = (of.rows - of.unlabelled).astype(float)
        for at in rounds(key[labelled]):
            at = labelled[at]
            k = key[at]
            n, center, square = count[k], of.center[k], of.square[k]
            off = np.where(n < 1.0, 0.0, y[at] - center)
            usable = (n >= 2.0) & (square > 0.0)
            found[at] = np.where(usable, off / np.sqrt(np.where(usable, square, 1.0)), np.nan)
            bound = np.where(n > UNLIMITED_ROWS, LIMIT * np.sqrt(square), np.inf)
            off = np.clip(off, -bound, bound)
            of.square[k] = np.where(n < 1.0, 0.0, square + (off * off - square) / np.clip(n, 1.0, MEMORY))
            of.center[k] = np.where(n < 1.0, y[at], center + off / np.minimum(n + 1.0, MEMORY))
            count[k] += 1.0
        return found

    def to_tree(self) -> LevelEffects:
        """Return what the levels are worth, for a checkpoint."""
        return self._effects

    def restore(self, effects: Any) -> None:
        """Take what `to_tree` returned."""
        if not isinstance(effects, LevelEffects) or effects.columns != len(self._columns):
            raise ValueError(
                f"expected what the levels of {len(self._columns)} columns are worth, got something else"
            )
        effects.check_restored()
        self._effects = effects.copied()
