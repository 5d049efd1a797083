"""Data sets of the papers that are generated."""

from collections.abc import Callable

import numpy as np

from streamgp.bases import HilbertSpace
from streamgp.numerics import keys
from streamgp.numerics.precision import float64

Stream = tuple[np.ndarray, np.ndarray]

# After so many rows, the rule of the constructed stream starts a random walk.
STATIC_ROWS = 2_000


def friedman(make: Callable[..., Stream], noise: float, rows: int) -> Stream:
    """Generate one of Friedman's functions by scikit-learn, with noise of this standard deviation."""
    return make(n_samples=rows, noise=noise, random_state=0)


def constructed(rows: int) -> Stream:
    """Generate a function of additive Hilbert-space features whose weights are static, and then walk (q = 1e-3 v)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (rows, 2))
    with float64():
        basis = HilbertSpace.from_data(X, num_features=20, start=0.25, key=keys.key(0))
        features = np.asarray(basis(X))
    steps = np.sqrt(1e-3) * rng.normal(size=features.shape)
    steps[:STATIC_ROWS] = 0.0
    weights = rng.normal(size=features.shape[1]) + np.cumsum(steps, axis=0)
    return X, np.sum(features * weights, axis=1) + 0.1 * rng.normal(size=rows)
