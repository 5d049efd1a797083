"""A guard against learning glitches: outliers enter with their noise raised, a change is learnt as it is.

A row whose squared standardised innovation q is more than c^2 times what the filter has lately been used to is an
outlier. Its noise is raised until it is just c^2: the step that the filter then makes falls as the innovation
grows, which is the outlier-robust filter of Duran-Martin et al. (2024, "Outlier-robust Kalman filtering through
generalised Bayes"), with a threshold below which nothing changes. The fifth such row in succession is a change, and
is learnt like any other (West and Harrison 1997, chapter 11, tell the two apart by such runs), if it is off to the
same side as the one before, and by no more than four times as much: two glitches in a burst are no change.

Streams differ in what an outlier is worth. After a glitch the next row is ordinary; after the first row of a burst or
of a step the next one is off to the same side, since its forerunner was set aside. How often that was so moves c
between 4 and 8, and what a filter is used to is then taken to be at least what it expects.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.linalg import solve_lower_each
from streamgp.numerics.native import address, addresses, function

MIN_THRESHOLD, MAX_THRESHOLD = 4.0, 8.0  # c, in standard deviations
LEVEL_MEMORY = 0.98  # discount of the level of the squared innovations
# Of the level: a filter that expects far too much has one near zero, which a few rows cannot show; and between bursts
# it falls, too.
MIN_FLOOR, MAX_FLOOR = 0.1, 1.0
# A row beyond the threshold enters the level as so many times the level.
MAX_LEARNT = 4.0
# The discount of the share of rows beyond. After four in succession it is above a half.
RUN_MEMORY = 0.8
CHANGE = 0.5
# A row of a change is at most so many times further out than the row before.
MAX_GROWTH = 4.0
AGREEMENT_MEMORY = 0.95  # discount of the share of outliers that the row after confirmed
# The next innovation confirms an outlier if it repeats this part of it.
CONFIRMED = 0.5
NO_AGREEMENT, FULL_AGREEMENT = 0.1, 0.4  # shares of confirmed outliers between which the threshold rises
# The noise variance of a row is raised by this factor at most.
MAX_RAISED = 1e8

# Those that the compiled guard is given, in the order of `guard_rules_t` in kernel/kernel.h.
KERNEL_CONSTANTS = (
    *(MIN_THRESHOLD, MAX_THRESHOLD, LEVEL_MEMORY, MIN_FLOOR, MAX_FLOOR, MAX_LEARNT, RUN_MEMORY, CHANGE),
    *(MAX_GROWTH, AGREEMENT_MEMORY, CONFIRMED, NO_AGREEMENT, FULL_AGREEMENT, MAX_RAISED),
)


_RULES = np.array(KERNEL_CONSTANTS)
_RULES_AT = address(_RULES)


@cache
def _compiled() -> Any:
    """Return the kernel's `guard_singly`; None where it was not built."""
    count, at = ctypes.c_int64, ctypes.c_void_p
    return function("guard_singly", [at, count, count, *[at] * 8])


@register
class Guard(NamedTuple):
    """A filter's memory of its innovations.

    Attributes
    ----------
    level
        Discounted mean of the squared standardised innovations of each output, 1 at the start.
    run
        Discounted share of rows beyond the threshold.
    agreement
        Discounted share of outliers that the row after them confirmed.
    last
        The standardised innovation of the last row, if it was beyond the threshold; else zero.
    """

    level: Float[AnyArray, "*batch e"]
    run: Float[AnyArray, "*batch"]
    agreement: Float[AnyArray, "*batch"]
    last: Float[AnyArray, "*batch e"]

    @classmethod
    def start(cls, batch: tuple[int, ...], num_outputs: int) -> "Guard":
        """Return the memory before the first row."""
        none = np.zeros(batch)
        return cls(np.ones((*batch, num_outputs)), none, none.copy(), np.zeros((*batch, num_outputs)))


class Limits(NamedTuple):
    """The limits of ordinary rows: squared innovations of `threshold` times the level, which is `floor` at least."""

    threshold: Float[AnyArray, "*batch"]
    floor: Float[AnyArray, "*batch"]

    @classmethod
    def of(cls, agreement: Float[AnyArray, "*batch"]) -> "Limits":
        """Compute the limits from the share of outliers that were confirmed."""
        part = (agreement - NO_AGREEMENT) / (FULL_AGREEMENT - NO_AGREEMENT)
        part = namespace(agreement).clip(part, 0.0, 1.0)
        more = MAX_THRESHOLD**2 - MIN_THRESHOLD**2
        return cls(MIN_THRESHOLD**2 + more * part, MIN_FLOOR + (MAX_FLOOR - MIN_FLOOR) * part)

    def excess(self, level: Float[AnyArray, "*batch e"], z: Float[AnyArray, "*batch e"]) -> Float[AnyArray, "*batch"]:
        """Return the largest squared innovation over the largest that is still ordinary."""
        xp = namespace(z)
        return (z * z / xp.maximum(level, self.floor[..., None])).max(-1) / self.threshold


def learn(
    guard: Guard, z: Float[AnyArray, "*batch e"], memory: Float[AnyArray, "*#batch e"] | float = LEVEL_MEMORY
) -> tuple[Guard, Bool[AnyArray, "*batch"], AnyArray]:
    """Learn a row's standardised innovations; `memory` is the discount of their level.

    Returns
    -------
    guard, is_outlier, raised
        The new memory; which filters take the row for an outlier; and the factor on its variance, 1 for others.
    """
    xp = namespace(z)
    size, overlap = (guard.last * guard.last).sum(-1), (z * guard.last).sum(-1)
    in_run = guard.run > CHANGE
    moved = AGREEMENT_MEMORY * guard.agreement + (1.0 - AGREEMENT_MEMORY) * (overlap > CONFIRMED * size)
    agreement = xp.where((size > 0.0) & ~in_run, moved, guard.agreement)
    limits = Limits.of(agreement)
    x = limits.excess(guard.level, z)
    beyond = x > 1.0
    is_change = in_run & (overlap > 0.0) & ((z * z).sum(-1) <= MAX_GROWTH**2 * size)
    is_outlier = beyond & ~is_change
    most = MAX_LEARNT * xp.maximum(guard.level, limits.floor[..., None])
    entering = xp.where(beyond[..., None], xp.minimum(z * z, most), z * z)
    level = memory * guard.level + (1.0 - memory) * entering
    run = RUN_MEMORY * guard.run + (1.0 - RUN_MEMORY) * beyond
    last = xp.where(beyond[..., None], z, 0.0)
    return Guard(level, run, agreement, last), is_outlier, xp.where(is_outlier, x, 1.0)


def bounded(raised: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the factor used on the variance of a row, and the one on its innovation that goes with it."""
    xp = namespace(raised)
    used = xp.minimum(raised, MAX_RAISED)
    return used, xp.sqrt(used / raised)


class RowGuard:
    """The guards of all filters of an ensemble, a row at a time, whatever stacks they are in: few calls of NumPy.

    Parameters
    ----------
    guards
        Those of each stack of filters (G, R).

    Attributes
    ----------
    parts
        The same, in the memory of this one: it changes them, and they may be changed.
    """

    def __init__(self, guards: Sequence[Guard]) -> None:
        batches = [guard.run.shape for guard in guards]
        ends = np.cumsum([np.prod(batch) for batch in batches])[:-1]

        def joined(*arrays: np.ndarray) -> np.ndarray:
            return np.concatenate([a.reshape(-1, *a.shape[2:]) for a in arrays])

        self._guard = Guard(*map(joined, *guards))
        n, E = self._guard.level.shape
        self._row = np.empty((n, E)), np.empty(n), np.empty(n, bool), np.empty(E)
        self._places = addresses(*self._guard, *self._row)
        split = zip(*(np.split(a, ends) for a in self._guard), strict=True)
        self.parts = [
            Guard(*(a.reshape(*batch, *a.shape[1:]) for a in part))
            for batch, part in zip(batches, split, strict=True)
        ]

    def learn(
        self, error: Float[np.ndarray, "n e"], var: Float[np.ndarray, " n"]
    ) -> tuple[Bool[np.ndarray, " n"], Float[np.ndarray, "n e"], Float[np.ndarray, " n"]]:
        """Learn the errors of a row, of which every filter expects the variance `var`.

        Returns
        -------
        is_outlier, error, var
            Which filters take the row for an outlier, and the error and the variance with which they are to learn it;
            these are there until the next row.
        """
        if (compiled := _compiled()) is not None:
            kept_error, kept_var, is_outlier, _ = self._row
            kept_error[...], kept_var[...] = error, var
            compiled(_RULES_AT, *error.shape, *self._places)
            return is_outlier.copy(), kept_error, kept_var
        with np.errstate(over="ignore", invalid="ignore"):
            new, is_outlier, raised = learn(self._guard, error / np.sqrt(var)[:, None])
        for ours, theirs in zip(self._guard, new, strict=True):
            ours[...] = theirs
        if is_outlier.any():
            used, shortened = bounded(raised)
            error, var = error * shortened[:, None], var * used
        return np.asarray(is_outlier), error, var


@cache
def _discounts(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of earlier rows in the level before each row and after the last, and those of the start."""
    i, j = np.arange(rows + 1)[:, None], np.arange(rows)[None]
    earlier = np.where(j < i, (1.0 - LEVEL_MEMORY) * LEVEL_MEMORY ** np.maximum(i - 1 - j, 0), 0.0)
    return earlier, LEVEL_MEMORY ** np.arange(rows + 1)


def _levels(guard: Guard, z: Float[np.ndarray, "*batch n e"]) -> Float[np.ndarray, "*batch m e"]:
    """Return the level before each of some rows, and after them, as long as none is beyond the threshold."""
    earlier, start = _discounts(z.shape[-2])
    squares = np.minimum(z * z, np.finfo(np.float64).max)  # those of rows to come count as zero times this
    return earlier @ squares + start[:, None] * guard.level[..., None, :]


def _beyond(
    levels: Float[np.ndarray, "*batch m e"], z: Float[np.ndarray, "*batch n e"], limits: Limits
) -> Bool[np.ndarray, "*batch n"]:
    """Find the rows beyond the threshold, from the `_levels` before them: `Limits.excess` in fewer calls."""
    usual = np.maximum(levels[..., :-1, :], limits.floor[..., None, None])
    usual *= limits.threshold[..., None, None]
    return np.any(z * z > usual, axis=-1)


class BlockGuard:
    """The guards of a stack of filters along blocks of rows, in place on NumPy arrays.

    Parameters
    ----------
    guard
        Of every filter (G, R); its arrays are overwritten.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._limits = Limits.of(guard.agreement)

    def learn(
        self,
        L: Float[np.ndarray, "g r n n"],
        z: Float[np.ndarray, "g r n e"],
        residual: Float[np.ndarray, "g r n e"],
        rows: np.ndarray,
    ) -> "Raised | None":
        """Learn a block: `L` is the factor of its targets' covariance, `z` = L^-1 `residual`.

        Where no filter finds an outlier among its `rows`, nothing changes. In the others the noise of outliers is
        raised: `L` and `z` are overwritten. `residual`, the targets less their prior mean, is what they are solved
        anew from: beside a target of 1e15, `z` has lost the digits of the rows after it.

        Returns
        -------
        raised
            None if there was no outlier.
        """
        guard = self._guard
        seen = z if len(rows) == z.shape[2] else z[:, :, rows]
        with np.errstate(over="ignore", invalid="ignore"):
            levels = _levels(guard, seen)
            special = np.any(_beyond(levels, seen, self._limits), axis=-1)
            special |= np.any(np.asarray(guard.last), axis=-1)
            if not special.any():
                guard.level[:] = levels[:, :, -1]
                guard.run[:] *= RUN_MEMORY ** len(rows)
                return None
            plain = ~special
            guard.level[plain] = levels[plain, -1]
            guard.run[plain] *= RUN_MEMORY ** len(rows)
            return self._one_by_one(special, L, z, residual[special], rows)

    def _one_by_one(
        self, special: np.ndarray, L: np.ndarray, z: np.ndarray, residual: np.ndarray, rows: np.ndarray
    ) -> "Raised | None":
        """Learn in filters that have an outlier, or had one in the row before, from one such row to the next."""
        some: Guard = tree.map(lambda a: a[special], self._guard)
        factor, white = L[special], z[special]
        is_outlier, expected = np.zeros(white.shape[:2], bool), np.zeros(white.shape[:2])
        at, limits = 0, Limits.of(some.agreement)
        while at < len(rows):
            seen = white[:, rows[at:]]
            levels = _levels(some, seen)
            ends = np.any(_beyond(levels, seen, limits), axis=0)
            ends[0] |= np.any(np.asarray(some.last))
            ordinary = int(np.argmax(ends)) if ends.any() else len(ends)
            some = some._replace(level=levels[:, ordinary], run=some.run * RUN_MEMORY**ordinary)
            at += ordinary
            if at == len(rows):
                break
            row, agreement = int(rows[at]), some.agreement
            some, found, raised = learn(some, white[:, row])
            if (some.agreement != agreement).any():
                limits = Limits.of(some.agreement)
            found, raised = np.asarray(found), np.asarray(raised)
            if found.any():
                is_outlier[found, row], expected[found, row] = True, np.square(factor[found, row, row])
                _raise(factor, white, residual, row, found, raised)
            at += 1
        for whole, part in zip(self._guard, some, strict=True):
            whole[special] = part
        self._limits = Limits.of(self._guard.agreement)
        everywhere = np.zeros(z.shape[:3], bool)
        everywhere[special] = is_outlier
        changed = np.asarray(everywhere.any(-1))
        if not changed.any():
            return None
        mine = is_outlier.any(-1)
        first = int(np.argmax(everywhere.any((0, 1))))
        mapping = solve_lower_each(factor[mine, first:, first:], L[changed, first:, first:])
        L[changed], z[changed] = factor[mine], white[mine]
        # Of an outlier the variance as it was, to the last bit: its own target says nothing of it.
        variance = np.where(is_outlier, expected, np.square(np.diagonal(factor, axis1=-2, axis2=-1)))
        return Raised(changed, everywhere, variance[mine], first, mapping)


class Raised(NamedTuple):
    """The changes that a block's outliers cause.

    Attributes
    ----------
    changed
        Which filters found some.
    is_outlier
        The rows that each filter takes for one.
    variance
        Of the changed filters, the variance of every row before its noise was raised.
    first
        The first outlier of any: nothing changes before it.
    mapping
        Of the changed filters L_new^-1 L_old from that row on, by which what was solved with `L` is to be multiplied.
    """

    changed: Bool[np.ndarray, "g r"]
    is_outlier: Bool[np.ndarray, "g r n"]
    variance: Float[np.ndarray, "c n"]
    first: int
    mapping: Float[np.ndarray, "c m m"]

    def apply(self, solved: Float[np.ndarray, "g r n f"]) -> None:
        """Solve anew with the new factor, in place."""
        rows = (*np.nonzero(self.changed), slice(self.first, None))
        solved[rows] = self.mapping @ solved[rows]


def _raise(
    L: np.ndarray, z: np.ndarray, residual: np.ndarray, row: int, found: np.ndarray, raised: np.ndarray
) -> None:
    """Raise the noise of a row in the filters that found it an outlier; the rows after it are solved anew."""
    used, shortened = bounded(raised[found])
    left = residual[found, row:] - L[found, row:, :row] @ z[found, :row]
    left[:, 0] *= shortened[:, None]
    lower = L[found, row:, row:]
    K = lower @ lower.swapaxes(-1, -2)
    K[:, 0, 0] *= used
    new = np.linalg.cholesky(K)
    L[found, row:, row:] = new
    z[found, row:] = solve_lower_each(new, left)
