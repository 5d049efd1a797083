"""Counts: closed forms, brute-force integrals, and the Poisson as the limit of the negative binomial."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln

from oracles.latent import log_integral
from streamgp.likelihoods import NegativeBinomial, Poisson, count_integrals

VARIANCES = [1e-12, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e4]


def negative_binomial(r):
    return NegativeBinomial(np.asarray(0.3), np.asarray(r))


def log_prob(likelihood, f, y):
    return likelihood.log_prob(f[:, None], y)


def predict(likelihood, y, loc, var):
    """Log predictive probabilities and distribution functions."""
    at = y, loc[:, None], var[:, None, None]
    return likelihood.log_predictive(*at), likelihood.cdf(*at)


def grid(*axes):
    return tuple(a.ravel() for a in np.meshgrid(*map(np.asarray, axes)))


def test_log_probabilities():
    y, f = grid([0.0, 1.0, 7.0, 300.0], np.linspace(-5.0, 6.0, 12))
    mean = np.exp(f + 0.3)
    np.testing.assert_allclose(log_prob(Poisson(np.asarray(0.3)), f, y), stats.poisson.logpmf(y, mean), rtol=1e-11)
    for r in (0.1, 2.0, 40.0):
        want = stats.nbinom.logpmf(y, r, r / (r + mean))
        np.testing.assert_allclose(log_prob(negative_binomial(r), f, y), want, rtol=1e-9, atol=1e-11)


def test_a_large_dispersion_is_the_poisson():
    y, f = grid([0.0, 1.0, 30.0, 1000.0], [-3.0, 0.0, 3.0, 7.0])
    want, got = log_prob(Poisson(np.asarray(0.3)), f, y), log_prob(negative_binomial(1e8), f, y)
    # To first order in 1 / r, the difference is half of (y - mean)^2 - y over r.
    mean = np.exp(f + 0.3)
    np.testing.assert_allclose(got, want + ((y - mean) ** 2 - y) / 2e8, atol=3e-7)
    nothing = np.zeros((16, 1)), np.zeros((16, 1, 1))
    gradient = negative_binomial(1e8).by_hyperparameters(f[:, None], y, *nothing)["dispersion"].sum()
    assert abs(float(gradient)) < 1e-6


def test_derivatives():
    for y in (0.0, 4.0):
        for f in (-3.0, 0.5, 2.0):
            at, mean, r = (np.array([f]), np.asarray(y)), np.exp(f + 0.3), 2.0
            _, gradient, precision = Poisson(np.asarray(0.3)).expand(*at)
            np.testing.assert_allclose([gradient[0], precision[0, 0]], [y - mean, mean], rtol=1e-12)
            _, gradient, precision = negative_binomial(r).expand(*at)
            share = mean / (r + mean)
            want = [y - (y + r) * share, (y + r) * share * (1.0 - share)]
            np.testing.assert_allclose([gradient[0], precision[0, 0]], want, rtol=1e-11)
    for likelihood in (Poisson(np.asarray(0.0)), negative_binomial(2.0)):
        for f in (-1e3, 1e3):
            _, gradient, precision = likelihood.expand(np.array([f]), np.asarray(3.0))
            assert np.isfinite(gradient).all() and np.isfinite(precision).all()


@pytest.mark.parametrize(("r", "error", "cdf_error"), [(None, 1e-8, 1e-11), (0.1, 1e-4, 1e-9), (2.0, 1e-7, 1e-9)])
def test_predictions_against_brute_force(r, error, cdf_error):
    likelihood = Poisson(np.asarray(0.3)) if r is None else negative_binomial(r)
    y, loc, var = grid([0.0, 1.0, 20.0, 1e3, 1e6], [-3.0, 0.0, 2.0, 8.0, 13.5], VARIANCES)
    near = np.abs(np.log(y + 0.5) - loc - 0.3) < 30.0 * np.sqrt(var)  # the grid of brute force ends at 40 deviations
    y, loc, var = y[near], loc[near], var[near]
    log_p, below = predict(likelihood, y, loc, var)

    def log_g(y):
        if r is None:
            return lambda f: y * (f + 0.3) - np.exp(np.minimum(f + 0.3, 700.0)) - gammaln(y + 1.0)
        const = gammaln(y + r) - gammaln(r) - gammaln(y + 1.0) - y * np.log(r)
        return lambda f: const + y * (f + 0.3) - (y + r) * np.logaddexp(f + 0.3 - np.log(r), 0.0)

    want = [log_integral(log_g(a), b, c, np.log(a + 0.5) - 0.3) for a, b, c in zip(y, loc, var, strict=True)]
    np.testing.assert_allclose(log_p, want, atol=error, rtol=1e-10)

    def log_cdf(y):
        rate = lambda f: np.exp(np.clip(f + 0.3, -600.0, 600.0))  # noqa: E731
        if r is None:
            return lambda f: stats.poisson.logcdf(y, rate(f))
        return lambda f: stats.nbinom.logcdf(y, r, 1.0 / (1.0 + rate(f) / r))

    some = slice(None, None, 7)
    with np.errstate(all="ignore"):
        want = [
            np.exp(log_integral(log_cdf(a), b, c, np.log(a + 0.5) - 0.3))
            for a, b, c in zip(y[some], loc[some], var[some], strict=True)
        ]
    np.testing.assert_allclose(below[some], want, atol=cdf_error)


def test_moments():
    f = 0.7 + np.sqrt(0.6) * np.polynomial.hermite_e.hermegauss(60)[0]
    p = np.polynomial.hermite_e.hermegauss(60)[1] / np.sqrt(2.0 * np.pi)
    rate = np.exp(f + 0.3)
    at = np.asarray([0.7]), np.asarray([[0.6]])
    mean = p @ rate
    np.testing.assert_allclose(
        Poisson(np.asarray(0.3)).moments(*at), [mean, p @ (rate + rate**2) - mean**2], rtol=1e-10
    )
    np.testing.assert_allclose(
        negative_binomial(2.0).moments(*at), [mean, p @ (rate + rate**2 / 2.0 + rate**2) - mean**2], rtol=1e-10
    )


@pytest.mark.parametrize("likelihood", [Poisson(np.asarray(0.3)), NegativeBinomial(np.asarray(0.3), np.asarray(2.0))])
def test_moments_never_overflow(likelihood: Poisson | NegativeBinomial):
    for loc, var in ((1e30, 1.0), (0.0, 1e60), (1e99, 1e198), (-1e30, 1.0)):
        mean, variance = likelihood.moments(np.asarray([loc]), np.asarray([[var]]))
        assert np.isfinite(mean) and np.isfinite(variance), (loc, var)
        assert variance >= mean >= 0.0


def test_where_they_begin():
    y = np.array([0.0, 3.0, 1.0, 12.0])
    np.testing.assert_allclose(np.exp(Poisson.from_targets(y).intercept), 16.5 / 4.0, rtol=1e-12)
    likelihood = NegativeBinomial.from_targets(y)
    mean = 16.5 / 4.0
    np.testing.assert_allclose(np.exp(likelihood.intercept), mean, rtol=1e-12)
    np.testing.assert_allclose(mean + mean**2 / likelihood.dispersion, y.var(), rtol=1e-12)
    assert float(NegativeBinomial.from_targets(np.ones(5)).dispersion) == 1e3
    assert np.isfinite(Poisson.from_targets(np.zeros(3)).intercept)


@pytest.mark.parametrize("r", [None, 2.0])
def test_targets_of_the_model_are_as_probable_as_predicted(r):
    """The share of targets at or below the median and the mean log probability, within Monte Carlo's error."""
    likelihood = Poisson(np.asarray(0.3)) if r is None else negative_binomial(r)
    rng = np.random.default_rng(3)
    n = 4000
    loc, var = rng.normal(size=n), rng.uniform(0.1, 1.0, size=n)
    mean = np.exp(loc + 0.3 + np.sqrt(var) * rng.normal(size=n))
    y = rng.poisson(mean if r is None else mean * rng.gamma(r, size=n) / r).astype(float)
    _, below = predict(likelihood, y, loc, var)
    _, before = predict(likelihood, y - 1.0, loc, var)
    pit = before + rng.uniform(size=n) * (below - before)
    assert abs(pit.mean() - 0.5) < 4.0 / np.sqrt(12.0 * n)
    for level in (0.05, 0.25, 0.75, 0.95):
        assert abs((pit <= level).mean() - level) < 4.0 * np.sqrt(level * (1.0 - level) / n)


@pytest.mark.parametrize("dispersion", [0.1, 1.5, 40.0])
@pytest.mark.parametrize("further", [-2.0, 0.0, 1.0, 3.0])
def test_huge_counts_keep_their_digits(dispersion: float, further: float) -> None:
    """Far out only the ratio of a count and its mean matters."""
    counts = np.array([1e10, 1e20, 1e33])
    means, variance = np.log(counts) + further, np.full(3, 0.7)
    found = count_integrals.cdf(counts, means, variance, np.full(3, dispersion))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, found[0], rtol=1e-8)


@pytest.mark.parametrize("scale", [1e6, 1e9])
def test_huge_counts_of_one_size_begin_without_a_warning(scale: float) -> None:
    begun = NegativeBinomial.from_targets(np.full(20, scale) + np.arange(20))
    assert float(begun.dispersion) == pytest.approx(1e3)


HUGE = [1e12, 1e15, 1e20, 1e30, 1e60, 1e100]


def test_huge_counts_at_their_mean() -> None:
    """There the densities are those of Stirling's series, as any digit of log n! that was lost would show."""
    y = np.array(HUGE)
    f = np.log(y)
    poisson = log_prob(Poisson(np.asarray(0.0)), f, y)
    np.testing.assert_allclose(poisson, -0.5 * np.log(2.0 * np.pi * y), rtol=1e-13)
    for r in (0.1, 2.0, 40.0):
        want = r * np.log(r) - r - gammaln(r) - np.log(y)  # of the Gamma variable that it is, at its mean
        np.testing.assert_allclose(log_prob(negative_binomial(r), f - 0.3, y), want, rtol=1e-12)


def test_huge_counts_beside_their_mean() -> None:
    y = np.array(HUGE[2:])
    for u in (-5.0, -0.3, 1e-3, 0.15, 5.0, 600.0):
        f = np.log(y) + u - 0.3
        with np.errstate(over="ignore"):
            poisson = y * (u - np.expm1(np.minimum(u, 11.0)))
        if u <= 5.0:
            np.testing.assert_allclose(log_prob(Poisson(np.asarray(0.3)), f, y), poisson, rtol=1e-9)
        for r in (0.1, 2.0, 40.0):
            want = r * np.log(r) - r * u - r * np.exp(-u) - gammaln(r) - np.log(y)
            # Some 1e-14 of the log of the mean is lost in f.
            np.testing.assert_allclose(log_prob(negative_binomial(r), f, y), want, rtol=1e-11)


@pytest.mark.parametrize("further", [-2.0, 0.0, 1.0])
@pytest.mark.parametrize("variance", [1e-4, 0.3, 4.0])
def test_huge_counts_are_as_probable_as_their_rates_are_dense(further: float, variance: float) -> None:
    """A Poisson count of that size is its rate, a negative binomial one the rate times a Gamma variable."""
    y = np.array(HUGE[2:])
    loc, var = np.log(y) + further - 0.3, np.full(len(y), variance)
    near = np.log(y) - (loc + 0.3)
    want = -0.5 * (near**2 / variance + np.log(2.0 * np.pi * variance)) - np.log(y)
    found, _ = predict(Poisson(np.asarray(0.3)), y, loc, var)
    # The square of what a logarithm of that size loses, over the variance.
    np.testing.assert_allclose(found, want, atol=2e-12 / variance + 1e-11, rtol=1e-12)
    r = 2.5
    u = np.linspace(-12.0, 12.0, 40_001)
    weight = np.exp(-0.5 * u * u)
    away = further + np.sqrt(variance) * u  # the log of the mean less that of the count
    log_gamma = r * np.log(r) - r * away - r * np.exp(-away) - gammaln(r)
    want = np.log(np.exp(log_gamma) @ weight / weight.sum()) - np.log(y)
    found, _ = predict(negative_binomial(r), y, loc, var)
    np.testing.assert_allclose(found, want, rtol=1e-9)


def test_the_derivatives_by_f_of_huge_counts() -> None:
    """Close to the mean, the gradient is minus the distance times the precision."""
    y, u = np.array(HUGE), 1e-3
    f = (np.log(y) + u - 0.3)[:, None]
    for r in (0.1, 2.0, 40.0):
        _, gradient, precision = negative_binomial(r).expand(f, y)
        np.testing.assert_allclose(gradient[:, 0], r * np.expm1(-u), rtol=1e-9)
        np.testing.assert_allclose(precision[:, 0, 0], r * np.exp(-u), rtol=1e-9)
        zero = np.zeros((len(y), 1)), np.zeros((len(y), 1, 1))
        of_r = negative_binomial(r).by_hyperparameters(f, y, *zero)["dispersion"]
        np.testing.assert_allclose(of_r, np.log(r) + 1.0 - digamma(r) - u - np.exp(-u), rtol=1e-9, atol=1e-11)


def test_excess_of_the_exponential() -> None:
    """By fractions."""
    for u in (1e-30, -1e-8, 1e-3, 0.0099, -0.0099, 0.0101, -0.4, 3.0, -30.0):
        exact, term, k = Fraction(0), Fraction(u), 1
        while k < 3 or abs(term) > abs(exact) * Fraction(1, 10**20):
            k += 1
            term = term * Fraction(u) / k
            exact += term
        assert float(count_integrals.excess(np.asarray(u), np.expm1(u))) == pytest.approx(float(exact), rel=1e-13)
