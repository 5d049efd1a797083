"""Ids whose labels came and were not learnt, with the reason, which a repeated request gets again."""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

# The most ids that are kept.
MAX_KEPT = 100_000

LATE, SKIPPED = 1, 2


class Resent(NamedTuple):
    """Ids that were sent again, by what was done with them the first time."""

    learnt: list[str]
    late: list[str]
    skipped: list[str]


class Unlearnt:
    """The latest ids whose labels came too late, or not in the order of the times of their key.

    Of each a digest of 8 bytes is kept, with which a checkpoint stays small.
    """

    def __init__(self) -> None:
        self._why: dict[int, int] = {}

    def add(self, ids: Iterable[str | None], why: int) -> None:
        """Note ids; rows without one cannot be sent again."""
        for name in ids:
            if name is not None:
                self._why[_digest(name)] = why
        for old in list(self._why)[: max(0, len(self._why) - MAX_KEPT)]:
            del self._why[old]

    def sort(self, ids: Iterable[str]) -> Resent:
        """Return ids that were sent again by what was done with them."""
        found = Resent([], [], [])
        by_kind = {LATE: found.late, SKIPPED: found.skipped}
        for name in ids:
            by_kind.get(self._why.get(_digest(name), 0), found.learnt).append(name)
        return found

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        why = np.fromiter(self._why.values(), np.uint8, len(self._why))
        return {"ids": np.fromiter(self._why, np.uint64, len(self._why)), "why": why}

    def restore(self, tree: dict[str, Any]) -> None:
        """Go on from what `to_tree` returned."""
        self._why = dict(zip(tree["ids"].tolist(), tree["why"].tolist(), strict=True))


def _digest(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
