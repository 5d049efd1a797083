"""Regret against slow textbook versions: dense conditioning, least squares, every sequence there is."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from oracles.dense import condition
from oracles.ensemble_loop import weigh
from regret_problems import Problem, designs, problem
from streamgp.bases import Linear
from streamgp.filters.dynamics import static
from streamgp.filters.noise import parse
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.research.regret import (
    best_fit,
    best_functions,
    best_sequence,
    hindsight_basis,
    hindsight_kernel,
    run_losses,
    sequence_regret,
    static_regret,
    switching_regret,
)
from streamgp.research.regret.hindsight import experts_of
from streamgp.weights import BMA, fixed_share

pytestmark = pytest.mark.slow

SWITCH = 0.1


def dense_densities(case: Problem, slots: np.ndarray | None) -> np.ndarray:
    """Log density of every row by every expert, from a covariance matrix over the rows that it may learn from."""
    n = len(case.y)
    found = np.empty((n, 3))
    for m, Phi in enumerate(designs(case)):
        for t in range(n):
            before = np.arange(t) if slots is None else np.flatnonzero(slots[:t] == m)
            rows = np.append(before, t)
            K = case.prior_var[m] * Phi[rows] @ Phi[rows].T
            targets = case.y[rows][:, None]
            mean, var = condition(K, targets, case.noise_var[m], len(before), len(before))
            found[t, m] = norm.logpdf(case.y[t], mean[0], np.sqrt(var))
    return found


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_losses_are_those_of_dense_conditioning(seed: int, own: bool) -> None:
    case = problem(seed, fixed_share(3, SWITCH))
    slots = np.random.default_rng(seed).integers(3, size=len(case.y)) if own else None
    densities = dense_densities(case, slots)
    Q = np.full((3, 3), SWITCH / 2) + (1.0 - 1.5 * SWITCH) * np.eye(3)
    losses = run_losses(case.model, case.X, case.y, slots)
    np.testing.assert_allclose(losses.experts, -densities, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(losses.mixture, -weigh(densities, transition=Q).log_density, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_best_function_by_basis_by_kernel_and_by_least_squares(seed: int) -> None:
    case = problem(seed, BMA())
    for fit, Phi, v, s2 in zip(
        best_functions(case.model, case.X, case.y), designs(case), case.prior_var, case.noise_var, strict=True
    ):
        # A ridge regression is least squares with a row more for every weight.
        A = np.concatenate([Phi / np.sqrt(s2), np.eye(Phi.shape[1]) / np.sqrt(v)])
        theta = np.linalg.lstsq(A, np.append(case.y / np.sqrt(s2), np.zeros(Phi.shape[1])))[0]
        loss = -norm.logpdf(case.y, Phi @ theta, np.sqrt(s2))
        size = np.abs(case.y).max()
        np.testing.assert_allclose(fit.fitted, Phi @ theta, rtol=1e-8, atol=1e-9 * size)
        np.testing.assert_allclose(fit.loss.sum(), loss.sum(), rtol=1e-8)
        np.testing.assert_allclose(fit.squared_norm, theta @ theta / v, rtol=1e-7)
        np.testing.assert_allclose(fit.objective, loss.sum() + theta @ theta / (2 * v), rtol=1e-8)
        np.testing.assert_allclose(v * Phi.T @ fit.coefficients, theta, rtol=1e-6, atol=1e-9 * np.abs(theta).max())
        dense = hindsight_kernel(v * Phi @ Phi.T, case.y, s2)
        np.testing.assert_allclose(dense.fitted, fit.fitted, rtol=1e-7, atol=1e-8 * size)
        np.testing.assert_allclose(dense.objective, fit.objective, rtol=1e-8)
        np.testing.assert_allclose(dense.squared_norm, fit.squared_norm, rtol=1e-6)


def test_static_regret_adds_up_to_the_best_penalised_function() -> None:
    # The first function fits better, the second one is smaller by more than that.
    y = np.array([1.0, 3.0])
    wide = hindsight_basis(np.eye(2), y, 0.5, 0.1)
    narrow = hindsight_basis(np.array([[1.0], [2.9]]), y, 1.0, 0.1)
    assert wide.loss.sum() > narrow.loss.sum() and best_fit([wide, narrow]) == 1
    rough, smooth = hindsight_basis(np.eye(2), y, 20.0, 0.1), hindsight_basis(np.ones((2, 1)), y, 20.0, 0.5)
    assert rough.loss.sum() < smooth.loss.sum()
    for fits in ([rough, smooth], [smooth, rough], [wide, narrow]):
        best = min(fits, key=lambda fit: fit.objective)
        np.testing.assert_allclose(static_regret([2.0, 1.0], fits), np.cumsum([2.0, 1.0] - best.loss))


def test_the_best_function_is_chosen_with_its_penalty() -> None:
    y = np.full(4, 2.0)
    close = hindsight_basis(np.ones((4, 1)), y, 1e-2, 1e-3)  # all but exact, by an improbable weight
    probable = hindsight_basis(np.ones((4, 1)), y, 10.0, 0.3)
    assert close.loss.sum() < probable.loss.sum()
    assert best_fit([close, probable]) == 1
    assert static_regret(np.zeros(4), [close, probable])[-1] == pytest.approx(-probable.loss.sum())


def test_switching_regret_takes_each_row_from_its_own_slot() -> None:
    case = problem(0, BMA())
    slots = np.arange(len(case.y)) % 2  # the third expert has none
    fits = best_functions(case.model, case.X, case.y, slots)
    assert [len(fit.loss) for fit in fits] == [20, 20, 0]
    assert fits[2].objective == 0.0
    alone = hindsight_basis(designs(case)[1][1::2], case.y[1::2], case.prior_var[1], case.noise_var[1])
    np.testing.assert_allclose(fits[1].loss, alone.loss)
    reference = np.column_stack([fits[0].loss, fits[1].loss]).ravel()
    loss = np.linspace(0.0, 1.0, 40)
    np.testing.assert_allclose(switching_regret(loss, fits, slots), np.cumsum(loss - reference))


@pytest.mark.parametrize("seed", range(20))
def test_best_sequence_against_all_there_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    losses = rng.normal(size=(6, 3)) if seed % 2 else rng.integers(3, size=(6, 3)).astype(float)  # with ties
    every = np.array(list(itertools.product(range(3), repeat=6)))
    switched = (np.diff(every, axis=1) != 0).sum(1)
    totals = losses[np.arange(6), every].sum(1)
    for switches in range(8):
        found = best_sequence(losses, switches)
        assert (np.diff(found) != 0).sum() <= switches
        assert losses[np.arange(6), found].sum() == pytest.approx(totals[switched <= switches].min(), abs=1e-12)


def test_sequence_regret_ends_at_the_difference_of_totals() -> None:
    case = problem(1, fixed_share(3, SWITCH))
    losses = run_losses(case.model, case.X, case.y)
    alone = sequence_regret(losses, 0)
    assert alone[-1] == pytest.approx(losses.mixture.sum() - losses.experts.sum(0).min())
    assert sequence_regret(losses, 39)[-1] == pytest.approx((losses.mixture - losses.experts.min(1)).sum())


def test_float64_whatever_the_setting_of_the_caller() -> None:
    case = problem(2, BMA())

    def regret() -> np.ndarray:
        losses = run_losses(case.model, case.X, case.y)
        own = run_losses(case.model, case.X, case.y, np.arange(40) // 20)
        fits = best_functions(case.model, case.X, case.y)
        dense = hindsight_kernel(np.eye(40), case.y, 1e-3)
        return np.concatenate([static_regret(losses.mixture, fits), own.mixture, dense.fitted])

    inside = regret()
    with jax.enable_x64(False):
        outside = regret()
    assert outside.dtype == np.float64
    np.testing.assert_array_equal(outside, inside)


def test_experts_keep_their_order_whatever_their_grouping() -> None:
    case = problem(3, BMA())
    line = Linear(2)
    given = [
        Expert(line if i % 2 else expert.basis, expert.prior_var, expert.noise_var, static(), str(i))
        for i, expert in enumerate(experts_of(case.model) * 2)
    ]
    found = experts_of(ensemble(given, BMA()))
    assert [expert.name for expert in found] == [expert.name for expert in given]
    X = jnp.asarray(case.X)
    for one, other in zip(found, given, strict=True):
        np.testing.assert_array_equal(one.basis(X), other.basis(X))
        assert (one.prior_var, one.noise_var) == (other.prior_var, other.noise_var)


def test_what_does_not_fit_is_refused() -> None:
    case = problem(0, BMA())
    X, y = case.X, case.y
    several = ensemble(experts_of(case.model), BMA(), num_outputs=2)
    adaptive = ensemble(experts_of(case.model), BMA(), kinds=parse(["adaptive 0.9"]))
    fits = best_functions(case.model, X, y)
    nan = np.where(np.arange(40) == 3, np.nan, y)
    for message, call in {
        "one target and constant noise, got 2 targets": lambda: run_losses(several, X, y),
        "got 1 targets and adaptive noise": lambda: best_functions(adaptive, X, y),
        r"X: expected shape \(40, 2\)": lambda: run_losses(case.model, X[:, :1], y),
        "y: expected finite numbers": lambda: run_losses(case.model, X, nan),
        "slots: expected 40 whole numbers from 0 to 2.*got 3 at row 1": lambda: best_functions(
            case.model, X, y, np.eye(40, dtype=int)[1] * 3
        ),
        "slots: expected 40 whole numbers.*float64": lambda: run_losses(case.model, X, y, np.zeros(40)),
        r"K: expected shape \(40, 40\)": lambda: hindsight_kernel(np.eye(3), y, 1.0),
        "Phi: expected 40 rows": lambda: hindsight_basis(np.eye(3), y, 1.0, 1.0),
        "noise_var: expected a finite variance": lambda: hindsight_basis(np.eye(40), y, 1.0, 0.0),
        "loss: expected that of the 40 rows": lambda: static_regret(np.zeros(3), fits),
        "fits: expected 20 rows for expert 0": lambda: switching_regret(np.zeros(40), fits, np.arange(40) // 20),
        "losses: expected numbers of shape": lambda: best_sequence(np.zeros((0, 2)), 0),
        "switches: expected a whole number": lambda: best_sequence(np.zeros((2, 2)), -1),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
