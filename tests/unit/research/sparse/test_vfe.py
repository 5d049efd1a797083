"""The bound and the posterior of sparse Gaussian processes against dense algebra, in one batch and as a stream."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.dense_vfe import batch_bound, batch_posterior, online_bound, predicted
from streamgp.research.sparse import (
    Batch,
    KernelHyperparameters,
    SparsePosterior,
    absorb,
    bound,
    empty_posterior,
    function_posterior,
)

pytestmark = pytest.mark.slow

ALPHAS = (0.0, 0.5, 1.0)
NEW = (np.array([0.9, 1.4]), 1.3, 0.05)
OLD = (np.array([1.1, 1.2]), 0.8, 0.09)


def rows(n: int = 60, outputs: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.stack([np.sin(k + X.sum(1)) for k in range(outputs)], 1) + 0.2 * rng.normal(size=(n, outputs))


def inducing(m: int = 9) -> np.ndarray:
    """A grid: well-posed, so that the oracle's inverses are to be trusted."""
    side = np.linspace(-2.0, 2.0, round(m**0.5))
    return np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)


def hyper(values: tuple = NEW) -> KernelHyperparameters:
    return KernelHyperparameters(*(jnp.asarray(v) for v in values))


def batch(X: np.ndarray, y: np.ndarray) -> Batch:
    return Batch(jnp.asarray(X), jnp.asarray(y), jnp.ones(len(X), bool))


def streamed(
    X, y, Z, alpha: float = 0.0, size: int = 20, jitter: float | None = None
) -> tuple[SparsePosterior, float]:
    """The posterior after batches of `size`, and the sum of their bounds."""
    past, total = empty_posterior(jnp.asarray(Z), y.shape[1]), 0.0
    for at in range(0, len(X), size):
        part = batch(X[at : at + size], y[at : at + size])
        total += float(bound(hyper(), jnp.asarray(Z), part, past, alpha, jitter))
        past = absorb(hyper(), jnp.asarray(Z), part, past, alpha, jitter)
    return past, total


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_bound_of_one_batch_is_that_of_dense_algebra(alpha):
    (X, y), Z = rows(), inducing()
    got = bound(hyper(), jnp.asarray(Z), batch(X, y), empty_posterior(jnp.asarray(Z), 2), alpha)
    assert_allclose(got, batch_bound(X, y, Z, *NEW, alpha), rtol=1e-9)


def test_the_posterior_of_one_batch_is_that_of_dense_algebra():
    (X, y), Z, X_new = rows(), inducing(), rows(15, seed=1)[0]
    found = function_posterior(absorb(hyper(), jnp.asarray(Z), batch(X, y), empty_posterior(jnp.asarray(Z), 2)))
    mean, cov = predicted(X_new, Z, *batch_posterior(X, y, Z, *NEW), *NEW[:2])
    assert_allclose(found.mean(hyper(), jnp.asarray(X_new)), mean, rtol=1e-8, atol=1e-9)
    assert_allclose(found.covariance(hyper(), jnp.asarray(X_new)), cov, rtol=1e-8, atol=1e-9)
    assert_allclose(found.variance(hyper(), jnp.asarray(X_new)), np.diag(cov), rtol=1e-8)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_stream_of_batches_is_one_batch(alpha):
    (X, y), Z, X_new = rows(), inducing(), jnp.asarray(rows(15, seed=1)[0])
    past, total = streamed(X, y, Z, alpha)
    assert_allclose(total, batch_bound(X, y, Z, *NEW, alpha), rtol=1e-8)
    whole = function_posterior(
        absorb(hyper(), jnp.asarray(Z), batch(X, y), empty_posterior(jnp.asarray(Z), 2), alpha)
    )
    assert_allclose(function_posterior(past).mean(hyper(), X_new), whole.mean(hyper(), X_new), rtol=1e-8, atol=1e-9)
    assert_allclose(function_posterior(past).variance(hyper(), X_new), whole.variance(hyper(), X_new), rtol=1e-8)


def test_what_a_stream_loses_falls_with_the_jitter():
    """Forty inducing inputs among rows of two dimensions: the prior covariance has a condition number of 1e15."""
    X, y = rows(200, 1)
    Z = X[:40]
    lost = []
    for jitter in (1e-8, 1e-10, 1e-12, None):
        past = empty_posterior(jnp.asarray(Z), 1)
        whole = float(bound(hyper(), jnp.asarray(Z), batch(X, y), past, 0.0, jitter))
        lost.append(abs(streamed(X, y, Z, jitter=jitter)[1] - whole))
    assert lost[0] > 30.0 * lost[1] > 900.0 * lost[2], lost
    assert lost[-1] < 1e-6


def test_the_online_bound_is_that_of_its_paper_when_everything_moves():
    """Other hyperparameters, other inducing inputs: against Appendix A.1 with all its inverses."""
    (X, y), Z_old, Z = rows(60, 1), inducing(), inducing() + np.array([0.3, -0.2])
    past = absorb(hyper(OLD), jnp.asarray(Z_old), batch(X[:40], y[:40]), empty_posterior(jnp.asarray(Z_old), 1))
    mean, cov = batch_posterior(X[:40], y[:40], Z_old, *OLD)
    want = online_bound(X[40:], y[40:, 0], Z, NEW, Z_old, mean[:, 0], cov, OLD)
    got = bound(hyper(), jnp.asarray(Z), batch(X[40:], y[40:]), past)
    assert_allclose(got, want, rtol=1e-7)


def test_the_bound_is_below_the_evidence_and_touches_it_with_all_rows():
    X, y = rows(25, 1)
    exact = batch_bound(X, y, X, *NEW)
    few = bound(hyper(), jnp.asarray(inducing()), batch(X, y), empty_posterior(jnp.asarray(inducing()), 1))
    every = bound(hyper(), jnp.asarray(X), batch(X, y), empty_posterior(jnp.asarray(X), 1))
    assert float(few) < exact
    assert_allclose(every, exact, rtol=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_rows_left_out_change_nothing(alpha):
    (X, y), Z = rows(30), jnp.asarray(inducing())
    past = absorb(hyper(), Z, batch(X[:10], y[:10]), empty_posterior(Z, 2), alpha)
    kept = np.arange(30) % 3 > 0
    masked = Batch(jnp.asarray(X), jnp.asarray(np.where(kept[:, None], y, 1e9)), jnp.asarray(kept))
    fewer = batch(X[kept], y[kept])
    assert_allclose(bound(hyper(), Z, masked, past, alpha), bound(hyper(), Z, fewer, past, alpha), rtol=1e-10)
    one, other = (absorb(hyper(), Z, b, past, alpha) for b in (masked, fewer))
    assert_allclose(one.root @ one.root.T, other.root @ other.root.T, rtol=1e-9, atol=1e-9)
    assert_allclose(one.root @ one.mean, other.root @ other.mean, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alpha", (0.0, 0.5))
def test_gradients_are_those_of_finite_differences(alpha):
    (X, y), Z = rows(20), inducing()
    past = absorb(hyper(OLD), jnp.asarray(Z), batch(X[:10], y[:10]), empty_posterior(jnp.asarray(Z), 2), alpha)
    moved = jnp.asarray(Z + 0.1)
    direction = np.random.default_rng(2).normal(size=moved.shape)

    def value(step, scale):
        at = hyper((NEW[0] * jnp.exp(scale), NEW[1] * jnp.exp(-scale), NEW[2] * jnp.exp(2.0 * scale)))
        return bound(at, moved + step * direction, batch(X[10:], y[10:]), past, alpha)

    slopes = jax.grad(value, (0, 1))(0.0, 0.0)
    h = 1e-5
    assert_allclose(slopes[0], (value(h, 0.0) - value(-h, 0.0)) / (2 * h), rtol=1e-6)
    assert_allclose(slopes[1], (value(0.0, h) - value(0.0, -h)) / (2 * h), rtol=1e-6)


def test_a_long_stream_stays_symmetric_and_definite():
    """A thousand batches, each at other inducing inputs and hyperparameters."""
    rng = np.random.default_rng(3)
    Z = jnp.asarray(inducing(36))
    past, step = empty_posterior(Z, 1), jax.jit(absorb)
    for i in range(1000):
        X = rng.uniform(-2.0, 2.0, (10, 2))
        y = np.sin(X.sum(1, keepdims=True)) + 0.2 * rng.normal(size=(10, 1))
        last = hyper((NEW[0] * (1.0 + 0.01 * np.sin(i)), NEW[1], NEW[2]))
        past = step(last, Z + 0.01 * np.cos(i), batch(X, y), past)
    found = function_posterior(past)
    X_new = jnp.asarray(rows(50, seed=5)[0])
    cov = np.asarray(found.covariance(last, X_new))
    assert np.linalg.eigvalsh(cov).min() > -1e-9
    assert np.isfinite(np.asarray(past.root)).all()
    error = np.asarray(found.mean(last, X_new))[:, 0] - np.sin(np.asarray(X_new).sum(1))
    assert np.sqrt(np.mean(error**2)) < 0.05
