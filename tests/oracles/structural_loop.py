"""Level, trend and season by the textbook Kalman recursion, row by row, with a season whose state rotates."""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import block_diag


def structural_loop(
    y: np.ndarray,
    angles: Sequence[float],
    stds: Sequence[float],
    steps: int,
    *,
    transition: np.ndarray,
    gained: np.ndarray,
    walk: float,
    level_var: float,
    noise_var: float,
) -> np.ndarray:
    """What is expected of the next rows before each row and after the last, (n + 1, steps).

    Parameters
    ----------
    angles, stds
        Of each harmonic the angle by which its state rotates in a row, and the prior standard deviation of its state
        over that of the level.
    transition, gained
        Of a deviation with its slope (2, 2), and the variances that they gain in a row (2,).
    walk
        Variance that level and harmonics gain in a row, over their prior ones.
    """
    turns = [np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) for a in angles]
    A = block_diag(transition, 1.0, *turns)
    x = np.concatenate([[1.0, 0.0, 1.0], np.tile([1.0, 0.0], len(turns))])
    prior = level_var * np.concatenate([[1.0], np.repeat(np.square(stds), 2)])
    P, Q = (np.diag(np.concatenate([gained, scale * prior])) for scale in (1.0, walk))
    m, found = np.zeros(len(x)), np.empty((len(y) + 1, steps))
    for i in range(len(y) + 1):
        to_come = m
        for h in range(steps):
            to_come = A @ to_come
            found[i, h] = x @ to_come
        if i < len(y):
            m, P = A @ m, A @ P @ A.T + Q
            gain = P @ x / (x @ P @ x + noise_var)
            m, P = m + gain * (y[i] - y[0] - x @ m), P - np.outer(gain, x @ P)
    return y[0] + found
