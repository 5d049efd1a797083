"""Noise that follows the inputs: the recursion against a textbook loop, and what it learns."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import t as student_t

from streamgp.likelihoods import noise_by_input
from streamgp.likelihoods.noise_by_input import DOF, NoiseByInput, chosen_inputs, features, squared_scores
from tests.oracles.log_variances import textbook

ROWS, INPUTS, OUTPUTS = 300, 3, 2


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return features of rows, and squared scores that are larger where the first input is."""
    rng = np.random.default_rng(seed)
    X, log_weights = rng.normal(size=(ROWS, INPUTS)), np.full((ROWS, 2), np.log(0.5))
    loc, var = rng.normal(size=(ROWS, 2, OUTPUTS)), rng.gamma(3.0, size=(ROWS, 2, OUTPUTS))
    phi = features(np.arange(INPUTS), X, log_weights, loc, var)
    square = np.square(rng.normal(size=(ROWS, OUTPUTS))) * np.exp(X[:, :1])
    square[rng.random(square.shape) < 0.1] = np.nan
    outliers = rng.random(square.shape) < 0.1
    square[outliers] *= -3.0
    return phi, square


@pytest.mark.parametrize("built", [True, False])
def test_recursion_is_that_of_a_textbook_loop(built, monkeypatch):
    if not built:
        monkeypatch.setattr(noise_by_input, "_compiled", lambda: None)
    elif noise_by_input._compiled() is None:
        pytest.skip("the kernel was not built")
    phi, square = rows()
    after, means, shares = NoiseByInput.start(OUTPUTS, INPUTS).learn_rows(phi, square)
    for e in range(OUTPUTS):
        want = textbook(phi[:, e], square[:, e])
        np.testing.assert_allclose(means[:, e], want.means, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(shares[:, e], want.shares, rtol=1e-10)
        np.testing.assert_allclose(after.mean[e], want.mean, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(after.cov[e], want.cov, rtol=1e-10, atol=1e-13)


def test_recursion_is_the_same_in_jax():
    jax = pytest.importorskip("jax")
    phi, square = rows()
    start = NoiseByInput.start(OUTPUTS, INPUTS)
    want = start.learn_rows(phi, square)
    with jax.enable_x64(True):
        got = start.learn_rows(*map(jax.numpy.asarray, (phi, square)))
    for a, b in zip((got[0].mean, got[0].cov, *got[1:]), (want[0].mean, want[0].cov, *want[1:]), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-10, atol=1e-13)


def test_rows_may_come_in_parts():
    phi, square = rows()
    whole, means, shares = NoiseByInput.start(OUTPUTS, INPUTS).learn_rows(phi, square)
    state, at = NoiseByInput.start(OUTPUTS, INPUTS), 0
    for size in (1, 7, 92, 200):
        state, part, parted = state.learn_rows(phi[at : at + size], square[at : at + size])
        np.testing.assert_array_equal(part, means[at : at + size])
        np.testing.assert_array_equal(parted, shares[at : at + size])
        at += size
    np.testing.assert_array_equal(state.cov, whole.cov)
    np.testing.assert_array_equal(state.mean, whole.mean)


def test_what_was_believed_before_a_row_does_not_depend_on_it():
    phi, square = rows()
    changed = square.copy()
    changed[200:] = 50.0
    _, means, _ = NoiseByInput.start(OUTPUTS, INPUTS).learn_rows(phi, square)
    _, others, _ = NoiseByInput.start(OUTPUTS, INPUTS).learn_rows(phi, changed)
    np.testing.assert_array_equal(means[:201], others[:201])
    assert not np.array_equal(means[201], others[201])


def test_missing_scores_teach_nothing_and_move_nothing():
    phi, square = rows()
    start = NoiseByInput.start(OUTPUTS, INPUTS)
    after, _, _ = start.learn_rows(np.full_like(phi, np.nan), np.full_like(square, np.nan))
    for a, b in zip((after.mean, after.cov, after.share), (start.mean, start.cov, start.share), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_log_variance_that_is_linear_is_found():
    rng = np.random.default_rng(1)
    n = 20_000
    X = rng.normal(size=(n, 2))
    phi = features(np.arange(2), X, np.zeros((n, 1)), np.zeros((n, 1, 1)), np.ones((n, 1, 1)))
    errors = rng.standard_t(DOF, size=(n, 1)) * np.exp(0.4 * X[:, :1] - 0.15)
    square = squared_scores(student_t.cdf(errors, DOF), np.ones(n, bool), None)
    state, _, shares = NoiseByInput.start(1, 2).learn_rows(phi, square)
    h = np.log(state.factor(phi))[:, 0]
    inner = np.abs(X).max(1) < 2.0
    assert np.sqrt(np.mean((h - 0.8 * X[:, 0] + 0.3)[inner] ** 2)) < 0.12
    assert shares[n // 2 :].mean() > 0.98


def test_constant_noise_is_left_as_it_is():
    rng = np.random.default_rng(2)
    n = 5_000
    X = rng.normal(size=(n, 5))
    phi = features(np.arange(5), X, np.zeros((n, 1)), np.zeros((n, 1, 1)), np.ones((n, 1, 1)))
    square = np.square(rng.normal(size=(n, 1)))
    _, means, shares = NoiseByInput.start(1, 5).learn_rows(phi, square)
    h = np.log(noise_by_input.variance_factor(means, shares, phi))[1_000:, 0]
    lost = 0.5 * np.mean(h + square[1_000:, 0] * (np.exp(-h) - 1.0))
    assert lost < 0.001


def test_absurd_rows_leave_finite_numbers():
    inputs = np.array([[np.inf, -np.inf, np.nan], [1e300, -1e300, 0.0]])
    loc, var = np.array([[[1e300]], [[np.inf]]]), np.array([[[1e300]], [[0.0]]])
    phi = features(np.arange(3), inputs, np.zeros((2, 1)), loc, var)
    square = squared_scores(np.array([[0.0], [1.0]]), np.ones(2, bool), None)
    assert np.isfinite(phi).all() and np.isfinite(square).all()
    state, means, _ = NoiseByInput.start(1, 3).learn_rows(phi, square)
    assert np.isfinite(state.mean).all() and np.isfinite(means).all()
    assert (np.abs(np.log(state.factor(phi))) <= noise_by_input.MAX_LOG_VARIANCE).all()


def test_squared_scores_are_those_of_levels_and_missing_where_nothing_is_learnt():
    u = np.array([[0.1], [0.5], [1e-9], [np.nan], [0.9]])
    learnt, flagged = np.array([True, True, True, True, False]), np.array([False, False, True, False, False])
    found = squared_scores(u, learnt, flagged)
    np.testing.assert_allclose(found[:3, 0], ndtri(u[:3, 0]) ** 2 * [1.0, 1.0, -1.0], atol=1e-12)
    assert np.isnan(found[3:]).all()


def test_of_many_inputs_those_are_chosen_that_go_with_the_size_of_the_errors():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1_000, 40))
    X[:, 5] = 1.0
    y = X[:, :1] + np.exp(X[:, [38]]) * rng.normal(size=(1_000, 1)) * (1.0 + np.abs(X[:, [39]]))
    chosen = chosen_inputs(X, y)
    assert len(chosen) == noise_by_input.MAX_INPUTS and {38, 39} <= set(chosen.tolist()) and 5 not in chosen
    np.testing.assert_array_equal(chosen_inputs(X[:, :7], y), np.arange(7))
