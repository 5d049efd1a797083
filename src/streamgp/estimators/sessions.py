"""A session of an estimator: rows of one call, predicted, scored and tested before it learns them."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamgp.estimators.base import StreamEstimator
from streamgp.estimators.validation import Rows
from streamgp.evaluation import Alarm, ScoredRows
from streamgp.session import Session, SessionOptions
from streamgp.table import Chunk
from streamgp.table.chunks import cut

CHUNK = 1024  # rows fed in one go


def check_rows_to_score(model: StreamEstimator, X: Any, y: Any, times: Any, exposure: Any) -> Rows:
    """Return rows with targets as the learner takes them; nothing is learnt yet.

    Raises
    ------
    ValueError
        As `partial_fit` does, and if rows wait for labels that `predict_later` was promised.
    """
    model._check_none_waits()
    more = {} if exposure is None else {"exposure": exposure}
    return model._prepare(X, y, times, not model.__sklearn_is_fitted__(), **more)


class EstimatorSession:
    """An estimator, begun if it is new, and checked rows that it is to learn.

    Parameters
    ----------
    model, rows
        See `check_rows_to_score`.
    default_warmup
        Of a new model.
    asked
        As in `Session.begin`; the model keeps the alarms.
    arrives
        When each label comes (n,), where a column says so.
    """

    def __init__(
        self,
        model: StreamEstimator,
        rows: Rows,
        default_warmup: int,
        asked: SessionOptions,
        arrives: np.ndarray | None = None,
    ) -> None:
        delay, alarms = asked.delay, asked.alarms
        if not model.__sklearn_is_fitted__():
            model._start(rows, default_warmup, delay if isinstance(delay, int) else 0)
        model._columns, model._pace, learner = rows.columns, rows.pace, model._learner
        if alarms is not None:
            model._alarms = alarms
        self.session = Session.begin(learner, model._names(), asked)
        self._model, self._given = model, rows
        self._first, self._count = (0, 0) if alarms is None else (alarms.next_row, alarms.count)
        self._rows = Chunk(rows.X, rows.y, rows.times, self._first + rows.kept, arrives)

    def feed(self) -> Iterator[ScoredRows]:
        """Predict, score and learn all rows, and then the labels that are still on their way."""
        for at in range(0, len(self._rows.X), CHUNK):
            yield from self.session.feed(cut(self._rows, slice(at, at + CHUNK)))
        if self.session.arrivals is not None:
            self.session.arrivals.deliver_all()

    def end(self) -> list[Alarm] | None:
        """Count the rows that were skipped, and return the alarms; None where there are no tests."""
        self._model.skipped_rows_ += self._given.skipped
        alarms = self.session.alarms
        if alarms is None:
            return None
        alarms.next_row = self._first + self._given.given  # rows that were skipped at the end count as well
        return alarms.since(self._count)
