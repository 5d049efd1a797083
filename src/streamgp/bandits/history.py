"""What was observed: rewards and answers with their times, bounded in number, never changed in place."""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.bandits.kdpp import distinct
from streamgp.checkpoint.encoding import register


@register
@dataclass(frozen=True, eq=False)
class History:
    """Observations in the order in which they came.

    Attributes
    ----------
    U, y
        Unit coordinates (n, d) and rewards (n,).
    times, at_step
        When each came, and after how many steps (0: answers before the first reward).
    answer
        Which are answers to side queries.
    locations
        The distinct points of the rewards, in the order of their last visit.
    step, time, last_time
        How many steps there were, the time of the last and of the one before.
    given
        How many answers were given in this step, those without a value among them.
    surprise, beyond, doubt
        How many standard deviations each was from its prediction, NaN until it is judged; whether that was too far;
        and what is added to the variance of its noise for that, zero if it was believed: see `trust`.
    """

    U: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    times: Float[np.ndarray, " n"]
    at_step: Int[np.ndarray, " n"]
    answer: Bool[np.ndarray, " n"]
    locations: Float[np.ndarray, "m d"]
    step: int = 0
    time: float = 0.0
    last_time: float = -1.0
    given: int = 0
    surprise: Float[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0))
    beyond: Bool[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0, bool))
    doubt: Float[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def empty(cls, width: int) -> "History":
        """Before the first reward."""
        nothing = np.zeros((0, width))
        return cls(nothing, np.zeros(0), np.zeros(0), np.zeros(0, int), np.zeros(0, bool), nothing)

    @property
    def ages(self) -> Float[np.ndarray, " n"]:
        """Time since each."""
        return self.time - self.times

    @property
    def steps_back(self) -> Int[np.ndarray, " n"]:
        """Steps since each."""
        return self.step - self.at_step

    @property
    def next_time(self) -> float:
        """When the next reward is to be expected: after as much time as the last took."""
        return self.time + (self.time - self.last_time)

    def advanced(self, time: float) -> "History":
        """One step further, at its time; what was answered before the first is taken to be one unit older."""
        times, last = (self.times, self.time) if self.step else (np.full(len(self.times), time - 1.0), time - 1.0)
        return replace(self, step=self.step + 1, times=times, time=time, last_time=last, given=0)

    def with_rows(
        self, U: Float[np.ndarray, "k d"], y: Float[np.ndarray, " k"], answer: bool, most: int, places: bool = True
    ) -> "History":
        """With more observations of now; of more than `most` the oldest go. Locations are kept if `places`."""
        k = len(y)
        visited = self.locations
        if places and not answer:
            # The last visit counts, so that among too many the places of long ago go first.
            visited = distinct(np.concatenate([U, visited[::-1]]))[0][::-1][-most:]
        return replace(
            self,
            U=np.concatenate([self.U, U])[-most:],
            y=np.concatenate([self.y, y])[-most:],
            times=np.concatenate([self.times, np.full(k, self.time)])[-most:],
            at_step=np.concatenate([self.at_step, np.full(k, self.step)])[-most:],
            answer=np.concatenate([self.answer, np.full(k, answer)])[-most:],
            locations=visited,
            surprise=np.concatenate([self.surprise, np.full(k, np.nan)])[-most:],
            beyond=np.concatenate([self.beyond, np.zeros(k, bool)])[-most:],
            doubt=np.concatenate([self.doubt, np.zeros(k)])[-most:],
        )

    def where(self, kept: Bool[np.ndarray, " n"]) -> "History":
        """Some of the observations."""
        return replace(
            self,
            U=self.U[kept],
            y=self.y[kept],
            times=self.times[kept],
            at_step=self.at_step[kept],
            answer=self.answer[kept],
            surprise=self.surprise[kept],
            beyond=self.beyond[kept],
            doubt=self.doubt[kept],
        )

    @property
    def unjudged(self) -> Bool[np.ndarray, " n"]:
        """Which have not been judged."""
        return np.isnan(self.surprise)

    @property
    def flagged(self) -> Bool[np.ndarray, " n"]:
        """Which are not believed."""
        return self.doubt > 0.0

    def copied(self) -> "History":
        """With marks that may be written to."""
        return replace(self, surprise=self.surprise.copy(), beyond=self.beyond.copy(), doubt=self.doubt.copy())

    def unmarked(self, rows: Bool[np.ndarray, " n"]) -> "History":
        """With some of the observations to be judged anew."""
        return replace(
            self,
            surprise=np.where(rows, np.nan, self.surprise),
            beyond=self.beyond & ~rows,
            doubt=np.where(rows, 0.0, self.doubt),
        )

    def completed(self) -> "History":
        """With marks, where it is from a checkpoint that has none: believed, as it was then."""
        n = len(self.y)
        return self if len(self.doubt) == n else replace(
            self, surprise=np.zeros(n), beyond=np.zeros(n, bool), doubt=np.zeros(n)
        )  # fmt: skip

    def newest(self, most: int) -> "History":
        """The newest observations."""
        return self.where(np.arange(len(self.y)) >= len(self.y) - most)
