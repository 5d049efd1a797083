"""Labels that come late, for estimators: the token of a row, and when the labels of a table arrive."""

from dataclasses import dataclass
from typing import Any, Self

import narwhals as nw
import numpy as np
from jaxtyping import Float

from streamgp.estimators.access import alone
from streamgp.estimators.columns import Columns
from streamgp.estimators.learning_progress import learning_progress
from streamgp.estimators.single import as_table, in_order
from streamgp.estimators.times import as_times, follow_time, unreadable
from streamgp.estimators.validation import (
    NotFiniteError,
    Rows,
    check_one,
    check_rows,
    check_target,
)
from streamgp.models.options import DEFAULT_WARMUP
from streamgp.numerics.precision import float64
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.learner import StreamLearner
from streamgp.stream.outlook import check_horizon
from streamgp.table.clock import Pace
from streamgp.table.codes import MissingCodes
from streamgp.table.containers import to_array
from streamgp.table.dates import find_order


@dataclass(frozen=True)
class Later:
    """A row whose label comes later: what `learn_later` is given then, or its `row` alone.

    Attributes
    ----------
    row
        The number of the row among those that `predict_later` was given, and that were learnt while some waited.
    mean, std
        What was predicted of it: a number each, or (E,) of several targets; None of labels and grades.
    probabilities
        Those of the classes or grades (K,) known then; None of numbers and counts.
    """

    row: int
    mean: Any = None
    std: Any = None
    probabilities: np.ndarray | None = None


def row_of(token: Any) -> int:
    """Return the number of the row that a token stands for.

    Raises
    ------
    ValueError
        If it is no token.
    """
    row = token.row if isinstance(token, Later) else token
    if isinstance(row, bool) or not isinstance(row, int | np.integer):
        raise ValueError(f"token: expected what predict_later returned, or its row, got {token!r}")
    return int(row)


def check_delay(delay: Any) -> int | str:
    """Return the rows that labels are late, or the name of the column that tells it.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(delay, str):
        return delay
    if isinstance(delay, bool) or not isinstance(delay, int | np.integer) or delay < 0:
        raise ValueError(
            f"delay: expected the number of rows that labels come late, 0 or more, or the name of the column of X "
            f"with their arrival, got {delay!r}"
        )
    return int(delay)


def split_arrivals(X: Any, column: str, timed: bool) -> tuple[Any, Float[np.ndarray, " n"]]:
    """Return a frame without the column of arrivals, and what this holds: numbers, dates in seconds, NaN for never.

    Raises
    ------
    ValueError
        If X is no frame, has no such column, or this holds neither numbers nor, on a stream with times, dates.
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise ValueError(
            f"delay: expected X as a data frame with the column {column!r} of arrivals, got {type(X).__name__}; give "
            f"such a frame, or the number of rows that labels come late"
        )
    if column not in frame.columns:
        raise ValueError(f"delay: expected one of the columns {', '.join(frame.columns)}, got {column!r}")
    cells = frame[column]
    if not (cells.dtype.is_numeric() or (timed and (cells.dtype.is_temporal() or cells.dtype == nw.String))):
        expected = "times, as the stream has them" if timed else "the number of rows after which a label is known"
        raise ValueError(f"delay: expected {expected}, in the column {column!r}, got {cells.dtype}")
    values = cells.cast(nw.Float64).to_numpy() if cells.dtype.is_numeric() else to_array(cells)
    when = as_times(values, len(values), find_order(values.tolist()))
    assert when is not None
    if (said := unreadable(when, values)) is not None:
        raise ValueError(f"delay: column {column!r}: {said}; correct it, or leave the cell empty")
    return frame.drop(column).to_native(), np.where(np.isinf(when), np.nan, when)


class LateTargets:
    """What estimators do with labels that come late."""

    _learner: StreamLearner
    _single: bool
    _access: Any
    missing: str
    missing_values: Any
    skipped_rows_: int
    _check_fitted: Any
    _start: Any
    _make_spec: Any
    __sklearn_is_fitted__: Any
    _columns: Columns
    _pace: Pace
    _begins_without_target = False
    _late: LateLabels | None = None  # rows that wait for their label, once there were some

    @alone
    def predict_later(self, x: Any, time: Any = None) -> Later:
        """Predict a row whose label comes later, in its place in the stream; `learn_later` then takes its token.

        The label may come in any order with those of other rows, or never. If it comes before 1,000 more rows have,
        whatever is predicted is as if the rows whose label has come had been learnt in the order of the rows. One
        that comes later is refused. While rows wait, a prediction is for so many steps further ahead, by experts that
        robust presets for numbers weigh by how well they predicted such rows before. What was predicted of the rows
        that wait stands for them where past targets are inputs. A model for numbers that has not seen a row yet
        begins, with one target.

        Parameters
        ----------
        x
            The inputs, shape (D,), or a dictionary by the names of the features.
        time
            The row's time stamp, on a stream that has them; none is before that of the last row that came.

        Raises
        ------
        ValueError
            On another number of inputs, a time that goes back and, unless ``missing="impute"``, NaN or infinity; or
            if the model has a horizon. The row does not count then.
        """
        if self._begins_without_target and not self.__sklearn_is_fitted__():
            check_horizon(self._make_spec().horizon)
            times = None if time is None else [time]
            self._start(check_rows(self, as_table(self, x), [0.0], times, learner=None), DEFAULT_WARMUP)
        self._check_fitted()
        return self._predicted_later(*check_one(self, in_order(self, x, time, comes=True), time), time)

    def _predicted_later(self, x: np.ndarray, at: float, time: Any) -> Later:
        if self._learner.timed:
            follow_time(self, time, at)
        late = self._late or LateLabels(self._learner)
        ((numbers, info),) = late.predict(x[None], np.array([at]) if self._learner.timed else None)
        self._late = late
        return self._token(numbers[0], info.predictive)

    @alone
    def learn_later(self, token: Any, y: Any) -> Self:
        """Learn the label of a row that `predict_later` was given: a target, targets (E,), or a label.

        A target that is NaN will never come: its row is not waited for any longer.

        Raises
        ------
        ValueError
            If the row is not known, has its label, or came more than 1,000 rows ago, and as `partial_fit` does; the
            state is then untouched.
        """
        self._check_fitted()
        row = row_of(token)
        if self._late is None:
            raise ValueError(f"token: expected that of a row that predict_later was given, got {row}, and none was")
        self._late.check(row)
        try:
            target = self._target(y)
        except NotFiniteError:
            if self.missing != "skip":
                raise
            self.skipped_rows_ += 1
            target = np.full(self._learner.num_outputs, np.nan)
        self._late.learn([row], target[None])
        return self

    # Inner works

    def _target(self, y: Any) -> np.ndarray:
        """Return the target of one row (E,) as the learner takes it."""
        y = MissingCodes.of(self.missing_values).blank(y)
        return check_target(y, () if self._single else (self._learner.num_outputs,), self.missing)

    def _token(self, row: int, predictive: Any) -> Later:
        """Return the token of a row that was predicted."""
        with float64():
            mean, std = np.asarray(predictive.mean[0]), np.asarray(predictive.std[0])
        return Later(row, mean[0], std[0]) if self._single else Later(row, mean, std)

    def _check_none_waits(self) -> None:
        """Raise ValueError if there are rows that wait for their label."""
        if self._late is not None:
            self._late.refresh()
            if self._late.waiting:
                raise ValueError(
                    f"evaluate: {self._late.waiting:,} rows wait for their label: give these first (learn_later), "
                    f"NaN where one will never come"
                )

    def _learn_rows(self, rows: Rows) -> None:
        """Learn rows whose targets come with them, in their place behind those that wait."""
        self._columns, self._pace = rows.columns, rows.pace
        late = self._late
        if late is not None:
            late.refresh()
        if late is not None and late.waiting:
            late.take(rows.X, rows.y, rows.times)
        else:
            learnt = 0
            with learning_progress(self._learner, "learning", len(rows.X)) as report:
                for info in self._learner.learn(rows.X, rows.y, rows.times):
                    learnt += len(info.outside)
                    report(learnt)

    def _predict_next(self, X: np.ndarray, times: np.ndarray | None) -> Any:
        """Predict each row as the next one, after those that wait for their label."""
        return self._learner.predict(X, times) if self._late is None else self._late.predict_next(X, times)
