"""Where rows find their places: derivatives, ascent, missing entries."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.bases import Fourier
from streamgp.filters.kalman import FilterState
from streamgp.latent.embedding import ObservedRows, embed, expand_log_joint, summarise_complete, summarise_gappy
from streamgp.numerics.linalg import solve_small

F, D, E = 12, 2, 7
NOISE = 0.3


def belief(rng: np.random.Generator) -> FilterState:
    A = rng.normal(size=(F, F))
    return FilterState(jnp.asarray(rng.normal(size=(F, E))), jnp.asarray(A @ A.T / F + 0.1 * np.eye(F)))


def problem(seed: int = 0, rows: int = 5) -> tuple[Fourier, FilterState, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    basis = Fourier(jnp.asarray(rng.normal(size=(F // 2, D))), jnp.asarray([0.7, 0.7]))
    return basis, belief(rng), rng.normal(size=(rows, E)), rng.normal(size=(rows, D))


def textbook(basis: Any, state: FilterState, y: Any, seen: Any, x: Any) -> Any:
    """log p(y, x) of one row, entry by entry."""
    phi = basis(x[None])[0]
    var = phi @ state.cov @ phi + NOISE
    each = -0.5 * ((y - phi @ state.mean) ** 2 / var + jnp.log(2.0 * jnp.pi * var))
    return jnp.sum(jnp.where(seen, each, 0.0)) - 0.5 * jnp.sum(x * x) - 0.5 * D * jnp.log(2.0 * jnp.pi)


@pytest.mark.parametrize("missing", [False, True])
def test_value_and_gradient_are_those_of_the_textbook(missing):
    basis, state, Y, x = problem()
    seen = np.random.default_rng(1).random(Y.shape) < 0.6 if missing else np.ones(Y.shape, bool)
    whole, marked = jnp.asarray(np.where(seen, Y, np.nan)), jnp.asarray(seen)
    rows = summarise_gappy(state, whole, marked) if missing else summarise_complete(state, whole)
    found = expand_log_joint(basis, state, jnp.asarray(NOISE), rows, jnp.asarray(x))
    for i, row in enumerate(Y):
        value, gradient = jax.value_and_grad(lambda at, i=i, row=row: textbook(basis, state, row, seen[i], at))(
            jnp.asarray(x[i])
        )
        assert_allclose(found.value[i], value, rtol=1e-10)
        assert_allclose(found.gradient[i], gradient, rtol=1e-8, atol=1e-8)
        assert np.linalg.eigvalsh(np.asarray(found.curvature[i])).min() > 0.0


def test_gauss_newton_is_the_curvature_where_all_fits():
    # At a place that explains a row without noise, the terms left out vanish but for the variance's share.
    basis, state, _, x = problem()
    state = FilterState(state.mean, jnp.zeros_like(state.cov))
    Y = basis(jnp.asarray(x)) @ state.mean
    found = expand_log_joint(basis, state, jnp.asarray(NOISE), summarise_complete(state, Y), jnp.asarray(x))
    for i in range(len(x)):
        exact = -jax.hessian(lambda at, i=i: textbook(basis, state, Y[i], True, at))(jnp.asarray(x[i]))
        assert_allclose(found.curvature[i], exact, rtol=1e-8)


def test_an_embedding_never_ends_below_its_start_and_reaches_a_peak():
    basis, state, Y, _ = problem(2, 40)
    rng = np.random.default_rng(3)
    starts = jnp.asarray(rng.normal(size=(40, 3, D)) * 3.0)
    rows = summarise_complete(state, jnp.asarray(Y))
    x, value, _ = embed(basis, state, jnp.asarray(NOISE), rows, starts)
    for s in range(3):
        before = expand_log_joint(basis, state, jnp.asarray(NOISE), rows, starts[:, s]).value
        assert (np.asarray(value) >= np.asarray(before)).all()
    end = expand_log_joint(basis, state, jnp.asarray(NOISE), rows, x)
    assert_allclose(end.value, value, rtol=1e-12)
    steps = np.linalg.solve(np.asarray(end.curvature), np.asarray(end.gradient)[:, :, None])
    assert np.median(np.abs(steps)) < 1e-4
    assert np.quantile(np.abs(steps), 0.9) < 1e-2


def test_rows_that_are_no_numbers_stay_where_they_start():
    basis, state, Y, x = problem()
    rows = summarise_complete(state, jnp.asarray(Y))
    broken = ObservedRows(rows.linear * jnp.nan, rows.squares, rows.gram, rows.count)
    stayed, *_ = embed(basis, state, jnp.asarray(NOISE), broken, jnp.asarray(x)[:, None, :])
    assert_allclose(stayed, x)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_small_systems_are_solved(d):
    rng = np.random.default_rng(d)
    A = rng.normal(size=(6, d, d))
    A = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(d)
    b = rng.normal(size=(6, d))
    assert_allclose(solve_small(A, b), np.linalg.solve(A, b[:, :, None])[:, :, 0], rtol=1e-8)


def test_log_density_is_the_integral_over_places_where_a_row_tells_its_place():
    rng = np.random.default_rng(8)
    basis, state, *_ = problem()
    wide = FilterState(jnp.asarray(rng.normal(size=(state.mean.shape[0], 30))), 1e-4 * state.cov)
    x = rng.normal(size=(5, D))
    Y = np.asarray(basis(jnp.asarray(x))) @ np.asarray(wide.mean) + np.sqrt(NOISE) * rng.normal(size=(5, 30))
    rows = summarise_complete(wide, jnp.asarray(Y))
    found = embed(basis, wide, jnp.asarray(NOISE), rows, jnp.asarray(x)[:, None, :])
    assert_allclose(
        found.precision, expand_log_joint(basis, wide, jnp.asarray(NOISE), rows, found.coordinates).curvature
    )
    std = np.sqrt(np.stack([np.diag(np.linalg.inv(each)) for each in np.asarray(found.precision)]))
    steps = np.linspace(-6.0, 6.0, 61)
    offsets = np.stack(np.meshgrid(*[steps] * D), axis=-1).reshape(-1, D)
    for i in range(5):
        at = np.asarray(found.coordinates[i]) + offsets * std[i]
        one = jax.tree.map(lambda a, i=i: a[i : i + 1] if a.ndim != 2 or len(a) == 5 else a, rows)
        many = ObservedRows(*(jnp.repeat(a, len(at), axis=0) if len(a) == 1 else a for a in one))
        value = np.asarray(expand_log_joint(basis, wide, jnp.asarray(NOISE), many, jnp.asarray(at)).value)
        cell = np.prod((steps[1] - steps[0]) * std[i])
        assert_allclose(found.log_density[i], np.logaddexp.reduce(value) + np.log(cell), atol=0.5)
        mass = np.exp(value - np.logaddexp.reduce(value))
        spread = np.sqrt(mass @ (at - mass @ at) ** 2)
        assert_allclose(std[i], spread, rtol=0.2)
