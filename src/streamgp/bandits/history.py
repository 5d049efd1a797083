"""Observations of an optimiser: rewards and answers with their times, bounded in number, never changed in place."""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.bandits.kdpp import distinct
from streamgp.numerics.checkpoint.encoding import register


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
    z_scores, outlying, added_noise
        How many standard deviations each was from its prediction, NaN until it is screened; whether that was too far;
        and the variance that is added to its noise for that, zero if it counts in full: see `outliers`.
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
    z_scores: Float[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0))
    outlying: Bool[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0, bool))
    added_noise: Float[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0))

    def check_restored(self) -> None:
        """Raise ValueError if there are no points where there must be some, or variances that are none."""
        if not (np.isfinite(self.U).all() and np.isfinite(self.locations).all()):
            raise ValueError("expected points of finite coordinates, got some that are not")
        if not ((self.added_noise >= 0.0) & np.isfinite(self.added_noise)).all():
            raise ValueError("expected added noise of finite variances, 0 or more, got other values")

    @classmethod
    def empty(cls, width: int) -> "History":
        """Return the history before the first reward."""
        nothing = np.zeros((0, width))
        return cls(nothing, np.zeros(0), np.zeros(0), np.zeros(0, int), np.zeros(0, bool), nothing)

    @property
    def ages(self) -> Float[np.ndarray, " n"]:
        """Return the time since each observation."""
        return self.time - self.times

    @property
    def steps_back(self) -> Int[np.ndarray, " n"]:
        """Return the steps since each observation."""
        return self.step - self.at_step

    @property
    def next_time(self) -> float:
        """Return when the next reward is to be expected: after as much time as the last took."""
        return self.time + (self.time - self.last_time)

    @property
    def unscreened(self) -> Bool[np.ndarray, " n"]:
        """Mark the observations that have not been screened for outliers."""
        return np.isnan(self.z_scores)

    @property
    def flagged(self) -> Bool[np.ndarray, " n"]:
        """Mark the observations that do not count in full."""
        return self.added_noise > 0.0

    def advance(self, time: float) -> "History":
        """Begin the next step, at its time; what was answered before the first is taken to be one unit older."""
        times, last = (self.times, self.time) if self.step else (np.full(len(self.times), time - 1.0), time - 1.0)
        return replace(self, step=self.step + 1, times=times, time=time, last_time=last, given=0)

    def append(
        self,
        U: Float[np.ndarray, "k d"],
        y: Float[np.ndarray, " k"],
        answer: bool,
        max_rows: int | None,
        keep_locations: bool = True,
    ) -> "History":
        """Add observations of the present time.

        Parameters
        ----------
        U, y
            Unit coordinates and rewards.
        answer
            Whether they are answers to side queries.
        max_rows
            Of more than so many the oldest go; None: none go.
        keep_locations
            Whether the points of rewards are added to the locations.
        """
        k, kept = len(y), slice(None) if max_rows is None else slice(-max_rows, None)
        visited = self.locations
        if keep_locations and not answer:
            # The last visit counts, so that among too many the points of long ago go first.
            visited = distinct(np.concatenate([U, visited[::-1]]))[0][::-1][kept]
        return replace(
            self,
            U=np.concatenate([self.U, U])[kept],
            y=np.concatenate([self.y, y])[kept],
            times=np.concatenate([self.times, np.full(k, self.time)])[kept],
            at_step=np.concatenate([self.at_step, np.full(k, self.step)])[kept],
            answer=np.concatenate([self.answer, np.full(k, answer)])[kept],
            locations=visited,
            z_scores=np.concatenate([self.z_scores, np.full(k, np.nan)])[kept],
            outlying=np.concatenate([self.outlying, np.zeros(k, bool)])[kept],
            added_noise=np.concatenate([self.added_noise, np.zeros(k)])[kept],
        )

    def where(self, kept: Bool[np.ndarray, " n"]) -> "History":
        """Keep some of the observations."""
        return replace(
            self,
            U=self.U[kept],
            y=self.y[kept],
            times=self.times[kept],
            at_step=self.at_step[kept],
            answer=self.answer[kept],
            z_scores=self.z_scores[kept],
            outlying=self.outlying[kept],
            added_noise=self.added_noise[kept],
        )

    def newest(self, count: int) -> "History":
        """Keep the newest observations."""
        return self.where(np.arange(len(self.y)) >= len(self.y) - count)

    def with_writable_marks(self) -> "History":
        """Return a copy whose marks may be written to."""
        return replace(
            self, z_scores=self.z_scores.copy(), outlying=self.outlying.copy(), added_noise=self.added_noise.copy()
        )

    def without_marks(self, rows: Bool[np.ndarray, " n"]) -> "History":
        """Return a copy in which these observations are to be screened anew."""
        return replace(
            self,
            z_scores=np.where(rows, np.nan, self.z_scores),
            outlying=self.outlying & ~rows,
            added_noise=np.where(rows, 0.0, self.added_noise),
        )
