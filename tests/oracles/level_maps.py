"""Three maps of levels by predicted spread, learnt by a loop over rows as their documentation has it: one output."""

from typing import NamedTuple

import numpy as np
from scipy import stats

FACTORS = (0.2, 0.4, 0.7, 1.0, 1.5, 2.5)


class Learnt(NamedTuple):
    """The shares of every row's map, (n, 6), and after all rows the counts of each map and if it helps."""

    shares: np.ndarray
    counts: np.ndarray
    helps: np.ndarray


def textbook(u: np.ndarray, log_spread: np.ndarray) -> Learnt:
    """Learn levels u (n,), of which NaN teaches nothing, of rows with these log spreads."""
    counts = [np.array([1.0, 2.5, 2.5, 10.0, 2.5, 2.5]) for _ in range(3)]
    log_odds, rows, mean, variance = np.zeros(3), 20.0, -1.0, 0.1
    shares = np.zeros((len(u), 6))
    for i, (level, spread) in enumerate(zip(u, log_spread, strict=True)):
        scale = np.sqrt(variance + 0.01)
        nearness = np.interp((spread - mean) / scale, [-1.0, 0.0, 1.0], np.arange(3.0))
        near = np.maximum(1.0 - np.abs(nearness - np.arange(3.0)), 0.0)
        helps = 1.0 / (1.0 + np.exp(-log_odds))
        for m in range(3):
            shares[i] += near[m] * helps[m] * counts[m] / counts[m].sum()
            shares[i, 3] += near[m] * (1.0 - helps[m])
        if np.isnan(level):
            continue
        z = np.clip(stats.norm.ppf(level), -4.0, 4.0)
        density = np.array([stats.norm.pdf(z, scale=s) for s in FACTORS]) / stats.norm.pdf(z)
        for m in range(3):
            pace = 0.1 + 0.9 * near[m]
            v = counts[m] / counts[m].sum()
            later = 0.999 / (1.0 + np.exp(-log_odds[m]) / (v @ density)) + 0.0005
            helped = (1.0 - pace) * helps[m] + pace * later
            log_odds[m] = np.log(helped) - np.log1p(-helped)
            counts[m] = counts[m] - 0.02 * pace * counts[m] + pace * v * density / (v @ density)
        off = np.clip(spread - mean, -3.0 * scale, 3.0 * scale)
        rows = 0.998 * rows + 1.0
        variance += off**2 * (rows - 1.0) / rows**2 - variance / rows
        mean += off / rows
    return Learnt(shares, np.array(counts), 1.0 / (1.0 + np.exp(-log_odds)))
