"""Hyperparameters and inducing inputs of a batch: where they start and what they end at."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from streamgp.numerics import keys
from streamgp.research.sparse import (
    Batch,
    BatchOptimiser,
    KernelHyperparameters,
    LocalGPs,
    bound,
    fit_exact_hyperparameters,
)
from streamgp.research.sparse.fitting import choose_start


def one_model(num_inducing: int, batch_size: int) -> LocalGPs:
    return LocalGPs("ovfe", 1, 1, num_inducing, batch_size, 1, 0.0, "nearest", BatchOptimiser())


def line(rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 20.0, rows)
    return x[:, None], (np.sin(x) + 0.1 * rng.normal(size=rows))[:, None]


def test_a_first_batch_of_noise_does_not_fix_a_model_for_good():
    rng = np.random.default_rng(5)
    X = np.linspace(0.0, 30.0, 300)[:, None]
    y = np.where(X < 3.0, 0.0, np.sin(X - 3.0)) + 0.1 * rng.normal(size=X.shape)
    model = one_model(20, 30)
    state, _ = model.update(model.init(keys.key(0)), X, y)
    error = np.asarray(model.predict(state, X).mean)[:, 0] - y[:, 0]
    assert np.sqrt(np.mean(np.square(error))) < 0.2


def test_inducing_inputs_start_where_the_bound_is_higher():
    X, y = line()
    model = one_model(10, 20)
    one = model.update(model.init(keys.key(0)), X[:20], y[:20])[0].models[0]
    old = np.asarray(one.sparse.inducing)
    for rows, kept in ((slice(0, 20), True), (slice(100, 120), False)):
        batch = Batch(jnp.asarray(X[rows]), jnp.asarray(y[rows]), jnp.ones(20, bool))
        start = choose_start(keys.key(1), one.hyperparameters, batch, one.sparse)
        assert np.array_equal(start, old) == kept
        assert bound(one.hyperparameters, jnp.asarray(start), batch, one.sparse) >= bound(
            one.hyperparameters, one.sparse.inducing, batch, one.sparse
        )


def test_shared_hyperparameters_are_those_of_greatest_posterior_density():
    X, y = line(50)
    found = fit_exact_hyperparameters(X, y)

    def density(hyper: KernelHyperparameters) -> float:
        K = float(hyper.variance) * np.exp(-0.5 * np.square((X - X.T) / float(hyper.lengthscales[0])))
        K = K + float(hyper.noise_var) * np.eye(50)
        logs = np.log([float(hyper.lengthscales[0]), float(hyper.variance), float(hyper.noise_var) / 0.1])
        log_prior = -0.5 * np.square(logs / 1.5).sum()
        return float(log_prior - 0.5 * (np.linalg.slogdet(K)[1] + y[:, 0] @ np.linalg.solve(K, y[:, 0])))

    best = density(found)
    for name in ("lengthscales", "variance", "noise_var"):
        for factor in (0.9, 1.1):
            assert density(replace(found, **{name: getattr(found, name) * factor})) < best + 1e-4
