"""Noise that follows the inputs: the recursion against a textbook loop, and what it learns."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import t as student_t

from streamgp.likelihoods import noise_by_input
from streamgp.likelihoods.noise_by_input import DOF, NoiseByInput, squared_scores
from streamgp.likelihoods.noise_features import MAX_INPUTS, NORMAL_CUTS, NoiseInputs, features
from streamgp.numerics import tree
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


def belief(num_inputs: int = INPUTS, outputs: int = OUTPUTS) -> NoiseByInput:
    """Return what is believed before any row, of inputs that are standard normal."""
    return NoiseByInput.start(outputs, NoiseInputs(np.arange(num_inputs), np.tile(NORMAL_CUTS, (num_inputs, 1))))


def check_equal(got: NoiseByInput, want: NoiseByInput, rtol: float = 0.0) -> None:
    for name in got.array_fields:
        a, b = np.asarray(getattr(got, name)), np.asarray(getattr(want, name))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-3 * rtol, err_msg=name)


@pytest.mark.parametrize("built", [True, False])
def test_recursion_is_that_of_a_textbook_loop(built, monkeypatch):
    if not built:
        monkeypatch.setattr(noise_by_input, "_compiled", lambda: None)
    elif noise_by_input._compiled() is None:
        pytest.skip("the kernel was not built")
    phi, square = rows()
    start = belief()
    after, factor, _ = start.learn_rows(phi, square)
    for e in range(OUTPUTS):
        want = textbook(phi[:, e], square[:, e], start.cuts[e])
        np.testing.assert_allclose(factor[:, e], want.factor, rtol=1e-10)
        for name in ("mean", "cov", "steps", "steps_var", "share", "helps"):
            np.testing.assert_allclose(getattr(after, name)[e], getattr(want, name), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("form", ["kernel", "NumPy", "JAX"])
def test_factors_of_later_rows_are_those_once_the_row_is_learnt(form, monkeypatch):
    if form != "kernel":
        monkeypatch.setattr(noise_by_input, "_compiled", lambda: None)
    phi, square = rows()
    later = np.roll(phi, -5, axis=0)
    given = phi, square, later
    if form == "JAX":
        jax = pytest.importorskip("jax")
        with jax.enable_x64(True):
            after, factor, factor_later = tree.map(np.asarray, belief().learn_rows(*map(jax.numpy.asarray, given)))
    else:
        after, factor, factor_later = belief().learn_rows(*given)
    state = belief()
    for i in range(ROWS):
        np.testing.assert_allclose(factor[i], state.factor(phi[i : i + 1])[0], rtol=1e-11)
        state, *_ = state.learn_rows(phi[i : i + 1], square[i : i + 1])
        np.testing.assert_allclose(factor_later[i], state.factor(later[i : i + 1])[0], rtol=1e-11)
    check_equal(after, state, 1e-10)


def test_rows_may_come_in_parts():
    phi, square = rows()
    whole, factor, _ = belief().learn_rows(phi, square)
    state, at = belief(), 0
    for size in (1, 7, 92, 200):
        state, part, _ = state.learn_rows(phi[at : at + size], square[at : at + size])
        np.testing.assert_array_equal(part, factor[at : at + size])
        at += size
    check_equal(state, whole)


def test_what_was_believed_before_a_row_does_not_depend_on_it():
    phi, square = rows()
    changed = square.copy()
    changed[200:] = 50.0
    _, factor, _ = belief().learn_rows(phi, square)
    _, others, _ = belief().learn_rows(phi, changed)
    np.testing.assert_array_equal(factor[:201], others[:201])
    assert not np.array_equal(factor[201], others[201])


def test_missing_scores_teach_nothing_and_move_nothing():
    phi, square = rows()
    start = belief()
    after, *_ = start.learn_rows(np.full_like(phi, np.nan), np.full_like(square, np.nan))
    check_equal(after, start)


def test_a_log_variance_that_is_linear_is_found():
    rng = np.random.default_rng(1)
    n = 20_000
    X = rng.normal(size=(n, 2))
    phi = features(np.arange(2), X, np.zeros((n, 1)), np.zeros((n, 1, 1)), np.ones((n, 1, 1)))
    errors = rng.standard_t(DOF, size=(n, 1)) * np.exp(0.4 * X[:, :1] - 0.15)
    square = squared_scores(student_t.cdf(errors, DOF), np.ones(n, bool), None)
    state, *_ = belief(2, 1).learn_rows(phi, square)
    h = np.log(state.factor(phi))[:, 0]
    inner = np.abs(X).max(1) < 2.0
    assert np.sqrt(np.mean((h - 0.8 * X[:, 0] + 0.3)[inner] ** 2)) < 0.12
    assert state.share[0] > 0.95


def test_constant_noise_is_left_as_it_is():
    rng = np.random.default_rng(2)
    n = 5_000
    X = rng.normal(size=(n, 5))
    phi = features(np.arange(5), X, np.zeros((n, 1)), np.zeros((n, 1, 1)), np.ones((n, 1, 1)))
    square = np.square(rng.normal(size=(n, 1)))
    _, factor, _ = belief(5, 1).learn_rows(phi, square)
    h = np.log(factor)[1_000:, 0]
    lost = 0.5 * np.mean(h + square[1_000:, 0] * (np.exp(-h) - 1.0))
    assert lost < 0.001


def test_absurd_rows_leave_finite_numbers():
    inputs = np.array([[np.inf, -np.inf, np.nan], [1e300, -1e300, 0.0]])
    loc, var = np.array([[[1e300]], [[np.inf]]]), np.array([[[1e300]], [[0.0]]])
    phi = features(np.arange(3), inputs, np.zeros((2, 1)), loc, var)
    square = squared_scores(np.array([[0.0], [1.0]]), np.ones(2, bool), None)
    assert np.isfinite(phi).all() and np.isfinite(square).all()
    state, *_ = belief(3, 1).learn_rows(phi, square)
    assert all(np.isfinite(getattr(state, name)).all() for name in state.array_fields)
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
    chosen = NoiseInputs.of_rows(X, y).which
    assert len(chosen) == MAX_INPUTS and {38, 39} <= set(chosen.tolist()) and 5 not in chosen
    np.testing.assert_array_equal(NoiseInputs.of_rows(X[:, :7], y).which, np.arange(7))


def test_places_of_an_input_are_cut_at_its_deciles_or_between_its_few_values():
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=1_000), rng.integers(0, 3, 1_000), np.full(1_000, 2.0)])
    X[:10, 0] = np.nan
    cuts = NoiseInputs.of_rows(X, X[:, 1:2]).cuts
    shares = np.bincount(np.searchsorted(cuts[0], np.nan_to_num(X[:, 0]))) / 1_000
    np.testing.assert_allclose(shares, 0.1, atol=0.01)
    np.testing.assert_array_equal(cuts[1], [0.5, 1.5, *[np.inf] * 7])
    np.testing.assert_array_equal(cuts[2], np.full(9, np.inf))


def test_noise_that_jumps_at_a_value_of_an_input_is_found():
    rng = np.random.default_rng(5)
    n = 8_000
    X = rng.normal(size=(n, 4))
    phi = features(np.arange(4), X, np.zeros((n, 1)), np.zeros((n, 1, 1)), np.ones((n, 1, 1)))
    jump = np.where(np.abs(X[:, :1]) < NORMAL_CUTS[5], 1.0, -0.5)  # no plane of x and |x| has such a hump
    errors = rng.standard_t(DOF, size=(n, 1)) * np.exp(0.5 * jump)
    square = squared_scores(student_t.cdf(errors, DOF), np.ones(n, bool), None)
    state, *_ = belief(4, 1).learn_rows(phi, square)
    found, plane = (np.log(each.factor(phi)) for each in (state, replace(state, steps=0.0 * state.steps)))
    assert state.helps[0] > 0.95
    assert np.sqrt(np.mean(np.square(found - jump))) < 0.3 < 0.4 < np.sqrt(np.mean(np.square(plane - jump)))
