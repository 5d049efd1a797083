"""Comparison of two forecasts: the mean difference of their losses on the same rows, with its interval."""

from collections.abc import Mapping
from math import nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from streamgp.evaluation.metrics.shapes import together
from streamgp.evaluation.metrics.shares import share

# With so many rows, three cosines are left.
LEAST_ROWS = 20
# The number of cosines is this times the number of rows to the power of two thirds.
_COSINES = 0.4


class Difference(NamedTuple):
    """A mean difference and the ends of its interval; `is_shown` where that does not hold zero."""

    mean: float
    low: float
    high: float

    @property
    def is_shown(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.low > 0.0 or self.high < 0.0


def paired_interval(losses: ArrayLike, others: ArrayLike, coverage: float = 0.95) -> Difference:
    """Return the mean of ``losses - others``, row by row in the order of the stream, and its confidence interval.

    Neighbouring rows may share their errors: this is the test of Diebold and Mariano (1995) as an interval. It holds
    for a stream whose differences have one mean, and a dependence that fades within a few hundredths of its rows.

    Parameters
    ----------
    losses, others
        The losses of two forecasts of the same targets, (n,); rows where one is NaN do not count.
    coverage
        The share of streams whose interval is to hold the true mean.

    Returns
    -------
    Difference
        ``mean``, ``low`` and ``high``; with fewer than 20 rows the ends are NaN.

    Raises
    ------
    ValueError
        If `coverage` is not strictly between 0 and 1, or the losses are not of one shape (n,).

    Notes
    -----
    The long-run variance is the mean square of the first B = 0.4 n^(2/3) coefficients of the differences' cosine
    transform, and the quantile that of Student's t with B degrees of freedom: the equal-weighted cosine test, with
    the number of cosines that Lazarus, Lewis, Stock and Watson (2018) recommend.
    """
    coverage = share("coverage", coverage)
    losses, others = together(losses=losses, others=others)
    if losses.ndim != 1:
        raise ValueError(f"losses, others: expected one loss a row, shape (n,), got shape {losses.shape}")
    difference = losses - others
    difference = difference[~np.isnan(difference)]
    n = len(difference)
    mean = float(difference.mean()) if n else nan
    if n < LEAST_ROWS:
        return Difference(mean, nan, nan)
    from scipy.fft import dct

    cosines = round(_COSINES * n ** (2.0 / 3.0))
    waves = np.asarray(dct(difference, norm="ortho"))[1 : cosines + 1]
    largest = float(np.abs(waves).max()) or 1.0  # a square of it may overflow
    deviation = largest * sqrt(float(np.mean(np.square(waves / largest))) / n)
    half = float(stdtrit(cosines, 0.5 + 0.5 * coverage)) * deviation
    return Difference(mean, mean - half, mean + half)


def differences(losses: Mapping[str, Mapping[str, np.ndarray]], coverage: float) -> dict[str, list[Any]]:
    """Return by how much the losses of each model differ from the first one's, as the columns of a table.

    Parameters
    ----------
    losses
        Those of every model on the same rows, (n,) each, by the name of the model and of the score.
    coverage
        Of the intervals; see `paired_interval`.

    Returns
    -------
    dict
        Columns model, score, difference, low and high; a score that the first model lacks is left out.
    """
    of_first, *others = losses.values()
    found: dict[str, list[Any]] = {name: [] for name in ("model", "score", "difference", "low", "high")}
    for name, of in zip(list(losses)[1:], others, strict=True):
        for score in (score for score in of if score in of_first):
            difference = paired_interval(of[score], of_first[score], coverage)
            for column, value in zip(found.values(), (name, score, *difference), strict=True):
                column.append(value)
    return found
