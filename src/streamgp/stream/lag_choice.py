"""Which lags of the target are worth having, by what the rows of the warm-up tell."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from streamgp.numerics.standardise import Standardiser
from streamgp.stream.lags import LaggedTargets

FIRST_LAGS: tuple[int, ...] = (1,)  # in use until they are chosen
SHORT_LAGS: tuple[tuple[int, ...], ...] = ((), (1,), (1, 2), (1, 2, 3))
SEASONS = (7, 12, 24, 48, 96, 168, 336)
MIN_GAIN = 0.01  # nats a row and target, for which further lags are taken
MIN_ERRORS = 3.0  # and so many standard errors of it
MAX_ROW_GAIN = 5.0  # a row counts for no more, in nats
_BLOCK = 32  # rows that are predicted by the same regression
_PRIOR_ROWS = 1.0  # what the prior of the coefficients, and of the noise, counts for

Lags = tuple[int, ...]


def choose_lags(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"], horizon: int = 0, min_rows: int = 10
) -> tuple[int, ...]:
    """Choose lags by how well regressions on the inputs and them predict the later half of the rows.

    Candidates are none, 1 to 3, and each of these with a season. Each is a Bayesian linear regression (Gelman et al.
    2013, ch. 14) that predicts blocks of rows by those before: the log densities of one step ahead (Dawid 1984), or
    of `horizon` steps. The season that helps most joins the short lags that do best. Lags are taken for a gain
    above `MIN_GAIN` and its own error alone: without one, none.

    Parameters
    ----------
    X, y
        Inputs, without gaps or lags, and targets without outliers, in their order.
    horizon
        How many rows after its inputs a target comes; lag 1 is then the target of the inputs' own row.
    min_rows
        How many rows there must be besides one for each input.

    Returns
    -------
    tuple of int
        In ascending order; not empty where X has no column.
    """
    n, e = y.shape
    chosen: Lags = () if X.shape[1] else FIRST_LAGS
    best = _scores(X, y, chosen, horizon)

    def better(candidates: Iterator[Lags]) -> tuple[Lags, np.ndarray]:
        now, score = chosen, best
        for lags in candidates:
            if n < min_rows + X.shape[1] + e * len(lags):
                continue
            other = _scores(X, y, lags, horizon)
            if _gains(other - best) and other.sum() > score.sum():
                now, score = lags, other
        return now, score

    for lags in SHORT_LAGS:
        if set(lags) > set(chosen):
            chosen, best = better(iter([lags]))
    seasons = (s for s in SEASONS if s not in chosen and 2 * s + horizon <= n // 2)
    chosen, best = better((*chosen, season) for season in seasons)
    return chosen


def _gains(gain: np.ndarray) -> bool:
    """Return whether a gain in nats, row by row, is more than chance and worth a column."""
    gain = np.clip(gain, -MAX_ROW_GAIN, MAX_ROW_GAIN)
    error = gain.std() / np.sqrt(max(len(gain), 1))
    return bool(gain.mean() > max(MIN_GAIN, MIN_ERRORS * error))


def _scores(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"], lags: Lags, horizon: int
) -> Float[np.ndarray, " m"]:
    """Return the log density of the targets of the later half of the rows, a target's share of each row."""
    n, e = y.shape
    inputs = LaggedTargets.empty(lags, e).widen(X, y, y.mean(axis=0), own=horizon > 0)[: n - horizon]
    targets, first = y[horizon:], n // 2 - horizon
    scale = Standardiser.empty(e).update(y[: n // 2])
    inputs = np.asarray(Standardiser.empty(inputs.shape[1]).update(inputs[:first]).transform(inputs))
    rows = np.column_stack([np.ones(len(inputs)), inputs])
    targets = np.asarray(scale.transform(targets))
    width = rows.shape[1]
    gram, cross, squares, count = _PRIOR_ROWS * np.eye(width), np.zeros((width, e)), np.zeros(e), 0
    density = np.empty((len(rows) - first, e))
    for start in range(first, len(rows), _BLOCK):
        known = max(start - horizon, 0)  # of later rows the targets have not come yet
        new = slice(count, known)
        gram += rows[new].T @ rows[new]
        cross += rows[new].T @ targets[new]
        squares += np.sum(targets[new] ** 2, axis=0)
        count = known
        factor = cho_factor(gram)
        coefficients = cho_solve(factor, cross)
        dof = _PRIOR_ROWS + count
        noise = (_PRIOR_ROWS + squares - np.sum(cross * coefficients, axis=0)) / dof
        block = rows[start : start + _BLOCK]
        leverage = 1.0 + np.sum(block.T * cho_solve(factor, block.T), axis=0)
        var = leverage[:, None] * np.maximum(noise, np.finfo(float).tiny)
        error = targets[start : start + _BLOCK] - block @ coefficients
        density[start - first : start - first + len(block)] = -0.5 * (np.log(2 * np.pi * var) + error**2 / var)
    return density.mean(axis=1)
