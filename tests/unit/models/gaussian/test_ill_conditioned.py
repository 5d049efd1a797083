"""Experts whose covariance has more decades than double precision has digits go on."""

import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import RadialBasis
from streamgp.filters.dynamics import Dynamics, mean_reverting, static
from streamgp.filters.engine.blockfilter import TOLERATED
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.models.gaussian.single_row import SingleRow
from streamgp.numerics import keys
from streamgp.numerics.linalg import nearest_semidefinite
from streamgp.numerics.standardise import Standardiser
from streamgp.weights import BMA

NOISE_VAR = 1e-4
ROWS, CHUNK = 6_144, 1_024


def model(dynamics: Dynamics, num_features: int = 40, prior_var: float = 1e8) -> Ensemble:
    """Bumps as wide as the data, so that most of their sums are next to nothing, with a wide prior."""
    centres = np.random.default_rng(0).uniform(-1.0, 1.0, (num_features, 1))
    basis = RadialBasis(jnp.asarray(centres), jnp.ones(1))
    return ensemble([Expert(basis, jnp.asarray(prior_var), jnp.asarray(NOISE_VAR), dynamics)], BMA())


def stream() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (ROWS, 1))
    return X, np.sin(3.0 * X) + np.sqrt(NOISE_VAR) * rng.normal(size=(ROWS, 1))


def check(error: np.ndarray, var: np.ndarray) -> None:
    assert (var >= (1.0 - 10.0 * TOLERATED) * NOISE_VAR).all()
    last = slice(-CHUNK, None)
    log_density = -0.5 * (np.log(2.0 * np.pi * var[last]) + error[last] ** 2 / var[last])
    noise_alone = -0.5 * np.log(2.0 * np.pi * np.e * NOISE_VAR)
    assert abs(np.mean(log_density) - noise_alone) < 0.1  # four standard errors


@pytest.mark.parametrize(("num_features", "prior_var"), [(40, 1e8), (200, 4e7)])  # stacked, and one by one
def test_blocks_of_rows(num_features: int, prior_var: float):
    expert = model(static(), num_features, prior_var)
    X, y = stream()
    state, loc, var = expert.init(keys.key(0)), [], []
    for i in range(0, ROWS, CHUNK):
        rows = slice(i, i + CHUNK)
        state, info = expert.update(state, jnp.asarray(X[rows]), jnp.asarray(y[rows]))
        loc.append(np.asarray(info.predictive.loc)[:, 0, 0])
        var.append(np.asarray(info.predictive.var)[:, 0, 0])
    check(y[:, 0] - np.concatenate(loc), np.concatenate(var))
    everywhere = np.asarray(expert.predict(state, jnp.linspace(-3.0, 3.0, 101)[:, None]).var)
    assert (everywhere >= NOISE_VAR).all()


def test_single_rows():
    X, y = stream()
    ens = model(static())
    rows = SingleRow(ens, Standardiser.empty(1), Standardiser.empty(1))
    rows.load(ens, ens.init(keys.key(0)))
    loc, std = np.empty(ROWS), np.empty(ROWS)
    for i in range(ROWS):
        loc[i], std[i] = (float(a[0, 0]) for a in rows.moments(X[[i]]))
        rows.update(X[[i]], y[[i]])
    check(y[:, 0] - loc, std**2)


def test_a_mended_expert_does_not_disturb_its_neighbours():
    """Of two experts in one group, the one that reverts is well, and its numbers are those that it has alone."""
    X, y = (jnp.asarray(a) for a in stream())
    basis = RadialBasis(jnp.asarray(np.random.default_rng(0).uniform(-1.0, 1.0, (40, 1))), jnp.ones(1))
    ill = Expert(basis, jnp.asarray(1e8), jnp.asarray(NOISE_VAR), static())
    healthy = Expert(basis, jnp.asarray(1.0), jnp.asarray(NOISE_VAR), mean_reverting(0.99))
    both, alone = ensemble([ill, healthy], BMA()), ensemble([healthy], BMA())
    together = both.update(both.init(keys.key(0)), X, y)[1].predictive
    single = alone.update(alone.init(keys.key(0)), X, y)[1].predictive
    np.testing.assert_allclose(np.asarray(together.loc)[:, 1], np.asarray(single.loc)[:, 0], rtol=1e-9, atol=1e-12)
    assert np.isfinite(np.asarray(together.var)).all()


def test_nearest_semidefinite():
    rng = np.random.default_rng(2)
    Q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    values = np.array([-0.5, -1e-3, 0.0, 1.0, 7.0])
    found = nearest_semidefinite((Q * values) @ Q.T)
    np.testing.assert_allclose(found, (Q * np.maximum(values, 0.0)) @ Q.T, atol=1e-14)
    well = (Q * (values + 1.0)) @ Q.T
    np.testing.assert_allclose(nearest_semidefinite(well), well, atol=1e-14)
