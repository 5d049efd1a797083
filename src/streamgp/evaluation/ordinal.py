"""Scores of predicted grades, classes with an order: row by row, and summed up in constant memory."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.classification import ClassPredictive, Codes, LabelScores, as_codes
from streamgp.numerics.arrays import AnyArray


class OrdinalScores(NamedTuple):
    """The scores of every row; a grade is its rank among the J grades, from 0.

    `predicted` is the most probable grade, `median` the least that is reached with probability 1/2 or more, and `rps`
    the ranked probability score: the sum over the grades of the squared distance between the predicted distribution
    function and that of the grade that came (Epstein 1969, here not divided by J - 1). This is the continuous ranked
    probability score of the ranks.
    """

    y: Codes
    probabilities: Float[np.ndarray, "n j"]
    predicted: Codes
    median: Codes
    log_density: Float[np.ndarray, " n"]
    rps: Float[np.ndarray, " n"]


def score_ordinal(predictive: ClassPredictive, y: Float[AnyArray, "n 1"]) -> OrdinalScores:
    """Score predictions of n rows against their grades."""
    return _scores(np.asarray(predictive.probabilities()), np.asarray(predictive.log_density(y)), as_codes(y))


def _scores(probabilities: np.ndarray, log_density: np.ndarray, y: Codes) -> OrdinalScores:
    below = probabilities.cumsum(axis=1)[:, :-1]
    came = y[:, None] <= np.arange(below.shape[1])
    return OrdinalScores(
        y,
        probabilities,
        probabilities.argmax(axis=1),
        # Rounding must not push the median of an even split one grade up.
        (below < 0.5 - 1e-12).sum(axis=1),
        log_density,
        np.square(below - came).sum(axis=1),
    )


_SCORES = ("error_rate", "mae", "rps", "log_loss")


class OrdinalMetrics(LabelScores):
    """Scores over the rows after the warm-up, in constant memory.

    error_rate
        Share of rows whose most probable grade was not theirs.
    mae
        Mean distance, in steps between neighbouring grades, of the predicted median.
    rps
        Mean ranked probability score, in the same steps (see `OrdinalScores`).
    log_loss
        Mean of minus the log probability of the grade, in nats.

    Two naive baselines are scored on the same rows: the last grade again (a certain one in the ranked probability
    score), and the frequencies of the grades so far by Laplace's rule (see `ClassCounts`). `judgement` compares
    ranked probability scores, of the last grade with the share of repeats so far as its probability (see `Repeats`):
    a certain prediction would be at a disadvantage.

    Parameters
    ----------
    grades
        Their names, in order.
    warmup, horizon
        Rows that are not scored; rows ahead of the forecasts.
    """

    judged = "rps"
    plain = ("_repeatable",)
    copied = ("grades", "_confusion", "_sums", "_frequency_sums", "_repeated_sums")

    def __init__(self, grades: Sequence[str], warmup: int, horizon: int = 0) -> None:
        super().__init__(grades, warmup, horizon, "last_grade")
        self.grades = list(grades)
        self._sums = np.zeros(4)
        self._frequency_sums = np.zeros(4)
        self._repeated_sums = np.zeros(3)

    def score(self, predictive: ClassPredictive, y: Float[AnyArray, "n 1"]) -> OrdinalScores:
        """Score the next rows without counting them."""
        return score_ordinal(predictive, y)

    def add(self, scores: OrdinalScores) -> tuple[Codes, Float[np.ndarray, "n j"]]:
        """Count the next rows; return the last grade before each (-1: none) and the probabilities by frequency."""
        y = scores.y
        last, frequencies = self._known.add(y, len(self.grades))
        baseline = _scores(frequencies, np.log(frequencies[np.arange(len(y)), y]), y)
        repeating = self._repeats.add(y, last, frequencies)
        again = _scores(repeating, np.log(repeating[np.arange(len(y)), y]), y)
        score = slice(max(0, self.warmup - self.labelled_rows), None)
        self._paired.add(np.stack([each.rps[score] for each in (scores, again, baseline)], axis=1))
        self.rows += len(y)
        np.add.at(self._confusion, (y[score], scores.predicted[score]), 1)
        self._sums += _totals(scores, score)
        self._frequency_sums += _totals(baseline, score)
        has_last = last[score] >= 0
        off = np.abs(last[score] - y[score])[has_last]
        self._repeatable += len(off)
        self._repeated_sums += [np.sum(off > 0), off.sum(), off.sum()]
        return last, frequencies

    def add_unlabelled(self, scores: OrdinalScores) -> tuple[Codes, Float[np.ndarray, "n j"]]:
        """Count rows whose target is missing, which are not scored; return the baselines' predictions of them."""
        self.pass_over(len(scores.y))
        return self._known.predict(len(scores.y), len(self.grades))

    def result(self) -> dict[str, Any]:
        """Return all scores, and the confusion counts: a row for each true grade, a column for each predicted one."""
        n = self.scored_rows

        def means(totals: np.ndarray, rows: int) -> dict[str, float | None]:
            names = _SCORES[: len(totals)]
            return {name: float(total) / rows if rows else None for name, total in zip(names, totals, strict=True)}

        return {
            **self.counts(),
            **means(self._sums, n),
            "grades": list(self.grades),
            "confusion": self._confusion.tolist(),
            "naive": {
                "last_grade": means(self._repeated_sums, self._repeatable),
                "frequencies": means(self._frequency_sums, n),
            },
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "OrdinalMetrics":
        """Restore the metrics that `to_tree` stored."""
        return cls(tree["grades"], tree["warmup"])._restored(tree)


def _totals(scores: OrdinalScores, rows: slice) -> np.ndarray:
    y = scores.y[rows]
    wrong, off = scores.predicted[rows] != y, np.abs(scores.median[rows] - y)
    return np.array([wrong.sum(), off.sum(), scores.rps[rows].sum(), -scores.log_density[rows].sum()])
