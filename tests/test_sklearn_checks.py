"""scikit-learn's own checks of an estimator; not one of them is expected to fail."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jaxtyping
import pytest
from sklearn.utils.estimator_checks import (
    check_estimators_pickle,
    check_fit2d_1sample,
    parametrize_with_checks,
)

from streamgp import StreamingGPRegressor

# What scikit-learn itself says when a check does not apply, or about an estimator that warns of nothing.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    """A user's process: JAX's default is float32 there, and nobody checks the types of nonsense.

    Compilation is quick rather than good, since every check comes with shapes of its own.
    """
    jax.config.update("jax_disable_most_optimizations", True)
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with jax.enable_x64(False):
            yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
        jax.config.update("jax_disable_most_optimizations", False)


@parametrize_with_checks([StreamingGPRegressor("linear", warmup=10)])
def test_linear_model(estimator: StreamingGPRegressor, check: Callable[[Any], None]):
    check(estimator)


@pytest.mark.parametrize("check", [check_estimators_pickle, check_fit2d_1sample])
def test_default_model(check: Callable[[str, Any], None]):
    check("StreamingGPRegressor", StreamingGPRegressor(features_per_basis=4))
