"""The mean difference of two forecasts' scores on the rows so far, with an interval that holds whenever one looks.

Of n differences x_1, x_2, ..., each of at most c in size, let e_i be the mean of x_i given all that came before, and
V the sum of the squares of x_i less the mean of those before it. For 0 < a < 1 / (2 c) the product of
exp(a (x_i - e_i) - psi(a) v_i), with psi(a) = (-log(1 - 2 c a) - 2 c a) / (2 c)^2 and v_i the i-th square, has no
upward drift (Howard, Ramdas, McAuliffe and Sekhon 2021, "Time-uniform, nonparametric, nonasymptotic confidence
sequences", Theorem 4; for scores of forecasts: Choe and Ramdas 2023, "Comparing sequential forecasters"). So has the
mean of several. By Ville's inequality it exceeds 1 / p at any time with probability at most p. What the sum of x can
be above or below that of e follows. Nothing is assumed of the differences but their size: not one mean, not
independence.

Where labels come late, the rows that waited together share what was not known, and what is expected of one given the
others is not what was expected when it was predicted. There whole blocks of rows take the place of rows.
"""

from dataclasses import dataclass, replace
from math import log
from typing import Any, Self, cast

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from streamgp.evaluation.change_tests import log_mean
from streamgp.evaluation.metrics.judgement import COVERAGE, Verdict, verdict_of
from streamgp.numerics.checkpoint.encoding import register

# A difference counts at most so much, in nats: of log densities, a factor of 20.
LARGEST = 3.0
# Shares of the largest a.
_RATES = np.geomspace(2e-3, 0.9, 24)
_SPAN = 2.0 * LARGEST
_LOG_DRIFT = -np.log1p(-_RATES) - _RATES
# A block has so many times as many rows as waited together.
_BLOCK = 2


@register
@dataclass(frozen=True)
class RunningDifference:
    """Sums over paired differences, a state of fixed size; no method changes it.

    Attributes
    ----------
    rows
        That were compared.
    blocks, total, squares
        Number of the blocks that are complete, the sum of their means, and V.
    size, filled, part
        Rows of a block; of the one that is not complete those that it has, and the sum over them.
    """

    rows: int = 0
    blocks: int = 0
    total: float = 0.0
    squares: float = 0.0
    size: int = 1
    filled: int = 0
    part: float = 0.0

    def add(self, ours: Float[np.ndarray, " n"], theirs: Float[np.ndarray, " n"], waited: int = 0) -> Self:
        """Return the state after the next rows, of which neither score is NaN; in the order of their labels.

        Parameters
        ----------
        ours, theirs
            Log densities of the targets under the two forecasts; -inf counts like any that is too low.
        waited
            How many rows had come, at most, between one of these rows and its label.
        """
        with np.errstate(invalid="ignore"):
            difference = np.nan_to_num(np.asarray(ours) - np.asarray(theirs), posinf=LARGEST, neginf=-LARGEST)
        size = max(self.size, _BLOCK * waited)
        blocks, total, squares, filled, part = self.blocks, self.total, self.squares, self.filled, self.part
        for each in np.clip(difference, -LARGEST, LARGEST).tolist():
            filled, part = filled + 1, part + each
            if filled >= size:
                block, before = part / filled, total / blocks if blocks else 0.0
                blocks, total, squares = blocks + 1, total + block, squares + (block - before) ** 2
                filled, part = 0, 0.0
        return replace(
            self,
            rows=self.rows + len(difference),
            blocks=blocks,
            total=total,
            squares=squares,
            size=size,
            filled=filled,
            part=part,
        )

    @property
    def mean(self) -> float | None:
        """Return the mean difference over all complete blocks."""
        return self.total / self.blocks if self.blocks else None

    def interval(self, coverage: float = COVERAGE) -> tuple[float, float] | None:
        """Return the ends of the interval of the mean of what was to be expected of the rows so far.

        None before the first complete block. That all intervals of a stream hold it has a probability of at least
        `coverage`.
        """
        if self.mean is None:
            return None
        bar = log(2.0 / (1.0 - coverage))

        def excess(over: float) -> float:
            bets = _RATES / _SPAN * over - _LOG_DRIFT / _SPAN**2 * self.squares
            return float(log_mean(bets[None])[0]) - bar

        # The largest of the rates alone is enough there, however large the squares are.
        most = _SPAN * (2.0 * self.blocks + 10.0 * (bar + log(len(_RATES))))
        half = float(cast(Any, brentq(excess, 0.0, most, xtol=1e-9)))
        return max(self.mean - half / self.blocks, -LARGEST), min(self.mean + half / self.blocks, LARGEST)

    @property
    def verdict(self) -> Verdict:
        """Return whether the first of the two is better, worse, or that is undecided."""
        return verdict_of(*(self.interval() or (None, None)))
