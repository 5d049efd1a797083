"""Which rewards are believed: one far from all that was expected is heard the less the further it is out.

A reward further than `FAR` standard deviations from its prediction enters with its noise raised, so that its pull
falls with its distance (a weighted observation likelihood: Duran-Martin et al. 2024). It is believed after all when
it is the last of `STREAK` such rewards in a row, which is a change; when the last reward of the very place said the
same; or when two of the three nearest did, so that neither a narrow peak nor a cliff is lost. Where predictions are
usually off by more than they say, the limit is as much further out.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.lib.stride_tricks import sliding_window_view

from streamgp.bandits.history import History
from streamgp.numerics.linalg import cholesky, solve_lower

FAR, STREAK, FEWEST = 5.0, 5, 5
_RECENT = 20  # rewards by which it is known how far predictions usually are off
_START = 10  # rewards judged by the prior, about their median: too little is known to predict them
_NORMAL = 0.6745  # median of |z|
_SAME_PLACE = 1e-3  # in every unit coordinate
_AGREES = 0.5  # of the distance from the prediction

Predict = Callable[[Float[np.ndarray, " n"]], tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]]


def limits(z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """How far, in standard deviations, each may be out, by those before it."""
    if not len(z):
        return z
    before = np.concatenate([np.full(_RECENT, _NORMAL), np.abs(z[:-1])])
    return FAR * np.maximum(np.median(sliding_window_view(before, _RECENT), axis=1) / _NORMAL, 1.0)


def judge(history: History, rows: Int[np.ndarray, " m"], predict: Predict) -> History:
    """Mark those of these rows, in order, that were not judged yet.

    Parameters
    ----------
    rows
        Numbers of the observations in use, the unjudged ones among them last.
    predict
        Errors of their one-step-ahead predictions, and the variances of these, by what is to be added to the
        variance of their noise. What is added to a row changes nothing before it.
    """
    history = history.copied()
    surprise, beyond, doubt = history.surprise, history.beyond, history.doubt
    begin = int(np.isfinite(surprise[rows]).sum())
    while begin < len(rows):
        errors, variances = predict(doubt[rows])
        z = np.where(np.isfinite(surprise[rows]), surprise[rows], errors / np.sqrt(variances))
        out = np.square(z / limits(z))
        far = begin + np.flatnonzero(out[begin:] > 1.0)
        end = int(far[0]) + 1 if len(far) else len(rows)
        surprise[rows[begin:end]] = z[begin:end]
        if len(far):
            last = int(rows[end - 1])
            beyond[last] = True
            doubt[last] = variances[end - 1] * (out[end - 1] - 1.0)
            doubt[_confirmed(history, last, float(errors[end - 1]))] = 0.0
        begin = end
    return history


def _confirmed(history: History, i: int, error: float) -> Int[np.ndarray, " k"]:
    """The observations that are to be believed now that i is as far out as they were; none if it stands alone."""
    ordinary = np.flatnonzero(~history.beyond[: i + 1])
    first = int(ordinary[-1]) + 1 if len(ordinary) else 0
    if i - first + 1 >= STREAK:
        return np.arange(first, i + 1)
    apart = np.abs(history.U[:i] - history.U[i]).max(axis=1)
    agrees = history.beyond[:i] & (np.sign(history.surprise[:i]) == np.sign(error))
    agrees &= np.abs(history.y[:i] - history.y[i]) < _AGREES * abs(error)
    here = np.flatnonzero(apart < _SAME_PLACE)[-1:]
    nearest = np.argsort(apart[::-1], kind="stable")[:3]
    for witnesses, enough in ((here, 1), (i - 1 - nearest, 2)):
        believed = witnesses[agrees[witnesses]]
        if len(believed) >= enough:
            return np.append(believed, i)
    return np.zeros(0, int)


def one_step_ahead(
    K: Float[np.ndarray, "n n"], noise_vars: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], mean: float | None
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Errors and variances of the prediction of each observation by those before it; the first by the prior.

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


def drawn_in(y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Rewards, those beyond ten robust standard deviations from the median moved there."""
    if len(y) < 3:
        return y
    centre = np.median(y)
    width = 10.0 / _NORMAL * np.median(np.abs(y - centre))
    return np.clip(y, centre - width, centre + width) if width > 0.0 else y  # half of them may be equal


def to_try_again(history: History, new: Bool[np.ndarray, " n"]) -> Float[np.ndarray, " d"] | None:
    """Where the greatest of the new rewards that are too good to be believed came from."""
    doubted = np.flatnonzero(new & ~history.answer & (history.doubt > 0.0) & (history.surprise > 0.0))
    return history.U[doubted[np.argmax(history.y[doubted])]] if len(doubted) else None
