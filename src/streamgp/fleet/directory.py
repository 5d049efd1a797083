"""The keys of a fleet, by number in the order of their first rows, and the rows that cannot be learnt."""

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.fleet.clocks import Clocks, Doubts
from streamgp.fleet.frames import Key, Table, name_rows
from streamgp.fleet.key_index import NEW, KeyIndex
from streamgp.fleet.settings import FleetSettings
from streamgp.fleet.warmup import rounds
from streamgp.table import DataError
from streamgp.table.cells import A_TIME
from streamgp.table.clock import steps_between
from streamgp.table.summer_time import advise_on_order

MAX_GROUPS = 1_000
# A gap to rows to come is too long if it is so many times the longest so far, once a key has so many rows.
LONGER, KNOWN_ROWS = 1.5, 15
# From so many rows of a key on, its rows are counted in 64 bits.
_MANY = 1 << 30


def shard_of(key: Key, shards: int) -> int:
    """Return the shard of a key: the same in every process, and for as long as the number of shards is the same."""
    name = f"i{key}" if isinstance(key, int) else f"s{key}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") % shards


class BadRows(NamedTuple):
    """Rows that cannot be learnt, by what is wrong with them."""

    no_key: Bool[np.ndarray, " n"]
    no_time: Bool[np.ndarray, " n"]
    duplicate: Bool[np.ndarray, " n"]
    backwards: Bool[np.ndarray, " n"]
    other_group: Bool[np.ndarray, " n"]
    in_doubt: Bool[np.ndarray, " n"]
    # The first time that is not after the key's time before: that time, and it.
    pair: tuple[float, float] | None = None

    @property
    def any(self) -> Bool[np.ndarray, " n"]:
        """Which rows are bad in any way."""
        return self.no_key | self.no_time | self.duplicate | self.backwards | self.other_group | self.in_doubt


class Directory:
    """Keys and their numbers.

    Parameters
    ----------
    shards
        Over how many the keys are spread.

    Attributes
    ----------
    keys
        By their numbers.
    clocks
        How far apart their rows are.
    longest
        The longest time between two rows of a key.
    groups
        The groups of keys, in the order of their first rows; none where keys have no groups.
    shard, group
        Of each key.
    seen
        The time of the last row of each key.
    rows, unlabelled, unusable, skipped
        Of each key: rows accepted, those without a target, those with a value that is infinite or absurd, and bad
        rows that were left out.
    center, square
        Mean and variance of the targets of each key, where the fleet has text among its inputs.
    """

    COUNTS = ("rows", "unlabelled", "unusable", "skipped")
    TARGETS = ("center", "square")

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self.keys, self.clocks = KeyIndex(), Clocks()
        self.longest = 0.0
        self.groups: list[Key] = []
        self.shard, self.group = np.empty(0, np.uint16), np.empty(0, np.int16)
        self.seen, self.center, self.square = np.empty(0), np.empty(0), np.empty(0)
        self.rows, self.unlabelled, self.unusable, self.skipped = (np.empty(0, np.int32) for _ in self.COUNTS)

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, keys: Sequence[Key | None]) -> Int[np.ndarray, " n"]:
        """Return the numbers of keys, `NEW` of those not known."""
        return self.keys.find(keys)

    def chosen(self, keys: Collection[Key] | None) -> tuple[list[Key], Int[np.ndarray, " n"]]:
        """Return keys, all if none are given, and their numbers.

        Raises
        ------
        ValueError
            If one has not come yet.
        """
        names = self.keys.names() if keys is None else list(keys)
        number = self.find(names)
        if (number == NEW).any():
            raise ValueError(f"keys: expected some that have come, got {names[int(np.argmax(number == NEW))]!r}")
        return names, number

    def next_rows(self, key: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the numbers of rows among those of their keys, which are the clock where there is no other."""
        times = np.where(key >= 0, self.rows[key] if len(self) else 0, 0).astype(float)
        for rank, at in enumerate(rounds(key)):
            times[at] += rank
        return times

    def number(self, keys: list[Key | None]) -> tuple[Int[np.ndarray, " n"], list[Key]]:
        """Return the numbers of keys with those that new ones will get, and the new keys; `NEW` of no key."""
        found = self.find(keys)
        new: dict[Key, int] = {}
        for i in np.flatnonzero(found == NEW).tolist():
            key = keys[i]
            if key is not None:
                found[i] = new.setdefault(key, len(self.keys) + len(new))
        return found, list(new)

    def group_numbers(self, groups: Sequence[Key | None] | None, rows: int) -> Int[np.ndarray, " n"]:
        """Return the numbers of the groups of rows, with those that new ones will get; all 0 without groups.

        Raises
        ------
        DataError
            If there are too many.
        """
        if groups is None:
            return np.zeros(rows, np.int64)
        known: dict[Key | None, int] = {group: number for number, group in enumerate(self.groups)} | {None: NEW}
        for group in groups:
            known.setdefault(group, len(known) - 1)
        if len(known) - 1 > MAX_GROUPS:
            raise DataError(f"expected at most {MAX_GROUPS:,} groups, got {len(known) - 1:,}; make them larger.")
        return np.fromiter(map(known.__getitem__, groups), np.int64, rows)

    def add(self, new: list[Key]) -> None:
        """Give the next numbers to new keys."""
        self.keys.add(new)
        shard = np.fromiter((shard_of(key, self._shards) for key in new), np.uint16, len(new))
        self.shard = np.concatenate([self.shard, shard])
        self.group = np.concatenate([self.group, np.zeros(len(new), np.int16)])
        self.seen = np.concatenate([self.seen, np.full(len(new), -np.inf)])
        for name in (*self.COUNTS, *self.TARGETS):
            now = getattr(self, name)
            setattr(self, name, np.concatenate([now, np.zeros(len(new), now.dtype)]))

    def count(
        self,
        number: Int[np.ndarray, " n"],
        times: Float[np.ndarray, " n"],
        no_target: Bool[np.ndarray, " n"],
        unusable: Bool[np.ndarray, " n"],
    ) -> None:
        """Count rows that were learnt."""
        self._count("rows", number)
        self._count("unlabelled", number[no_target])
        self._count("unusable", number[unusable])
        self.longest = max(self.longest, steps_between(times, number, self.seen).max(initial=0.0))
        np.maximum.at(self.seen, number, times)

    def leaves_gap(self, number: Int[np.ndarray, " n"], times: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Return which rows to come, those of a key in the order of time, are too far from the one before."""
        if self.rows.max(initial=0) < KNOWN_ROWS:
            return np.zeros(len(number), bool)
        return steps_between(times, number, self.seen) > LONGER * self.longest

    def count_skipped(self, number: Int[np.ndarray, " n"]) -> None:
        """Count bad rows of known keys, which were left out."""
        self._count("skipped", number)

    def book(self, number: Int[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return what is known of keys besides their names, for `restore`."""
        return {name: getattr(self, name)[number] for name in ("seen", "group", *self.COUNTS, *self.TARGETS)}

    def restore(self, number: Int[np.ndarray, " n"], book: dict[str, np.ndarray]) -> None:
        """Take what `book` returned."""
        for name, values in book.items():
            self._widen(name, values)
            getattr(self, name)[number] = values

    def _count(self, name: str, number: Int[np.ndarray, " n"]) -> None:
        np.add.at(getattr(self, name), number, 1)
        self._widen(name, getattr(self, name)[number])

    def _widen(self, name: str, values: np.ndarray) -> None:
        """Count in 64 bits from now on where some key has many rows."""
        if name in self.COUNTS and values.max(initial=0) >= _MANY:
            setattr(self, name, getattr(self, name).astype(np.int64))

    def add_groups(self, number: Int[np.ndarray, " n"], groups: list[Any]) -> None:
        """Note the groups of keys, whose rows are good."""
        self.group[number] = self.group_numbers(groups, len(groups))
        self.groups = list(dict.fromkeys([*self.groups, *groups]))

    def check(
        self,
        number: Int[np.ndarray, " n"],
        times: Float[np.ndarray, " n"] | None,
        group: Int[np.ndarray, " n"],
        in_doubt: Bool[np.ndarray, " n"] | None = None,
    ) -> BadRows:
        """Find the rows without key or time, not after the last good one of their key, or of another group than it.

        `number` and `group` are as `number` and `group_numbers` return them, `in_doubt` rows that `Clocks` found.
        """
        no_key = number == NEW
        none = np.zeros(len(number), bool)
        in_doubt = none if in_doubt is None else in_doubt
        its = np.full(number.max(initial=NEW) + 2, NEW)
        # Where a key is assigned several times, the last assignment counts.
        first = np.flatnonzero(~no_key & (group != NEW))[::-1]
        its[number[first]] = group[first]
        its[: len(self.group)] = self.group[: len(its)]
        other_group = ~no_key & ((group == NEW) | (group != its[number]))
        if times is None:
            return BadRows(no_key, none, none, none, other_group, none)
        no_time = ~np.isfinite(times) & ~no_key
        duplicate, backwards, pair = none.copy(), none.copy(), None
        good = np.flatnonzero(~no_key & ~no_time & ~other_group & ~in_doubt)
        if len(good):
            latest = np.full(number.max() + 1, -np.inf)
            latest[: len(self.seen)] = self.seen[: len(latest)]
            order = good[np.argsort(number[good], kind="stable")]
            key = number[order]
            first = np.r_[True, key[1:] != key[:-1]]
            before = np.where(first, latest[key], np.r_[-np.inf, times[order][:-1]])
            # A row after a bad one is compared with the last good one.
            if (times[order] <= before).any():
                for i, k in zip(order.tolist(), key.tolist(), strict=True):
                    duplicate[i], backwards[i] = times[i] == latest[k], times[i] < latest[k]
                    if pair is None and times[i] <= latest[k]:
                        pair = float(latest[k]), float(times[i])
                    latest[k] = max(latest[k], times[i])
        return BadRows(no_key, no_time, duplicate, backwards, other_group, in_doubt, pair)


def complaint(caller: str, settings: FleetSettings, table: Table, bad: BadRows, doubts: Doubts) -> str:
    """Say what is wrong with which rows."""
    kinds = (
        ("no key", bad.no_key),
        ("no time", bad.no_time),
        ("the time of an earlier row of the same key", bad.duplicate),
        ("a time before an earlier row of the same key", bad.backwards),
        ("no group, or another one than the first row of the same key", bad.other_group),
    )
    usual = f"correct them{f' (a time is {A_TIME})' if bad.no_time.any() else ''}"
    advice = usual if bad.pair is None else advise_on_order(*bad.pair, usual, table.columns.dated)
    found = [f"{text} in {name_rows(settings, table, rows)}" for text, rows in kinds if rows.any()]
    found += [] if doubts.first is None else [say_doubt(settings, table, doubts)]
    return (
        f"{caller}: expected rows with a key and a time, those of a key in the order of time"
        f"{'' if settings.group_col is None else ' and of one group'}, got "
        f"{'; '.join(found)}; nothing was learnt: {advice}, or leave such rows out (missing='skip')."
    )


def say_doubt(settings: FleetSettings, table: Table, doubts: Doubts) -> str:
    """Say what is wrong with the first row whose time is in doubt."""
    which = np.arange(len(table.keys)) == doubts.first
    return f"a time in doubt in {name_rows(settings, table, which)}: {doubts.fault}"
