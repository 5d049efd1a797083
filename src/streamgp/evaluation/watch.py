"""Evidence that continues after an alarm, so that a change that stays is reported once.

A watch bets against a range of what is usual, around what the model says. After an alarm it bets nothing for a
hundred rows or more, and averages what it sees. From then on the range reaches to that average as well, which follows
the stream with a memory of 500 rows, until it is back at what the model says. So a change that stays is one alarm,
whether the model learns it or not; a further one, and a return beyond what the model says, are others. No row counts
for more than a factor of 20, so that a single glitch is no alarm.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from streamgp.evaluation.change_tests import Bets, Column, Detector
from streamgp.numerics.checkpoint.encoding import register

# The most that a row counts for: an alarm needs at least half a dozen rows.
CAP = float(np.log(20.0))
MEMORY = 500

Statistics = Float[np.ndarray, "n m"]
Kinds = Bool[np.ndarray, "n k"]


def averages(values: Statistics, before: Float[np.ndarray, " m"], memory: float) -> Float[np.ndarray, "n+1 m"]:
    """Return exponentially weighted averages before each row and after the last, (n + 1, m)."""
    # The import is slow, and only alarms need it.
    from scipy.signal import lfilter

    keep = 1.0 - 1.0 / memory
    after, _ = lfilter([1.0 - keep], [1.0, -keep], values, axis=0, zi=keep * before[None])
    return np.vstack([before, after])


@register
@dataclass(frozen=True)
class Watch:
    """Bets on one sequence of observations; no method changes it.

    Attributes
    ----------
    detector
        The evidence.
    reference
        Averages of the statistics since the last alarm; in a pause their sums.
    adapted
        For each kind, whether the range of what is usual reaches to the reference.
    rest
        Rows without a bet after an alarm.
    pause
        How many of them are left.
    """

    detector: Detector
    reference: Float[np.ndarray, " m"]
    adapted: Bool[np.ndarray, " k"]
    rest: int
    pause: int = 0

    @classmethod
    def start(cls, bets: int, statistics: int, kinds: int, rest: int) -> "Watch":
        """Return a watch before the first row."""
        return cls(Detector.start(bets, statistics), np.zeros(statistics), np.zeros(kinds, bool), rest)

    def restart(self) -> "Watch":
        """Return the watch after an alarm: without evidence, and with a pause."""
        return Watch(self.detector.restart(), np.zeros_like(self.reference), self.adapted, self.rest, self.rest)

    def update(
        self,
        statistics: Statistics,
        rows: Column,
        bets: Callable[[Statistics, Kinds, slice], Bets],
        usual: Callable[[Statistics], Kinds],
    ) -> tuple["Watch", Bets]:
        """Return the watch after these rows, and log M after each of them.

        Parameters
        ----------
        statistics, rows
            What each row gives to average, and its number.
        bets
            Returns the log bets on the rows of a slice, from the reference of each and whether it counts, by kind.
        usual
            Returns whether references are, by kind, what the model says.
        """
        idle = min(self.pause, len(rows))
        watch = self._paused(statistics[:idle], usual) if idle else self
        late = slice(idle, None)
        if idle == len(rows):
            return watch, np.full((idle, len(self.detector.log_sums)), -np.inf)
        references = averages(statistics[late], watch.reference, MEMORY)
        back = np.logical_or.accumulate(usual(references), axis=0)
        adapted = watch.adapted & ~back
        log_e = np.minimum(bets(references[:-1], adapted[:-1], late), CAP)
        detector, log_sums = watch.detector.update(log_e, rows[late], statistics[late])
        log_sums = np.vstack([np.full((idle, log_sums.shape[1]), -np.inf), log_sums])
        return replace(watch, detector=detector, reference=references[-1], adapted=adapted[-1]), log_sums

    def _paused(self, statistics: Statistics, usual: Callable[[Statistics], Kinds]) -> "Watch":
        # Rows are added one by one, so that the sum does not depend on how they are cut into parts.
        total = np.add.accumulate(np.vstack([self.reference, statistics]), axis=0)[-1]
        left = self.pause - len(statistics)
        if left:
            return replace(self, reference=total, pause=left)
        mean = total / self.rest
        return replace(self, reference=mean, adapted=~usual(mean[None])[0], pause=0)
