"""Level, trend and season of a series, and what they say of the rows to come.

A linear-Gaussian state-space model (Harvey 1989, ch. 2; Durbin and Koopman 2012, ch. 3). A target is the sum of a
level and the harmonics of a season, whose weights walk, of a deviation, and of noise. The deviation fades, or goes on
along a slope that fades (the damped trend of Gardner and McKenzie 1985). The two weights of a harmonic walk equally
fast, so this is the season in trigonometric form, whose state rotates by an angle each row.

All is exact, and a block of rows costs a few products of matrices, as in `streamgp.filters.kalman`.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.numerics.linalg import cholesky, solve_lower, symmetrise

HARMONICS = 8  # of the shortest season
LONG_HARMONICS = 3  # of the longest
MIXED = 4, 2  # harmonics of the shortest and of the longest, of which there are products: weekdays differ in shape
MIXED_SHARE = 0.7  # of the standard deviation that the prior of a product would have by its orders
# In units of the variance that a deviation gains in a row: no forecast depends on the unit.
PRIOR_VAR = 30.0  # of the weight of a level, and of a first harmonic
NOISE_VAR = 0.05
BLOCK = 32  # rows


class Component(NamedTuple):
    """What is left beside level and season, and how fast these walk.

    Attributes
    ----------
    transition
        Of a deviation and its slope, from a row to the next.
    gained
        The variances that both gain in a row.
    walk
        Variance that a weight gains in a row, over its prior one.
    """

    transition: tuple[tuple[float, float], tuple[float, float]]
    gained: tuple[float, float]
    walk: float


def returning(share: float, walk: float) -> Component:
    """Return a deviation of which this share is left a row later."""
    return Component(((share, 0.0), (0.0, 1.0)), (1.0, 0.0), walk)


def damped_trend(share: float, walk: float) -> Component:
    """Return a deviation that stays, with a slope of which this share is left a row later."""
    return Component(((1.0, share), (0.0, share)), (0.1, 0.3), walk)


# Chosen on four streams, run once on three others: see docs/research/ahead.md.
COMPONENTS = returning(0.9, 1e-5), damped_trend(0.95, 1e-4)


def waves(rows: int, seasons: Sequence[int]) -> Float[np.ndarray, "n f"]:
    """Return a constant and the harmonics of the seasons, each times the standard deviation of its weight.

    Of several seasons, given by their numbers of rows, those are the shortest and the longest, and products of both.
    """
    ends = sorted({min(seasons), max(seasons)}) if seasons else []
    turns = [np.exp(2j * np.pi * np.arange(rows) / season) for season in ends]
    most = [min(most, (season - 1) // 2) for season, most in zip(ends, (HARMONICS, LONG_HARMONICS), strict=False)]
    found = [turn**k / k for turn, orders in zip(turns, most, strict=True) for k in range(1, orders + 1)]
    if len(turns) == 2:
        for k, j in product(range(1, min(MIXED[0], most[0]) + 1), range(1, MIXED[1] + 1)):
            found += [MIXED_SHARE / (k * j) * turns[0] ** k * turns[1] ** way for way in (j, -j)]
    return np.sqrt(PRIOR_VAR) * np.stack([np.ones(rows), *(part for z in found for part in (z.real, z.imag))], axis=1)


def forecasts(
    y: Float[np.ndarray, " n"], Phi: Float[np.ndarray, "m f"], component: Component
) -> Float[np.ndarray, "k h"]:
    """Return what was expected of the next h rows before each row, and after the last one.

    Parameters
    ----------
    y
        The targets so far.
    Phi
        The `waves` of their rows and of h more.
    component
        What is beside them.

    Returns
    -------
    ndarray, shape (n + 1, h)
        In row i what the targets before it say of it and of those after it. Before the first one that is its own
        level, which is where the series is taken to begin.
    """
    n, steps = len(y), len(Phi) - len(y)
    first = y[0] if n else 0.0
    states = _filtered(y - first, Phi[:n], component)
    T, row = np.array(component.transition), np.array([1.0, 0.0])
    found = np.empty((n + 1, steps))
    for h in range(steps):
        row = row @ T
        found[:, h] = np.einsum("nf,nf->n", Phi[h : h + n + 1], states[:, 2:]) + states[:, :2] @ row
    return first + found


def _filtered(
    z: Float[np.ndarray, " n"], Phi: Float[np.ndarray, "n f"], component: Component
) -> Float[np.ndarray, "k s"]:
    """Return the mean of deviation, slope and weights before each row and after the last, given the targets before.

    A block's targets are jointly normal. Their factor gives what each says of the state at the block's end once those
    before it are known; a sum of so many of these, taken back to a row of the block, is its mean there.
    """
    n, f = Phi.shape
    T, Q = np.array(component.transition), np.diag(component.gained)
    ahead = np.stack([np.linalg.matrix_power(T, k) for k in range(BLOCK + 1)])
    back = np.linalg.inv(ahead)
    own, since = _own_covariance(ahead, Q), np.minimum.outer(np.arange(BLOCK), np.arange(BLOCK)) + 1.0
    mean, cov = np.zeros(2 + f), np.eye(2 + f)
    cov[:2, :2] = Q
    found = np.zeros((n + 1, 2 + f))
    for start in range(0, n, BLOCK):
        rows = Phi[start : start + BLOCK]
        b = len(rows)
        H = np.concatenate([ahead[1 : b + 1, 0], rows], axis=1)
        off = z[start : start + b] - H @ mean
        cross = cov @ H.T
        K = H @ cross + own[:b, :b, 0, 0] + component.walk * since[:b, :b] * (rows @ rows.T) + NOISE_VAR * np.eye(b)
        # From here on of the state at the block's end.
        mean[:2], cross[:2], cov[:2] = ahead[b] @ mean[:2], ahead[b] @ cross[:2], ahead[b] @ cov[:2]
        cov[:, :2] = cov[:, :2] @ ahead[b].T
        cross[:2] += own[b - 1, :b, :, 0].T
        cross[2:] += component.walk * since[b - 1, :b] * rows.T
        cov[:2, :2] += own[b - 1, b - 1]
        cov[2:, 2:] += component.walk * b * np.eye(f)
        solved = solve_lower(cholesky(K), np.column_stack([cross.T, off]))
        says = solved[:, :-1]
        means = mean + np.cumsum(says * solved[:, -1:], axis=0)
        mean, cov = means[-1].copy(), symmetrise(cov - says.T @ says)
        means[:, :2] = np.einsum("nij,nj->ni", back[:b][::-1], means[:, :2])
        found[start + 1 : start + b + 1] = means
    return found


def _own_covariance(ahead: Float[np.ndarray, "m 2 2"], Q: Float[np.ndarray, "2 2"]) -> Float[np.ndarray, "b b 2 2"]:
    """Return what is gained since a block began, deviation and slope: the covariances of any row with any other."""
    b = len(ahead) - 1
    var = np.cumsum(ahead[:-1] @ Q @ ahead[:-1].swapaxes(1, 2), axis=0)
    found = np.empty((b, b, 2, 2))
    for i in range(b):
        found[i:, i] = ahead[: b - i] @ var[i]
        found[i, i:] = found[i:, i].swapaxes(1, 2)
    return found
