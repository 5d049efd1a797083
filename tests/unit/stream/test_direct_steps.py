"""Regressions of each step beside scikit-learn's, their average with a model's paths, and the rows they come from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from streamgp.stream.direct_steps import (
    CORRELATION,
    LEVELS,
    MOST_CORRELATION,
    PRIOR_ORIGINS,
    Direct,
    averaged,
    correlation,
    direct,
    with_harmonics,
)
from streamgp.stream.recent_rows import FEWEST_ROWS, MOST_NUMBERS, MOST_ROWS, RecentRows
from streamgp.stream.structural import COMPONENTS, forecasts, waves

DAY, STEPS = 12, 30


def recent_rows(n: int = 400, seed: int = 0) -> tuple[RecentRows, np.ndarray]:
    """Return rows with a daily cycle, of which two inputs are known ahead and one is not, and the next inputs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + STEPS, 3))
    y = np.sin(2.0 * np.pi * np.arange(n)[:, None] / DAY + [0.0, 1.0]) + X[:n, :1] + 0.3 * rng.normal(size=(n, 2))
    ahead = X[n:].copy()
    ahead[5:, 2] = np.nan
    return RecentRows(X[:n], y), ahead


NO_CALENDAR, NO_ORIGINS = np.zeros(3, bool), np.zeros(0, np.int64)


@pytest.mark.parametrize("seasons", [[], [DAY], [5, DAY]])
def test_means_are_those_of_ridge_regressions(seasons: list[int]):
    recent, ahead = recent_rows()
    origins = np.array([100, 370])
    mean, var, _, past = direct(recent, ahead, seasons, NO_CALENDAR, origins)
    n = len(recent.y)
    assert np.isinf(var[0]).all()  # the first step is the model's own
    for h in (2, DAY, DAY + 1, STEPS):
        least = max([h + 1, *(max(s * -(-h // s), s + h) for s in seasons)])
        for e, y in enumerate(recent.y.T):
            said = [forecasts(y, waves(n + STEPS, seasons), component) for component in COMPONENTS] if seasons else []
            rows = []
            for row in [*range(least, n), n + h - 1]:
                back = [h, h + 1]
                for season in seasons:
                    back += [next(k * season for k in range(1, 99) if k * season >= h), h + season]
                known = [y[row - each] for each in sorted({*back})]
                known += [each[row - h + 1, h - 1] for each in said]  # when the last one known was row - h
                rows.append([*known, *(recent.X[row, :2] if row < n else ahead[h - 1, :2])])
            scaler, target = StandardScaler(), y[least:]
            Z = scaler.fit_transform(np.array(rows)[:-1])
            fitted = Ridge(alpha=1.0).fit(Z, target)
            assert mean[h - 1, e] == pytest.approx(fitted.predict(scaler.transform(np.array(rows)[-1:]))[0], rel=1e-6)
            errors = target - fitted.predict(Z)
            assert 0.95 * np.std(errors) < np.sqrt(var[h - 1, e]) < 1.4 * np.std(errors)
            assert_allclose(past[:, h - 1, e], errors[origins + h - 1 - least], rtol=1e-6)


def test_bands_hold_what_comes():
    inside = []
    for seed in range(60):
        recent, _ = recent_rows(seed=seed)
        past, ahead = RecentRows(recent.X[:-STEPS], recent.y[:-STEPS]), recent.X[-STEPS:]
        mean, var, *_ = direct(past, ahead, [DAY], NO_CALENDAR, NO_ORIGINS)
        inside.append(np.abs(recent.y[-STEPS:] - mean)[1:] < 1.6449 * np.sqrt(var[1:]))
    assert 0.87 < np.mean(inside) < 0.94


def test_rows_to_come_change_nothing_and_rows_too_few_say_nothing():
    recent, ahead = recent_rows()
    _, var, *_ = direct(RecentRows(recent.X[:30], recent.y[:30]), ahead, [DAY], NO_CALENDAR, NO_ORIGINS)
    assert np.isinf(var[20:]).all()
    nothing = RecentRows(recent.X[:0], recent.y[:0])
    assert np.isinf(direct(nothing, ahead, [DAY], NO_CALENDAR, NO_ORIGINS)[1]).all()
    gaps = RecentRows(np.where(np.arange(400)[:, None] < 150, np.nan, recent.X), recent.y)
    found, expected = (direct(each, ahead, [], NO_CALENDAR, NO_ORIGINS) for each in (gaps, recent))
    assert np.isfinite(found[1][1:]).all() and not np.array_equal(found[0], expected[0])


def test_a_column_that_stands_still_and_a_constant_target_are_no_trouble():
    recent, ahead = recent_rows()
    still = RecentRows(recent.X * [0.0, 1.0, 1.0], recent.y * [1.0, 0.0] + [0.0, 7.0])
    mean, var, *_ = direct(still, ahead, [DAY], NO_CALENDAR, NO_ORIGINS)
    assert np.isfinite(mean).all() and np.isfinite(var[1:]).all()
    assert_allclose(mean[1:, 1], 7.0)


def test_harmonics_of_the_calendar():
    hours = np.arange(48.0)
    phase = 2.0 * np.pi * hours / 24.0
    X = np.column_stack([hours, np.sin(phase), np.cos(phase), hours % 7 == 0])
    found = with_harmonics(X, np.array([False, True, True, True]))
    expected = [np.sin(2 * phase), np.cos(2 * phase), np.sin(3 * phase), np.cos(3 * phase)]
    assert_allclose(found, np.column_stack([X, *expected]), atol=1e-9)


def regressed(mean: list[float], var: list[float]) -> Direct:
    """Return what regressions with normal errors say of a target."""
    shape = norm.ppf(LEVELS)
    each = np.tile(shape / np.sqrt(np.mean(shape**2)), (len(mean), 1, 1))
    return Direct(np.array(mean)[:, None], np.array(var)[:, None], each, np.zeros((0, len(mean), 1)))


def usual(steps: int, outputs: int = 1) -> np.ndarray:
    """Return what is taken for the correlation of errors where nothing is known."""
    return np.full((steps, outputs), CORRELATION)


def drawn(mean: list[float], var: list[float]) -> np.ndarray:
    """Return paths with exactly these moments."""
    paths = np.random.default_rng(0).normal(size=(400, len(mean), 1))
    paths = (paths - paths.mean(axis=0)) / paths.std(axis=0)
    return np.array(mean)[:, None] + np.sqrt(var)[:, None] * paths


def test_the_average_of_two_forecasts():
    paths = drawn([1.0] * 4, [4.0] * 4)
    together = np.array([[0.9], [0.9], [0.3], [0.9]])
    found = averaged(paths, regressed([9.0, 2.0, 2.0, 2.0], [1.0, 1.0, 4.0, np.inf]), together)
    assert_allclose(found.mean(axis=0)[:, 0], [1.0, 0.2 + 0.8 * 2.0, 1.5, 1.0])
    both = 0.2**2 * 4.0 + 0.8**2 * 1.0 + 2.0 * 0.9 * 0.16 * 2.0
    assert_allclose(found.var(axis=0)[:3, 0], [4.0, both, 0.5**2 * (4.0 + 4.0 + 2.0 * 0.3 * 4.0)])
    np.testing.assert_array_equal(found[:, [0, 3]], paths[:, [0, 3]])
    # What goes together still does.
    np.testing.assert_array_equal(*(each[:, 1, 0].argsort() for each in (paths, found)))


def errors_together(origins: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return errors of two paths of each origin, and of a regression, whose means have this correlation."""
    rng = np.random.default_rng(0)
    common, own = rng.normal(size=(2, origins, 40, 1))
    regression = share * common + np.sqrt(1.0 - share**2) * own
    return common[:, None] + 2.0 * rng.normal(size=(origins, 2, 40, 1)), 3.0 * regression


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_the_correlation_of_errors_is_that_of_past_forecasts(share: float):
    own, other = errors_together(2_000, share)
    expected = (PRIOR_ORIGINS * CORRELATION + 2_000 * share) / (PRIOR_ORIGINS + 2_000)
    found = correlation(own, other)
    assert found.mean() == pytest.approx(expected, abs=0.02) and np.abs(found - expected).max() < 0.2
    for unit in (1e-100, 1e100):
        assert_allclose(correlation(unit * own, unit * other), found, rtol=1e-9)


def test_few_past_forecasts_tell_little_of_the_correlation():
    assert_allclose(correlation(np.zeros((0, 2, 5, 1)), np.zeros((0, 5, 1))), CORRELATION)
    own, other = errors_together(5, 0.0)
    assert (correlation(own, other) > 0.8 * CORRELATION * PRIOR_ORIGINS / (PRIOR_ORIGINS + 5)).all()
    own[0, 1, 3], other[1, 4] = np.nan, np.nan
    assert np.isfinite(correlation(own, other)).all()
    own, other = errors_together(2_000, 1.0)
    assert (correlation(own, other) <= MOST_CORRELATION).all()
    own[:] = 0.0
    assert_allclose(correlation(own, other), CORRELATION)


def test_a_model_that_is_sure_of_what_the_regression_never_saw_counts_little():
    found = averaged(drawn([100.0] * 9, [1.0] * 9), regressed([0.0] * 9, [25.0] * 9), usual(9)).mean(axis=0)
    assert (np.abs(found[1:]) < 1.0).all() and found[0, 0] == pytest.approx(100.0)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_units_change_nothing(unit: float):
    recent, ahead = recent_rows()
    scaled = RecentRows(recent.X, unit * recent.y)
    paths = np.random.default_rng(1).normal(size=(50, STEPS, 2))
    found, expected = (
        averaged(each, direct(rows, ahead, [DAY], NO_CALENDAR, NO_ORIGINS), usual(STEPS, 2))
        for each, rows in ((unit * paths, scaled), (paths, recent))
    )
    assert_allclose(found, unit * expected, rtol=1e-9)


def test_errors_keep_their_shape():
    """Of a target that mostly rests, so do most paths, though its mean does not."""
    rng = np.random.default_rng(0)
    rare = np.where(rng.random(2_000) < 0.1, rng.exponential(size=2_000), 0.0)
    recent = RecentRows(np.empty((2_000, 0)), rare[:, None])
    other = direct(recent, np.empty((3, 0)), [], np.zeros(0, bool), NO_ORIGINS)
    found = averaged(rng.permuted(np.tile(rare, (3, 1)), axis=1).T[:, :, None], other, usual(3))
    inner = np.quantile(found[:, 1:, 0], [0.05, 0.85], axis=0)
    assert (np.abs(inner) < 0.06).all()


@pytest.mark.parametrize("width", [3, 100, 800])
def test_what_is_kept_has_an_end(width: int):
    recent, rng = RecentRows(np.empty((0, width)), np.empty((0, 1))), np.random.default_rng(0)
    X, y = rng.normal(size=(2_300, width)), rng.normal(size=(2_300, 1))
    for rows in np.split(np.arange(2_300), [1, 5, 700, 701, 2_000]):
        recent = recent.learn(X[rows], y[rows])
    most = min(max(MOST_NUMBERS // (width + 1), FEWEST_ROWS), MOST_ROWS)
    np.testing.assert_array_equal(recent.X, X[-most:])
    np.testing.assert_array_equal(recent.y, y[-most:])
