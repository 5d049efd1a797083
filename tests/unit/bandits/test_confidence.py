"""Confidence factors, information gain and rates of regret, each against its formula worked out by hand."""

from math import e, exp, log, pi, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.bandits.confidence import (
    beta,
    discount,
    information_gain,
    restart_length,
    sparq_queries,
    sparq_rate,
    window_length,
)
from streamgp.bandits.regression import KERNELS, Hyperparameters, Posterior


def test_factors_of_schedules():
    assert_allclose(beta("log", 50), 0.8 * 5.298317366548036, rtol=1e-12)  # log 200
    assert_allclose(beta("sqrt-log", 50) ** 2, beta("log", 50), rtol=1e-12)
    assert_allclose(beta("sqrt-log", 50), 2.0588, rtol=1e-4)
    # t^(d/2 + 2) = 50^3.5 with three inputs: 883,883.48; times pi^2 / 0.3 = 32.898681.
    assert_allclose(
        beta("srinivas", 50, width=3, delta=0.1), sqrt(2.0 * log(883_883.4764831844 * 32.898681337)), rtol=1e-9
    )
    assert_allclose(beta("srinivas", 1, width=5), sqrt(2.0 * log(pi**2 / 0.15)), rtol=1e-12)
    assert beta(2.5, 50) == 2.5
    assert beta(0, 50) == 0.0
    assert type(beta(3, 50)) is float


@pytest.mark.parametrize("schedule", ["log", "sqrt-log", "srinivas", "theory", 2.0])
def test_the_first_choice_has_number_one(schedule):
    assert beta(schedule, 0) == beta(schedule, 1) > 0.0


def some_covariance() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(6, 1))
    return x, 1.3 * np.exp(-np.square(x - x.T) / (2.0 * 0.2**2)), rng.uniform(0.01, 0.5, 6)


def test_the_factor_of_the_theory_by_determinants():
    x, K, noise_vars = some_covariance()
    S = np.diag(noise_vars)
    delta, bound = 0.02, 3.5
    # Theorem 3.1: sqrt(2 log(2 |S + K|^1/2 / (delta |S|^1/2))) + B.
    ratio = sqrt(np.linalg.det(S + K)) / (delta * sqrt(np.linalg.det(S)))
    hyper = Hyperparameters(np.array([0.2]), 1.3, 0.1)
    posterior = Posterior(KERNELS["squared-exponential"], hyper, x, np.zeros(6), noise_vars)
    found = beta("theory", 7, log_gain=posterior.log_gain, delta=delta, bound=bound)
    assert_allclose(found, sqrt(2.0 * log(2.0 * ratio)) + bound, rtol=1e-9)
    # Before any observation the determinants are those of nothing.
    assert_allclose(beta("theory", 1), sqrt(2.0 * log(2.0 / 0.05)) + 1.0, rtol=1e-12)


def test_what_is_no_factor():
    for wrong in ("linear", -1.0, -1, float("nan")):
        with pytest.raises(
            ValueError, match=f"^beta: .* at least zero or one of theory, log, sqrt-log, srinivas, got {wrong!r}$"
        ):
            # Past the type check that only tests switch on.
            beta.__wrapped__(wrong, 3)


def test_information_gain_is_half_a_log_determinant():
    _, K, noise_vars = some_covariance()
    S = np.diag(noise_vars)
    expected = 0.5 * (np.linalg.slogdet(K + S)[1] - np.linalg.slogdet(S)[1])
    assert_allclose(information_gain(K, noise_vars), expected, rtol=1e-9)
    # One observation tells 1/2 log(1 + v / s2); independent ones tell the sum.
    assert_allclose(information_gain(np.diag([3.0, 15.0]), np.ones(2)), 0.5 * log(4.0) + 0.5 * log(16.0), rtol=1e-12)
    assert information_gain(np.zeros((0, 0)), np.zeros(0)) == 0.0


def test_numbers_of_queries():
    # 6 log 2 = 4.16, 6 log 3 = 6.59, 6 log 100 = 27.63, 6 log 500 = 37.29.
    assert [sparq_queries(t) for t in (0, 1, 2, 3, 100, 500)] == [0, 0, 5, 7, 28, 38]
    assert [sparq_queries(t, 1.0) for t in (2, 20, 21, 500)] == [1, 3, 4, 7]
    assert sparq_queries(500, 0.0) == 0


def test_rate_of_regret():
    # log T = e and log log T = 1: sqrt(T e^6) sqrt(log 20 + 1).
    one = sqrt(exp(e)) * exp(3.0) * sqrt(log(20.0) + 1.0)
    # log T = e^2 and log log T = 2: sqrt(T e^12) sqrt(log 20 + 2^4).
    two = sqrt(exp(e**2)) * exp(6.0) * sqrt(log(20.0) + 16.0)
    found = sparq_rate(np.exp([e, e**2]))
    assert_allclose(found, [one, two], rtol=1e-12)
    assert_allclose(found[1] / found[0], exp(0.5 * (e**2 - e) + 3.0) * sqrt((log(20.0) + 16.0) / (log(20.0) + 1.0)))
    # Two inputs, 2 log T = e^2: sqrt(2 T (e^2 / 2)^7) sqrt(log 100 + 2 2^5).
    T = exp(0.5 * e**2)
    expected = sqrt(2.0 * T * (0.5 * e**2) ** 7) * sqrt(log(100.0) + 64.0)
    assert_allclose(sparq_rate(np.array([T]), 2, 0.01), expected, rtol=1e-12)
    rates = sparq_rate(np.arange(1, 2000))
    assert np.isfinite(rates).all()
    assert np.all(np.diff(rates) > 0.0)
    assert_allclose(sparq_rate(100), rates[99], rtol=1e-12)


def test_lengths_of_blocks_and_windows():
    assert restart_length(1.0 / 16.0, 500) == 24  # 12 times 2
    assert restart_length(0.03, 500) == 29  # 28.83
    assert restart_length(0.03, 20) == 20
    # 16^1/4 = 2, (100 / 4)^1/2 = 5.
    assert window_length(100, 16.0, 4.0) == 10
    assert window_length(100, 16.0, 0.0001) == 100
    assert window_length(100, 0.01, 1e6) == 1


def test_discounts():
    # 16^-1/4 = 1/2, (4 / 100)^1/2 = 1/5.
    assert_allclose(discount(100, 16.0, 4.0), 0.9, rtol=1e-12)
    assert discount(100, 1.0, 400.0) == 0.5
