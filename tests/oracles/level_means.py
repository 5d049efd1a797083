"""What a level is worth before each row, by the definition: from the first row on, anew for each."""

import numpy as np


def worth_by_hand(codes: list, y: np.ndarray, memory: float, limit: float) -> np.ndarray:
    """Return it for one column and one target, for streams shorter than any memory of the share."""
    found = []
    for i in range(len(y)):
        past: dict = {}
        center, square, common, shared, pairs = 0.0, 0.0, 0.0, 1.0, 10.0
        for j in range(i):
            z = y[j] - center if j else 0.0
            if j > 10:
                z = min(max(z, -limit * square**0.5), limit * square**0.5)
            before = past.setdefault(codes[j], [])
            if before and j > 10:
                off = _mean(before, memory) - common
                share = min(max(shared / pairs, 0.0), 0.999)
                n = min(len(before), memory)
                weight = n / (n + (min(1.0 / share - 1.0, 100.0) if share else 100.0))
                shared, pairs = shared + weight * z * off / square, pairs + weight
                common += off / min(j + 1, memory)
            before.append(z)
            square += (z * z - square) / min(j, memory) if j else 0.0
            center = center + z / min(j + 1, memory) if j else y[0]
        share, n = min(max(shared / pairs, 0.0), 0.999), min(len(past.get(codes[i], ())), memory)
        known = n and share
        found.append((_mean(past[codes[i]], memory) - common) * n / (n + 1.0 / share - 1.0) if known else 0.0)
    return np.array(found)


def _mean(values: list, memory: float) -> float:
    """Return the mean of values, of which the last ones count more beyond the memory."""
    mean = 0.0
    for n, value in enumerate(values, start=1):
        mean += (value - mean) / min(n, memory)
    return mean
