"""A bounded number of the rows learnt: the latest ones, and a uniform sample of those before them."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int, UInt

from streamgp.numerics.batching import LARGEST, concatenate
from streamgp.numerics.checkpoint.encoding import register
from streamgp.stream.rows import RawRows

LATEST = 4096
SAMPLED = 4096
_SLACK = LARGEST  # so many rows wait before they go into the sample together


@register
@dataclass(frozen=True)
class Reservoir:
    """The rows that new experts are fitted to; no method changes it.

    What it holds depends on the rows alone, not on how they came. It is bounded: `LATEST` + `SAMPLED` rows, and 1,024
    that wait.

    Attributes
    ----------
    sample
        Rows from before the latest ones, in order: those of the lowest random priority, so that each row was as
        likely to be kept.
    numbers
        Of each row of the sample, its number in the stream of rows added.
    latest
        The rows after them, in parts.
    added
        Rows added in all.
    """

    sample: RawRows
    numbers: Int[np.ndarray, " s"]
    latest: tuple[RawRows, ...] = ()
    added: int = 0

    @classmethod
    def empty(cls, width: int, num_outputs: int, timed: bool) -> "Reservoir":
        """Return it before any row."""
        times = np.zeros(0) if timed else None
        return cls(RawRows(np.zeros((0, width)), np.zeros((0, num_outputs)), times), np.zeros(0, np.int64))

    def add(self, rows: RawRows) -> "Reservoir":
        """Return it with rows added, which are copied."""
        if not len(rows.X):
            return self
        more = replace(self, latest=(*self.latest, rows.copy()), added=self.added + len(rows.X))
        return more._settled() if more._waiting >= LATEST + _SLACK else more

    def rows(self) -> RawRows:
        """Return all rows in the order of the stream."""
        settled = self._settled()
        return concatenate([settled.sample, *settled.latest])

    def of_target(self, e: int) -> "Reservoir":
        """Return it with one of several targets alone."""
        sample, *latest = (part._replace(y=part.y[:, [e]]) for part in (self.sample, *self.latest))
        return replace(self, sample=sample, latest=tuple(latest))

    @property
    def _waiting(self) -> int:
        return sum(len(part.X) for part in self.latest)

    def _settled(self) -> "Reservoir":
        """Return it with all but the latest rows offered to the sample."""
        old = self._waiting - LATEST
        if old <= 0:
            return self
        latest = concatenate(list(self.latest))
        first = self.added - len(latest.X)
        sample = concatenate([self.sample, latest.part(slice(old))])
        numbers = np.concatenate([self.numbers, np.arange(first, first + old)])
        kept = np.sort(np.argsort(priority(numbers))[:SAMPLED])
        return replace(self, sample=sample.part(kept), numbers=numbers[kept], latest=(latest.part(slice(old, None)),))


def priority(numbers: Int[np.ndarray, " n"]) -> UInt[np.ndarray, " n"]:
    """Return a random number of each row, always the same one: SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
