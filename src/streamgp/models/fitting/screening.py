"""Glitches among the warm-up's targets, found before anything is fitted to them.

A target is a glitch where it lies far from what all the other rows say of it (a ridge regression, leave-one-out), and
far as well from where its neighbours in time lie on either side: a shift of the level, or a stretch of rows that
belong together, is none.
"""

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from streamgp.numerics.ranks import average_ranks

# Robust standard deviations of the errors, and one of the target: nearer to its prediction nothing is touched.
REACH = 8.0
# Below so many rows no regression is fitted.
FEW_ROWS = 64
# The reach around the median, where no regression is fitted.
_FEW_REACH = 10.0
_FREQUENCIES = 100
_PENALTIES = (1e-1, 1e1, 1e3)
_ROUNDS = 5
_SIDE = 5  # neighbours on each side
_NORMAL = 1.4826  # standard deviation of a normal distribution over its median absolute deviation


def screen(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"], seed: int
) -> tuple[Float[np.ndarray, "n e"], Bool[np.ndarray, "n e"]]:
    """Return targets with glitches moved to within what is plausible, and which ones were moved.

    Parameters
    ----------
    X, y
        Rows in the order of time.
    seed
        Of the frequencies of the regression.
    """
    if len(y) < FEW_ROWS:
        middle = np.median(y, axis=0)
        drawn = np.stack(
            [_drawn_in(c, m, _FEW_REACH * _robust_std(c - m)) for c, m in zip(y.T, middle, strict=True)], 1
        )
        return drawn, drawn != y
    smoother = _Smoother(_features(X, seed))
    drawn = np.stack([_screen_one(smoother, column) for column in y.T], axis=1)
    return drawn, drawn != y


def _screen_one(smoother: "_Smoother", y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    middle = float(np.median(y))
    overall = _robust_std(y - middle)
    drawn = _drawn_in(y, middle, _FEW_REACH * overall)
    # The targets are one value and rare others, and the rare ones are no glitches.
    if np.median(np.abs(y - middle)) == 0.0:
        return drawn
    aside = np.min([np.abs(y - level) for level in _neighbours(y)], axis=0)
    for _ in range(_ROUNDS):
        predicted = expected = smoother.without_own(drawn)
        rest = drawn - predicted
        before, after = _neighbours(rest)
        between = 0.5 * (before + after)
        # The residuals are correlated from row to row.
        if _robust_std(rest - between) < _robust_std(rest):
            expected = expected + between
        std = _robust_std(drawn - expected)
        reach = max(REACH * std, overall)
        error = y - predicted
        # Where the inputs are odd the prediction may be, while the target is what it has been all the time.
        alone = (np.minimum(np.abs(error - before), np.abs(error - after)) > reach) & (aside > std)
        # The further out, the nearer to what was expected: many at the edge would set the scale.
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = np.minimum(1.0, reach / np.abs(y - expected))
        drawn = np.where(alone, expected + kept * _drawn_in(y - expected, 0.0, reach), y)
    return drawn


def _drawn_in(y: np.ndarray, middle: np.ndarray | float, reach: float) -> np.ndarray:
    """Return values at most `reach` from `middle`; none is moved where there is no reach."""
    return np.clip(y, middle - reach, middle + reach) if reach > 0.0 else y.copy()


def _robust_std(error: Float[np.ndarray, " n"]) -> float:
    """Return the robust standard deviation; where most errors are zero, of the others: rare pulses may be all."""
    size = np.abs(error)
    middle = float(np.median(size))
    if middle == 0.0 and size.any():
        middle = float(np.median(size[size > 0.0]))
    return _NORMAL * middle


def _neighbours(rest: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    """Return, of each row, the median of the rows just before and of those after; at an end, of the other side."""
    n = len(rest)
    padded = np.concatenate([np.full(_SIDE, np.nan), rest, np.full(_SIDE, np.nan)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, _SIDE)
    before, after = windows[:n].copy(), windows[_SIDE + 1 :].copy()
    before[0], after[-1] = after[0], before[-1]
    return np.nanmedian(before, axis=1), np.nanmedian(after, axis=1)


def _features(X: Float[np.ndarray, "n d"], seed: int) -> Float[np.ndarray, "n f"]:
    """Return normal scores of the inputs' ranks, which no glitch of theirs can stretch, and waves of them."""
    n, d = X.shape
    scores = ndtri((np.stack([average_ranks(column) for column in X.T], axis=1) - 0.5) / n) if d else np.zeros((n, 0))
    scores = scores[:, np.ptp(scores, axis=0) > 0.0]
    waves = np.random.default_rng(seed).normal(size=(scores.shape[1], _FREQUENCIES)) / max(scores.shape[1], 1) ** 0.5
    angles = scores @ waves
    return np.concatenate([np.ones((n, 1)), scores, np.cos(angles), np.sin(angles)], axis=1)


class _Smoother:
    """Ridge regression on fixed features, each row predicted without its own target."""

    def __init__(self, features: Float[np.ndarray, "n f"]) -> None:
        values, vectors = np.linalg.eigh(features.T @ features)
        kept = values > 1e-10 * values[-1]
        # The columns of this basis are orthonormal.
        self._basis = features @ vectors[:, kept] / np.sqrt(values[kept])
        self._shrunk = [values[kept] / (values[kept] + penalty) for penalty in _PENALTIES]
        self._own = [np.square(self._basis) @ shrunk for shrunk in self._shrunk]

    def without_own(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Predict under the penalty whose errors are the smallest in the median."""
        middle = np.median(y)
        inner = self._basis.T @ (y - middle)
        errors = [
            (y - middle - self._basis @ (shrunk * inner)) / np.maximum(1.0 - own, 1e-3)
            for shrunk, own in zip(self._shrunk, self._own, strict=True)
        ]
        return y - min(errors, key=_robust_std)
