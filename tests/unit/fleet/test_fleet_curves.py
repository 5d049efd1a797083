"""Products as features, errors that are carried on, and the unit that a key keeps."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streamgp.fleet import products
from streamgp.fleet.carried import CarriedErrors
from streamgp.fleet.features import FeatureMap
from streamgp.fleet.scales import HELD, INPUT_LEAVES, LEAVES, KeyMoments
from streamgp.table.calendar import calendar_columns

CALENDAR = ("day", "day/2", "week", "year", "weekend")


def features(lags: tuple[int, ...] = (1, 24), short: int = 1, inputs: int = 2) -> FeatureMap:
    pairs = products.chosen(len(lags), CALENDAR, inputs, with_lag=not short)
    width = len(lags) + 9 + inputs
    return FeatureMap(lags, CALENDAR, inputs, short, pairs, 0.3 * np.random.default_rng(1).normal(size=(3, width)))


def test_slopes_are_derivatives():
    of, rng = features(), np.random.default_rng(0)
    Z, theta = rng.normal(size=(4, 13)), rng.normal(size=(4, of.num_features))
    Z[0, -1] = 2.0 * products.FAR  # as far as that nothing changes the products
    found, step = of.slopes(Z, theta), 1e-6
    for i in range(Z.shape[1]):
        moved = step * (np.arange(Z.shape[1]) == i)
        expected = np.vecdot(of(Z + moved) - of(Z - moved), theta) / (2.0 * step)
        np.testing.assert_allclose(found[:, i], expected, atol=1e-7)


@pytest.mark.parametrize("short", [0, 1])
def test_products_are_squares_the_last_target_the_weekend_and_waves_by_inputs(short: int):
    of = features(short=short)
    pairs = [tuple(pair) for pair in of.pairs.tolist()]
    a, b, weekend, day, year = 11, 12, 10, (2, 3, 4, 5), (8, 9)
    lagged = [] if short else [(0, a), (0, b)]
    waves = [(wave, i) for wave in (*year, *day) for i in (a, b)]
    assert pairs == [(a, a), (b, b), *lagged, *((weekend, wave) for wave in day), *waves]
    assert of.num_features == 1 + 13 + len(pairs) + 6
    assert (1 in of.curved) == (1 in of.waved) == (not short)
    assert len(of.waved) == of.num_features - short == len(of.curved) + 6
    many = products.chosen(0, (), 50, with_lag=False)
    assert len(many) == products.MOST


def test_the_weekend_is_saturday_and_sunday():
    first = datetime(2023, 3, 1, 23, tzinfo=UTC)
    times = [first + timedelta(hours=7 * i) for i in range(200)]
    found = calendar_columns(np.array([time.timestamp() for time in times]), ("weekend",))
    assert found[:, 0].tolist() == [float(time.weekday() >= 5) for time in times]


def test_the_share_of_an_error_in_the_next_is_found():
    rng, keys, rows = np.random.default_rng(0), 400, 600
    share, scale, none = np.linspace(0.0, 0.9, keys), np.full(keys, 3.0), np.zeros((keys, 1))
    error, carried = np.zeros(keys), CarriedErrors.none(keys, 1)
    for _ in range(rows):
        error = share * error + scale * rng.normal(size=keys)
        carried = carried.learn(error, none, scale)
    np.testing.assert_allclose(carried.last[:, 0], np.clip(error, -30.0, 30.0))
    # A discount of 0.995 remembers some 400 rows.
    off = (carried.share[:, 0] - share) / np.sqrt((1.0 - share**2) / 400.0)
    assert 0.6 < np.sqrt(np.mean(off[share > 0.2] ** 2)) < 1.5
    assert abs(np.mean(off[share > 0.2])) < 0.5
    later = carried.going_on(np.full(keys, np.nan), none, scale)
    assert not later.last.any() and np.array_equal(later.share, carried.share)


def test_the_unit_is_held_until_a_key_is_far_from_it():
    rng, scale, moments = np.random.default_rng(0), np.ones((1, 3)), KeyMoments.none(1, 3)
    for _ in range(int(HELD) + 1):
        moments = moments.learn(rng.normal(size=(1, 3)), scale)
    held = moments.held_loc.copy()
    between, beyond = 0.5 * (LEAVES + INPUT_LEAVES), 1.5 * INPUT_LEAVES
    for _ in range(600):
        moments = moments.learn(np.array([[between, between, beyond]]) + rng.normal(size=(1, 3)), scale)
    assert moments.held_loc[0, 0] - held[0, 0] > 0.8 * LEAVES  # a target, which it had gone by then
    assert moments.held_loc[0, 1] == held[0, 1] != moments.loc[0, 1]  # an input
    assert moments.held_loc[0, 2] - held[0, 2] > 0.8 * INPUT_LEAVES
