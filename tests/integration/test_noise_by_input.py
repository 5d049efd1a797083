"""Noise that follows the inputs in whole models: bands for each kind of row, the same numbers however rows come."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate

from streamgp import StreamingGPRegressor, evaluate
from streamgp.models.presets import PRESETS

pytestmark = pytest.mark.slow

WARMUP, ROWS = 120, 400
SMALL = {"model": "linear", "robust": True, "recalibrate": True, "noise": ["constant", "adaptive 0.9"]}


def stream(n: int = ROWS, seed: int = 0, targets: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return a plane with noise whose standard deviation grows with the first input, e-fold in all."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 3))
    y = X @ rng.normal(size=(3, targets)) + 0.3 * np.exp(X[:, :1]) * rng.normal(size=(n, targets))
    return X, y if targets > 1 else y[:, 0]


def with_glitches(y: np.ndarray, first: int, share: float = 0.05) -> np.ndarray:
    """Return targets (n,) of which some, from a row on, are 100 standard deviations off."""
    rng = np.random.default_rng(1)
    glitches = rng.random(len(y)) < share
    glitches[:first] = False
    shifts = 100.0 * y.std() * rng.choice([-1.0, 1.0], len(y))
    return np.where(glitches, y + shifts, y) if share else y


def learner(**more: object) -> StreamingGPRegressor:
    return StreamingGPRegressor(**{**SMALL, "warmup": WARMUP, "noise_by_input": True, "random_state": 0, **more})


def fed(model: StreamingGPRegressor, X: np.ndarray, y: np.ndarray, size: int) -> StreamingGPRegressor:
    for at in range(0, len(X), size):
        model.partial_fit(X[at : at + size], y[at : at + size])
    return model


def said(model: StreamingGPRegressor, X: np.ndarray) -> np.ndarray:
    mean, std = model.predict(X, return_std=True)
    quantiles = model.predict_quantiles(X, [0.05, 0.95])
    return np.concatenate([np.ravel(a) for a in (mean, std, quantiles)])


@pytest.mark.parametrize(
    "more",
    [{}, {"glitches": 0.05}, {"horizon": 3}, {"lags": [1, 2]}, {"targets": 2}, {"bases": ["fourier"]}],
    ids=str,
)
def test_a_row_at_a_time_chunks_and_a_saved_model_say_the_same(more, tmp_path):
    more = dict(more)
    X, y = stream(targets=more.pop("targets", 1))
    y = with_glitches(y, WARMUP, more.pop("glitches", 0.0))
    new = X[:1] if "lags" in more else X[:3] if "horizon" in more else X[:20]
    want = said(fed(learner(**more), X, y, ROWS), new)
    assert np.isfinite(want).all()
    chunks = fed(learner(**more), X[:340], y[:340], 37)
    assert_allclose(said(fed(chunks, X[340:], y[340:], 1), new), want, rtol=1e-9, atol=1e-10)
    half = fed(learner(**more), X[:250], y[:250], 50)
    half.save(tmp_path / "model")
    resumed = StreamingGPRegressor.load(tmp_path / "model")
    assert_allclose(said(fed(resumed, X[250:], y[250:], 30), new), want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("horizon", [0, 3])
def test_a_prediction_never_sees_its_target(horizon):
    X, y = stream()
    changed = y.copy()
    changed[300:] += 2.0
    results = [evaluate(learner(horizon=horizon) if horizon else learner(), X, each) for each in (y, changed)]
    assert_array_equal(results[0].std[:301], results[1].std[:301])
    assert_array_equal(results[0].mean[:301], results[1].mean[:301])


def test_bands_are_right_for_quiet_and_for_loud_rows():
    X, y = stream(3_000)
    on, off = (evaluate(learner(noise_by_input=each), X, y) for each in (True, False))
    late = np.arange(len(y)) >= 500
    loud, quiet = late & (X[:, 0] > 0.6), late & (X[:, 0] < -0.6)

    def held(result, rows):
        return np.mean((y[rows] >= result.q05[rows]) & (y[rows] <= result.q95[rows]))

    assert 0.84 < held(on, loud) < 0.94 and 0.88 < held(on, quiet) < 0.96
    assert held(off, loud) < 0.8 and held(off, quiet) > 0.97
    assert on.metrics["pll"] > off.metrics["pll"] + 0.08 and on.metrics["crps"] < 0.985 * off.metrics["crps"]


def test_density_quantiles_and_std_are_of_one_distribution():
    X, y = stream()
    model = fed(learner(), X, y, 100)
    mean, std = (np.ravel(a)[0] for a in model.predict(X[:1], return_std=True))
    x = mean + std * np.linspace(-40.0, 40.0, 40_001)
    density = np.exp(model.log_density(np.repeat(X[:1], len(x), axis=0), x))
    total = integrate.cumulative_trapezoid(density, x, initial=0.0)
    assert_allclose(total[-1], 1.0, rtol=1e-5)
    quantiles = np.ravel(model.predict_quantiles(X[:1], [0.05, 0.5, 0.95]))
    assert_allclose(np.interp(quantiles, x, total), [0.05, 0.5, 0.95], atol=1e-4)
    assert_allclose(std, np.sqrt(integrate.trapezoid((x - mean) ** 2 * density, x)), rtol=0.05)


def test_glitches_hardly_move_the_bands_of_other_rows():
    X, y = stream(2_000)
    dirty = with_glitches(y, 300)
    glitches = dirty != y
    clean, spoilt = (evaluate(learner(warmup=300), X, each) for each in (y, dirty))
    rows = ~glitches & (np.arange(len(y)) >= 500)
    ratio = (spoilt.q95 - spoilt.q05)[rows] / (clean.q95 - clean.q05)[rows]
    assert 0.8 < np.median(ratio) < 1.6
    loud = X[rows, 0] > 0.6
    held = (y[rows] >= spoilt.q05[rows]) & (y[rows] <= spoilt.q95[rows])
    assert held[loud].mean() > 0.86


def test_labels_may_be_late_or_missing():
    X, y = stream()
    gaps = y.copy()
    gaps[200:220] = np.nan
    model = fed(learner(), X, gaps, 64)
    alone = fed(learner(), np.delete(X, slice(200, 220), 0), np.delete(y, slice(200, 220)), 64)
    assert_allclose(said(model, X[:10]), said(alone, X[:10]), rtol=1e-9, atol=1e-10)


def test_it_is_part_of_the_defaults_alone():
    assert {name for name, spec in PRESETS.items() if spec.noise_by_input} == {"default", "fast", "best"}
    X, y = stream()
    plain, off = (fed(learner(noise_by_input=each), X, y, 100) for each in (None, False))
    assert_array_equal(said(plain, X[:10]), said(off, X[:10]))
    assert not np.allclose(said(fed(learner(), X, y, 100), X[:10]), said(off, X[:10]))
