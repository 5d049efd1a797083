"""Columns of text with many levels: each level as the shrunken mean of its targets so far (a target encoding).

A level is worth what its targets were above the mean of all, of those that are known before the row. With n targets
of the level, of mean m above the mean of the last 1,000 or so, it is

    n r / (n r + 1 - r) m,

where r is the share of the targets' variance that lies between the levels: the best guess of a level's effect if
effects are normal (Micci-Barreca 2001, Eq. 4, with the prior weight of empirical Bayes). A level that was not seen is
worth 0, the mean of all. As no row's own target is in it, a model learns no more from it than it will see later (the
ordered statistics of Prokhorenkova et al. 2018, Sec. 3.2).

The share r is the mean of (y - mean) m over rows of levels that came before, over the variance of y: the two have
nothing in common but the level. In a column of identifiers, which come once or tell nothing, it is next to 0.

A target counts as at most 3 standard deviations from the mean, so that a glitch is one usual row to its level.

Levels are numbers (see `streamgp.numerics.coding.level_code`), kept in a table of 512 sets of 8: a new level in a
full set takes the place of the one that was learnt longest ago.
"""

import ctypes
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.native import address, function

SETS, WAYS = 512, 8
CAPACITY = SETS * WAYS  # levels of a column
MEMORY = 1_000.0  # rows, of the mean and the variance of all targets, and of those of a level
MEMORY_OF_SHARE = 5_000.0  # rows whose levels came before
LIMIT = 3.0  # standard deviations that a target counts for at most
UNLIMITED_ROWS = 10.0  # before there is a standard deviation
PRIOR_SHARE, PRIOR_ROWS = 0.1, 10.0
MOST_SHARE = 0.999
MOST_PRIOR = 100.0  # rows that the prior counts for at most in what a pair says of the share
KERNEL_CONSTANTS = MEMORY, MEMORY_OF_SHARE, UNLIMITED_ROWS, MOST_SHARE, MOST_PRIOR
_TABLES = "codes", "last", "rows", "mean", "common", "shared", "pairs", "center", "square", "count"


@register
@dataclass(frozen=True)
class LevelEffects:
    """What is known of the levels of some columns; no method changes it.

    Attributes
    ----------
    codes, last
        The levels in each column's table, NaN where there is none; and after how many rows each was last learnt.
    rows, mean
        Targets of each level, at most `MEMORY`, and how far their mean lies above that of all.
    common
        The mean of `mean` over the rows, which is taken off.
    shared, pairs
        Whose quotient is the share r.
    center, square, count
        Mean and variance of all targets, and how many there were; the last count is that of rows.
    limit
        Standard deviations that a target counts for at most.
    targets
        Which of the statistics the targets teach.
    waiting
        With a horizon h, the codes of the last h rows.
    """

    codes: Float[np.ndarray, "c p"]
    last: Float[np.ndarray, "c p"]
    rows: Float[np.ndarray, "c p s"]
    mean: Float[np.ndarray, "c p s"]
    common: Float[np.ndarray, "c s"]
    shared: Float[np.ndarray, "c s"]
    pairs: Float[np.ndarray, "c s"]
    center: Float[np.ndarray, " s"]
    square: Float[np.ndarray, " s"]
    count: Float[np.ndarray, " t"]
    limit: float
    targets: Int[np.ndarray, " e"]
    waiting: Float[np.ndarray, "h c"]

    @classmethod
    def empty(cls, columns: int, statistics: int, horizon: int, *, limited: bool) -> "LevelEffects":
        """Return what is known before any row, of so many columns and statistics of the targets."""
        table, several = (columns, CAPACITY), (columns, CAPACITY, statistics)
        each = np.zeros((columns, statistics))
        return cls(
            np.full(table, np.nan),
            np.zeros(table),
            np.zeros(several),
            np.zeros(several),
            each,
            each + PRIOR_SHARE * PRIOR_ROWS,
            each + PRIOR_ROWS,
            np.zeros(statistics),
            np.zeros(statistics),
            np.zeros(statistics + 1),
            LIMIT if limited else np.inf,
            np.arange(statistics),
            np.full((horizon, columns), np.nan),
        )

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return len(self.codes)

    def check_restored(self) -> None:
        """Raise ValueError if this is no table of levels."""
        if self.codes.shape[1] != CAPACITY or not (np.isfinite(self.mean).all() and (self.rows >= 0.0).all()):
            raise ValueError(f"expected a table of {CAPACITY} levels with finite means, got another one")

    def of_target(self, e: int) -> "LevelEffects":
        """Return the same where from now on only one of several targets comes."""
        return replace(self, targets=self.targets[e : e + 1])

    def encode(self, codes: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c s"]:
        """Return what the levels of rows are worth now, each as if it were the next one."""
        known = codes >= 0.0  # not NaN
        start = np.where(known, codes, 0.0).astype(np.int64) % SETS * WAYS
        found = np.zeros((*codes.shape, len(self.center)))
        for c in range(self.columns):
            same = self.codes[c][start[:, c, None] + np.arange(WAYS)] == codes[:, c, None]
            at = start[:, c] + same.argmax(axis=1)
            share = np.clip(self.shared[c] / self.pairs[c], 0.0, MOST_SHARE)
            worth = _shrunken(self.rows[c][at], share, self.mean[c][at] - self.common[c])
            found[:, c] = np.where(same.any(axis=1)[:, None], worth, 0.0)
        return found

    def copied(self) -> "LevelEffects":
        """Return the same in arrays of its own."""
        return replace(self, **{name: np.array(getattr(self, name)) for name in _TABLES})

    def learn(
        self, codes: Float[np.ndarray, "n c"], targets: Float[np.ndarray, "n e"], *, in_place: bool = False
    ) -> tuple["LevelEffects", Float[np.ndarray, "n c s"]]:
        """Learn rows in order; return also what the levels of each were worth before its target.

        With a horizon h a target teaches the level of h rows before, and a row's level is worth what is known after
        its own target: a forecast that is made then is for a later one. To learn `in_place` is for the owner of a
        copy: nothing else may know it.
        """
        h = len(self.waiting)
        joined = np.concatenate([self.waiting, codes])
        values = np.full((len(codes), len(self.center)), np.nan)
        values[:, self.targets] = targets
        after = self if in_place else self.copied()
        after = replace(after, waiting=joined[len(codes) :]) if h else after
        worth = np.zeros((*codes.shape, len(self.center)))
        compiled = _compiled()
        given = np.ascontiguousarray(codes), np.ascontiguousarray(joined[: len(codes)]), values
        tables = [getattr(after, name) for name in _TABLES]
        if compiled is None:
            learn_rows(h > 0, self.limit, *given, tables, worth)
            return after, worth
        sizes = len(codes), codes.shape[1], values.shape[1], SETS, WAYS, h > 0
        rules = np.array([*KERNEL_CONSTANTS, self.limit])
        compiled(*sizes, address(rules), *(address(a) for a in (*given, *tables, worth)))
        return after, worth


def learn_rows(later: bool, limit: float, codes: Any, taught: Any, values: Any, tables: Any, worth: Any) -> None:
    """Learn rows in place, and write what their levels are worth: what `numerics/kernel/level_effects.c` does."""
    table, last, rows, mean, common, shared, pairs, center, square, count = tables
    columns = range(codes.shape[1])

    def write_worth(i: int) -> None:
        for c in columns:
            at, share = _place(table[c], codes[i, c]), np.clip(shared[c] / pairs[c], 0.0, MOST_SHARE)
            worth[i, c] = 0.0 if at < 0 else _shrunken(rows[c, at], share, mean[c, at] - common[c])

    for i in range(len(codes)):
        known = np.isfinite(values[i])
        n = count[:-1]
        bound = np.where(n > UNLIMITED_ROWS, limit * np.sqrt(square), np.inf)
        z = np.where(n < 1.0, 0.0, np.clip(values[i] - center, -bound, bound))
        if not later:
            write_worth(i)
        for c in columns:
            if not taught[i, c] >= 0.0:
                continue
            at = _place(table[c], taught[i, c])
            if at < 0:
                at = _free(table[c], last[c], taught[i, c])
                table[c, at], rows[c, at], mean[c, at] = taught[i, c], 0.0, 0.0
            last[c, at] = count[-1] + 1.0
            level = rows[c, at].copy()
            off, share = mean[c, at] - common[c], np.clip(shared[c] / pairs[c], 0.0, MOST_SHARE)
            pays = known & (level > 0.0) & (n > UNLIMITED_ROWS) & (square > 0.0)
            prior = np.minimum((1.0 - share) / np.maximum(share, 1e-300), MOST_PRIOR)
            weight = np.where(pays, level / (level + prior), 0.0)
            kept = np.where(pays, np.minimum(1.0, MEMORY_OF_SHARE / (pairs[c] + weight)), 1.0)
            shared[c] = kept * (shared[c] + np.where(pays, weight * z * off / np.where(pays, square, 1.0), 0.0))
            pairs[c] = kept * (pairs[c] + weight)
            common[c] += np.where(pays, off / np.minimum(n + 1.0, MEMORY), 0.0)
            rows[c, at] = np.where(known, np.minimum(level + 1.0, MEMORY), level)
            mean[c, at] += np.where(known, (z - mean[c, at]) / np.maximum(rows[c, at], 1.0), 0.0)
        square += np.where(known & (n >= 1.0), (z * z - square) / np.clip(n, 1.0, MEMORY), 0.0)
        center += np.where(known, np.where(n < 1.0, values[i] - center, z / np.minimum(n + 1.0, MEMORY)), 0.0)
        count[:-1] += known
        count[-1] += 1.0
        if later:
            write_worth(i)


def _shrunken(rows: np.ndarray, share: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Return what a level is worth after so many rows."""
    believed = rows * share
    return np.where(believed > 0.0, believed / (believed + 1.0 - share) * off, 0.0)


def _place(table: np.ndarray, code: float) -> int:
    """Return where a level is, -1 where it is not there."""
    if not code >= 0.0:
        return -1
    start = int(code) % SETS * WAYS
    found = np.flatnonzero(table[start : start + WAYS] == code)
    return start + int(found[0]) if len(found) else -1


def _free(table: np.ndarray, last: np.ndarray, code: float) -> int:
    """Return the place for a new level: an empty one, or that of the level learnt longest ago."""
    each = slice(start := int(code) % SETS * WAYS, start + WAYS)
    return start + int(np.argmin(np.where(np.isnan(table[each]), -1.0, last[each])))


@cache
def _compiled() -> Any:
    """Return the compiled recursion, or None where it was not built."""
    return function("learn_level_effects", [ctypes.c_int64, *[ctypes.c_int] * 5, *[ctypes.c_void_p] * 15])
