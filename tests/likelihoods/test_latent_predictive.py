"""Mixtures over experts of predictions with latent values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.likelihoods import Categorical, LatentPredictive, Likelihood, Logistic, Probit
from streamgp.serialise import decode, encode


@jax.jit
def predict(likelihood, loc, cov):
    return likelihood.log_probabilities(loc, cov)


def stacked(likelihoods: list[Likelihood]) -> Likelihood:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *likelihoods)


def mixture(likelihoods: list[Likelihood], n: int = 5, seed: int = 0, scale: float = 1.0) -> LatentPredictive:
    rng = np.random.default_rng(seed)
    k, c = len(likelihoods), likelihoods[0].num_latents
    root = rng.normal(size=(n, k, c, c))
    log_weights = np.log(rng.dirichlet(np.ones(k), size=n))
    cov = scale * root @ np.swapaxes(root, 2, 3)
    return LatentPredictive(log_weights, rng.normal(size=(n, k, c)), cov, stacked(likelihoods))


LABELS = {
    "logistic": [Logistic(jnp.asarray(a)) for a in (0.1, -0.5, 2.0)],
    "probit": [Probit(jnp.asarray(a)) for a in (0.1, -0.5, 2.0)],
    "categorical": [Categorical(4, jnp.asarray(a)) for a in ([0.1, 0.2, 0.3, -0.6], [0.0, 0.0, 0.0, 0.0])],
}


@pytest.mark.parametrize("name", LABELS)
def test_probabilities_are_those_of_the_experts_mixed(name):
    likelihoods = LABELS[name]
    p = mixture(likelihoods)
    got = p.probabilities()
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got.sum(1), 1.0, rtol=1e-15)
    for i in range(5):
        each = [np.exp(predict(a, p.loc[i, k], p.cov[i, k])) for k, a in enumerate(likelihoods)]
        np.testing.assert_allclose(got[i], p.weights[i] @ np.stack(each), rtol=1e-12)
    for j in range(got.shape[1]):
        y = np.full((5, 1), float(j))
        np.testing.assert_allclose(np.exp(p.log_density(y)), got[:, j], rtol=1e-12)


def test_an_expert_that_is_switched_off_counts_for_nothing():
    p = mixture(LABELS["logistic"])
    off = LatentPredictive(np.tile([-np.inf, 0.0, -np.inf], (5, 1)), p.loc, p.cov, p.likelihood)
    y = np.ones((5, 1))
    np.testing.assert_allclose(off.log_density(y), p.component_log_density(y)[:, 1], rtol=1e-15)
    assert np.isfinite(off.probabilities()).all()


def test_no_probability_is_zero():
    p = LatentPredictive(
        np.zeros((1, 1)), np.full((1, 1, 1), 1e3), np.full((1, 1, 1, 1), 1e-6), stacked(LABELS["logistic"][:1])
    )
    assert (p.probabilities() > 0.0).all()
    np.testing.assert_allclose(p.log_density(np.zeros((1, 1))), -1000.1, rtol=1e-9)


@pytest.mark.parametrize("name", LABELS)
def test_a_checkpoint_holds_it(name):
    p = mixture(LABELS[name])
    again = decode(*encode(p), {})
    np.testing.assert_array_equal(again.probabilities(), p.probabilities())
