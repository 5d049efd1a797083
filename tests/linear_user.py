"""What the tests of the regressor share: a small stream, a quick model, and a process like a user's."""

from collections.abc import Iterator
from typing import Any

import jax
import jaxtyping
import numpy as np
import pytest

from streamgp import StreamingGPRegressor
from streamgp.numerics.checkpoint.encoding import encode

ROWS, WARMUP = 90, 24


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    """A user's process: float32 is JAX's default, and nobody checks types."""
    jaxtyping.config.update("jaxtyping_disable", True)
    with jax.enable_x64(False):
        yield
        assert jax.config.read("jax_enable_x64") is False
    jaxtyping.config.update("jaxtyping_disable", False)


def stream(outputs: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(ROWS, 2))
    y = X @ [1.0, -2.0] + 0.2 * rng.normal(size=(outputs or 1, ROWS))
    return X, (y.T * np.arange(1, outputs + 1) if outputs else y[0])


def new(**options: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", **({"warmup": WARMUP} | options))


def same(one: StreamingGPRegressor, other: StreamingGPRegressor) -> bool:
    """Whether two regressors know exactly the same."""
    (a, arrays), (b, others) = encode(one._learner.to_tree()), encode(other._learner.to_tree())
    equal = all(np.array_equal(array, others[name], equal_nan=True) for name, array in arrays.items())
    return a == b and equal and one.skipped_rows_ == other.skipped_rows_


def spoilt(a: np.ndarray, *place: int, value: float) -> np.ndarray:
    a = a.copy()
    a[place] = value
    return a
