"""Local Gaussian processes as estimators: every preset learns, chunks and checkpoints change nothing, errors."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import SplittingGPRegressor, StreamingGPClassifier, StreamingGPRegressor, evaluate

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {"warmup": 60, "num_inducing": 12, "batch_size": 25, "max_models": 5, "steps": 8}


def stream(rows: int = 400, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (rows, 2)) * [1.0, 30.0] + [0.0, 500.0]
    return X, 40.0 + 9.0 * np.sin(2.0 * X[:, 0]) + rng.normal(size=rows)


@pytest.mark.parametrize("name", ["ovfe", "wgpr", "solar-gp", "lgpr"])
def test_every_preset_learns(name):
    X, y = stream()
    settings = SMALL | ({"max_models": 1} if name == "ovfe" else {})
    result = evaluate(SplittingGPRegressor(name, **settings), X, y)
    assert result.metrics["nmse"] < 0.12  # noise alone: 0.025
    assert 0.75 < result.metrics["coverage"]["90"] < 0.99
    assert result.weights.shape == (400, settings["max_models"])
    assert_allclose(result.weights[60:].sum(1), 1.0, rtol=1e-9)


def test_models_are_described_in_the_units_of_the_data():
    X, y = stream(210)
    model = SplittingGPRegressor(**SMALL, random_state=3)
    assert model.partial_fit(X[:30], y[:30]).models_ == []
    found = model.partial_fit(X[30:], y[30:]).models_
    assert found[0]["born"] == 0
    assert sum(one["rows"] for one in found) == 200  # ten more wait for their batch
    assert_allclose(found[0]["centre"], [0.0, 500.0], atol=8.0)
    assert found[0]["lengthscales"][1] > 20.0 * found[0]["lengthscales"][0]
    assert 0.3 < found[0]["noise_var"] < 3.0
    assert np.shape(found[0]["inducing"]) == (12, 2)
    assert len(model.experts_) == len(found)


def test_several_targets_share_their_models():
    X, y = stream(150)
    model = SplittingGPRegressor(**SMALL).partial_fit(X, np.stack([y, -2.0 * y], 1))
    mean, std = model.predict(X[:5], return_std=True)
    assert_allclose(mean[:, 1], -2.0 * mean[:, 0], rtol=1e-6)
    assert_allclose(std[:, 1], 2.0 * std[:, 0], rtol=1e-6)


def test_lags_are_inputs():
    y = np.sin(0.3 * np.arange(200.0))
    model = SplittingGPRegressor("ovfe", warmup=60, num_inducing=12, batch_size=20, steps=10, lags=(1, 2))
    result = evaluate(model, np.zeros((200, 0)), y)
    assert result.metrics["nmse"] < 0.01


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"model": "e-doebe"}, "model: expected one of ovfe, wgpr, solar-gp, lgpr"),
        ({"model": "ovfe", "max_models": 3}, "max_models: expected 1"),
        ({"batch_size": 0}, "batch_size: expected a whole number >= 1, got 0"),
        ({"num_inducing": 0}, "num_inducing: expected a whole number"),
        ({"threshold": -1.0}, "threshold: expected a number from 0 to inf for 'wgpr', got -1.0"),
        ({"model": "lgpr", "threshold": 2.0}, "threshold: expected a number from 0 to 1 for 'lgpr', got 2.0"),
        ({"combination": "near"}, "combination: expected one of .* did you mean 'nearest'"),
        ({"alpha": 1.5}, "alpha: expected a number from 0"),
        ({"steps": -1}, "steps: expected a whole number"),
    ],
)
def test_settings_that_make_no_sense_say_so(settings, says):
    X, y = stream(10)
    with pytest.raises(ValueError, match=says):
        SplittingGPRegressor(**settings).partial_fit(X, y)


def test_options_of_ensembles_and_other_tasks_are_refused():
    X, y = stream(10)
    with pytest.raises(ValueError, match="weights: expected it with an ensemble"):
        StreamingGPRegressor("wgpr", weights="bma").partial_fit(X, y)
    with pytest.raises(
        ValueError, match="for the task 'classification', got 'wgpr', which is for 'regression' alone"
    ):
        StreamingGPClassifier("wgpr").partial_fit(X, y > 40)


def test_bad_rows_leave_everything_as_it_was():
    X, y = stream(130)
    model = SplittingGPRegressor(**SMALL, missing="raise").partial_fit(X[:110], y[:110])
    before = model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.where(np.arange(20)[:, None] == 7, np.nan, X[110:]), y[110:])
    assert model.rows_ == 110
    assert_array_equal(model.predict(X), before)
