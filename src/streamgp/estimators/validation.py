"""Rows as users pass them, checked and turned into arrays; every error says what was given, where, and what to do."""

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from streamgp.estimators.columns import LEFT_OUT, Columns
from streamgp.estimators.scikit import checked_inputs, checked_rows, not_fitted
from streamgp.estimators.time_column import split_times, with_dated_index
from streamgp.estimators.times import are_dates, as_times, judge_times, unreadable
from streamgp.likelihoods import TargetMap
from streamgp.models.options import MISSING_VALUES, calendar_of
from streamgp.models.spec import Spec
from streamgp.models.target_options import NONE
from streamgp.stream.learner import StreamLearner
from streamgp.table import cells
from streamgp.table.clock import Pace
from streamgp.table.codes import MissingCodes
from streamgp.table.containers import check_unit, unmasked
from streamgp.table.given import as_numbers, to_float, to_floats
from streamgp.table.summer_time import advise_on_order

_SKIP = "skip such rows with missing='skip'"


def check_missing(missing: str) -> None:
    """Check what is to be done about values that are missing.

    Raises
    ------
    ValueError
        If there is no such thing.
    """
    MISSING_VALUES.check(missing)


class Rows(NamedTuple):
    """Rows in the order of the stream.

    Attributes
    ----------
    X, y, times
        Inputs (n, D), targets (n, E) and, where the user gave them, time stamps (n,). Under ``missing="impute"``
        inputs and targets are NaN where they are missing, and finite otherwise.
    single
        Whether the targets came without an axis of their own.
    skipped
        How many bad rows were left out.
    kept
        Where the others stood among all rows.
    given
        How many those were.
    columns
        How the user's columns became inputs, with the levels of these rows.
    pace
        How far apart the rows of the stream usually are, these included.
    fault
        What is wrong with the first row that was left out for its time.
    """

    X: np.ndarray
    y: np.ndarray
    times: np.ndarray | None
    single: bool
    skipped: int
    kept: np.ndarray
    given: int
    columns: Columns
    pace: Pace = Pace()
    fault: str | None = None


def check_fitted(estimator: Any) -> None:
    """Raise NotFittedError if the estimator has not seen any row."""
    if not estimator.__sklearn_is_fitted__():
        raise not_fitted(
            f"This {type(estimator).__name__} has not seen any row yet: call partial_fit or fit before this."
        )


def seed_of(random_state: Any) -> int:
    """Return the seed that scikit-learn's `random_state` stands for."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


def check_rows(estimator: Any, X: Any, y: Any, times: Any, *, learner: StreamLearner | None) -> Rows:
    """Check rows for `learner`, or for a new one, to learn from; only the estimator's names of features may change.

    Its parameter `missing` says what becomes of numbers that are NaN, infinite or absurd.

    Raises
    ------
    ValueError
        If something is not a table of numbers of the right width, or times decrease or are missing (and are not to be
        skipped), or, under ``missing="raise"``, a row holds NaN or infinity.
    """
    check_missing(estimator.missing)
    X, times = split_times(with_dated_index(estimator, X, times), times)
    X, y = MissingCodes.of(estimator.missing_values).blank(X), unmasked(y)
    _check_timed(times, learner)
    if learner is None:
        columns = Columns.of_first(X, times, calendar_of(estimator.calendar, estimator.holidays))
    else:
        columns = estimator._columns
    X, columns = columns.numbers(
        X, learner.categories.levels if learner is not None and learner.is_warmed_up else None
    )
    X, y = _as_cells(X), as_numbers("y", y)
    X, y = checked_rows(estimator, X, y, reset=learner is None, least=_min_columns(estimator))
    single = y.ndim == 1
    y = y.reshape(len(X), -1)
    dated = are_dates(times)
    times, unread = _read_times(times, len(X), columns)
    if unread is not None and estimator.missing != "skip":
        raise ValueError(f"{unread}; correct it, or {_SKIP}")
    X = columns.inputs(X, times)
    parts = ({} if times is None else {"times": times[:, None]}) | {"X": X, "y": y}
    if estimator.missing == "impute":
        X, y = (np.where(_usable(part), part, np.nan) for part in (X, y))
        if times is not None:
            _check_finite("times", times[:, None], f"give every row its time, or {_SKIP}")
        good = np.ones(len(X), bool)
    else:
        good = np.logical_and.reduce([_usable(part).all(axis=1) for part in parts.values()])
    if estimator.missing == "raise":
        for name, part in parts.items():
            _check_finite(name, part, "correct or remove such rows, or pass missing='impute' or missing='skip'")
    given = len(X)
    rows = np.flatnonzero(good)
    if len(rows) < len(X):
        X, y, times = X[rows], y[rows], None if times is None else times[rows]
    pace, fault = Pace(), None
    if times is not None:
        last = -np.inf if learner is None or learner.last_time is None else learner.last_time
        pace, kept, fault = judge_times(estimator, times, last, rows, learner is None, dated)
        good[rows[~kept]] = False
        X, y, times, rows = X[kept], y[kept], times[kept], rows[kept]
        before = np.concatenate([[last], times])[:-1]
        back = np.flatnonzero(times < before)
        if len(back):
            pair = float(before[back[0]]), float(times[back[0]])
            raise ValueError(
                f"times: expected times that never decrease, got {pair[1]} at row {rows[back[0]]} after {pair[0]}; "
                f"{advise_on_order(*pair, 'sort the rows by time', dated)}"
            )
    return Rows(X, y, times, single, int((~good).sum()), rows, given, columns, pace, unread or fault)


def check_same_targets(rows: Rows, y: Any, outputs: int, single: bool) -> None:
    """Raise ValueError if the targets `y` of `rows` are not of the shape of those before."""
    if rows.single != single or rows.y.shape[1] != outputs:
        expected = "(n,)" if single else f"(n, {outputs})"
        raise ValueError(f"y: expected shape {expected} as before, got {np.shape(y)}")


def check_within(spec: Spec, rows: Rows) -> None:
    """Raise ValueError if a target is not one that the bounds and the scale of a model allow."""
    TargetMap.of(spec.target_transform, spec.bounds).check(rows.y, rows.kept)


def check_inputs(estimator: Any, X: Any, times: Any, learner: StreamLearner) -> tuple[np.ndarray, np.ndarray | None]:
    """Check inputs, and the times of a timed stream, to predict for."""
    X, times = split_times(with_dated_index(estimator, X, times), times)
    X = MissingCodes.of(estimator.missing_values).blank(X)
    _check_timed(times, learner)
    columns: Columns = estimator._columns
    X = columns.numbers(X, learner.categories.levels if learner.is_warmed_up else columns.counts)[0]
    X = checked_inputs(estimator, _as_cells(X), reset=False, least=_min_columns(estimator))
    dated = are_dates(times)
    times, unread = _read_times(times, len(X), columns)
    if unread is not None:
        raise ValueError(f"{unread}; correct it")
    X = columns.inputs(X, times)
    if getattr(estimator, "missing", "raise") == "impute":
        X = np.where(_usable(X), X, np.nan)
    else:
        _check_finite("X", X, "correct or remove such rows, or pass missing='impute'")
    if times is not None:
        _check_finite("times", times[:, None], "give every row its time")
        last = -np.inf if learner.last_time is None else learner.last_time
        if (times < last).any():
            row = int(np.argmax(times < last))
            raise ValueError(
                f"times: expected no time before {last}, that of the last row learnt, got {times[row]} at row {row}; "
                f"{advise_on_order(last, times[row], 'give the rows that come next', dated)}"
            )
    return X, times


def input_names(X: Any, columns: int) -> list[str]:
    """Return what the columns are called: as a frame has them, or else x0, x1, ..."""
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame) and all(isinstance(name, str) for name in frame.columns):
        return frame.columns
    return [f"x{i}" for i in range(columns)]


def feature_names(estimator: Any) -> list[str]:
    """Return what the inputs are called: by the columns of the user's frames, or else x0, x1, ..."""
    return estimator._columns.names(given_names(estimator), estimator._learner.categories)


def column_names(estimator: Any) -> list[str]:
    """Return what the columns of the learner are called: as `feature_names`, but categories and times have one."""
    columns: Columns = estimator._columns
    names, dates = given_names(estimator), ["time"] if columns.dated else []
    return [name for name, kind in zip(names, columns.kinds or names, strict=True) if kind not in LEFT_OUT] + dates


def given_names(estimator: Any) -> list[str]:
    """Return what the columns of the user's rows are called: as their frames have them, or else x0, x1, ..."""
    return list(getattr(estimator, "feature_names_in_", (f"x{i}" for i in range(estimator.n_features_in_))))


def target_names(y: Any, outputs: int) -> list[str]:
    """Return what the targets are called: as the user's frame or series has them, or else y, or y0, y1, ..."""
    given = nw.from_native(y, allow_series=True, pass_through=True)
    found: list[Any] = given.columns if isinstance(given, nw.DataFrame) else [getattr(given, "name", None)]
    if len(found) == outputs and all(isinstance(name, str) and name for name in found):
        return found
    return ["y"] if outputs == 1 else [f"y{e}" for e in range(outputs)]


def _min_columns(estimator: Any) -> int:
    """Return how many columns X must have: none where lags are inputs too."""
    lags = getattr(estimator, "lags", None)
    return int(lags is None or (isinstance(lags, str) and lags == NONE))


class NotFiniteError(ValueError):
    """A number is NaN, infinite or without a square where it must not be."""


def check_one(estimator: Any, x: Any, time: Any) -> tuple[np.ndarray, float]:
    """Check one row of a stream after the warm-up, with as few checks as are needed; its time is NaN without one."""
    learner: StreamLearner = estimator._learner
    x = to_floats("x", x, ("column",))
    if x.shape != (learner.num_inputs,):
        raise ValueError(f"x: expected one row, shape ({learner.num_inputs},), got shape {x.shape}")
    usable = _usable(x)
    if not usable.all():
        if estimator.missing != "impute":
            column = int(np.argmin(usable))
            raise NotFiniteError(
                f"x: expected {_expected(x)}, got {x[column]} at column {column}; correct or skip such rows, or pass "
                f"missing='impute'"
            )
        x = np.where(usable, x, np.nan)
    if time is None and not learner.timed:
        return x, np.nan
    _check_timed(time, learner)
    times = as_times(None if time is None else [time], 1, estimator._columns.time_order)
    assert times is not None
    if not np.isfinite(times[0]):
        raise NotFiniteError(f"time: {cells.say_no_time(time)}")
    if learner.last_time is not None and times[0] < learner.last_time:
        advice = advise_on_order(learner.last_time, times[0], "give the row that comes next", are_dates(time))
        raise ValueError(
            f"time: expected none before {learner.last_time}, that of the last row learnt, got {time}; {advice}"
        )
    return x, float(times[0])


def check_target(y: Any, shape: tuple[int, ...], missing: str) -> np.ndarray:
    """Check the target or targets of one row, shape (E,)."""
    if isinstance(y, float) and not shape and abs(y) <= cells.LARGEST:
        return np.array([y])
    y = to_float("y", y) if not shape and np.ndim(y) == 0 else to_floats("y", y)
    y = np.asarray(y)
    if y.shape != shape:
        raise ValueError(f"y: expected shape {shape}, the target of one row, got shape {y.shape}")
    usable = _usable(y)
    if not usable.all() and missing != "impute":
        raise NotFiniteError(f"y: expected {_expected(y)}, got {y}; correct or skip such rows")
    return np.where(usable, y, np.nan).reshape(-1)


def check_given(given: Any, rows: int, outputs: int) -> np.ndarray:
    """Check the targets that are known before others are predicted, (n, E) with NaN for these."""
    values = to_floats("given", given)
    if outputs == 1:
        raise ValueError("given: expected a model of several targets, but it has one; leave it out")
    if values.shape != (rows, outputs):
        raise ValueError(
            f"given: expected shape ({rows}, {outputs}), the targets of each row of X with NaN for those not known, "
            f"got shape {values.shape}"
        )
    bad = np.argwhere(~_usable(values) & ~np.isnan(values))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"given: expected {_expected(values[[row]])} or NaN, got {values[row, column]} at row {row}, column "
            f"{column}; pass NaN for a target that is not known"
        )
    return values


def _read_times(given: Any, rows: int, columns: Columns) -> tuple[np.ndarray | None, str | None]:
    """Return times as numbers, and what is wrong with the first text that is none."""
    times = as_times(given, rows, columns.time_order)
    said = None if times is None else unreadable(times, given)
    return times, None if said is None else f"times: {said}"


def _as_cells(X: Any) -> Any:
    """Return a table with numbers as its cells, if it is no frame, whose columns are."""
    if isinstance(nw.from_native(X, pass_through=True), nw.DataFrame):
        check_unit("X", X)
        return X
    return as_numbers("X", X)


def _check_timed(times: Any, learner: StreamLearner | None) -> None:
    if learner is not None and learner.timed != (times is not None):
        had, got = ("had", "none came now") if learner.timed else ("had no", "some came now")
        raise ValueError(f"times: the rows before {had} time stamps and {got}; give them always or never (times=)")


def _check_finite(name: str, values: np.ndarray, advice: str) -> None:
    bad = np.argwhere(~_usable(values))
    if len(bad):
        row, column = bad[0]
        got = "NaN" if np.isnan(values[row, column]) else values[row, column]
        place = f"row {row}" if values.shape[1] == 1 else f"row {row}, column {column}"
        raise ValueError(f"{name}: expected {_expected(values)}, got {got} at {place}; {advice}")


def _expected(values: np.ndarray) -> str:
    return f"numbers of at most {cells.LARGEST:g}" if np.isfinite(values).all() else "finite numbers"


def _usable(values: np.ndarray) -> Any:
    """Return False for NaN, too; for one number without an axis, NumPy's bool."""
    return np.abs(values) <= cells.LARGEST
