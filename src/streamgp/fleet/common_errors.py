"""How far the errors of keys go together, which is what the uncertainty of their sum depends on.

At a time, e_k is the error of key k one step ahead and s_k the standard deviation that was predicted. If all pairs
had the same correlation r, the mean of (sum e)^2 - sum e^2 would be r times (sum s)^2 - sum s^2. The ratio of the
two, each over (sum s)^2 and averaged over the last times, is that r by moments: the equicorrelation of Engle and
Kelly (2012, Journal of Business & Economic Statistics 30, 212-228), with pairs counted by their part in the sum.

The error h steps ahead is a sum of those of single steps, with weights that the variances of the keys' own forecasts
tell: the squared weight of a step is by how much they grow. What one key's error says of another's next one then
counts as well: by the autocovariances of sum e / sum s, which taper (Newey and West 1987, Econometrica 55, 703-708).
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

WINDOW = 512  # times
# Errors so many steps apart, at most, may go together.
REACH = 6
# So many times with rows of several keys are needed.
LEAST = 10
# A glitch counts as an error of so many standard deviations.
FURTHEST = 5.0
# The variance of a sum is no smaller than this share of what it would be if its keys knew nothing of each other.
LEAST_SHARE = 0.1


class CommonErrors:
    """Sums of the errors at each of the last times, over the keys of each group.

    The order of rows of different keys and the cuts into chunks do not matter: what counts are the rows of the last
    times. Memory is that of times and groups, whatever the number of keys.
    """

    def __init__(self) -> None:
        self._times = np.empty(0)
        # Of errors, squared errors, standard deviations and variances, by time and group.
        self._sums = np.empty((0, 1, 4))

    def learn(
        self,
        times: Float[np.ndarray, " n"],
        group: Int[np.ndarray, " n"],
        error: Float[np.ndarray, " n"],
        std: Float[np.ndarray, " n"],
    ) -> None:
        """Add rows with the errors of their predictions, NaN where there was no target."""
        good = np.isfinite(error) & np.isfinite(std) & (std > 0.0)
        if not good.any():
            return
        self._make_room(times[good], 1 + int(group[good].max()))
        good &= times >= self._times[0]
        at, std = np.searchsorted(self._times, times[good]), std[good]
        error = np.clip(error[good], -FURTHEST * std, FURTHEST * std)
        np.add.at(self._sums, (at, group[good]), np.stack([error, error * error, std, std * std], axis=1))

    def _make_room(self, times: Float[np.ndarray, " n"], groups: int) -> None:
        """Keep the last of the times known and these, with room for so many groups."""
        last = np.union1d(self._times, times)[-WINDOW:]
        groups = max(groups, self._sums.shape[1])
        if np.array_equal(last, self._times) and groups == self._sums.shape[1]:
            return
        kept, wide = np.isin(self._times, last), np.zeros((len(last), groups, 4))
        wide[np.searchsorted(last, self._times[kept]), : self._sums.shape[1]] = self._sums[kept]
        self._times, self._sums = last, wide

    def std_of_sum(self, std: Float[np.ndarray, "k h"], group: int | None = None) -> Float[np.ndarray, " h"]:
        """Return the standard deviation of the sum over keys at every step, by those of the keys."""
        alone = np.square(std).sum(axis=0)
        if len(std) == 1:
            return np.sqrt(alone)
        pairs = np.square(std.sum(axis=0)) - alone
        return np.sqrt(np.maximum(alone + self.correlation(alone, group) * pairs, LEAST_SHARE * alone))

    def correlation(self, var: Float[np.ndarray, " h"], group: int | None = None) -> Float[np.ndarray, " h"]:
        """Return the correlation of any two keys' errors at every step ahead.

        Parameters
        ----------
        var
            The variances of the keys' forecasts at every step, added up.
        group
            Of the keys; of one of which little is known the correlation is that of all keys. None: of all keys.

        Raises
        ------
        ValueError
            If too few times had rows of several keys.
        """
        known = group is not None and group < self._sums.shape[1]
        error, squares, std, own = (self._sums[:, group] if known else self._sums.sum(axis=1)).T
        several = np.square(std) > (1.0 + 1e-9) * own
        count = int(several.sum())
        if count < LEAST:
            if known:
                return self.correlation(var)
            raise ValueError(
                f"forecast_total: expected a fleet in which several keys had rows at the same time, {LEAST} times or "
                f"more after the warm-up's rows were fitted, got {count}; learn more rows"
            )
        error, squares, std, own = (each[several] for each in (error, squares, std, own))
        x, pairs = error / std, np.mean(1.0 - own / np.square(std))
        weights = np.sqrt(np.maximum(np.diff(var, prepend=0.0), 0.0) / var[0])
        energy = np.cumsum(np.square(weights))
        covariance = energy * np.mean(x * x - squares / np.square(std))
        for apart in range(1, min(REACH + 1, len(var), count)):
            taper = 1.0 - apart / (REACH + 1.0)
            both = np.cumsum(weights[apart:] * weights[:-apart])
            covariance[apart:] += 2.0 * taper * both * (x[apart:] @ x[:-apart]) / count
        return np.clip(covariance / (energy * pairs), -1.0, 1.0)

    def to_tree(self) -> dict[str, Any]:
        """Return the sums, for a checkpoint."""
        return {"times": self._times, "sums": self._sums}

    def restore(self, tree: dict[str, Any]) -> None:
        """Take what `to_tree` returned."""
        times, sums = (np.array(tree[name], float) for name in ("times", "sums"))
        if times.ndim != 1 or sums.ndim != 3 or len(sums) != len(times) or sums.shape[2] != 4:
            raise ValueError(f"expected sums of errors by time and group, got shapes {times.shape} and {sums.shape}")
        self._times, self._sums = times, sums
