"""Level, trend and season beside the textbook recursion, and what they may know."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.structural_loop import structural_loop
from streamgp.stream.structural import BLOCK, COMPONENTS, NOISE_VAR, PRIOR_VAR, Component, forecasts, waves

STEPS = 20


def series(n: int, seed: int = 0) -> np.ndarray:
    """Return a season of twelve rows and a walk."""
    rng = np.random.default_rng(seed)
    return 3.0 + np.sin(2.0 * np.pi * np.arange(n) / 12.0) + 0.1 * np.cumsum(rng.normal(size=n))


def by_rotation(seasons: list[int]) -> tuple[list[float], list[float]]:
    """Return angles and standard deviations of the harmonics, each written out."""
    short, long = (2.0 * np.pi / season for season in (seasons[0], seasons[-1])) if seasons else (0.0, 0.0)
    angles = [k * short for k in range(1, 9) if seasons and 2 * k < seasons[0]]
    stds = [1.0 / k for k in range(1, len(angles) + 1)]
    if len(seasons) > 1:
        angles += [long, 2 * long, 3 * long]
        stds += [1.0, 1.0 / 2.0, 1.0 / 3.0]
        for k in (1, 2, 3, 4):
            for j in (1, 2):
                angles += [k * short + j * long, k * short - j * long]
                stds += [0.7 / (k * j)] * 2
    return angles, stds


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("seasons", [[], [4], [12], [12, 84], [24, 48, 168]])
@pytest.mark.parametrize("n", [1, BLOCK, 4 * BLOCK + 7])
def test_forecasts_are_those_of_a_state_that_rotates(component: Component, seasons: list[int], n: int):
    y = series(n)
    angles, stds = by_rotation(seasons)
    expected = structural_loop(
        y,
        angles,
        stds,
        STEPS,
        transition=np.array(component.transition),
        gained=np.array(component.gained),
        walk=component.walk,
        level_var=PRIOR_VAR,
        noise_var=NOISE_VAR,
    )
    assert_allclose(forecasts(y, waves(n + STEPS, seasons), component), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("component", COMPONENTS)
def test_later_targets_change_no_forecast(component: Component):
    y, Phi = series(100), waves(100 + STEPS, [12])
    other = y.copy()
    other[50:] += np.random.default_rng(1).normal(size=50)
    found, changed = (forecasts(each, Phi, component) for each in (y, other))
    assert_allclose(found[:51], changed[:51], rtol=1e-12)
    assert not np.isclose(found[51], changed[51], rtol=1e-6).any()


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_season_and_a_level_are_found(component: Component):
    rows = np.arange(600 + STEPS)
    week = np.where(rows // 12 % 7 < 5, 1.0, 0.5)
    y = 100.0 + week * np.sin(2.0 * np.pi * rows / 12.0)
    found = forecasts(y[:600], waves(len(rows), [12, 84]), component)
    assert np.sqrt(np.mean(np.square(found[-1] - y[600:]))) < 0.15


def test_no_rows_and_a_constant_are_no_trouble():
    for component in COMPONENTS:
        assert_allclose(forecasts(np.zeros(0), waves(STEPS, [12]), component), 0.0)
        assert_allclose(forecasts(np.full(50, 7.0), waves(50 + STEPS, [12]), component), 7.0)
