"""Which lags of the target are worth having, by what the rows of the warm-up tell."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from streamgp.models.options import MIN_WARMUP
from streamgp.numerics.standardise import Standardiser
from streamgp.stream.clock import is_dated, is_steady, rows_by_cycle
from streamgp.stream.lags import LaggedTargets
from streamgp.stream.passed_rows import PassedRows

FIRST_LAGS: tuple[int, ...] = (1,)  # in use until they are chosen
LONGER_LAGS: tuple[tuple[int, ...], ...] = ((1, 2), (1, 2, 3))  # beside them
SEASONS = (7, 12, 24, 48, 96, 168, 336)  # where no clock says how many rows there are in a day or a week
MIN_GAIN = 0.01  # nats a row and target, for which lags are taken
MIN_ERRORS = 3.0  # and so many standard errors of it, for lag 1 and a season: few streams have either by nature
CLOCK_ERRORS = 2.0  # for a season that the clock has: of these there are few, and many streams have one
MAX_ROW_GAIN = 5.0  # a row counts for no more, in nats
_BLOCK = 32  # rows that are predicted by the same regression
_PRIOR_ROWS = 1.0  # what the prior of the coefficients, and of the noise, counts for

ALL_LEARNT = PassedRows.none()

Lags = tuple[int, ...]


def choose_lags(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n e"],
    horizon: int = 0,
    delay: int = 0,
    times: Float[np.ndarray, " m"] | None = None,
    passed: PassedRows = ALL_LEARNT,
) -> tuple[int, ...]:
    """Choose lags by how well regressions on the inputs and them predict the later half of the rows.

    Candidates are none, 1 to 3, and each of these with a season. Each is a Bayesian linear regression (Gelman et al.
    2013, ch. 14) that predicts blocks of rows by those before: the log densities of one step ahead (Dawid 1984), or
    of `horizon` steps. The season that helps most joins the short lags that do best; of those that the clock has,
    another one may follow. All are taken for a gain above `MIN_GAIN` alone, lag 1 and the seasons if it is also well
    beyond its own error. Where a lag is compared with none, neither learns the first rows, which lack it.

    Parameters
    ----------
    X, y
        Inputs, without gaps or lags, and targets without outliers, in their order.
    horizon
        How many rows after its inputs a target comes; lag 1 is then the target of the inputs' own row.
    delay
        How many rows late a target is known: the short lags are 1 to 3 more, a season is as many of its periods as
        it takes.
    times
        Of all rows, those passed over among them. Where they are of a calendar, the seasons are the rows of an hour,
        a day, a week or a year, see `streamgp.stream.clock`; where they keep no step there is none.
    passed
        Rows without a target among these.

    Returns
    -------
    tuple of int
        In ascending order; not empty where X has no column.
    """
    n, e = y.shape

    def better(lags: Lags, candidates: Iterable[Lags], min_errors: float) -> Lags:
        found, most = lags, 0.0
        for each in candidates:
            if n >= MIN_WARMUP + X.shape[1] + e * len(each):
                since = max(each)  # rows that lack a lag would speak for one that does without
                with_it, without = (scores(X, y, lags, horizon, delay, since, passed) for lags in (each, lags))
                gain = with_it - without
                if gains(gain, min_errors) and gain.mean() > most:
                    found, most = each, float(gain.mean())
        return found

    first, *more = (tuple(lag + delay for lag in each) for each in (FIRST_LAGS, *LONGER_LAGS))
    lags: Lags = () if X.shape[1] else first
    if not lags and 2 * delay <= n // 2:
        lags = better(lags, [first], MIN_ERRORS)
    for longer in more if lags else ():
        lags = better(lags, [longer], 0.0)
    by_clock, seasons = False, SEASONS
    if times is not None:
        by_clock = is_dated(times)
        seasons = rows_by_cycle(times) if by_clock else SEASONS if is_steady(times) else ()
    each = dict.fromkeys(season * (delay // season + 1) for season in seasons)
    # One that the clock has needs fewer rows to show.
    each = [lag for lag in each if (lag + _BLOCK if by_clock else 2 * lag) + horizon <= n // 2]
    errors = CLOCK_ERRORS if by_clock else MIN_ERRORS
    for _ in each if by_clock else each[:1]:
        before = lags
        lags = better(lags, (tuple(sorted({*lags, lag})) for lag in each if lag not in lags), errors)
        if lags == before:
            break
    return lags


def gains(gain: np.ndarray, min_errors: float) -> bool:
    """Return whether a gain in nats, row by row, is worth a column, and more than chance."""
    gain = np.clip(gain, -MAX_ROW_GAIN, MAX_ROW_GAIN)
    error = gain.std() / np.sqrt(max(len(gain), 1))
    return bool(gain.mean() > max(MIN_GAIN, min_errors * error))


def scores(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n e"],
    lags: Lags,
    horizon: int,
    delay: int = 0,
    since: int = 0,
    passed: PassedRows = ALL_LEARNT,
) -> Float[np.ndarray, " m"]:
    """Return the log density of the targets of the later half of the rows, a target's share of each row.

    What is learnt is rows from the one with number `since` on. A quarter of all rows is before the first is scored,
    where that is later.
    """
    n, e = y.shape
    past = replace(LaggedTargets.empty(lags, e), fill=y.mean(axis=0))
    widened = past.widen_among(X, y, passed, own=horizon > 0)
    inputs = widened[: n - horizon]
    targets, first = y[horizon:], max(n // 2, since + n // 4) - horizon
    scale = Standardiser.empty(e).update(y[: n // 2])
    inputs = np.asarray(Standardiser.empty(inputs.shape[1]).update(inputs[since:first]).transform(inputs))
    rows = np.column_stack([np.ones(len(inputs)), inputs])
    targets = np.asarray(scale.transform(targets))
    width = rows.shape[1]
    gram, cross, squares, count = _PRIOR_ROWS * np.eye(width), np.zeros((width, e)), np.zeros(e), since
    density = np.empty((len(rows) - first, e))
    for start in range(first, len(rows), _BLOCK):
        known = max(start - horizon - delay, 0)  # of later rows the targets have not come yet
        new = slice(count, known)
        gram += rows[new].T @ rows[new]
        cross += rows[new].T @ targets[new]
        squares += np.sum(targets[new] ** 2, axis=0)
        count = known
        factor = cho_factor(gram)
        coefficients = cho_solve(factor, cross)
        dof = _PRIOR_ROWS + count - since
        noise = (_PRIOR_ROWS + squares - np.sum(cross * coefficients, axis=0)) / dof
        block = rows[start : start + _BLOCK]
        leverage = 1.0 + np.sum(block.T * cho_solve(factor, block.T), axis=0)
        var = leverage[:, None] * np.maximum(noise, np.finfo(float).tiny)
        error = targets[start : start + _BLOCK] - block @ coefficients
        density[start - first : start - first + len(block)] = -0.5 * (np.log(2 * np.pi * var) + error**2 / var)
    return density.mean(axis=1)
