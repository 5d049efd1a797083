"""Lags by what the warm-up tells: of what depends on its own past, and of what does not."""

import numpy as np
import pytest

from streamgp.stream.lag_choice import choose_lags, scores

N = 600


def autoregressive(coefficients: dict[int, float], seed: int, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    for t in range(n):
        y[t] += sum(c * y[t - lag] for lag, c in coefficients.items() if t >= lag)
    return 50.0 + 3.0 * y[:, None]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("coefficients", "lags"),
    [({1: 0.8}, (1,)), ({1: 1.2, 2: -0.7}, (1, 2)), ({24: 0.9}, (24,))],
)
def test_the_lags_of_an_autoregression_are_found(coefficients: dict[int, float], lags: tuple[int, ...], seed: int):
    y = autoregressive(coefficients, seed)
    X = np.random.default_rng(seed + 10).normal(size=(N, 3))
    assert choose_lags(X, y) == lags


def test_a_season_joins_short_lags():
    lags = choose_lags(np.zeros((N, 1)), autoregressive({1: 0.3, 48: 0.65}, 0))
    assert (lags[0], lags[-1]) == (1, 48)


@pytest.mark.parametrize("seed", range(10))
def test_without_a_past_that_tells_anything_there_are_none(seed: int):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    y = np.stack([X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=N), rng.standard_t(3, size=N)], axis=1)
    assert choose_lags(X, y) == ()


def test_what_the_inputs_tell_of_the_past_needs_no_lag():
    y = autoregressive({1: 0.9}, 0)
    X = np.r_[y[:1], y[:-1]]
    assert choose_lags(X, y) == ()


def test_a_horizon_asks_for_what_helps_so_far_ahead():
    y = autoregressive({1: 0.97}, 1)
    assert choose_lags(np.zeros((N, 1)), y, horizon=5) == (1,)
    y = autoregressive({1: 0.3}, 1)
    assert choose_lags(np.zeros((N, 1)), y, horizon=5) == ()


DAY = 86_400.0


def weekly(step: float, seed: int, n: int = 1_000) -> tuple[np.ndarray, np.ndarray]:
    """Return times, from 2021 on, and targets with a profile of the week."""
    rng = np.random.default_rng(seed)
    rows = round(7 * DAY / step)
    profile = rng.normal(size=rows)
    return 1.61e9 + step * np.arange(n), 20.0 + (profile[np.arange(n) % rows] + 0.5 * rng.normal(size=n))[:, None]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("step", "season"), [(DAY, 7), (DAY / 24, 168), (DAY / 48, 336)])
def test_the_season_of_a_week_is_found_by_the_clock(step: float, season: int, seed: int):
    times, y = weekly(step, seed)
    lags = choose_lags(np.zeros((1_000, 0)), y, times=times)
    assert season in lags and not {*lags} & ({7, 12, 24, 48, 96, 168, 336} - {season, round(DAY / step)})


@pytest.mark.parametrize("seed", range(4))
def test_a_day_and_a_week_may_both_be_taken(seed: int):
    times, y = weekly(DAY / 48, seed)
    noise = autoregressive({1: 0.3, 48: 0.65}, seed, len(y))  # a profile of the day that wanders
    assert {48, 336} <= {*choose_lags(np.zeros((len(y), 0)), y + 0.3 * noise, times=times)}


@pytest.mark.parametrize("seed", range(4))
def test_daily_rows_have_no_season_of_96(seed: int):
    # By chance, or for a drift, 96 rows ago may tell something: 13 weeks and 5 days are no season.
    y = autoregressive({96: 0.9}, seed, 1_000)
    assert 96 in choose_lags(np.zeros((1_000, 0)), y)
    assert not {*choose_lags(np.zeros((1_000, 0)), y, times=1.61e9 + DAY * np.arange(1_000))} - {1, 2, 3, 7, 365}


def test_without_a_calendar_the_seasons_are_those_of_any_stream_and_without_a_step_none():
    y = autoregressive({1: 0.3, 24: 0.65}, 0)
    X, rng = np.zeros((N, 1)), np.random.default_rng(0)
    lags = choose_lags(X, y)
    assert 24 in lags
    assert choose_lags(X, y, times=np.arange(float(N))) == lags
    for start in (0.0, 1.61e9):
        assert 24 not in choose_lags(X, y, times=start + 3_600.0 * np.cumsum(rng.exponential(size=N)))
    assert choose_lags(X, y, times=1.61e9 + 3_600.0 * np.arange(N)) == lags


def test_a_season_is_as_long_as_the_rows_can_show():
    times, y = weekly(DAY / 96, 0, 1_000)  # 672 rows a week
    assert max(choose_lags(np.zeros((1_000, 0)), y, times=times)) <= 500


def test_late_labels_ask_for_more_of_the_clock_s_cycles():
    times, y = weekly(DAY, 0)
    assert choose_lags(np.zeros((1_000, 0)), y, delay=10, times=times)[-1] == 14


@pytest.mark.parametrize("n", [10, 12, 40])
def test_few_rows_and_no_columns_give_lag_one(n: int):
    assert choose_lags(np.zeros((n, 0)), np.random.default_rng(0).normal(size=(n, 1))) == (1,)


@pytest.mark.parametrize("since", [0, 4, 30])
@pytest.mark.parametrize("horizon", [0, 3])
def test_scores_are_those_of_regressions_on_the_rows_before(horizon: int, since: int):
    rng = np.random.default_rng(4)
    n, lags = 90, (1, 4)
    X, y = rng.normal(size=(n, 2)), 5.0 + rng.normal(size=(n, 2)).cumsum(axis=0)
    found = scores(X, y, lags, horizon, since=since)
    # By hand: of target t, what was known at row t - horizon, and a least-squares fit with rows of the prior.
    known = np.array(
        [
            [y[t - lag + (horizon > 0)] if t - lag + (horizon > 0) >= 0 else y.mean(0) for lag in lags]
            for t in range(n)
        ]
    )
    inputs = np.c_[X, known.reshape(n, -1)][: n - horizon]
    half = n // 2
    first = max(half, since + n // 4) - horizon
    inputs = (inputs - inputs[since:first].mean(0)) / inputs[since:first].std(0)
    rows = np.c_[np.ones(len(inputs)), inputs]
    targets = ((y - y[:half].mean(0)) / y[:half].std(0))[horizon:]
    for i in range(len(rows) - first):
        seen = first + i - i % 32 - horizon
        prior = np.vstack([rows[since:seen], np.eye(rows.shape[1])])
        padded = np.vstack([targets[since:seen], np.zeros((rows.shape[1], 2))])
        beta, *_ = np.linalg.lstsq(prior, padded, rcond=None)
        noise = (1.0 + np.sum((padded - prior @ beta) ** 2, axis=0)) / (1.0 + seen - since)
        x = rows[first + i]
        var = noise * (1.0 + x @ np.linalg.solve(prior.T @ prior, x))
        expected = -0.5 * (np.log(2 * np.pi * var) + (targets[first + i] - x @ beta) ** 2 / var)
        np.testing.assert_allclose(found[i], expected.mean(), rtol=1e-9)
