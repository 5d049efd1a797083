"""Mixtures over experts of predictions with latent values."""

import numpy as np
import pytest

from streamgp.likelihoods import (
    Categorical,
    LatentPredictive,
    Likelihood,
    Logistic,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
)
from streamgp.numerics import keys, tree
from streamgp.numerics.checkpoint.encoding import decode, encode


def predict(likelihood, loc, cov):
    return likelihood.log_probabilities(loc, cov)


def stacked(likelihoods: list[Likelihood], n: int) -> Likelihood:
    """Side by side, for each of n rows."""
    each = tree.map(lambda *leaves: np.stack(leaves), *likelihoods)
    return tree.map(lambda a: np.broadcast_to(a, (n, *a.shape)), each)


def mixture(likelihoods: list[Likelihood], n: int = 5, seed: int = 0, scale: float = 1.0) -> LatentPredictive:
    rng = np.random.default_rng(seed)
    k, c = len(likelihoods), likelihoods[0].num_latents
    root = rng.normal(size=(n, k, c, c))
    log_weights = np.log(rng.dirichlet(np.ones(k), size=n))
    cov = scale * root @ np.swapaxes(root, 2, 3)
    return LatentPredictive(log_weights, rng.normal(size=(n, k, c)), cov, stacked(likelihoods, n))


def experts(name: str) -> list[Likelihood]:
    """Made within a test, which is where arrays are of double precision."""
    return {**LABELS, **NUMBERS}[name]()


LABELS = {
    "logistic": lambda: [Logistic(np.asarray(a)) for a in (0.1, -0.5, 2.0)],
    "probit": lambda: [Probit(np.asarray(a)) for a in (0.1, -0.5, 2.0)],
    "categorical": lambda: [Categorical(4, np.asarray(a)) for a in ([0.1, 0.2, 0.3, -0.6], [0.0, 0.0, 0.0, 0.0])],
}


@pytest.mark.parametrize("name", LABELS)
def test_probabilities_are_those_of_the_experts_mixed(name):
    likelihoods = experts(name)
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
    p = mixture(experts("logistic"))
    off = LatentPredictive(np.tile([-np.inf, 0.0, -np.inf], (5, 1)), p.loc, p.cov, p.likelihood)
    y = np.ones((5, 1))
    np.testing.assert_allclose(off.log_density(y), p.component_log_density(y)[:, 1], rtol=1e-15)
    assert np.isfinite(off.probabilities()).all()


def test_no_probability_is_zero():
    p = LatentPredictive(
        np.zeros((1, 1)), np.full((1, 1, 1), 1e3), np.full((1, 1, 1, 1), 1e-6), stacked(experts("logistic")[:1], 1)
    )
    assert (p.probabilities() > 0.0).all()
    np.testing.assert_allclose(p.log_density(np.zeros((1, 1))), -1000.1, rtol=1e-9)


@pytest.mark.parametrize("name", LABELS)
def test_a_checkpoint_holds_it(name):
    p = mixture(experts(name))
    again = decode(*encode(p), {})
    np.testing.assert_array_equal(again.probabilities(), p.probabilities())


NUMBERS = {
    "poisson": lambda: [Poisson(np.asarray(a)) for a in (0.1, 1.5)],
    "negative binomial": lambda: [
        NegativeBinomial(np.asarray(a), np.asarray(b)) for a, b in ((0.1, 2.0), (1.0, 20.0))
    ],
    "ordinal": lambda: [Ordinal(np.asarray(a), np.asarray([0.7, 1.1])) for a in (-1.0, -0.2)],
    "student": lambda: [StudentT(np.asarray(a), np.asarray(0.5), np.asarray(5.0)) for a in (0.3, -1.0)],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_agree_with_draws_of_them(name):
    p = mixture(experts(name), n=4, scale=0.3)
    draws = np.asarray(p.sample(keys.key(1), (100, 200)))
    assert draws.shape == (100, 200, 4, 1)
    draws = draws.reshape(-1, 4)
    error = draws.std(0) / np.sqrt(len(draws))
    np.testing.assert_array_less(np.abs(draws.mean(0) - p.mean[:, 0]), 4.0 * error)
    squares = (draws - p.mean[:, 0]) ** 2
    np.testing.assert_array_less(
        np.abs(squares.mean(0) - p.variance[:, 0]), 4.5 * squares.std(0) / np.sqrt(len(draws))
    )
    np.testing.assert_allclose(p.std**2, p.variance, rtol=1e-12)
    for probability in (0.05, 0.9):
        y = p.quantile(probability)
        share = p.cdf(y)[:, 0]
        empirical = (draws <= y[:, 0]).mean(0)
        np.testing.assert_array_less(np.abs(empirical - share), 4.0 * np.sqrt(share * (1.0 - share) / 20_000) + 1e-9)
        if name == "student":
            np.testing.assert_allclose(share, probability, atol=1e-8)
        else:
            # The smallest number of all whose share is as large.
            assert (y == np.round(y)).all() and (share >= probability).all()
            assert (p.cdf(y - 1.0)[:, 0] < probability).all()


@pytest.mark.parametrize("name", [a for a in NUMBERS if a != "student"])
def test_the_distribution_function_adds_up_the_probabilities(name):
    p = mixture(experts(name), scale=0.3)
    total, most = np.zeros(5), 4 if name == "ordinal" else 12
    np.testing.assert_array_equal(p.cdf(np.full((5, 1), -1.0)), 0.0)
    for y in range(most):
        at = np.full((5, 1), float(y))
        total = total + np.exp(p.log_density(at))
        np.testing.assert_allclose(p.cdf(at)[:, 0], total, atol=1e-9)
    if name == "ordinal":
        np.testing.assert_allclose(total, 1.0, rtol=1e-12)


def test_what_makes_no_sense_is_refused():
    labels, counts = mixture(experts("categorical")), mixture(experts("poisson"))
    for refused in (
        lambda: labels.mean,
        lambda: labels.cdf(np.zeros((5, 1))),
        lambda: labels.quantile(0.5),
        lambda: labels.sample(keys.key(0)),
        lambda: counts.probabilities(),
    ):
        with pytest.raises(TypeError, match=r"Categorical|Poisson"):
            refused()


def test_quantiles_of_large_counts():
    likelihood = stacked([Poisson(np.asarray(0.0))], 3)
    p = LatentPredictive(
        np.zeros((3, 1)), np.array([[[12.0]], [[-30.0]], [[0.0]]]), np.full((3, 1, 1, 1), 9.0), likelihood
    )
    y = p.quantile(0.999)
    # The Gaussian's quantile, as the mean is large; never anything but zero; and both are checked by the cdf.
    np.testing.assert_allclose(np.log(y[0, 0]), 12.0 + 3.0 * 3.090232, rtol=1e-4)
    assert y[1, 0] == 0.0
    assert (p.cdf(y) >= 0.999).all() and (p.cdf(y - 1.0) < 0.999).all()


@pytest.mark.parametrize("scale", [0.01, 0.2, 3.0])
@pytest.mark.parametrize(
    "likelihoods",
    [
        [Poisson(np.asarray(1.0)), Poisson(np.asarray(3.5))],
        [NegativeBinomial(np.asarray(a), np.asarray(r)) for a, r in ((0.5, 0.2), (2.0, 4.0), (3.0, 1e6))],
    ],
)
def test_the_table_of_the_first_counts_is_the_distribution_function(likelihoods: list[Likelihood], scale: float):
    p = mixture(likelihoods, n=40, seed=4, scale=scale)
    counts = np.random.default_rng(1).integers(1, 300, size=40)
    table = p.cdf_from_zero(counts)
    is_tabulated = ~np.isnan(table[:, 0])
    assert is_tabulated.any() and not is_tabulated.all()
    assert not is_tabulated[counts > 256].any()
    for y in (0, 1, 7, 40, 150, 255):
        rows = np.flatnonzero(is_tabulated & (counts > y))
        direct = p.cdf(np.full((40, 1), float(y)))[:, 0]
        np.testing.assert_allclose(table[rows, min(y, table.shape[1] - 1)], direct[rows], rtol=1e-8, atol=2e-10)
    beyond = np.arange(table.shape[1]) >= counts[:, None]
    assert np.isnan(table[beyond]).all()
