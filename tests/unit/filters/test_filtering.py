"""The exact block filter against the row-by-row recursion, dense conditioning and golden numbers."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from oracles.dense import condition, dense_covariance
from oracles.loop_filter import loop_filter
from oracles.square_root import square_root_filter
from streamgp.filters.dynamics import Dynamics, parse, random_walk
from streamgp.filters.engine.blocks import in_blocks
from streamgp.filters.kalman import (
    ExpertVariances,
    ForecastFeatures,
    predict_rows,
    prior_state,
    update_block,
    update_blocks,
)

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "expert.npz")
NAMES = ("static", "walk 0.02", "revert 0.97")
OPTIONS = {"prior_var": 1.7, "noise_var": 0.09}

predict = jax.jit(predict_rows)
update = jax.jit(update_block)
many = jax.jit(update_blocks)


def standard_noise() -> ExpertVariances:
    return ExpertVariances(jnp.asarray(1.7), jnp.asarray(0.09))


def settings_of(name: str) -> dict[str, float]:
    match name.split():
        case ["static"]:
            return {"decay": 1.0, "diffusion": 0.0}
        case ["walk", q]:
            return {"decay": 1.0, "diffusion": float(q)}
        case [_, lam]:
            return {"decay": float(lam), "diffusion": 1.0 - float(lam) ** 2}
    raise ValueError(name)


def data(n: int, F: int = 6, E: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, targets, and irregular gaps between the rows, some of them zero."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1.0, n) * (rng.random(n) > 0.2)
    return rng.normal(size=(n, F)) / np.sqrt(F), rng.normal(size=(n, E)), gaps


def learn(Phi, y, dynamics: Dynamics, gaps=None, *, mask=None, noise=None, state=None):
    """One block of all the rows; those that `mask` leaves out take no time."""
    n, F = Phi.shape
    noise = standard_noise() if noise is None else noise
    state = prior_state(F, y.shape[1], noise.prior_var) if state is None else state
    mask = np.ones(n, bool) if mask is None else mask
    tau = np.cumsum(np.where(mask, 1.0 if gaps is None else gaps, 0.0))
    Phi = np.where(mask[:, None], Phi, 0.0)
    arrays = [jnp.asarray(a) for a in (Phi, Phi @ Phi.T, y, mask, tau)]
    return update(state, *arrays, dynamics, noise)


def close(got, want, rtol=1e-9):
    want = np.asarray(want)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * np.abs(want).max())


@pytest.mark.parametrize("i", [0, 1])
def test_golden_expert(i):
    Phi, y, q = GOLDEN["Phi"], GOLDEN["y"], float(GOLDEN["rw_vars"][i])
    noise = ExpertVariances(jnp.asarray(GOLDEN["prior_var"]), jnp.asarray(GOLDEN["noise_var"]))
    dynamics = random_walk(q / float(GOLDEN["prior_var"]))
    state, (loc, var, _) = learn(Phi, y[:, None], dynamics, noise=noise)
    tight = {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(loc[:, 0], GOLDEN[f"pred_mean_{i}"], **tight)
    np.testing.assert_allclose(var, GOLDEN[f"pred_var_{i}"], **tight)
    log_density = norm.logpdf(y, loc[:, 0], np.sqrt(var))
    np.testing.assert_allclose(log_density, GOLDEN[f"logpdf_{i}"], **tight)
    np.testing.assert_allclose(log_density.sum(), GOLDEN[f"dense_logml_{i}"], **tight)
    np.testing.assert_allclose(state.mean[:, 0], GOLDEN[f"mu_final_{i}"], **tight)
    np.testing.assert_allclose(state.cov, GOLDEN[f"Sigma_final_{i}"], **tight)
    half, _ = learn(Phi[:29], y[:29, None], dynamics, noise=noise)
    np.testing.assert_allclose(half.mean[:, 0], GOLDEN[f"mu_steps_{i}"][28], **tight)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_block_is_the_row_by_row_recursion(name, timed):
    Phi, y, gaps = data(90)
    gaps = gaps if timed else None
    want = loop_filter(Phi, y, **OPTIONS, gaps=gaps, **settings_of(name))
    state, (loc, var, _) = learn(Phi, y, parse(name), gaps)
    close(loc, want.loc)
    close(var, want.var)
    close(state.mean, want.mean)
    close(state.cov, want.cov)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_dense_conditionals(name):
    Phi, y, gaps = data(40)
    times = np.cumsum(gaps)
    K = dense_covariance(Phi, times, prior_var=1.7, **settings_of(name))
    state, (loc, var, _) = learn(Phi[:30], y[:30], parse(name), gaps[:30])
    for row in (0, 1, 17, 29):
        mean, variance = condition(K, y, 0.09, row, row)
        close(loc[row], mean)
        close(var[row], variance)
    total = sum(multivariate_normal.logpdf(y[:30, e], cov=K[:30, :30] + 0.09 * np.eye(30)) for e in range(2))
    close(norm.logpdf(y[:30], loc, np.sqrt(var)[:, None]).sum(), total)
    # Each later row as if it came next, after its own time.
    later = predict(state, jnp.asarray(Phi[30:]), jnp.asarray(times[30:] - times[29]), parse(name), standard_noise())
    for j in range(10):
        mean, variance = condition(K, y, 0.09, 30 + j, 30)
        close(later[0][j], mean)
        close(later[1][j], variance)


@pytest.mark.parametrize("name", NAMES)
def test_forecasts_are_dense_conditionals(name):
    """Each later row is given the targets up to its own row of the block, and none after it."""
    Phi, y, gaps = data(30)
    to_come, _, _ = data(30, seed=1)
    tau = np.cumsum(gaps)
    ahead = tau + 1.5
    K = dense_covariance(
        np.concatenate([Phi, to_come]), np.concatenate([tau, ahead]), prior_var=1.7, **settings_of(name)
    )
    later = ForecastFeatures(to_come, Phi @ to_come.T, ahead)
    start = prior_state(6, 2, np.asarray(1.7))
    block = (Phi, Phi @ Phi.T, y, np.ones(30, bool), tau)
    noise = ExpertVariances(np.asarray(1.7), np.asarray(0.09))
    state, (loc, var, _) = update_block(start, *block, parse(name), noise, later)
    for row in range(30):
        mean, variance = condition(K, y, 0.09, 30 + row, row + 1)
        close(loc[row], mean)
        close(var[row], variance)
    close(state.mean, update_block(start, *block, parse(name), noise)[0].mean)


def test_the_time_of_a_row_counts_from_the_end_of_the_block_before():
    _, _, gaps = data(150)
    clock = np.cumsum(gaps)
    tau = in_blocks(np.zeros((150, 1)), np.zeros((150, 1)), np.ones(150, bool), clock).tau
    want = [clock[i] - (clock[i // 64 * 64 - 1] if i >= 64 else 0.0) for i in range(150)]
    np.testing.assert_allclose(tau.ravel()[:150], want, rtol=1e-12)
    assert (tau.ravel()[150:] == tau.ravel()[149]).all()  # rows that fill the last block take no time


@given(cuts=st.sets(st.integers(1, 59), max_size=6), name=st.sampled_from(NAMES))
@settings(max_examples=6, deadline=None)
def test_where_the_blocks_are_cut_does_not_matter(cuts, name):
    Phi, y, gaps = data(60, F=3)
    whole, (loc, var, _) = learn(Phi, y, parse(name), gaps)
    state, got_loc, got_var = None, np.zeros_like(loc), np.zeros_like(var)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 60], strict=True):
        piece = (np.arange(60) >= start) & (np.arange(60) < stop)
        state, part = learn(Phi, y, parse(name), gaps, mask=piece, state=state)
        got_loc[piece], got_var[piece] = part[0][piece], part[1][piece]
    close(got_loc, loc)
    close(got_var, var)
    close(state.mean, whole.mean)
    close(state.cov, whole.cov)


def test_rows_left_out_change_nothing():
    Phi, y, gaps = data(40)
    keep = np.arange(40) % 3 != 1
    dynamics = parse("revert 0.97")
    want, (loc, var, _) = learn(Phi[keep], y[keep], dynamics, gaps[keep])
    state, (masked_loc, masked_var, _) = learn(Phi, np.where(keep[:, None], y, np.nan), dynamics, gaps, mask=keep)
    close(masked_loc[keep], loc)
    close(masked_var[keep], var)
    close(state.mean, want.mean)
    close(state.cov, want.cov)


def test_blocks_one_after_the_other():
    Phi, y, _ = data(60)
    want, (loc, _, _) = learn(Phi, y, parse("walk 0.02"))
    blocks = Phi.reshape(3, 20, 6)
    tau = np.tile(np.arange(1.0, 21.0), (3, 1))
    gram = np.einsum("mif,mjf->mij", blocks, blocks)
    arrays = [jnp.asarray(a) for a in (blocks, gram, y.reshape(3, 20, 2), np.ones((3, 20), bool), tau)]
    start = prior_state(6, 2, jnp.asarray(1.7))
    state, (got, _, _) = many(start, *arrays, parse("walk 0.02"), standard_noise())
    close(got.reshape(60, 2), loc)
    close(state.cov, want.cov)


def test_the_covariance_is_exactly_symmetric():
    Phi, y, _ = data(50, F=9)
    state, _ = learn(Phi, y, parse("walk 0.02"))
    np.testing.assert_array_equal(state.cov, state.cov.T)


@pytest.mark.parametrize("size", [1e8, 1e12, 1e100])
def test_a_prediction_keeps_its_digits_whatever_the_target(size):
    Phi, y, _ = data(30)
    wild = y.copy()
    wild[-1] = size
    _, (loc, var, _) = learn(Phi, y, parse("walk 0.02"))
    _, (wild_loc, wild_var, _) = learn(Phi, wild, parse("walk 0.02"))
    np.testing.assert_allclose(wild_loc, loc, rtol=1e-12)
    np.testing.assert_allclose(wild_var, var, rtol=1e-12)


@pytest.mark.parametrize("block", [1, 13, 32])
@pytest.mark.parametrize("name", NAMES)
def test_the_square_root_oracle_is_the_loop_oracle(name, block):
    Phi, y, _ = data(50, E=1)
    options = {**OPTIONS, **settings_of(name)}
    want = loop_filter(Phi, y, **options)
    loc, var, mean, root = square_root_filter(
        Phi, y[:, 0], np.zeros(6), np.sqrt(1.7) * np.eye(6), block=block, **options
    )
    close(loc, want.loc[:, 0])
    close(var, want.var)
    close(mean, want.mean[:, 0])
    close(root @ root.T, want.cov)
