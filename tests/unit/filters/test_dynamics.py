"""Dynamics against their definition: many small steps, and the covariance of a path."""

import jax.numpy as jnp
import numpy as np
import pytest

from oracles.dense import dense_covariance
from streamgp.filters.dynamics import Dynamics, mean_reverting, parse, random_walk, static

EVERY = ("static", "walk 0.01", "revert 0.9")


@pytest.mark.parametrize("name", EVERY)
def test_a_time_of_five_is_five_steps(name):
    dynamics = parse(name)
    mean, variance = 1.0, 0.0
    for _ in range(5):
        mean = float(dynamics.decay) * mean
        variance = float(dynamics.decay) ** 2 * variance + float(dynamics.diffusion)
    np.testing.assert_allclose(dynamics.transition(jnp.asarray(5.0)), mean, rtol=1e-13)
    np.testing.assert_allclose(dynamics.process_variance(jnp.asarray(5.0)), variance, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("name", EVERY)
def test_two_times_follow_each_other(name):
    dynamics = parse(name)
    s, t = jnp.asarray(0.37), jnp.asarray(2.6)
    a, b = dynamics.transition, dynamics.process_variance
    np.testing.assert_allclose(a(s + t), a(s) * a(t), rtol=1e-13)
    np.testing.assert_allclose(b(s + t), a(t) ** 2 * b(s) + b(t), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("name", EVERY)
def test_a_block_has_the_covariance_of_the_path(name):
    dynamics = parse(name)
    times = np.cumsum([0.0, 1.0, 0.0, 2.5, 0.1])
    a, b = dynamics.block(jnp.asarray(times))
    got = np.outer(a, a) * 1.7 + 1.7 * np.asarray(b)
    options = {"decay": float(dynamics.decay), "diffusion": float(dynamics.diffusion)}
    want = dense_covariance(np.ones((5, 1)), times, prior_var=1.7, **options)
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_mean_reverting_weights_keep_the_prior_variance():
    dynamics = mean_reverting(0.97)
    for tau in (0.0, 1.0, 33.3, 1e6):
        a, b = dynamics.transition(jnp.asarray(tau)), dynamics.process_variance(jnp.asarray(tau))
        np.testing.assert_allclose(a**2 + b, 1.0, rtol=1e-14)


def test_slow_reversion_loses_no_digits():
    # 1 - lam^(2 tau) would cancel: lam is within 1e-12 of one.
    dynamics = Dynamics(jnp.asarray(1.0 - 1e-12), jnp.asarray(1e-3))
    np.testing.assert_allclose(dynamics.process_variance(jnp.asarray(50.0)), 50e-3, rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (static, "static"),
        (lambda: random_walk(0.0), "static"),
        (lambda: random_walk(1e-3), "walk 0.001"),
        (lambda: mean_reverting(0.5), "revert 0.5"),
    ],
)
def test_names_are_read_back(make, name):
    dynamics = make()
    assert dynamics.name == name
    assert float(parse(name).decay) == float(dynamics.decay)
    assert float(parse(name).diffusion) == pytest.approx(float(dynamics.diffusion), rel=1e-12)


def test_a_number_is_a_random_walk():
    assert float(parse(1e-3).diffusion) == 1e-3
    assert parse(0).name == "static"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: random_walk(-1.0), "random_walk: expected a finite variance q >= 0 .* got -1.0"),
        (lambda: random_walk(float("nan")), "got nan"),
        (lambda: random_walk(float("inf")), "got inf"),
        (lambda: mean_reverting(1.0), "strictly between 0 and 1, got 1.0"),
        (lambda: mean_reverting(0.0), "strictly between 0 and 1, got 0.0"),
        (lambda: parse("sideways"), "dynamics.*sideways"),
        (lambda: parse("walk"), "dynamics.*walk"),
        (lambda: parse("walk -1"), "dynamics 'walk -1': random_walk: expected"),
        (lambda: parse("revert x"), "dynamics 'revert x'"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
