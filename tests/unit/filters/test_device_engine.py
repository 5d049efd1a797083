"""The engine for accelerators, on the processor's XLA: the numbers of the other engines, and who goes where."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp import StreamingGPRegressor
from streamgp.bases import Fourier
from streamgp.filters.dynamics import parse
from streamgp.filters.engine import placement
from streamgp.filters.engine.blocks import operations
from streamgp.filters.engine.device_guard import Factored, _raised
from streamgp.filters.engine.device_programs import Accelerator
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.numerics import keys
from streamgp.numerics.linalg import factor_with_inverse
from streamgp.weights import BMA

pytestmark = pytest.mark.slow


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[Accelerator]:
    """Let the processor, as XLA has it, be the accelerator."""
    found = Accelerator(jax.devices("cpu")[0])
    monkeypatch.setattr(placement, "accelerator", lambda: found)
    monkeypatch.setattr(placement, "has_plugin", lambda: True)
    yield found


def covariances(k: int, n: int) -> np.ndarray:
    A = np.random.default_rng(0).normal(size=(k, n, n + 5))
    return A @ A.swapaxes(1, 2) + 0.1 * np.eye(n)


@pytest.mark.parametrize("n", [5, 64, 100, 256])
def test_factors_by_halves_are_those_of_lapack(n: int):
    K = covariances(3, n)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        L, inverse = factor_with_inverse(jnp.asarray(K))
    np.testing.assert_allclose(L, np.linalg.cholesky(K), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(inverse @ np.asarray(L), np.broadcast_to(np.eye(n), K.shape), atol=1e-9)


@pytest.mark.parametrize("row", [0, 4, 11])
def test_noise_raised_in_closed_form_is_that_of_a_new_factor(row: int):
    K, rng = covariances(3, 12), np.random.default_rng(1)
    L, residual = np.linalg.cholesky(K), rng.normal(size=(3, 12, 2))
    raised = np.array([30.0, 1e10, 4.0])  # the second by more than noise may be
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        block = Factored(*map(jnp.asarray, (L, np.linalg.inv(L), residual, np.linalg.solve(L, residual))))
        given = (jnp.full(3, row), jnp.asarray(raised), jnp.asarray([True, True, False]))
        found = [np.asarray(a) for a in _raised(block, *given)]
    for k, (factor, shortened) in enumerate(((30.0, 1.0), (1e8, 0.1), (1.0, 1.0))):
        K[k, row, row] += (factor - 1.0) * L[k, row, row] ** 2
        innovation = residual[k, row] - L[k, row, :row] @ np.linalg.solve(L[k], residual[k])[:row]
        residual[k, row] -= (1.0 - shortened) * innovation
    want = np.linalg.cholesky(K)
    expected = (want, np.linalg.inv(want), residual, np.linalg.solve(want, residual))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def stream(n: int) -> tuple[np.ndarray, ...]:
    """(X, y, mask, times): two outputs, heavy tails, glitches, a jump, rows left out, and pauses."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    y = np.sin(4.0 * X[:, :1] + np.array([0.0, 1.0])) + 0.1 * rng.standard_t(4, size=(n, 2))
    y[rng.random(n) < 0.01] += 50.0
    y[n // 2 :] += 3.0
    y[n // 3 : n // 3 + 3] -= 20.0
    mask = rng.random(n) > 0.05
    X[~mask] = y[~mask] = np.nan
    times = np.cumsum(rng.exponential(0.02, n) * (rng.random(n) > 0.3))
    times[n // 3 :] += 1.0
    return X, y, mask, times


def two_groups(X: np.ndarray, guarded: bool) -> Ensemble:
    one, noise = np.asarray(1.0), np.asarray(0.01)
    bases = [Fourier.from_data(X, num_features=10 + 4 * (i // 2), start=1.0, key=keys.key(i)) for i in range(4)]
    names = ("static", "walk 0.001", "revert 0.99")
    experts = [Expert(basis, one, noise, parse(name)) for basis in bases for name in names]
    return ensemble(experts, BMA(0.0), num_outputs=2, time_unit=0.02, guarded=guarded)


def learnt(model: Ensemble, rows: tuple[np.ndarray, ...], devices: tuple[str, ...], extra: np.ndarray | None = None):
    """Learn by turns on the devices named; return the last state, and what was predicted of all rows, and more."""
    state, said = model.init(keys.key(0)), []
    for i, at in enumerate(range(0, len(rows[0]), 700)):
        X, y, mask, times = (a[at : at + 700] for a in rows)
        with placement.on_device(devices[i % len(devices)]):
            more = None if extra is None else extra[at : at + 700]
            state, info = model.update(state, X, y, mask, times, extra=more)
            ahead = model.predict(state, np.nan_to_num(X[:3]), times[-1:] + np.arange(3))
        said.append([*(np.asarray(a) for a in (info.predictive.loc, info.predictive.var, info.outside))])
        said[-1] += [np.asarray(ahead.loc), np.asarray(ahead.var)]
    return state, [np.concatenate(part) for part in zip(*said, strict=True)]


def check_same(ours: tuple[Any, list[np.ndarray]], theirs: tuple[Any, list[np.ndarray]]) -> None:
    for mine, other in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)
    for mine, other in zip(ours[0].filters, theirs[0].filters, strict=True):
        np.testing.assert_allclose(mine.cov, other.cov, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(mine.mean, other.mean, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("guarded", [True, False])
def test_the_numbers_are_those_of_the_processor(there: Accelerator, guarded: bool):
    rows = stream(2_800 if guarded else 1_500)
    model = two_groups(rows[0][rows[2]], guarded)
    extra = None if guarded else np.random.default_rng(3).uniform(0.0, 0.1, len(rows[0]))
    want = learnt(model, rows, ("cpu",), extra)
    got = learnt(model, rows, ("gpu",), extra)
    assert all(placement.is_resident(belief) for belief in got[0].filters)
    check_same(got, want)
    check_same(learnt(model, rows, ("gpu", "cpu"), extra), want)


def test_the_processor_learns_what_the_accelerator_lost(there: Accelerator, monkeypatch: pytest.MonkeyPatch):
    rows = stream(200)
    model = two_groups(rows[0][rows[2]], True)
    monkeypatch.setattr(there, "update", lambda *_: None)
    check_same(learnt(model, rows, ("gpu",)), learnt(model, rows, ("cpu",)))


def test_an_estimator_goes_from_one_to_the_other(there: Accelerator, tmp_path: Path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (500, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=500)
    said = {}
    for device in ("cpu", "gpu"):
        model = StreamingGPRegressor("e-doebe", bases=["fourier"], features_per_basis=20, warmup=100, device=device)
        model.partial_fit(X[:300], y[:300])
        first = model.predict(X[:5], return_std=True)
        one = model.predict_one(X[0])
        model.learn_one(X[300], y[300])
        model.partial_fit(X[301:400], y[301:400])
        model.save(tmp_path / device)
        model = StreamingGPRegressor.load(tmp_path / device)
        assert model.device == "auto"
        model.partial_fit(X[400:], y[400:])
        said[device] = np.concatenate([*first, np.ravel(one), *model.predict(X[:5], return_std=True)])
    np.testing.assert_allclose(said["gpu"], said["cpu"], rtol=1e-9)


def test_large_groups_move_once_they_have_had_enough_work(there: Accelerator, monkeypatch: pytest.MonkeyPatch):
    rows = stream(300)
    model = two_groups(rows[0][rows[2]], True)
    state, _ = learnt(model, rows, ("auto",))
    assert not any(placement.is_resident(belief) for belief in state.filters)
    assert not there._programs
    monkeypatch.setattr(placement, "CROSSING", 0.9 * operations(300, 6, 14))
    monkeypatch.setattr("streamgp.filters.engine.device_programs.BEFORE_COMPILING", 0.0)
    state, _ = learnt(model, rows, ("auto",))
    for future in there._programs.values():
        future.result()
    state, _ = learnt(model, rows, ("auto",))
    assert [placement.is_resident(belief) for belief in state.filters] == [
        belief.cov.shape[-1] == 14 for belief in state.filters
    ]
    assert not placement.wants_accelerator(state.filters[-1], np.ones((2, 3), bool), 1)


def test_a_device_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(placement, "has_plugin", lambda: False)
    model = StreamingGPRegressor("linear", device="gpu")
    with pytest.raises(RuntimeError, match="expected an accelerator that JAX finds"):
        model.partial_fit(np.zeros((2, 1)), np.zeros(2))
