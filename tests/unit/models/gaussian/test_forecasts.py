"""An ensemble's forecasts several rows ahead: dense Gaussian processes, `predict` in a loop, and no look ahead."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracles.dense import dense_covariance
from oracles.forecast_loop import forecast_loop
from streamgp.bases import Fourier, Linear
from streamgp.filters.dynamics import parse
from streamgp.filters.noise import parse as parse_noise
from streamgp.likelihoods import Predictive
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.models.gaussian.state import EnsembleState
from streamgp.numerics import keys
from streamgp.numerics.checkpoint import load, save
from streamgp.weights import auto, fixed_share

pytestmark = pytest.mark.slow

N, E = 150, 2  # rows: two blocks and a part of a third
PRIOR_VAR, NOISE_VAR, SHARE = 1.3, 0.05, 0.01
DYNAMICS = {"static": (1.0, 0.0), "walk 0.001": (1.0, 1e-3), "revert 0.99": (0.99, 1.0 - 0.99**2)}
KINDS: list[float | None] = [None, 1.0, 0.9]
CORRELATIONS = [0.0, 0.8, 0.0]
K = 2 * len(DYNAMICS) * len(KINDS)


@cache
def stream(horizon: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs of the rows and of those to come, targets, and which rows are there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + horizon, 2))
    y = np.sin(X[:N]) + np.linspace(0.0, 1.0, N)[:, None] * X[:N] + 0.3 * rng.normal(size=(N, E))
    mask = rng.random(N) > 0.1
    mask[[0, 63, 64]] = False
    return X, y, mask


@cache
def model(rule: str = "fixed share") -> Ensemble:
    bases = Linear(2), Fourier(jnp.asarray(np.random.default_rng(1).normal(size=(4, 2))), jnp.ones(2))
    experts = [
        Expert(basis, jnp.asarray(PRIOR_VAR), jnp.asarray(NOISE_VAR), parse(name))
        for basis in bases
        for name in DYNAMICS
    ]
    weights = fixed_share(K, SHARE) if rule == "fixed share" else auto([k // 9 for k in range(K)])
    names = ["constant", "adaptive 1 ar 0.8", "adaptive 0.9"]
    return ensemble(experts, weights, num_outputs=E, kinds=parse_noise(names))


def forecasts(
    horizon: int, chunk: int, engine: str = "host", mask: np.ndarray | None = None, rule: str = "fixed share"
) -> tuple[Predictive, EnsembleState]:
    """Of the rows that are there, what was forecast after each; the inputs of later rows are those of `stream`."""
    X, y, _ = stream(horizon)
    here = np.ones(N, bool) if mask is None else mask
    padding = -N % chunk
    filled = np.pad(here, (0, padding))
    rows, targets, later = (np.full((N + padding, width), np.nan) for width in (2, E, 2))
    count = here.sum()
    rows[np.flatnonzero(here)], targets[np.flatnonzero(here)] = X[:count], y[:count]
    later[np.flatnonzero(here)] = X[horizon : horizon + count]
    update = model(rule).update if engine == "host" else model(rule)._update_compiled
    state, parts = model(rule).init(keys.key(0), horizon), []
    for at in range(0, N + padding, chunk):
        now = slice(at, at + chunk)
        arrays = (jnp.asarray(a[now]) for a in (rows, targets, filled))
        state, info = update(state, *arrays, None, jnp.asarray(later[now]))
        parts.append(jax.tree.map(np.asarray, info.predictive))
    joined = jax.tree.map(lambda *a: np.concatenate(a)[np.flatnonzero(filled)], *parts)
    return joined, state


@cache
def oracle(horizon: int) -> Predictive:
    X, y, _ = stream(horizon)
    times = np.arange(1.0, N + horizon + 1.0)
    covariances: list[np.ndarray | None] = [None] * 6
    order = iter(model().order)
    for group in model().groups:
        Phi = np.asarray(jax.tree.map(lambda a: a[0], group.basis)(jnp.asarray(X)))
        for decay, diffusion in DYNAMICS.values():
            covariances[next(order)] = dense_covariance(
                Phi, times, prior_var=PRIOR_VAR, decay=decay, diffusion=diffusion
            )
    transition = np.full((K, K), SHARE / (K - 1)) + (1.0 - SHARE - SHARE / (K - 1)) * np.eye(K)
    every = forecast_loop(
        [c for c in covariances if c is not None],
        y,
        horizon,
        noise_var=NOISE_VAR,
        discounts=KINDS,
        correlations=CORRELATIONS,
        prior_rows=[10.0, 10.0, 10.0],
        transition=transition,
    )
    return Predictive(*(np.stack(part) for part in zip(*every, strict=True)))


def same(found: Predictive, expected: Predictive, rows: int, rtol: float = 1e-9) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a[:rows], b[:rows], rtol=rtol, atol=1e-10)


@pytest.mark.parametrize("horizon", [1, 5, 70])
@pytest.mark.parametrize(("engine", "chunk"), [("host", 64), ("host", N), ("compiled", N), ("host", 1)])
def test_forecasts_are_those_of_gaussian_processes(horizon: int, engine: str, chunk: int):
    if chunk == 1 and horizon != 5:
        pytest.skip("one horizon says enough of single rows")
    same(forecasts(horizon, chunk, engine)[0], oracle(horizon), N)


def test_the_forecast_of_a_row_is_what_predict_says_of_it_then():
    """Whatever the rule; and the state is that of single rows."""
    horizon = 3
    X, y, _ = stream(horizon)
    found, _ = forecasts(horizon, N, rule="auto")
    ens, parts = model("auto"), []
    state = ens.init(keys.key(0), horizon)
    for i in range(40):
        row, later = jnp.asarray(X[i : i + 1]), jnp.asarray(X[i + horizon : i + horizon + 1])
        state, _ = ens.update(state, row, jnp.asarray(y[i : i + 1]), None, None, later)
        parts.append(jax.tree.map(np.asarray, ens.predict(state, later)))
    same(found, jax.tree.map(lambda *a: np.concatenate(a), *parts), 40)


@pytest.mark.parametrize("engine", ["host", "compiled"])
def test_rows_left_out_are_not_there(engine: str):
    _, _, mask = stream(5)
    same(forecasts(5, 32, engine, mask)[0], forecasts(5, N)[0], int(mask.sum()))


def test_a_forecast_of_a_state_from_disk(tmp_path):
    horizon = 5
    X, y, _ = stream(horizon)
    _, state = forecasts(horizon, N)
    save(tmp_path, {"state": state}, {})
    rest = (jnp.asarray(X[:7]), jnp.asarray(y[:7]), None, None, jnp.asarray(X[7:14]))
    found = model().update(load(tmp_path)[0]["state"], *rest)[1].predictive
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(model().update(state, *rest)[1].predictive), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("engine", ["host", "compiled"])
@example(row=1, size=1e8, inputs=True)
@given(row=st.integers(1, N - 1), size=st.sampled_from([1e-6, 1.0, 1e8]), inputs=st.booleans())
@settings(max_examples=10, deadline=None)
def test_a_forecast_uses_nothing_after_its_own_row(engine: str, row: int, size: float, inputs: bool):
    """Neither targets nor inputs of later rows; the inputs of the row that is forecast are its own row's affair."""
    horizon = 5
    X, y, _ = (a.copy() for a in stream(horizon))
    later = X[horizon:].copy()
    X = X[:N]
    expected = undisturbed(engine)
    y[row:] += size
    if inputs:
        X[row:] += size
        later[row:] -= size
    update = model().update if engine == "host" else model()._update_compiled
    arrays = (jnp.asarray(a) for a in (X, y, np.ones(N, bool)))
    found = update(model().init(keys.key(0), horizon), *arrays, None, jnp.asarray(later))[1].predictive
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a[:row], b[:row], rtol=1e-12 if inputs else 0.0)
    assert not np.array_equal(found.loc[row:], expected.loc[row:])


@cache
def undisturbed(engine: str) -> Predictive:
    return forecasts(5, N, engine)[0]


def test_later_rows_come_with_a_horizon_and_only_then():
    X, y, _ = (jnp.asarray(a) for a in stream(1))
    for horizon, later in ((0, X[1:]), (1, None)):
        with pytest.raises(ValueError, match="later"):
            model().update(model().init(keys.key(0), horizon), X[:N], y, None, None, later)
