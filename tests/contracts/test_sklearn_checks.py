"""scikit-learn's own checks of an estimator; not one of them is expected to fail."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
from sklearn.utils.estimator_checks import (
    check_estimators_pickle,
    check_fit2d_1sample,
    check_methods_subset_invariance,
    check_transformer_general,
    parametrize_with_checks,
)

from streamgp import SplittingGPRegressor, StreamingGPClassifier, StreamingGPLVM, StreamingGPRegressor

# What scikit-learn itself says when a check does not apply, or about an estimator that warns of nothing.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")]


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    """A user's process: JAX's default is float32 there."""
    with jax.enable_x64(False):
        yield


# Counts must be whole numbers, which the targets of these checks are not; grades are named as `grades`, two at least.
LINEAR = [estimator("linear", warmup=24) for estimator in (StreamingGPRegressor, StreamingGPClassifier)]


def _parametrized(test: Callable[[Any, Any], None]) -> Any:
    """Parametrize with all checks; scikit-learn says that an estimator does not inherit from its own, and goes on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimator .* does not inherit from `sklearn.base.BaseEstimator`")
        return parametrize_with_checks(LINEAR)(test)


@_parametrized
def test_linear_model(estimator: Any, check: Callable[[Any], None]):
    check(estimator)


@pytest.mark.parametrize("check", [check_estimators_pickle, check_fit2d_1sample])
def test_default_model(check: Callable[[str, Any], None]):
    check("StreamingGPRegressor", StreamingGPRegressor(features_per_basis=4))


@pytest.mark.parametrize("check", [check_estimators_pickle, check_fit2d_1sample, check_methods_subset_invariance])
def test_local_models(check: Callable[[str, Any], None]):
    check("SplittingGPRegressor", SplittingGPRegressor(warmup=24, num_inducing=4, batch_size=10, steps=2))


@pytest.mark.parametrize("check", [check_estimators_pickle, check_fit2d_1sample, check_transformer_general])
def test_latent_variables(check: Callable[[str, Any], None]):
    check("StreamingGPLVM", StreamingGPLVM(warmup=20, n_features=20))
