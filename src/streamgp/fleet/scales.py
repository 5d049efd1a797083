"""The location and scale of each key's values, learnt causally and shrunk towards those of the fleet.

A key's location and scale are those of its own rows so far, drawn towards those of the fleet while it has few: by how
much was found from how far the keys of the warm-up differ, and a key that is like no other by no more than one that
just might be. Targets are in units of them, and so are their lags and the inputs; a row is always scaled by what was
known before it.

What was learnt of a curve holds in the unit in which it was learnt. So a key that is no longer young keeps the
location and scale of its first rows until it has gone far from them, in an input as far as values reach.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.numerics.checkpoint.encoding import register

MEMORY = 200.0  # rows that a running location and scale remember
# Median and median deviation are taken of so many first rows of a key; later rows are added one by one.
YOUNG = 16
# A standardised value counts as at most so many scales out.
REACH = 10.0
# Location and scale are held after so many rows, until the running ones are so many times the scale away, or as many
# times larger or smaller: of the target, and of inputs.
HELD, LEAVES, INPUT_LEAVES = 100.0, 4.0, REACH
# A value enters the running moments as at most so many scales.
CLIP = 4.0
# The smallest scale of a key with many rows, as a share of the fleet's scale; it is larger with few rows.
LEAST = 1e-6
# A key's scale may be so many times the fleet's for every row beyond its first.
MOST = 1e3
# From so many rows of a key on, one glitch does not decide its scale.
BELIEVED = 5
NORMAL = 1.4826  # standard deviations in a median deviation
# The sampling variance of the logarithm of a median deviation is this over the number of rows.
MEDIAN_VAR = 1.36

Rows = Float[np.ndarray, "n c"]


@register
@dataclass(frozen=True)
class PoolScales:
    """What the keys of the warm-up have in common, of the target (the first column) and of every input.

    Attributes
    ----------
    center, log_scale
        The middle of the keys' locations, and of the logarithms of their scales.
    spread
        How far their locations lie apart.
    center_rows, scale_rows
        For how many rows of a key's own these count.
    """

    center: Float[np.ndarray, " c"]
    log_scale: Float[np.ndarray, " c"]
    spread: Float[np.ndarray, " c"]
    center_rows: Float[np.ndarray, " c"]
    scale_rows: Float[np.ndarray, " c"]

    @classmethod
    def of(cls, values: list[np.ndarray]) -> "PoolScales":
        """Estimate them from the rows of every key, NaN where a value is missing."""
        columns = range(values[0].shape[1])
        return cls(
            *(np.array(each) for each in zip(*(_column([v[:, j] for v in values]) for j in columns), strict=True))
        )

    def locate(self, moments: "KeyMoments") -> tuple[Rows, Rows]:
        """Return location and scale of the columns of some keys."""
        rows = np.minimum(moments.count, MEMORY)
        pull = np.clip(self.center - moments.held_loc, -self._reach, self._reach)
        center = moments.held_loc + self.center_rows / (self.center_rows + rows) * pull
        more = np.maximum(rows - 1.0, 0.0)
        unbiased = moments.held_var * rows / np.maximum(more, 1.0)
        least = self.log_scale + np.log(LEAST) * more / (more + YOUNG)
        most = self.log_scale + np.log(MOST) * more
        # What has never moved has no scale of its own yet.
        moves = unbiased > 0.0
        own = np.where(moves, np.clip(0.5 * np.log(np.where(moves, unbiased, 1.0)), least, most), self.log_scale)
        reach = np.where(rows >= BELIEVED, self._log_reach(np.maximum(rows, 1.0)), np.inf)
        pull = np.clip(self.log_scale - own, -reach, reach)
        scale = np.exp(own + self.scale_rows / (self.scale_rows + more) * pull)
        return np.where(rows > 0.0, center, self.center), scale

    @property
    def _reach(self) -> Float[np.ndarray, " c"]:
        """How far from where the fleet's keys lie a key may lie and still be drawn there in full."""
        return CLIP * np.sqrt(np.square(self.spread) + np.exp(2.0 * self.log_scale))

    def _log_reach(self, rows: Rows | float) -> Any:
        """Return the same of the logarithm of the scale of so many rows."""
        return CLIP * np.sqrt(0.5 / self.scale_rows + MEDIAN_VAR / rows)

    def after_shift(
        self, center: Float[np.ndarray, " n"], scale: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return location and variance of the target, of `YOUNG` rows, with which `locate` finds these."""
        loc = _undrawn(center, self.center[0], self.center_rows[0], YOUNG, self._reach[0])
        reach = self._log_reach(float(YOUNG))[0]
        log_scale = _undrawn(np.log(scale), self.log_scale[0], self.scale_rows[0], YOUNG - 1.0, reach)
        return loc, np.exp(2.0 * log_scale) * (YOUNG - 1.0) / YOUNG

    def learn_row(
        self,
        moments: "KeyMoments",
        past: Float[np.ndarray, "n w"],
        values: Rows,
        scale: Rows,
        left_out: Bool[np.ndarray, " n"],
    ) -> "KeyMoments":
        """Learn a row of every key, the target first.

        That of a young key comes from all of its targets at once, which `past` ends with, this row's the last; of
        others those that are `left_out` teach nothing. Of two targets far apart the one is believed that lies nearer
        to the fleet's.
        """
        young = moments.count[:, 0] < YOUNG
        values = values.copy()
        values[left_out & ~young, 0] = np.nan
        new = moments.learn(values, scale)
        if young.any():
            targets = past[young, -YOUNG:]
            loc, var = of_young(targets)
            first, second = targets[:, -2], targets[:, -1]
            apart = (new.count[young, 0] == 2.0) & (np.abs(first - second) > REACH * scale[young, 0])
            is_first = np.abs(first - self.center[0]) <= np.abs(second - self.center[0])
            new.loc[young, 0] = np.where(apart, np.where(is_first, first, second), loc)
            new.var[young, 0] = var
            new.held_loc[young, 0], new.held_var[young, 0] = new.loc[young, 0], var
        return new


@register
@dataclass(frozen=True)
class KeyMoments:
    """Rows, and running location and variance, of the columns of some keys.

    Attributes
    ----------
    held_loc, held_var
        The location and variance that values are scaled by.
    far
        How many of a young key's inputs lay far from the location; `-inf` once it went to where they lie.
    """

    count: Rows
    loc: Rows
    var: Rows
    far: Rows
    held_loc: Rows
    held_var: Rows

    @classmethod
    def none(cls, keys: int, columns: int) -> "KeyMoments":
        """Return the moments of new keys."""
        return cls(*(np.zeros((keys, columns)) for _ in range(6)))

    def learn(self, values: Rows, scale: Rows) -> "KeyMoments":
        """Learn a row of every key: NaN teaches nothing, and a value far out as much as one `CLIP` scales away."""
        first = self.count == 0.0
        gain = 1.0 / (np.minimum(self.count, MEMORY - 1.0) + 1.0)
        off = np.where(first, values, values - self.loc)
        near = np.where(first, off, np.clip(off, -CLIP * scale, CLIP * scale))
        var = (1.0 - gain) * (self.var + gain * near * near)
        known = ~np.isnan(values)
        count = self.count + known
        is_far = known & ~first & (np.abs(off) > REACH * scale)
        far = self.far + is_far
        # Most of its inputs lie far from the first, which was a glitch. Of targets, all young ones count at once.
        astray = is_far & (count <= YOUNG) & (2.0 * far > count)
        astray[:, 0] = False
        anew = first | astray
        return KeyMoments(
            np.where(astray, 1.0, count),
            np.where(known, np.where(anew, values, self.loc + gain * near), self.loc),
            np.where(known, np.where(first, 0.0, var), self.var),
            np.where(astray, -np.inf, far),
            self.held_loc,
            self.held_var,
        )._held()

    def _held(self) -> "KeyMoments":
        """Return them with location and variance of the columns that are not held, or no longer."""
        most = np.square(np.where(np.arange(self.loc.shape[1]) > 0, INPUT_LEAVES, LEAVES))
        is_off = np.square(self.loc - self.held_loc) > most * self.held_var
        is_off |= (self.var > most * self.held_var) | (most * self.var < self.held_var)
        moves = is_off | (self.count <= HELD)
        held_loc, held_var = np.where(moves, self.loc, self.held_loc), np.where(moves, self.var, self.held_var)
        return replace(self, held_loc=held_loc, held_var=held_var)

    def move(self, at: Int[np.ndarray, " m"], loc: Float[np.ndarray, " m"], var: Float[np.ndarray, " m"]) -> None:
        """Let the targets of these keys have this location and variance, as of `YOUNG` rows."""
        self.count[at, 0] = YOUNG
        self.loc[at, 0], self.var[at, 0] = loc, var
        self.held_loc[at, 0], self.held_var[at, 0] = loc, var


def of_young(targets: Float[np.ndarray, "n w"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return location and variance of a key's first targets, of which NaN are none, whatever one of them is."""
    rows = (~np.isnan(targets)).sum(1)
    center = _median(targets, rows)
    off = np.abs(targets - center[:, None])
    scale = NORMAL * _median(off, rows)
    # Where more than half of them are the same.
    rest = np.sqrt(np.where(np.isnan(off), 0.0, off * off).sum(1) / rows)
    return center, np.square(np.where(scale > 0.0, scale, rest))


def _undrawn(value: Any, middle: float, weight: float, rows: float, reach: float) -> Any:
    """Return what, drawn to a middle that counts for so many rows, but no further than by `reach`, is the value."""
    found = value + weight / rows * (value - middle)
    beyond = np.abs(middle - found) > reach
    return np.where(beyond, value - weight / (weight + rows) * np.sign(middle - value) * reach, found)


def _median(values: Float[np.ndarray, "n w"], rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the medians of so many values in each row that are not NaN."""
    # Sorting puts NaN last.
    ordered = np.sort(values, axis=1)
    each = np.arange(len(values))
    return 0.5 * (ordered[each, (rows - 1) // 2] + ordered[each, rows // 2])


def _column(keys: list[np.ndarray]) -> tuple[float, float, float, float, float]:
    """Return what a column of all keys has in common: center, log scale, spread, and what these count for."""
    keys = [seen for column in keys if len(seen := column[~np.isnan(column)])]
    if not keys:
        return 0.0, 0.0, 0.0, 1.0, 1.0
    centers = np.array([np.median(seen) for seen in keys])
    several = [seen for seen in keys if len(seen) > 3]
    pairs = [(np.sqrt(var[0]), len(seen)) for seen in several if (var := of_young(seen[None])[1])[0] > 0.0]
    center = float(np.median(centers))
    spread = NORMAL * float(np.median(np.abs(centers - center)))
    if not pairs:
        whole = float(np.sqrt(of_young(np.concatenate(keys)[None])[1][0]))
        # No key shows how far its own values spread: this is of all of them, however far the keys lie apart.
        return center, float(np.log(whole)) if whole > 0.0 else 0.0, 0.0, 1.0, 1.0
    logs = np.log([scale for scale, _ in pairs])
    log_scale = float(np.median(logs))
    noise = float(np.mean([MEDIAN_VAR / n for _, n in pairs]))
    between = (NORMAL * float(np.median(np.abs(logs - log_scale)))) ** 2 if len(pairs) > 1 else 1.0
    scale_rows = 0.5 / max(between - noise, 0.01)
    of_center = spread**2 if len(keys) > 1 else np.inf
    center_rows = np.exp(2.0 * log_scale) / of_center if of_center > 0.0 else np.inf
    return center, log_scale, spread, float(np.clip(center_rows, 1e-6, 10.0)), float(np.clip(scale_rows, 0.1, 10.0))
