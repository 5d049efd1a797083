"""Filters that rest: who, when they wake, what they believe then, and what their weights do meanwhile."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from oracles.loop_filter import loop_filter
from streamgp.filters.dynamics import Dynamics, parse
from streamgp.filters.kalman import FilterState
from streamgp.models.gaussian import resting
from streamgp.models.gaussian.resting import (
    BLOCK,
    GRACE,
    MIN_BLOCKS,
    NEGLIGIBLE,
    PERIOD,
    ROTA,
    Resting,
    Scores,
    caught_up,
)
from streamgp.weights import BMA, SoftBayes, auto, fixed_share, present, scan_rule

FILTERS = 40
LARGE = np.full(FILTERS, 100)


def after_periods(n: int, weight: np.ndarray, features: np.ndarray = LARGE) -> list[Resting]:
    """Return who rests after each of some periods in which the filters had these weights."""
    found, states = Resting.start(len(weight)), []
    for period in range(1, n + 1):
        there = np.where(found.asleep, 0.0, weight)
        found = found.after(there / there.sum() * PERIOD, PERIOD, float(PERIOD))
        found = found.decided(features, period * PERIOD)
        states.append(found)
    return states


def weights(heavy: int = 2) -> np.ndarray:
    """Return weights of which nearly all is that of the first few filters."""
    each = np.full(FILTERS, 0.5 * NEGLIGIBLE / FILTERS)
    each[:heavy] += (1.0 - each.sum()) / heavy
    return each


def test_nobody_rests_before_a_whole_period_was_seen():
    states = after_periods(GRACE + 1, weights())
    assert not any(state.asleep.any() for state in states[:GRACE])
    assert states[GRACE].asleep.any()


def test_those_of_negligible_weight_rest_and_no_other():
    asleep = np.any([state.asleep for state in after_periods(GRACE + 2, weights())], axis=0)
    assert (asleep == (np.arange(FILTERS) >= 2)).all()


def test_together_they_had_no_more_than_the_stated_weight():
    spread = np.geomspace(1.0, 1e-4, FILTERS)
    spread /= spread.sum()
    state = after_periods(GRACE + 1, spread)[-1]
    on_duty = (np.arange(FILTERS) + GRACE + 1) % ROTA == 0
    least = np.sort(spread)
    expected = spread <= least[np.cumsum(least) <= NEGLIGIBLE].max()
    assert (state.asleep == (expected & ~on_duty)).all()
    assert expected.sum() > 5


def test_every_one_works_one_period_of_the_rota():
    states = after_periods(GRACE + 1 + 3 * ROTA, weights())[GRACE:]
    works = np.array([~state.asleep for state in states])
    assert works[:, :2].all()
    assert (works[: 3 * ROTA, 2:].sum(0) == 3).all()


def test_one_on_duty_that_has_found_weight_goes_on():
    state = after_periods(GRACE + 1, weights())[-1]
    newcomer = int(np.flatnonzero(~np.asarray(state.asleep))[-1])
    changed = np.where(np.arange(FILTERS) == newcomer, 0.3, weights())
    for period in range(GRACE + 2, GRACE + 5):
        state = state.after(np.where(state.asleep, 0.0, changed) * PERIOD, PERIOD, 1.0).decided(
            LARGE, period * PERIOD
        )
        assert not state.asleep[newcomer]


def test_small_filters_never_rest():
    features = np.where(np.arange(FILTERS) % 2, resting.SMALL, resting.SMALL + 1)
    state = after_periods(GRACE + 1, weights(), features)[-1]
    assert not np.asarray(state.asleep)[1::2].any()
    assert state.asleep[2::2].any()


def test_new_filters_work_whatever_their_weight():
    new = np.arange(FILTERS) == 9
    state = after_periods(GRACE + 1, weights())[-1].joined(new)
    assert not state.asleep[9]
    assert state.missed[9] == 0.0
    for period in range(GRACE + 2, 2 * GRACE + 3):
        state = state.after(weights() * PERIOD, PERIOD, 1.0).decided(LARGE, period * PERIOD)
        assert not state.asleep[9]


def test_time_is_counted_for_those_who_rest_alone():
    state = after_periods(GRACE + 1, weights())[-1].after(weights(), 10, 12.5)
    assert (state.missed == np.where(state.asleep, 12.5, 0.0)).all()
    assert state.worked - state.counted == -10 * state.asleep.sum()


# The alarm


def scores(blocks: int, seed: int = 0) -> np.ndarray:
    """Return log scores of rows like one another."""
    return np.random.default_rng(seed).normal(1.0, 0.5, size=blocks * BLOCK)


def test_a_fall_of_the_score_is_found_at_the_end_of_its_block_however_the_rows_are_cut():
    fall = np.concatenate([scores(MIN_BLOCKS + 4), scores(2, 1) - 3.0])
    found = (MIN_BLOCKS + 5) * BLOCK
    assert Resting.start(3).alarm(fall, 0) == found
    state = Resting.start(3)
    for at in range(0, found, 13):
        assert not state.worse
        state = state.scored(fall[at : min(at + 13, found)], at)
    assert state.worse
    assert state.is_due(found)
    assert not state.decided(np.full(3, 100), found).asleep.any()


def test_a_steady_score_gives_no_alarm_and_outliers_do_not_count():
    steady = scores(400)
    assert Resting.start(3).alarm(steady, 0) is None
    steady[::50] = np.nan
    assert Resting.start(3).alarm(steady, 0) is None


def test_all_wake_with_an_alarm_and_are_given_time():
    state = after_periods(GRACE + 1, weights())[-1]
    woken = replace(state, worse=np.asarray(True)).decided(LARGE, 12_345 * BLOCK)
    assert not woken.asleep.any()
    for period in range(GRACE + 1):
        woken = woken.after(weights() * PERIOD, PERIOD, 1.0).decided(LARGE, (period + 9) * PERIOD)
        assert not woken.asleep.any()


def test_mean_and_variance_of_the_first_blocks_are_theirs():
    found, values = Scores.none(), scores(MIN_BLOCKS)
    for block in values.reshape(-1, BLOCK):
        found, worse = found.add(block).close()
        assert not worse
    means = values.reshape(-1, BLOCK).mean(1)
    np.testing.assert_allclose([found.mean, found.var], [means.mean(), means.var()], rtol=1e-10)


# Beliefs and weights


@pytest.mark.parametrize("name", ["static", "walk 0.01", "revert 0.95"])
def test_what_was_missed_is_a_time_without_rows(name: str):
    rng = np.random.default_rng(0)
    dynamics = parse(name)
    decay, diffusion = float(dynamics.decay), float(dynamics.diffusion)
    Phi, y = rng.normal(size=(30, 4)), rng.normal(size=(30, 1))
    settings: Any = {"prior_var": 2.0, "noise_var": 0.1, "decay": decay, "diffusion": diffusion}
    gaps = np.ones(31)
    gaps[-1] = 1.0 + 17.0
    phi = rng.normal(size=(1, 4))
    oracle = loop_filter(np.vstack([Phi, phi]), np.vstack([y, [[0.0]]]), **settings, gaps=gaps)
    before = loop_filter(Phi, y, **settings)
    grouped = Dynamics(np.full((1, 2), decay), np.full((1, 2), diffusion))
    beliefs = FilterState(np.tile(before.mean, (1, 2, 1, 1)), np.tile(before.cov, (1, 2, 1, 1)), None)
    after = caught_up(beliefs, grouped, np.full((1, 2), 2.0), np.array([[17.0, 0.0]]))
    mean, cov = np.asarray(after.mean)[0, 0] * decay, np.asarray(after.cov)[0, 0] * decay**2
    grown = float(dynamics.process_variance(np.asarray(1.0)))
    np.testing.assert_allclose(phi @ mean, oracle.loc[-1:], rtol=1e-9)
    var = phi @ (cov + 2.0 * grown * np.eye(4)) @ phi.T + 0.1
    np.testing.assert_allclose(var[0, 0], oracle.var[-1], rtol=1e-9)
    np.testing.assert_array_equal(np.asarray(after.cov)[0, 1], before.cov)


ABSENT = np.array([False, True, False, True, False, False])


def densities(n: int = 40) -> np.ndarray:
    """Return log densities of rows under six experts, those of the absent ones not a number."""
    return np.where(ABSENT, np.nan, np.random.default_rng(2).normal(size=(n, 6)))


@pytest.mark.parametrize("rule", [BMA(), SoftBayes(0.1)], ids=["BMA", "Soft-Bayes"])
def test_to_those_present_the_absent_make_no_difference(rule):
    prior = jnp.asarray(np.log(np.array([0.1, 0.2, 0.05, 0.25, 0.3, 0.1])))
    filled = np.where(ABSENT, -7.0, densities())
    whole, before = scan_rule(rule, rule.init(prior), filled, absent=ABSENT)
    there = prior[~ABSENT] - logsumexp(prior[~ABSENT])
    alone, steps = scan_rule(rule, rule.init(there), densities()[:, ~ABSENT])
    np.testing.assert_allclose(np.asarray(present(whole, ABSENT))[~ABSENT], alone, rtol=1e-9)
    np.testing.assert_allclose(before.log_weights[:, ~ABSENT], steps.log_weights, rtol=1e-9)


@pytest.mark.parametrize("rule", [BMA(), SoftBayes(0.1), fixed_share(6, 0.01), auto([0, 0, 0, 1, 1, 1])])
def test_the_weights_of_the_absent_stay_and_all_add_up_to_one(rule):
    start = rule.init(jnp.log(jnp.asarray([0.1, 0.2, 0.05, 0.25, 0.3, 0.1])))
    after, _ = scan_rule(rule, start, np.where(ABSENT, -7.0, densities()), absent=ABSENT)
    for old, new in zip(jax.tree.leaves(start), jax.tree.leaves(after), strict=True):
        if np.shape(old) == (6,):
            np.testing.assert_allclose(np.asarray(new)[ABSENT], np.asarray(old)[ABSENT], rtol=1e-12)
            np.testing.assert_allclose(logsumexp(np.asarray(new)), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.exp(np.asarray(present(rule.predict(after), ABSENT))).sum(), 1.0, rtol=1e-9)
