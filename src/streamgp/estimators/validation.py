"""Rows as users pass them, checked and turned into arrays; every error says what was given, where, and what to do."""

from dataclasses import replace
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import validate_data

from streamgp.core import TargetMap
from streamgp.data import cells
from streamgp.estimators.columns import Columns
from streamgp.estimators.time_column import split_times
from streamgp.models.options import CALENDAR, MISSING_VALUES
from streamgp.models.spec import Spec
from streamgp.models.target_options import NONE
from streamgp.stream.learner import StreamLearner
from streamgp.table.clock import Jump, Pace, judge, judge_one, say_jump
from streamgp.table.containers import check_unit, unmasked


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
        raise NotFittedError(
            f"This {type(estimator).__name__} has not seen any row yet: call partial_fit or fit before this."
        )


def seed_of(random_state: Any) -> int:
    """Return the seed that scikit-learn's `random_state` stands for."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
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
    X, times = split_times(unmasked(X), unmasked(times))
    y = unmasked(y)
    check_unit("y", y)
    _check_timed(times, learner)
    if learner is None:
        columns = Columns.of_first(X, times, () if estimator.calendar is None else CALENDAR.check(estimator.calendar))
    else:
        columns = estimator._columns
    X, columns = columns.numbers(X, learner.levels if learner is not None and learner.is_warmed_up else None)
    check_unit("X", X)
    as_it_is = {"dtype": np.float64, "ensure_all_finite": False}
    separately: Any = ({**as_it_is, "ensure_min_features": _min_columns(estimator)}, {**as_it_is, "ensure_2d": False})
    X, y = validate_data(estimator, X, y, reset=learner is None, validate_separately=separately)
    check_consistent_length(X, y)
    single = y.ndim == 1
    y = y.reshape(len(X), -1)
    dated, times = _are_dates(times), as_times(times, len(X))
    X = columns.inputs(X, times)
    parts = {"X": X, "y": y} | ({} if times is None else {"times": times[:, None]})
    if estimator.missing == "impute":
        X, y = (np.where(_usable(part), part, np.nan) for part in (X, y))
        if times is not None:
            _check_finite("times", times[:, None], "give every row its time, or skip such rows with missing='skip'")
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
        pace, kept, fault = _judge_times(estimator, times, last, rows, learner is None, dated)
        good[rows[~kept]] = False
        X, y, times, rows = X[kept], y[kept], times[kept], rows[kept]
        before = np.concatenate([[last], times])[:-1]
        back = np.flatnonzero(times < before)
        if len(back):
            raise ValueError(
                f"times: expected times that never decrease, got {times[back[0]]} at row {rows[back[0]]} after "
                f"{before[back[0]]}; sort the rows by time"
            )
    return Rows(X, y, times, single, int((~good).sum()), rows, given, columns, pace, fault)


def _judge_times(
    estimator: Any, times: np.ndarray, last: float, rows: np.ndarray, begins: bool, dated: bool
) -> tuple[Pace, np.ndarray, str | None]:
    """Return how far apart rows are, which to keep, not those whose time is in doubt, and what is wrong with these.

    A time that is refused is remembered, so that the row after it may speak for it.
    """
    skip, pace = estimator.missing == "skip", Pace() if begins else estimator._pace
    verdict = judge(times, last, pace, dated=dated, together=not skip)
    jump = verdict.first
    if jump is not None and not skip:
        estimator._pace = replace(pace, doubted=verdict.pace.doubted)
        raise ValueError(f"times: row {rows[jump.row]}: {_refusal(jump, dated)}")
    fault = None if jump is None else f"row {rows[jump.row]}, times: {say_jump(jump, dated)}"
    return verdict.pace, ~verdict.doubtful, fault


def _refusal(jump: Jump, dated: bool) -> str:
    return f"{say_jump(jump, dated)}; correct the row, or leave such rows out (missing='skip')"


def follow_time(estimator: Any, time: Any, at: float) -> None:
    """Judge the time of one row that is learnt next, by itself and as `at`, a number.

    Raises
    ------
    JumpError
        If it is in doubt.
    """
    last = estimator._learner.last_time
    dated = _are_dates([time])
    verdict = judge_one(at, -np.inf if last is None else last, estimator._pace, dated=dated)
    estimator._pace = verdict.pace
    if verdict.first is not None:
        raise JumpError(f"time: {_refusal(verdict.first, dated)}")


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
    X, times = split_times(unmasked(X), unmasked(times))
    _check_timed(times, learner)
    columns: Columns = estimator._columns
    X = columns.numbers(X, learner.levels if learner.is_warmed_up else columns.counts)[0]
    check_unit("X", X)
    X = validate_data(
        estimator,
        X,
        reset=False,
        dtype=np.float64,
        ensure_all_finite=False,
        ensure_min_features=_min_columns(estimator),
    )
    times = as_times(times, len(X))
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
                f"times: expected no time before {last}, that of the last row learnt, got {times[row]} at row {row}"
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
    return estimator._columns.names(given_names(estimator), estimator._learner.levels)


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


class JumpError(ValueError):
    """A time is far from that of the row before."""


def check_one(x: Any, time: Any, learner: StreamLearner, missing: str) -> tuple[np.ndarray, float]:
    """Check one row of a stream after the warm-up, with as few checks as are needed; its time is NaN without one."""
    x = np.asarray(x, dtype=np.float64)
    if x.shape != (learner.num_inputs,):
        raise ValueError(f"x: expected one row, shape ({learner.num_inputs},), got shape {x.shape}")
    usable = _usable(x)
    if not usable.all():
        if missing != "impute":
            column = int(np.argmin(usable))
            raise NotFiniteError(
                f"x: expected {_expected(x)}, got {x[column]} at column {column}; correct or skip such rows, or pass "
                f"missing='impute'"
            )
        x = np.where(usable, x, np.nan)
    if time is None and not learner.timed:
        return x, np.nan
    _check_timed(time, learner)
    times = as_times(None if time is None else np.asarray([time]), 1)
    assert times is not None
    if not np.isfinite(times[0]):
        raise NotFiniteError(f"time: expected a finite number or a date, got {time}")
    if learner.last_time is not None and times[0] < learner.last_time:
        raise ValueError(f"time: expected none before {learner.last_time}, that of the last row learnt, got {time}")
    return x, float(times[0])


def check_target(y: Any, shape: tuple[int, ...], missing: str) -> np.ndarray:
    """Check the target or targets of one row, shape (E,)."""
    y = np.asarray(unmasked(y), dtype=np.float64)
    if y.shape != shape:
        raise ValueError(f"y: expected shape {shape}, the target of one row, got shape {y.shape}")
    usable = _usable(y)
    if not usable.all() and missing != "impute":
        raise NotFiniteError(f"y: expected {_expected(y)}, got {y}; correct or skip such rows")
    return np.where(usable, y, np.nan).reshape(-1)


def check_given(given: Any, rows: int, outputs: int) -> np.ndarray:
    """Check the targets that are known before others are predicted, (n, E) with NaN for these."""
    values = np.asarray(unmasked(given), dtype=np.float64)
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


def _check_timed(times: Any, learner: StreamLearner | None) -> None:
    if learner is not None and learner.timed != (times is not None):
        had, got = ("had", "none came now") if learner.timed else ("had no", "some came now")
        raise ValueError(f"times: the rows before {had} time stamps and {got}; give them always or never (times=)")


def as_times(times: Any, rows: int) -> np.ndarray | None:
    """Return numbers as they are, dates as seconds since 1970, and NaN where there is no telling."""
    if times is None:
        return None
    given = np.asarray(times)
    if given.shape != (rows,):
        raise ValueError(f"times: expected {rows} of them, one per row, got shape {given.shape}")
    if given.dtype.kind in "mM":
        nanoseconds = given.astype(f"{given.dtype.kind}8[ns]").astype(np.int64)
        return np.where(np.isnat(given), np.nan, nanoseconds / 1e9)
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError):
        return cells.to_seconds(given.tolist())


def _are_dates(times: Any) -> bool:
    """Return whether time stamps are dates, of any type, rather than numbers."""
    if times is None:
        return False
    given = np.asarray(times)
    if given.dtype.kind in "mfiub" or not given.size:
        return False
    try:
        float(given.flat[0])
    except (TypeError, ValueError):
        return True
    return given.dtype.kind == "M"


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
