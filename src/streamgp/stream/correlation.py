"""How the errors of a stream's targets go together: learnt after each row, known before the next."""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import Predictive, SideBySide
from streamgp.likelihoods.correlation import Comoments, correlation_matrices, scores_of
from streamgp.numerics.checkpoint.encoding import register

register(Comoments)
Joint = TypeVar("Joint", Predictive, SideBySide)


@register
@dataclass(frozen=True)
class ErrorCorrelation:
    """The correlation of the errors of several targets; no method changes it.

    A row with some targets missing teaches only the pairs that were seen; see `streamgp.likelihoods.correlation`.

    Attributes
    ----------
    known
        The sums over the rows so far.
    """

    known: Comoments

    @classmethod
    def none(cls, targets: int) -> "ErrorCorrelation":
        """Return what is known before any row."""
        return cls(Comoments.none(targets))

    @property
    def matrix(self) -> Float[np.ndarray, "e e"]:
        """The correlation matrix for the next row."""
        return correlation_matrices([self.known])[0]

    def of(self, predictive: Joint) -> Joint:
        """Return a prediction of rows, each as if it were the next one, with the correlation known now."""
        n = len(predictive.log_weights)
        return replace(predictive, correlation=np.repeat(self.matrix[None], n, axis=0))

    def learn(
        self, predictive: Predictive | SideBySide, y: Float[np.ndarray, "n e"]
    ) -> tuple["ErrorCorrelation", Float[np.ndarray, "m e e"]]:
        """Learn rows in order from what was predicted of them and their targets, NaN where these are missing.

        Return also the matrices before each row, and after the last: one more than there are rows.
        """
        seen = np.isfinite(y)
        levels = np.asarray(predictive.cdf(np.where(seen, y, np.asarray(predictive.loc).mean(1))))
        after, before = self.known.learn_rows(np.where(seen, scores_of(levels), np.nan))
        return ErrorCorrelation(after), correlation_matrices([*before, after])


def learn_forecast(
    correlation: ErrorCorrelation, forecasts: Any, made: tuple[Predictive, Any], y: Float[np.ndarray, "n e"]
) -> tuple[ErrorCorrelation, tuple[Predictive, Any]]:
    """Learn rows, and return the predictions `made` with the correlation that was known when they were.

    Without a horizon that is before each row's own target. With one, `made` are the forecasts after each row, and
    the rows are those of `forecasts`, where theirs waited.
    """
    predictive, rules = made
    (came, _), _ = forecasts.exchange([(correlation.of(predictive), rules)])
    after, matrices = correlation.learn(came, y)
    known = matrices[1:] if forecasts.parts else matrices[:-1]
    return after, (replace(predictive, correlation=known), rules)
