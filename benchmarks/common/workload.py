"""Rows and experts for timing; their values do not affect the time."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from streamgp.bases import Fourier
from streamgp.filters.dynamics import random_walk, static
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble
from streamgp.numerics import keys

# The levels of forgetting.
LEVELS = (0.0, 1e-4, 1e-3)
PRIOR_VAR, NOISE_VAR = 1.0, 0.1
PIECE = 1024  # rows that the estimators hand over at a time


def rows(n: int, inputs: int = 8, outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised inputs and a smooth target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, inputs))
    return X, np.sin(X[:, :1] + np.arange(outputs)) + 0.3 * rng.normal(size=(n, outputs))


def expert(basis: Any, diffusion: float) -> Expert:
    """Return an expert that stands still, or walks."""
    dynamics = random_walk(diffusion) if diffusion else static()
    return Expert(basis, jnp.asarray(PRIOR_VAR), jnp.asarray(NOISE_VAR), dynamics)


def fourier_experts(bases: int, features: int, levels: tuple[float, ...] = LEVELS, inputs: int = 8) -> list[Expert]:
    """Return experts of so many bases, each at every level of forgetting."""
    X, _ = rows(50, inputs)
    keys = [keys.key(i) for i in range(bases)]
    drawn = [Fourier.from_data(X, num_features=features, start=1.0, key=key) for key in keys]
    return [expert(basis, q) for basis in drawn for q in levels]


def stream(model: Ensemble, X: np.ndarray, y: np.ndarray, state: Any = None) -> Any:
    """Learn all rows, in pieces of one length as the estimators hand them over, the last one filled up."""
    state = model.init(keys.key(0)) if state is None else state
    info = None
    for at in range(0, len(X), PIECE):
        now, filling = slice(at, at + PIECE), [(0, max(at + PIECE - len(X), 0)), (0, 0)]
        mask = np.arange(at, at + PIECE) < len(X)
        X_now, y_now = (jnp.asarray(np.pad(a[now], filling)) for a in (X, y))
        state, info = model.update(state, X_now, y_now, jnp.asarray(mask))
    return jax.block_until_ready((state, info))
