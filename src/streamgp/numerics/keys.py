"""Random keys that branch: whoever draws gets a key of its own, and what is drawn does not depend on who else draws.

Threefry-2x32 of 20 rounds (Salmon, Moraes, Dror and Shaw 2011), used as JAX uses it (`jax.random.key_data`), so that
keys are the same on an accelerator. Draws themselves are NumPy's: see `generator`.
"""

from typing import TypeAlias

import numpy as np
from jaxtyping import UInt32

Key: TypeAlias = UInt32[np.ndarray, "2"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def key(seed: int) -> Key:
    """Return the key of a seed: its upper and its lower 32 bits."""
    bits = int(seed) & 0xFFFF_FFFF_FFFF_FFFF
    return np.array([bits >> 32, bits & 0xFFFF_FFFF], np.uint32)


def fold_in(key: Key, number: int) -> Key:
    """Return the branch of a key with a number of 32 bits."""
    return _hashed(key, np.zeros(1, np.uint32), np.array([int(number) & 0xFFFF_FFFF], np.uint32))[0]


def split(key: Key, count: int = 2) -> UInt32[np.ndarray, "count 2"]:
    """Return so many keys in place of one."""
    return _hashed(key, np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32))


def generator(key: Key) -> np.random.Generator:
    """Return the source of draws that belongs to a key."""
    return np.random.default_rng(np.asarray(key))


def _hashed(key: Key, high: np.ndarray, low: np.ndarray) -> UInt32[np.ndarray, "count 2"]:
    """Encrypt counters by a key."""
    k0, k1 = (np.uint32(word) for word in np.asarray(key))
    schedule = (k0, k1, k0 ^ k1 ^ np.uint32(_PARITY))
    with np.errstate(over="ignore"):
        x, y = high + schedule[0], low + schedule[1]
        for i in range(5):
            for rotation in _ROTATIONS[i % 2]:
                x = x + y
                y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
                y = y ^ x
            x, y = x + schedule[(i + 1) % 3], y + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return np.stack([x, y], axis=1)
