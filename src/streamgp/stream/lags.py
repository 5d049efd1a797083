"""Past targets as inputs of the rows that come after them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.stream.lag_outliers import OutlierMemory
from streamgp.stream.passed_rows import PassedRows, carried_over


def lag_names(targets: Sequence[str], lags: Sequence[int]) -> list[str]:
    """Return the names of the columns that lags add, in their order."""
    return [f"{target} lag {lag}" for lag in lags for target in targets]


@register
@dataclass(frozen=True)
class LaggedTargets:
    """The last targets learnt, and the rows of inputs widened by those that lie some fixed numbers of rows back.

    Lag l of a row is the target of the l-th row before it. For a row without a target stands what was predicted of
    it, and for a step of the clock without a row what `streamgp.stream.missed_steps` says; without a clock rows that
    were skipped do not count. Every method reads only targets before the row that it widens. Targets
    are given as later rows are to see them: see `Task.as_lags`.

    Parameters
    ----------
    lags
        How many rows to look back, ascending; none leaves all rows as they are.
    last
        The last targets, one more than the longest lag, oldest first; NaN before the first row.
    outliers
        What is known of those of them that were outliers.
    fill
        What a lag's column holds while the stream is younger. That is meant to be the mean of the targets by which
        they are standardised, so that a missing lag says nothing: after standardisation it is zero, or next to it.
        (The first target ever seen would serve as well on a slow stream, but an odd one would be repeated in as many
        rows as the longest lag has.)
    exposed
        Whether the last column of a row is an exposure, which comes after the lags.
    """

    lags: tuple[int, ...]
    last: Float[np.ndarray, "l e"]
    outliers: OutlierMemory
    fill: Float[AnyArray, " e"]
    exposed: bool = False

    def check_restored(self) -> None:
        """Raise ValueError if there are not as many targets as the longest lag asks for."""
        if min(self.lags, default=1) < 1 or len(self.last) != _kept(self.lags):
            raise ValueError(f"expected the last targets for the lags {self.lags}, got {len(self.last)}")

    def __bool__(self) -> bool:
        """Return whether any past target is an input."""
        return bool(self.lags)

    @classmethod
    def empty(cls, lags: tuple[int, ...], num_targets: int, exposed: bool = False) -> "LaggedTargets":
        """Return what is known before any row."""
        last = np.full((_kept(lags), num_targets), np.nan)
        return cls(lags, last, OutlierMemory.empty(num_targets), np.zeros(num_targets), exposed)

    def emptied(self) -> "LaggedTargets":
        """Return what is known before any row, with the same columns and the same to fill them."""
        return replace(LaggedTargets.empty(self.lags, len(self.fill), self.exposed), fill=self.fill)

    def widen_next(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n w"]:
        """Return rows of which each is taken as the next one: all get the same last targets."""
        if not self.lags:
            return X
        past = self._filled[[-lag for lag in self.lags]].reshape(1, -1)
        return self._joined(X, past.repeat(len(X), axis=0))

    def widen(
        self,
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n e"],
        own: bool = False,
    ) -> Float[np.ndarray, "n w"]:
        """Return the next rows of the stream in order, `y` being their own targets: a row sees those above it.

        With `own` it sees its own too, as its lag 1, and lag l is the target l - 1 rows back: what is known once the
        row is learnt, for forecasts of later ones.
        """
        if not self.lags:
            return X
        known = np.concatenate([self._filled, y])
        # A lag is at least 1, so that no row meets its own target unless it is to.
        ends = [len(known) - lag + own for lag in self.lags]
        return self._joined(X, *(known[end - len(X) : end] for end in ends))

    def widen_among(
        self,
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n e"],
        passed: PassedRows,
        own: bool = False,
    ) -> Float[np.ndarray, "n w"]:
        """Return the rows learnt from the first one on, as `widen` does, where others among them were passed over."""
        if not self.lags or not len(passed.after):
            return self.widen(X, y, own)
        whole, places = passed.whole(y, max(self.lags)), passed.places(len(X))
        ends = [lag - own for lag in self.lags]
        known = np.concatenate([self._filled, whole])
        return self._joined(X, *(known[places + len(self.last) - end] for end in ends))

    def widen_after(
        self, X: Float[np.ndarray, "n d"], missed: Int[np.ndarray, " n"], stand: Float[np.ndarray, "m e"]
    ) -> Float[np.ndarray, "n w"]:
        """Return rows as `widen_next` does, each after so many of the rows for whose targets something stands."""
        known = np.concatenate([self._filled, stand])
        past = known[len(self.last) + missed[:, None] - np.array(self.lags)]
        return self._joined(X, past.reshape(len(X), -1))

    def carried(self, rows: int) -> Float[np.ndarray, "n e"]:
        """Return what stands for the targets of the next rows, if they do not come."""
        return carried_over(self.last, max(self.lags), rows)

    def learn(self, y: Float[np.ndarray, "n e"], outliers: OutlierMemory | None = None) -> "LaggedTargets":
        """Return what is known after the rows with the targets `y`.

        Where `standing_in` replaced some, its `outliers` come with them.
        """
        known = np.concatenate([self.last, y])
        return replace(self, last=known[len(y) :], outliers=self.outliers if outliers is None else outliers)

    def standing_in(
        self,
        y: Float[np.ndarray, "n e"],
        predicted: Float[np.ndarray, "n e"],
        is_outlier: Bool[np.ndarray, " n"],
        ahead: int = 1,
    ) -> tuple[Float[np.ndarray, "n e"], OutlierMemory]:
        """Return the next targets as the rows after them are to see them, and what is known of outliers then.

        What was `predicted` of each was so many rows `ahead` of the last one that was known.
        """
        # Only then does the prediction of the row after an outlier tell what would have come of another stand-in.
        expected = predicted if self.lags and min(self.lags) + ahead == 2 else [None] * len(y)
        past, outliers = y.copy(), self.outliers
        for row, target in enumerate(y):
            if is_outlier[row]:
                outliers, past[row] = outliers.learn_outlier(predicted[row], target, expected[row])
            else:
                outliers = outliers.learn(target, expected[row])
        return past, outliers

    def known(self, n: int) -> Float[np.ndarray, "n l e"]:
        """Return the last targets, oldest first, n times: so many futures begin with them."""
        return np.tile(self._filled, (n, 1, 1))

    @property
    def _filled(self) -> np.ndarray:
        return np.where(np.isnan(self.last), self.fill, self.last)

    def _joined(self, X: np.ndarray, *past: np.ndarray) -> np.ndarray:
        """Return rows with columns of lags in their place."""
        at = X.shape[1] - self.exposed
        return np.concatenate([X[:, :at], *past, X[:, at:]], axis=1)


def _kept(lags: tuple[int, ...]) -> int:
    """Return how many targets are kept: of the last one it is known what it was a season before."""
    return max(lags) + 1 if lags else 0
