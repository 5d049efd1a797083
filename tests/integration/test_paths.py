"""Forecasts of the next rows: joint draws beside closed forms, simulations and the prediction of the next row."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from streamgp import StreamingGPRegressor
from streamgp.stream.learner import StreamLearner
from streamgp.stream.paths import ORIGINS, past_errors, past_origins
from streamgp.stream.recent_rows import RecentRows

pytestmark = pytest.mark.slow

DRAWS = 20_000
DEVIATIONS = 5.0  # standard errors


def fitted(
    n: int = 300, times: bool = False, targets: int = 1, louder: float = 1.0, by_input: float = 0.0, **options: Any
) -> StreamingGPRegressor:
    """Return a model of one basis over two inputs that has learnt some rows.

    After the warm-up noise is `louder`; its log goes with the first input, `by_input` times.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = (
        3.0
        + X @ rng.normal(size=(2, targets))
        + 0.3
        * rng.normal(size=(n, targets))
        * np.where(np.arange(n) < 60, 1.0, louder)[:, None]
        * np.exp(by_input * X[:, :1])
    )
    options = {"model": "linear", "warmup": 60} | options
    model = StreamingGPRegressor(**options)
    return model.partial_fit(X, y[:, 0] if targets == 1 else y, np.cumsum(rng.exponential(size=n)) if times else None)


def autoregressive(n: int = 400, seed: int = 0) -> np.ndarray:
    """Return a stream of the order one around 2."""
    rng, y = np.random.default_rng(seed), np.full(n, 2.0)
    for i in range(1, n):
        y[i] = 2.0 + 0.8 * (y[i - 1] - 2.0) + 0.2 * rng.normal()
    return y


def close_moments(draws: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> None:
    """Compare draws (n, h) with the moments of a Gaussian, two-sided, by standard errors."""
    n, var = len(draws), np.diag(cov)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < DEVIATIONS * np.sqrt(var / n))
    error = np.sqrt((np.outer(var, var) + cov**2) / n)
    assert np.all(np.abs(np.cov(draws.T) - cov) < DEVIATIONS * error)


def closed_form(model: StreamingGPRegressor, X: np.ndarray, dynamics: str) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of the next targets of a single Gaussian expert, from its belief."""
    state: Any = model._learner.state
    (group,), (belief,) = state.model.groups, state.model_state.filters
    Phi = np.column_stack([np.ones(len(X)), state.inputs.standardised(X)])
    v, s2 = (float(np.ravel(a)[0]) for a in group.noise)
    steps = np.arange(1, len(X) + 1)
    decay, gained = {"static": (1.0, 0.0), "walk 0.01": (1.0, 0.01), "revert 0.9": (0.9, 1.0 - 0.81)}[dynamics]
    # Cov(theta_i, theta_j) for i <= j: decay^(i+j) Sigma + decay^(j-i) times what i steps have added.
    first = np.minimum(*np.meshgrid(steps, steps))
    added = gained * sum(decay ** (2 * k) * (first > k) for k in range(len(X)))
    apart = decay ** np.abs(steps[:, None] - steps)
    mean, cov = np.asarray(belief.mean)[0, 0], np.asarray(belief.cov)[0, 0]
    among = decay ** (steps[:, None] + steps) * (Phi @ cov @ Phi.T) + apart * added * v * (Phi @ Phi.T)
    center, scale = (np.asarray(a)[0] for a in (state.targets.mean, state.targets.scale))
    found = center + scale * decay**steps * (Phi @ mean)[:, 0]
    return found, scale**2 * (among + s2 * np.eye(len(X)))


@pytest.mark.parametrize("dynamics", ["static", "walk 0.01", "revert 0.9"])
def test_joint_draws_have_the_moments_of_the_closed_form(dynamics: str):
    model = fitted(n=80, dynamics=dynamics)  # few rows, so that what is believed matters beside the noise
    X = np.random.default_rng(1).normal(size=(4, 2)) * 2.0
    close_moments(model.sample_paths(4, DRAWS, X), *closed_form(model, X, dynamics))


def test_with_lags_as_a_simulation_of_the_posterior():
    """Of one expert: draw its weights, then row by row the target, which is the lag of the next row."""
    model = StreamingGPRegressor("linear", lags=[1, 2], warmup=60).partial_fit(np.empty((400, 0)), autoregressive())
    state: Any = model._learner.state
    (group,), (belief,) = state.model.groups, state.model_state.filters
    center, scale = (float(np.asarray(a)[0]) for a in (state.targets.mean, state.targets.scale))
    rng = np.random.default_rng(1)
    mean, cov = np.asarray(belief.mean)[0, 0, :, 0], np.asarray(belief.cov)[0, 0]
    theta = rng.multivariate_normal(mean, cov, size=DRAWS)
    past = np.tile(autoregressive()[-2:], (DRAWS, 1))
    found = []
    for _ in range(6):
        inputs = (past[:, ::-1] - np.asarray(state.inputs.scaling.mean)) / np.asarray(state.inputs.scaling.scale)
        loc = np.sum(np.column_stack([np.ones(DRAWS), inputs]) * theta, axis=1)
        loc += np.sqrt(float(np.ravel(group.noise.noise_var)[0])) * rng.normal(size=DRAWS)
        found.append(center + scale * loc)
        past = np.column_stack([past[:, 1], found[-1]])
    expected = np.column_stack(found)
    draws = model.sample_paths(6, DRAWS)
    error = np.sqrt((draws.var(axis=0) + expected.var(axis=0)) / DRAWS)
    assert np.all(np.abs(draws.mean(axis=0) - expected.mean(axis=0)) < DEVIATIONS * error)
    np.testing.assert_allclose(draws.std(axis=0), expected.std(axis=0), rtol=DEVIATIONS / np.sqrt(DRAWS))
    np.testing.assert_allclose(np.corrcoef(draws.T), np.corrcoef(expected.T), atol=DEVIATIONS * np.sqrt(2 / DRAWS))


def test_forecasts_of_past_rows_are_as_far_off_as_theory_says():
    """Two draws of one origin have the error of the mean in common."""
    y, steps = autoregressive(2_000), 5
    model = StreamingGPRegressor("fast", lags=[1, 2], warmup=400).partial_fit(np.empty((len(y), 0)), y)
    learner: Any = model._learner
    state, origins = learner.state, np.arange(100, 1_990)
    errors = past_errors(learner.settings, state, state.recent, origins, steps, np.random.default_rng(0))
    together = np.mean(errors[:, 0] * errors[:, 1], axis=0)[:, 0]
    expected = 0.2**2 * (1.0 - 0.8 ** (2.0 * np.arange(1, steps + 1))) / (1.0 - 0.8**2)
    np.testing.assert_allclose(together, expected, rtol=0.15)
    # Of inputs that are not known ahead no past forecast tells anything.
    assert len(past_origins(state, state.recent, np.empty((steps, 0)))) == ORIGINS
    assert not len(past_origins(state, state.recent, np.full((steps, 1), np.nan)))
    assert not len(past_origins(state, state.recent, np.empty((1_990, 0))))


@pytest.mark.parametrize(
    "options",
    [
        {"noise": ["adaptive 0.9"]},
        {"noise": ["constant", "adaptive 0.9", "adaptive 0.8 ar 0.6"], "dynamics": ["static", "revert 0.9"]},
        {"model": "e-doebe", "bases": ["linear", "fourier"], "features_per_basis": 10},
        {"noise": ["adaptive 0.95"], "recalibrate": True, "robust": True, "dynamics": ["static", "walk 0.01"]},
        {"targets": 2, "noise": ["adaptive 0.9 ar 0.5"]},
        {"times": True, "dynamics": ["walk 0.01"]},
        {"noise": ["adaptive 0.8"], "louder": 8.0, "n": 80},
        {"noise_by_input": True, "by_input": 1.0, "noise": ["constant", "adaptive 0.8"], "times": True},
        {"noise_by_input": True, "by_input": 1.0, "targets": 2},
    ],
    ids=[
        "adaptive",
        "kinds",
        "bases",
        "recalibrated",
        "targets",
        "times",
        "louder",
        "by input",
        "by input of targets",
    ],
)
def test_the_first_row_is_distributed_as_predicted(options: dict[str, Any]):
    model = fitted(**options)
    x, levels = np.array([[1.5, -3.0]]), [0.05, 0.25, 0.5, 0.75, 0.95]
    times = [model._learner.last_time + 2.0] if "times" in options else None
    draws = model.sample_paths(1, DRAWS, x, times).reshape(DRAWS, -1)
    quantiles = model.predict_quantiles(x, levels, times).reshape(-1, len(levels))
    for column, expected in zip(draws.T, quantiles, strict=True):
        below = (column[:, None] < expected).mean(axis=0)
        error = np.sqrt(np.array(levels) * (1.0 - np.array(levels)) / DRAWS)
        assert np.all(np.abs(below - levels) < DEVIATIONS * error), below


def test_correlated_errors_carry_over_from_step_to_step():
    model = fitted(noise=["adaptive 0.9 ar 0.6"])
    X = np.zeros((3, 2))
    residual = model.sample_paths(3, DRAWS, X)
    # e_1 = rho e_0 + n_1 with e_0 known, e_2 = rho e_1 + n_2 and so on: Cov(e_i, e_j) is rho^(j-i) Var(e_i), i <= j.
    rho, var = 0.6, np.array([1.0, 1.36, 1.4896])
    expected = [rho / np.sqrt(var[1]), rho**2 / np.sqrt(var[2])]
    together = np.corrcoef(residual.T)
    np.testing.assert_allclose([together[0, 1], together[0, 2]], expected, atol=0.05)


def test_a_frame_has_a_row_for_each_step_in_the_make_of_the_inputs():
    model, X = fitted(), np.random.default_rng(1).normal(size=(3, 2))
    found = model.forecast(3, X, level=(50, 90))
    draws = model.sample_paths(3, 1_000, X)
    assert isinstance(found, pl.DataFrame)
    bands = ["mean-lo-50", "mean-hi-50", "mean-lo-90", "mean-hi-90"]
    assert found.columns == ["step", "mean", "std", "q05", "q50", "q95", *bands]
    assert found["step"].to_list() == [1, 2, 3]
    np.testing.assert_allclose(found["mean"], draws.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found["std"], draws.std(axis=0, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(found["q50"], np.median(draws, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found["mean-lo-90"], found["q05"], rtol=1e-12)
    assert isinstance(model.forecast(3, pd.DataFrame(X)), pd.DataFrame)


def test_levels_that_differ_have_columns_of_their_own():
    level = (99.9999, 99.999999, np.nextafter(90.0, 91.0), 90)
    found = fitted().forecast(3, np.zeros((3, 2)), level=level, n=50)
    ends = ["99.9999", "99.999999", "90.00000000000001", "90"]
    assert found.columns[6:] == [f"mean-{side}-{end}" for end in ends for side in ("lo", "hi")]


def test_several_targets_and_times_are_columns():
    model = fitted(targets=2, times=True)
    at = model._learner.last_time + np.array([1.0, 3.0])
    found = model.forecast(2, np.zeros((2, 2)), times=at)
    assert found["target"].to_list() == ["y0", "y1", "y0", "y1"]
    np.testing.assert_array_equal(found["time"], at.repeat(2))
    assert "time" not in model.forecast(2, np.zeros((2, 2))).columns  # at the usual gaps


def test_nothing_is_learnt_and_the_same_is_said_twice():
    model = fitted()
    before, X = model.predict([[0.0, 1.0]], return_std=True), np.zeros((2, 2))
    first = model.sample_paths(2, 10, X)
    np.testing.assert_array_equal(model.sample_paths(2, 10, X), first)
    np.testing.assert_array_equal(model.predict([[0.0, 1.0]], return_std=True), before)
    model.learn_one([0.0, 0.0], 3.0)
    assert not np.array_equal(model.sample_paths(2, 10, X), first)


def test_missing_inputs_widen_a_forecast():
    model = fitted()
    X = np.array([[1.0, 1.0], [np.nan, 1.0]])
    std = model.sample_paths(2, DRAWS, X).std(axis=0)
    assert std[1] > 1.5 * std[0]
    _, expected = model.predict(X[1:], return_std=True)
    np.testing.assert_allclose(std[1], expected[0], rtol=0.05)


def test_bands_hold_what_they_say_while_inputs_are_not_known():
    """The further ahead, the less is known of inputs that wander."""
    rng, n, h = np.random.default_rng(0), 1_200, 24
    x = np.zeros(n)
    for i in range(1, n):
        x[i] = 0.97 * x[i - 1] + 0.25 * rng.normal()
    y = 2.0 * x + 0.1 * rng.normal(size=n)
    model, inside, at = StreamingGPRegressor("linear", warmup=200), [], 0
    unknown = np.full((h, 1), np.nan)
    for origin in range(400, n - h, h):
        model.partial_fit(x[at:origin, None], y[at:origin])
        low, high = np.quantile(model.sample_paths(h, 300, unknown), [0.1, 0.9], axis=0)
        inside.append((low <= y[origin : origin + h]) & (y[origin : origin + h] <= high))
        at = origin
    assert 0.65 < np.mean(inside) < 0.95
    assert 0.55 < np.mean(np.array(inside)[:, -8:]) < 0.98


def test_dates_stay_dates():
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + np.arange(203)
    model = StreamingGPRegressor("linear", warmup=60).partial_fit(
        rng.normal(size=(200, 2)), rng.normal(size=200), days[:200]
    )
    found = model.forecast(3, np.zeros((3, 2)), times=days[200:])
    np.testing.assert_array_equal(found["time"].to_numpy().astype("datetime64[D]"), days[200:])
    listed = model.forecast(3, np.zeros((3, 2)), times=days[200:].tolist())
    assert listed["time"].to_list() == days[200:].tolist()


def test_without_times_the_calendar_goes_on_at_the_usual_gaps():
    """A target that is a function of the hour alone: had the clock stood still, so would the forecast."""
    rng = np.random.default_rng(0)
    hours = np.datetime64("2024-01-01T00", "h") + np.arange(324)
    frame = pd.DataFrame({"when": hours.astype("datetime64[ns]")})
    y = np.sin(2 * np.pi * np.arange(324) / 24) + 0.05 * rng.normal(size=324)
    model = StreamingGPRegressor("linear", calendar=["day"], lags=(1,), warmup=100)
    model.partial_fit(frame[:300], y[:300], times="when")
    found = model.forecast(24)
    np.testing.assert_allclose(found["mean"], y[300:], atol=0.3)
    given = model.forecast(24, frame[300:], times="when")
    np.testing.assert_allclose(found["mean"], given["mean"], rtol=1e-9)
    with pytest.raises(ValueError, match=r"expected no columns, got \['when'\] too; .* name it: times='when'"):
        model.forecast(24, frame[300:])
    with pytest.raises(ValueError, match=r"time stamps and none came now; give them always or never \(times=\)"):
        model.predict(frame[300:])


def test_after_a_restart_and_after_single_rows_the_same_is_said(tmp_path: Any):
    y = autoregressive()
    none = np.empty((400, 0))
    whole = StreamingGPRegressor("linear", lags=[1, 3], warmup=60).partial_fit(none, y)
    single = StreamingGPRegressor("linear", lags=[1, 3], warmup=60).partial_fit(none[:300], y[:300])
    for target in y[300:]:
        single.learn_one(none[0], target)
    single.save(tmp_path / "model")
    for other in (single, StreamingGPRegressor.load(tmp_path / "model")):
        np.testing.assert_allclose(other.sample_paths(5, 50), whole.sample_paths(5, 50), rtol=1e-9)


def test_what_is_refused():
    model = fitted()
    with pytest.raises(
        ValueError, match=r"X_future: expected the inputs of the next 2 rows, shape \(2, 2\), got None; .* x0, x1,"
    ):
        model.forecast(2)
    with pytest.raises(ValueError, match="X_future: expected 3 rows, as many as there are steps, got 2"):
        model.forecast(3, np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"level: expected percents above 1 and below 100, such as 90, got 120"):
        model.forecast(2, np.zeros((2, 2)), level=120)
    with pytest.raises(ValueError, match=r"got 0\.9; for a band of 90% pass level=90"):
        model.forecast(2, np.zeros((2, 2)), level=0.9)
    with pytest.raises(ValueError, match=r"level: expected percents that differ, got \(80, 80\)"):
        model.forecast(2, np.zeros((2, 2)), level=(80, 80))
    with pytest.raises(ValueError, match="n: expected at least 2 paths, got 1"):
        model.forecast(2, np.zeros((2, 2)), n=1)
    with pytest.raises(ValueError, match="h: expected"):
        model.forecast(0, np.zeros((0, 2)))
    with pytest.raises(ValueError, match=r"forecast: expected an ensemble for numbers, and no horizon.* horizon 3"):
        fitted(horizon=3).forecast(2, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="numbers, and no horizon, got the model 'raker'"):
        fitted(model="raker").forecast(2, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="times: expected times that never decrease"):
        timed = fitted(times=True)
        timed.forecast(2, np.zeros((2, 2)), times=timed._learner.last_time + np.array([2.0, 1.0]))


def saw(n: int = 700) -> np.ndarray:
    """Return a stream that grows and falls back to nothing, as it was told to by no row before."""
    rng, y = np.random.default_rng(0), np.zeros(n)
    for i in range(1, n):
        y[i] = 0.0 if rng.random() < 0.1 else y[i - 1] + rng.exponential()
    return y


def test_many_rows_ahead_a_model_is_no_surer_than_the_rows_say():
    y, inside, errors = saw(), [], []
    model = StreamingGPRegressor("fast", lags=[1], warmup=200).partial_fit(np.empty((300, 0)), y[:300])
    for at in range(300, len(y) - 20, 20):
        frame = model.forecast(20, np.empty((20, 0)), level=80)
        low, high, mean = (frame[name].to_numpy() for name in ("mean-lo-80", "mean-hi-80", "mean"))
        inside.append((low <= y[at : at + 20]) & (y[at : at + 20] <= high))
        errors.append(mean - y[at : at + 20])
        model.partial_fit(np.empty((20, 0)), y[at : at + 20])
    late = np.array(errors)[:, 10:]
    # The guard takes a fall for a glitch, and paths of the model alone never fall: .48, and twice the deviation.
    assert 0.57 < np.mean(inside) < 0.93
    assert np.sqrt(np.mean(late**2)) < 1.3 * y.std()


def test_forecasts_of_chunks_single_rows_and_a_resumed_stream_are_the_same(tmp_path: Path):
    y, X = saw(420), np.empty((420, 0))
    y[[100, 250, 330, 331]] = np.nan
    y[300] = 1e4
    whole = StreamingGPRegressor("fast", lags=[1, 12], warmup=200).partial_fit(X, y)
    pieces = StreamingGPRegressor("fast", lags=[1, 12], warmup=200).partial_fit(X[:260], y[:260])
    pieces.save(tmp_path / "kept")
    resumed = StreamingGPRegressor.load(tmp_path / "kept")
    for row in range(260, 420):
        pieces.learn_one(X[row], y[row])
        resumed.partial_fit(X[row : row + 1], y[row : row + 1])
    frames = [model.forecast(24, np.empty((24, 0))) for model in (whole, pieces, resumed)]
    for frame in frames[1:]:
        np.testing.assert_allclose(frame.to_numpy(), frames[0].to_numpy(), rtol=1e-9)
    first = whole.predict_one(X[0])
    np.testing.assert_allclose(frames[0]["mean"][0], first[0], atol=5.0 * float(first[1]) / np.sqrt(1_000))


def told_by_an_input(n: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return hours whose input tells the target, and has a season of a day."""
    rng, hours = np.random.default_rng(0), np.arange(n)
    drift = np.zeros(n)
    for i in range(1, n):
        drift[i] = 0.9 * drift[i - 1] + rng.normal()
    X = (15.0 + 6.0 * np.sin(2.0 * np.pi * hours / 24) + drift)[:, None]
    y = 50.0 + 3.0 * X[:, 0] + 0.3 * rng.normal(size=n)
    return X, y, np.datetime64("2024-01-01", "s") + 3_600 * hours


def test_inputs_that_tell_the_season_but_not_tomorrow_lose_nothing_to_yesterdays_value():
    X, y, times = told_by_an_input(900)
    model, unknown = StreamingGPRegressor("fast", lags="auto", warmup=300), np.full((24, 1), np.nan)
    ours, naive, inside, learnt = [], [], [], 0
    for at in range(400, 876, 17):
        model.partial_fit(X[learnt:at], y[learnt:at], times=times[learnt:at])
        learnt, came = at, y[at : at + 24]
        frame = model.forecast(24, unknown, times=times[at : at + 24], level=80)
        ours.append(frame["mean"].to_numpy() - came)
        naive.append(y[at - 24 : at] - came)
        inside.append((frame["mean-lo-80"].to_numpy() <= came) & (came <= frame["mean-hi-80"].to_numpy()))
    assert not model._learner.state.inputs.lags  # the input says all that the last target does
    ours, naive = (np.sqrt(np.mean(np.square(each), axis=0)) for each in (ours, naive))
    assert np.mean(ours <= naive) > 0.9 and ours.mean() < 0.95 * naive.mean()
    assert 0.7 < np.mean(inside) < 0.92


def test_rows_whose_inputs_are_all_given_stay_the_models_own_without_lags():
    X, y, times = told_by_an_input(424)
    model = StreamingGPRegressor("fast", lags="auto", warmup=200).partial_fit(X[:400], y[:400], times=times[:400])
    some = X[400:].copy()
    some[12:] = np.nan
    given, partly = (model.forecast(24, each, times=times[400:], level=80) for each in (X[400:], some))
    for name in ("mean", "mean-lo-80", "mean-hi-80"):
        np.testing.assert_allclose(partly[name][:12], given[name][:12], rtol=1e-9)
    # A regression knows only lines and lags, and would be off by the noise of these.
    np.testing.assert_allclose(given["mean"], y[400:], atol=5.0 * 0.3)
    state = model._learner.state
    model._learner.state = replace(state, recent=None)
    alone = model.forecast(24, some, times=times[400:])
    np.testing.assert_allclose(alone["mean"][:12], partly["mean"][:12], rtol=1e-9)
    assert np.abs(alone["mean"] - partly["mean"])[13:].max() > 1.0


def test_rows_kept_without_lags_are_the_same_by_chunks_single_rows_and_after_a_restart(tmp_path: Path):
    X, y, times = told_by_an_input(420)
    y[[100, 250, 330, 331]] = np.nan
    X[250] = np.nan  # the first gap, which no row by itself may have
    y[300] = 1e4
    whole, pieces = (StreamingGPRegressor("fast", lags="auto", warmup=200) for _ in range(2))
    whole.partial_fit(X, y, times=times)
    pieces.partial_fit(X[:260], y[:260], times=times[:260]).save(tmp_path / "kept")
    resumed = StreamingGPRegressor.load(tmp_path / "kept")
    for row in range(260, 420):
        pieces.learn_one(X[row], y[row], time=times[row])
        resumed.partial_fit(X[row : row + 1], y[row : row + 1], times=times[row : row + 1])
    states = [model._learner.state for model in (whole, pieces, resumed)]
    assert not states[0].inputs.lags
    expected = states[0].recent
    assert expected is not None and len(expected.y) == 420 and np.isfinite(expected.y).all()
    assert expected.y.max() < 200.0  # something stands for the glitch
    for state in states[1:]:
        np.testing.assert_allclose(state.recent.y, expected.y, rtol=1e-9)
        np.testing.assert_allclose(state.recent.X, expected.X, rtol=1e-9)


def test_kept_rows_of_another_width_are_no_checkpoint():
    model = StreamingGPRegressor("fast", lags=[1], warmup=60, bases=["linear"])
    tree = model.partial_fit(np.empty((80, 0)), saw(80))._learner.to_tree()
    assert tree["recent"].X.shape == (80, 0)
    for X, y in ((np.zeros((3, 2)), np.zeros((3, 1))), (np.zeros((3, 0)), np.zeros((3, 2)))):
        with pytest.raises(ValueError, match="last rows of widths"):
            StreamLearner.from_tree(tree | {"recent": RecentRows(X, y)})
