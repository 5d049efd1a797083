"""Transformed targets far beyond all that was learnt, and those that go on growing, as users meet them."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp import StreamingGPRegressor, evaluate

pytestmark = pytest.mark.slow

ROWS, WARMUP = 400, 150


def model(name: str = "linear", **more: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor(name, **{"warmup": WARMUP, "target_transform": "log"} | more)


def sizes() -> tuple[np.ndarray, np.ndarray]:
    """Durations in proportion to a lognormal input, whose exponential a plane predicts of their logarithm."""
    rng = np.random.default_rng(0)
    size = rng.lognormal(0.0, 1.2, ROWS)
    size[[200, 303, 304]] = 60.0
    return np.column_stack([size, rng.normal(size=ROWS)]), 5.0 * size * rng.lognormal(0.0, 0.5, ROWS)


def growth(per_row: float = 0.02) -> np.ndarray:
    return np.exp(per_row * np.arange(ROWS) + 0.1 * np.random.default_rng(1).normal(size=ROWS))


def errors(y: np.ndarray, centre: np.ndarray) -> float:
    return float(np.mean((centre[WARMUP:] - y[WARMUP:]) ** 2) / y[WARMUP:].var())


def test_a_plane_of_a_lognormal_input_extrapolates_no_further_than_targets_came():
    X, y = sizes()
    r = evaluate(model(), X, y, progress=False)
    assert r.metrics["nmse"] < 1.0
    assert r.metrics["crps"] < y[WARMUP:].mean()
    seen = np.array([np.max(y[:i], initial=0.0) for i in range(ROWS)])[WARMUP:]
    assert (r.mean[WARMUP:] <= 2.0 * seen).all()
    assert (r.q50[WARMUP:] <= 2.0 * seen).all()
    assert np.mean(((y - r.mean) / r.std)[WARMUP:] ** 2) < 3.0  # a prediction that was moved is no surer for that
    m = model().partial_fit(X, y)
    far = np.array([[1e4, 0.0]])
    assert m.predict(far)[0] <= 2.0 * y.max()
    assert np.quantile(m.predict_dist(far).sample(400), 0.5) <= 2.5 * y.max()
    assert m.explain(far[0]).prediction == pytest.approx(m.predict(far)[0])


@pytest.mark.parametrize("more", [{}, {"horizon": 8}], ids=str)
def test_steady_growth_is_followed(more: dict[str, Any]):
    """As by the model of the logarithm, which knows of no range."""
    y, time = growth(), np.arange(ROWS)[:, None] / 100.0
    r = evaluate(model(**more), time, y, progress=False)
    plain = evaluate(model(target_transform=None, **more), time, np.log(y), progress=False)
    for name in ("q05", "q50", "q95"):
        found, want = getattr(r, name)[WARMUP + 8 :], np.exp(getattr(plain, name)[WARMUP + 8 :])
        assert_allclose(found, want, rtol=1e-9)
    assert r.metrics["nmse"] < 0.1
    assert (r.mean <= r.q95)[WARMUP + 8 :].all()


def test_a_new_level_is_followed_as_by_the_model_of_the_logarithm():
    rng = np.random.default_rng(0)
    z = 0.3 * rng.normal(size=ROWS)
    z[250:] += np.log(5000.0)
    nothing = np.empty((ROWS, 0))
    for robust in (False, True):
        shape = {"lags": [1, 2], "robust": robust}
        r = evaluate(model(**shape), nothing, np.exp(z), progress=False)
        plain = evaluate(model(target_transform=None, **shape), nothing, z, progress=False)
        assert_allclose(r.q50[WARMUP:], np.exp(plain.q50[WARMUP:]), rtol=0.5)
        assert errors(np.exp(z), r.mean) < 1.2 * errors(np.exp(z), np.exp(plain.q50))


def test_glitches_leave_the_range_as_it_was():
    X, y = sizes()
    spoilt = y.copy()
    spoilt[[60, 100, 130, 220, 250, 290]] = 1e9  # more than the rank that counts, in the warm-up and after it
    far = np.array([[1e4, 0.0]])
    clean, other = (model(robust=True).partial_fit(X, each).predict(far)[0] for each in (y, spoilt))
    assert_allclose(other, clean, rtol=0.3)


CASES: dict[str, dict[str, Any]] = {
    "inputs": {},
    "lags": {"lags": [1, 2]},
    "robust lags": {"lags": [1], "robust": True, "recalibrate": True},
    "horizon": {"horizon": 3},
}


@pytest.mark.parametrize("case", CASES)
def test_chunks_rows_and_a_resumed_run_are_limited_alike(case: str, tmp_path: Path):
    X, y = sizes()
    y[260] = 1e6  # a glitch, or a flood's first row
    whole = evaluate(model(**CASES[case]), X, y, progress=False)
    m, parts = model(**CASES[case]), []
    for a, b in pairwise([0, 140, 160, 201, 259, 262, 303, 304, ROWS]):
        parts.append(evaluate(m, X[a:b], y[a:b], progress=False))
        m.save(tmp_path / str(b))
        m = StreamingGPRegressor.load(tmp_path / str(b))
    for name, rtol in {"mean": 1e-9, "std": 1e-9, "q50": 1e-9, "log_density": 1e-9, "crps": 1e-6}.items():
        again = np.concatenate([getattr(each, name) for each in parts])
        assert_allclose(again, getattr(whole, name), rtol=rtol, err_msg=name)
    if "horizon" in CASES[case]:
        return
    single = model(**CASES[case]).partial_fit(X[:200], y[:200])
    for i in range(200, 310):
        mean, std = single.predict_one(X[i])
        assert_allclose((mean, std), (whole.mean[i], whole.std[i]), rtol=1e-9)
        single.learn_one(X[i], y[i])
    ranges = [
        each._learner.state.target_range for each in (single, model(**CASES[case]).partial_fit(X[:310], y[:310]))
    ]
    assert_allclose(ranges[0].ends, ranges[1].ends, rtol=1e-9)


def test_several_targets_keep_to_their_own_ranges_also_apart():
    X, y = sizes()
    both = np.column_stack([y, 1e-3 * y[::-1]])
    m = model().partial_fit(X, both)
    far = np.array([[1e4, 0.0]])
    assert (m.predict(far)[0] <= 2.0 * both.max(axis=0)).all()
    some = both.copy()
    some[150:350, 1] = np.nan
    apart = model().partial_fit(X, some)
    assert len(apart._learner.state.models) > 1
    assert (apart.predict(far)[0] <= 2.0 * np.nanmax(some, axis=0)).all()


def test_a_forecast_keeps_to_what_was_known_when_it_was_made():
    y, time = growth(), np.arange(ROWS)[:, None] / 100.0
    state = model(horizon=2).partial_fit(time, y)._learner.state
    low, high = state.target_range.ends[0, :, 0]
    (made, _) = state.forecasts.parts[-1]
    assert_allclose(made.limits[-1, :, 0], [low - 2.0 * np.log(2.0), high + 2.0 * np.log(2.0)], rtol=1e-12)


def test_labels_that_come_late_let_growth_go_on():
    y, time = growth(0.1), np.arange(ROWS)[:, None] / 100.0
    m = model().partial_fit(time[:300], y[:300])
    late = [m.predict_later(time[i]).mean for i in range(300, 320)]
    assert_allclose(np.ravel(late), y[300:320], rtol=0.5)


def test_without_a_transform_there_is_no_range():
    X, y = sizes()
    for bounds in (None, (0, None)):
        m = model(target_transform=None, bounds=bounds).partial_fit(X, y)
        assert m._learner.state.target_range is None
