"""Test, then train, with labels that come late: a row is scored by the prediction that was made when it came."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from streamgp.core import Info
from streamgp.evaluation.conformal import Conformal
from streamgp.evaluation.conformal_sets import ConformalSets
from streamgp.evaluation.prequential import Metrics, ScoredRows, scored
from streamgp.numerics.precision import in_float64
from streamgp.stream.arrivals import Arrivals
from streamgp.stream.learner import StreamLearner

FAR = 20.0  # standard deviations


class LateRows(NamedTuple):
    """Rows whose labels come late.

    Attributes
    ----------
    X, y, times
        Inputs (n, D), targets (n, E) and time stamps (n,), if there are any.
    now
        The clock (n,) when each row comes: its number in the stream, or its time stamp.
    when
        The clock (n,) when its label comes, before a row at that moment; NaN: never.
    """

    X: np.ndarray
    y: np.ndarray
    times: np.ndarray | None
    now: np.ndarray
    when: np.ndarray

    def part(self, rows: slice) -> "LateRows":
        """Return some of the rows."""
        times = None if self.times is None else self.times[rows]
        return LateRows(self.X[rows], self.y[rows], times, self.now[rows], self.when[rows])


def prequential_late(
    arrivals: Arrivals,
    chunks: Iterable[LateRows],
    metrics: Metrics,
    conformal: Conformal | ConformalSets | None = None,
) -> Iterator[ScoredRows]:
    """Predict the rows as they come, and learn their labels as these do; score at once what only later is learnt.

    Outliers are found when they are learnt. As one is marked, for the scores without outliers, a row whose target is
    more than `FAR` standard deviations from what was predicted.
    """
    learner = arrivals.late.learner
    for chunk in chunks:
        at = 0
        while at < len(chunk.X):
            arrivals.deliver(float(chunk.now[at]))
            rest = chunk.part(slice(at, None))
            missing = np.asarray(np.isnan(rest.y).any(axis=1))
            others = np.flatnonzero(missing != missing[0])  # rows with a target, and without, are scored apart
            rows = rest.part(slice(min([arrivals.quiet(rest.now, rest.when), *others[:1]])))
            done = 0
            for numbers, info in arrivals.late.predict(rows.X, rows.times):
                part = rows.part(slice(done, done + len(numbers)))
                warm, far = learner.is_warmed_up, _far_out(learner, info, part.y)
                yield scored(learner, info, warm, at + done, part.X, part.y, metrics, conformal, far)
                arrivals.send(numbers, part.when, part.y)
                done += len(numbers)
            at += done


@in_float64
def _far_out(learner: StreamLearner, info: Info, y: np.ndarray) -> np.ndarray | None:
    """Mark rows whose target is far out, once the model is fitted; None for models that set no outliers aside."""
    if not learner.settings.task.flags_outliers:
        return None
    if not learner.is_warmed_up:
        return np.zeros(len(y), bool)
    off = np.abs(y - np.asarray(info.predictive.mean))
    return np.any(off > FAR * np.asarray(info.predictive.std), axis=1)
