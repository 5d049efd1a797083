"""Streams forecast several rows ahead: what a loop of learning and predicting gives, honest, exact and resumable."""

from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from test_learner import mean_and_std, run

from streamgp import StreamingGPRegressor, evaluate
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

pytestmark = pytest.mark.slow

ROWS, WARMUP, HORIZON = 120, 40, 3
RICH: dict[str, Any] = {
    "bases": ["linear", "rbf"],
    "features_per_basis": 5,
    "dynamics": ["static", "walk 0.001"],
    "noise": ["constant", 0.9],
    "weights": "auto",
}


@cache
def stream(outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, 2))
    y = np.zeros((ROWS, outputs))
    for i in range(3, ROWS):
        y[i] = 0.8 * y[i - 1] - 0.4 * y[i - 3] + 0.5 * X[i - 3, :1] + 0.3 * rng.normal(size=outputs)
    return X, 1e4 + 7.0 * y


def new(horizon: int = HORIZON, lags: Any = (1, 5), outputs: int = 1, model: str = "linear", **options: Any):
    spec = make_spec(model, lags=lags, horizon=horizon, **options)
    return StreamLearner(StreamSettings(spec, num_inputs=2, num_outputs=outputs, warmup=WARMUP, seed=2))


@cache
def by_hand(horizon: int, rich: bool, outputs: int = 1) -> np.ndarray:
    """Learn a row, predict from it, and write the forecast down for the row h rows later."""
    X, y = stream(outputs)
    model = new(horizon, outputs=outputs, **(RICH if rich else {}))
    forecasts = np.full((2, ROWS + horizon, outputs), np.nan)
    for i in range(ROWS):
        list(model.learn(X[i : i + 1], y[i : i + 1]))
        forecasts[:, [i + horizon]] = mean_and_std(model.predict(X[i : i + 1]))
    return forecasts[:, :ROWS]


@pytest.mark.parametrize(
    ("horizon", "rich", "outputs", "chunk"),
    [(3, True, 1, ROWS), (1, False, 1, 64), (30, False, 2, 13)],
)
def test_a_row_gets_the_forecast_made_h_rows_before(horizon: int, rich: bool, outputs: int, chunk: int):
    """In the warm-up, across its end and after it, whatever the chunks."""
    found = run(new(horizon, outputs=outputs, **(RICH if rich else {})), chunk, *stream(outputs))
    expected = by_hand(horizon, rich, outputs)
    np.testing.assert_allclose(np.asarray(found)[:, horizon:], expected[:, horizon:], rtol=1e-9)
    # Nothing was known of the first rows.
    np.testing.assert_array_equal(found[0][:horizon], 0.0)
    assert len(np.unique(found[1][:horizon])) == 1


def test_what_is_kept_does_not_grow():
    X, y = stream()
    model = new(**RICH)
    list(model.learn(X, y))
    size = state_size(model)
    list(model.learn(X, y))
    assert state_size(model) == size


def state_size(model: StreamLearner) -> int:
    tree = model.to_tree()
    return sum(
        a.size for a in jax.tree.leaves((tree["model_state"], tree["origins"].inputs, tree["forecasts"].parts))
    )


# Through the estimator


def regressor(**options: Any) -> StreamingGPRegressor:
    settings = {"model": "linear", "warmup": WARMUP, "lags": (1, 5), "horizon": HORIZON, "random_state": 2}
    return StreamingGPRegressor(**settings | options)


def test_evaluate_scores_forecasts_beside_persistence_of_the_same_horizon():
    X, y = stream()
    result = evaluate(regressor(), X, y[:, 0], progress=False)
    expected = by_hand(HORIZON, False)
    np.testing.assert_allclose(result.mean[HORIZON:], expected[0, HORIZON:, 0], rtol=1e-9)
    errors = y[WARMUP:, 0] - expected[0, WARMUP:, 0]
    np.testing.assert_allclose(result.metrics["rmse"], np.sqrt(np.mean(errors**2)), rtol=1e-9)
    repeated = y[WARMUP:, 0] - y[WARMUP - HORIZON : -HORIZON, 0]
    rivals = result.metrics["naive"]
    np.testing.assert_allclose(rivals["persistence"]["rmse"], np.sqrt(np.mean(repeated**2)), rtol=1e-12)
    means = np.cumsum(y[:, 0]) / np.arange(1, ROWS + 1)
    averaged = y[WARMUP:, 0] - means[WARMUP - HORIZON : -HORIZON]
    np.testing.assert_allclose(rivals["running_mean"]["rmse"], np.sqrt(np.mean(averaged**2)), rtol=1e-9)
    # The experts were there when the forecast of row WARMUP + HORIZON - 1 was made.
    assert np.isnan(result.weights[: WARMUP + HORIZON - 1]).all()
    np.testing.assert_allclose(result.weights[WARMUP + HORIZON - 1 :].sum(1), 1.0)


def test_single_rows_saving_and_skipped_rows(tmp_path: Path):
    X, y = stream()
    whole = regressor().partial_fit(X, y[:, 0])
    holes = np.insert(y[:, 0], [7, 60], np.nan)
    rows = np.insert(X, [7, 60], 0.0, axis=0)
    singly = regressor(missing="skip").partial_fit(rows[:70], holes[:70])
    singly.save(tmp_path / "kept")
    singly = StreamingGPRegressor.load(tmp_path / "kept")
    for x, target in zip(rows[70:], holes[70:], strict=True):
        singly.learn_one(x, target)
    assert singly.get_params()["horizon"] == HORIZON
    ahead = whole.predict(X[-1:], return_std=True)
    np.testing.assert_allclose(singly.predict(X[-1:], return_std=True), ahead, rtol=1e-9)
    np.testing.assert_allclose(singly.predict_one(X[-1]), np.ravel(ahead), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "times", "message"),
    [
        ({"horizon": 0}, False, "horizon: expected a whole number >= 1, got 0"),
        ({"horizon": WARMUP - 5}, False, "horizon: expected a horizon that leaves pairs .* 40 rows, got 35 and lags"),
        ({}, True, "horizon: expected a stream without times, since that of the row 3 rows ahead is not known"),
    ],
)
def test_horizons_that_cannot_be(options: dict[str, Any], times: bool, message: str):
    X, y = stream()
    model = regressor(**options)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y[:, 0], times=np.arange(ROWS) if times else None)
    assert not hasattr(model, "rows_")


# Against the processes that made the data


def test_inputs_meet_the_targets_that_come_h_rows_after_them():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 1))
    y = np.concatenate([rng.normal(size=5), 3.0 * X[:-5, 0]])
    errors = {}
    for horizon in (4, 5, 6):
        model = StreamingGPRegressor("linear", warmup=100, horizon=horizon)
        errors[horizon] = evaluate(model, X, y, progress=False).metrics["rmse"]
    assert errors[5] < 0.01
    assert min(errors[4], errors[6]) > 2.5  # other inputs tell nothing


@pytest.mark.parametrize("horizon", [1, 6])
def test_an_autoregression_is_forecast_as_well_as_can_be(horizon: int):
    """y_t = 1.2 y_(t-1) - 0.5 y_(t-2) + e_t: the error of the best forecast is a sum of impulse responses.

    Errors of overlapping forecasts are correlated; the bands must be right all the same.
    """
    rng = np.random.default_rng(11)
    n, warmup, sigma = 3000, 500, 0.3
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + sigma * rng.normal()
    responses = [1.0, 1.2]
    while len(responses) < horizon:
        responses.append(1.2 * responses[-1] - 0.5 * responses[-2])
    best = sigma * np.sqrt(np.sum(np.square(responses[:horizon])))
    model = StreamingGPRegressor("linear", warmup=warmup, lags=(1, 2), horizon=horizon, noise=["constant", 1.0])
    metrics = evaluate(model, np.zeros((n, 0)), y, progress=False).metrics
    # About 2,500 / horizon independent errors, at least: the standard error of an RMSE is best / sqrt(2 n).
    error = 1.0 / np.sqrt(2 * 2500 / horizon)
    assert -4 * error < metrics["rmse"] / best - 1.0 < 0.01 + 4 * error
    assert abs(metrics["coverage"]["90"] - 0.9) < 4 * np.sqrt(0.09 * horizon / 2500)
