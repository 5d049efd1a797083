"""Outlying rewards, which count the less the further they are from their prediction.

A reward further than `LIMIT` standard deviations from its prediction enters with its noise raised, so that its pull
falls with its distance (a weighted observation likelihood: Duran-Martin et al. 2024). It counts in full after all
when it is the last of `STREAK` such rewards in a row, which is a change; when the last reward of the same point
agreed; or when two of the three nearest did, so that neither a narrow peak nor a cliff is lost. Where predictions are
usually off by more than they say, the limit is as much further out.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.lib.stride_tricks import sliding_window_view

from streamgp.bandits.history import History
from streamgp.numerics.linalg import cholesky, solve_lower

LIMIT, STREAK, MIN_ROWS = 5.0, 5, 5
# The usual error of predictions is the median over so many rewards.
_RECENT = 20
# So many first rewards are predicted by the prior, around their median.
_START = 10
# The median of |z| for a normal z.
_NORMAL = 0.6745
# Points that differ by less in every unit coordinate are the same.
_SAME_POINT = 1e-3
# A reward agrees with another within this share of the distance from the prediction.
_AGREES = 0.5

Predict = Callable[[Float[np.ndarray, " n"]], tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]]


def compute_limits(z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return how far, in standard deviations, each may be out, by those before it."""
    if not len(z):
        return z
    before = np.concatenate([np.full(_RECENT, _NORMAL), np.abs(z[:-1])])
    return LIMIT * np.maximum(np.median(sliding_window_view(before, _RECENT), axis=1) / _NORMAL, 1.0)


def mark_outliers(history: History, rows: Int[np.ndarray, " m"], predict: Predict) -> History:
    """Screen those of these rows, in order, that were not screened yet, and mark the outliers.

    Parameters
    ----------
    history
        The observations; it is not changed.
    rows
        Numbers of the observations in use, the unscreened ones among them last.
    predict
        A function from the noise to add to each to the errors of their one-step-ahead predictions, and the variances
        of these. What is added to a row changes nothing before it.
    """
    history = history.with_writable_marks()
    z_scores, outlying, added_noise = history.z_scores, history.outlying, history.added_noise
    begin = int(np.isfinite(z_scores[rows]).sum())
    while begin < len(rows):
        errors, variances = predict(added_noise[rows])
        z = np.where(np.isfinite(z_scores[rows]), z_scores[rows], errors / np.sqrt(variances))
        out = np.square(z / compute_limits(z))
        far = begin + np.flatnonzero(out[begin:] > 1.0)
        end = int(far[0]) + 1 if len(far) else len(rows)
        z_scores[rows[begin:end]] = z[begin:end]
        if len(far):
            last = int(rows[end - 1])
            outlying[last] = True
            added_noise[last] = variances[end - 1] * (out[end - 1] - 1.0)
            added_noise[_find_confirmed(history, last, float(errors[end - 1]))] = 0.0
        begin = end
    return history


def _find_confirmed(history: History, i: int, error: float) -> Int[np.ndarray, " k"]:
    """Return the observations that count in full now that i agrees with them; none if it stands alone."""
    ordinary = np.flatnonzero(~history.outlying[: i + 1])
    first = int(ordinary[-1]) + 1 if len(ordinary) else 0
    if i - first + 1 >= STREAK:
        return np.arange(first, i + 1)
    apart = np.abs(history.U[:i] - history.U[i]).max(axis=1)
    agrees = history.outlying[:i] & (np.sign(history.z_scores[:i]) == np.sign(error))
    agrees &= np.abs(history.y[:i] - history.y[i]) < _AGREES * abs(error)
    here = np.flatnonzero(apart < _SAME_POINT)[-1:]
    nearest = np.argsort(apart[::-1], kind="stable")[:3]
    for others, required in ((here, 1), (i - 1 - nearest, 2)):
        agreeing = others[agrees[others]]
        if len(agreeing) >= required:
            return np.append(agreeing, i)
    return np.zeros(0, int)


def predict_one_step_ahead(
    K: Float[np.ndarray, "n n"], noise_vars: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], mean: float | None
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return errors and variances of the prediction of each observation by those before it; the first by the prior.

    The Cholesky factor L of K + S, in the order of arrival, holds them all: L^-1 (y - m) are these errors in standard
    deviations, and the diagonal of L has the deviations. A mean that is not given is estimated by those before.
    """
    L = cholesky(K + np.diag(noise_vars))
    pivots = np.diagonal(L)
    centre = float(np.median(y[:_START])) if mean is None else mean
    white, ones = solve_lower(L, np.stack([y - centre, np.ones(len(y))], axis=1)).T
    errors, variances = white * pivots, np.square(pivots)
    if mean is None:
        known = np.concatenate([[np.inf], np.cumsum(np.square(ones))[:-1]])
        level = np.concatenate([[0.0], np.cumsum(ones * white)[:-1]]) / known
        errors, variances = (white - level * ones) * pivots, variances * (1.0 + np.square(ones) / known)
    start = slice(0, _START)
    errors[start], variances[start] = y[start] - centre, np.diagonal(K)[start] + noise_vars[start]
    return errors, variances


def clip_outliers(y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Clip rewards at ten robust standard deviations from their median."""
    if len(y) < 3:
        return y
    centre = np.median(y)
    width = 10.0 / _NORMAL * np.median(np.abs(y - centre))
    # The width is zero where half of the values are equal.
    return np.clip(y, centre - width, centre + width) if width > 0.0 else y


def find_retry(history: History, new: Bool[np.ndarray, " n"]) -> Float[np.ndarray, " d"] | None:
    """Return the point of the greatest of the new rewards that are too good to count in full; None if none is."""
    flagged = np.flatnonzero(new & ~history.answer & (history.added_noise > 0.0) & (history.z_scores > 0.0))
    return history.U[flagged[np.argmax(history.y[flagged])]] if len(flagged) else None
