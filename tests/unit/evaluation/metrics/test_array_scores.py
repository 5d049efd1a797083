"""Scores of arrays, against quadrature, closed forms and SciPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from streamgp.evaluation import metrics

RNG = np.random.default_rng(0)
MEAN, STD, Y = RNG.normal(size=6), RNG.uniform(0.2, 3.0, 6), RNG.normal(size=6) * 2.0


def crps_by_quadrature(cdf, y: float, ends: tuple[float, float]) -> float:
    """The definition: the integral of the squared distance of the distribution function from a step at y."""
    below = integrate.quad(lambda x: cdf(x) ** 2, ends[0], y, epsabs=1e-12, limit=500)[0]
    return below + integrate.quad(lambda x: (1.0 - cdf(x)) ** 2, y, ends[1], epsabs=1e-12, limit=500)[0]


def test_crps_of_gaussians_is_its_integral():
    want = [
        crps_by_quadrature(stats.norm(m, s).cdf, y, (m - 12.0 * s, m + 12.0 * s))
        for m, s, y in zip(MEAN, STD, Y, strict=True)
    ]
    assert_allclose(metrics.crps_gaussian(MEAN, STD, Y), want, rtol=1e-9)


def test_crps_of_gaussians_is_its_closed_form_in_any_shape():
    z = (Y - MEAN) / STD
    want = STD * (z * (2.0 * stats.norm.cdf(z) - 1.0) + 2.0 * stats.norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    shape = (2, 3)
    found = metrics.crps_gaussian(MEAN.reshape(shape), STD.reshape(shape), Y.reshape(shape))
    assert_allclose(found, want.reshape(shape), rtol=1e-10)
    assert metrics.crps_gaussian(0.0, 1.0, 0.0) == pytest.approx((np.sqrt(2.0) - 1.0) / np.sqrt(np.pi))
    assert metrics.crps_gaussian([], [], []).shape == (0,)


def test_crps_far_away_is_the_distance():
    assert_allclose(metrics.crps_gaussian(0.0, 1e-8, [-3.0, 1e200]), [3.0, 1e200], rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-200, 1e160])
def test_a_unit_whose_square_cannot_be_held_does_not_matter(unit: float):
    far = unit * MEAN, unit * STD, unit * Y
    assert_allclose(metrics.crps_gaussian(*far), unit * metrics.crps_gaussian(MEAN, STD, Y), rtol=1e-9)
    want = metrics.log_score_gaussian(MEAN, STD, Y) + np.log(unit)
    assert_allclose(metrics.log_score_gaussian(*far), want, rtol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 7])
def test_crps_of_samples_is_that_of_their_steps(m: int):
    samples = RNG.normal(size=(len(Y), m))
    for x, y, found in zip(samples, Y, metrics.crps_ensemble(samples, Y), strict=True):
        edges = np.sort(np.append(x, y))
        middles = 0.5 * (edges[1:] + edges[:-1])
        off = (x <= middles[:, None]).mean(1) - (y <= middles)
        assert found == pytest.approx((off**2 * np.diff(edges)).sum(), rel=1e-12, abs=1e-15)


def test_crps_of_one_sample_is_the_absolute_error():
    assert_allclose(metrics.crps_ensemble(MEAN[:, None], Y), np.abs(MEAN - Y), rtol=1e-14)


def test_crps_of_many_samples_is_that_of_what_they_are_drawn_from():
    m, draws = 200, 4_000
    samples = RNG.normal(0.3, 2.0, size=(draws, m))
    found = metrics.crps_ensemble(samples, np.full(draws, 1.0))
    want = metrics.crps_gaussian(0.3, 2.0, 1.0) + 2.0 * 2.0 / np.sqrt(np.pi) / (2 * m)  # as the docstring says
    assert abs(found.mean() - want) < 4.0 * found.std() / np.sqrt(draws)
    assert 4.0 * found.std() / np.sqrt(draws) < 2.0 / np.sqrt(np.pi) / m  # so that the second term is seen


def test_log_scores_are_minus_log_densities():
    assert_allclose(metrics.log_score_gaussian(MEAN, STD, Y), -stats.norm(MEAN, STD).logpdf(Y), rtol=1e-13)


def test_pinball_is_as_in_scikit_learn():
    from sklearn.metrics import mean_pinball_loss

    levels = [0.1, 0.5, 0.9]
    found = stats.norm(MEAN[:, None], STD[:, None]).ppf(levels)
    losses = metrics.pinball(found, levels, Y)
    assert losses.shape == (len(Y), 3)
    assert_allclose(losses.mean(0), [mean_pinball_loss(Y, found[:, i], alpha=a) for i, a in enumerate(levels)])
    assert_allclose(metrics.pinball(found[:, 1], 0.5, Y), losses[:, 1])


def test_twice_the_mean_pinball_loss_over_all_levels_is_the_crps():
    levels = (np.arange(4_000) + 0.5) / 4_000
    found = stats.norm(MEAN[:, None], STD[:, None]).ppf(levels)
    assert_allclose(2.0 * metrics.pinball(found, levels, Y).mean(1), metrics.crps_gaussian(MEAN, STD, Y), rtol=1e-3)


def test_interval_scores_are_pinball_losses_of_the_two_ends():
    low, high = stats.norm(MEAN, 0.3 * STD).interval(0.8)
    want = metrics.pinball(np.stack([low, high], 1), [0.1, 0.9], Y).sum(1) * 2.0 / 0.2
    assert_allclose(metrics.interval_score(low, high, Y, 0.8), want, rtol=1e-12)
    assert_allclose(metrics.interval_score([0.0, 0.0, 0.0], 1.0, [0.5, -1.0, 3.0], 0.9), [1.0, 21.0, 41.0])


def test_coverage_counts_the_ends_and_leaves_out_what_is_not_known():
    assert metrics.coverage([0, 0, 0, 0, np.nan], [1, 1, 1, 1, 1], [0, 1, 2, np.nan, 0]) == pytest.approx(2 / 3)
    assert np.isnan(metrics.coverage([0.0], [1.0], [np.nan]))


def test_what_is_not_known_is_nan_and_the_rest_stays():
    y = np.where(np.arange(6) == 2, np.nan, Y)
    for score in (
        metrics.crps_gaussian(MEAN, STD, y),
        metrics.log_score_gaussian(MEAN, STD, y),
        metrics.interval_score(MEAN, MEAN + 1.0, y, 0.5),
        metrics.pinball(MEAN, 0.5, y),
        metrics.crps_ensemble(np.stack([MEAN, STD], 1), y),
    ):
        np.testing.assert_array_equal(np.isnan(score), np.arange(6) == 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.crps_gaussian(MEAN, STD[:4], Y), r"mean, std, y: .* mean \(6,\), std \(4,\), y \(6,\)"),
        (
            lambda: metrics.crps_gaussian(MEAN[:, None], STD, Y),
            r"mean, std, y: .* mean \(6, 1\), std \(6,\)",
        ),
        (lambda: metrics.log_score_gaussian(MEAN, STD, Y[:, None]), r"mean, std, y: .* y \(6, 1\)"),
        (lambda: metrics.coverage(MEAN[:1], MEAN[:1] + 1.0, Y), r"low, high, y: .* low \(1,\)"),
        (
            lambda: metrics.crps_gaussian([0.0, 0.0], [1.0, 0.0], 0.0),
            r"std: expected numbers above 0, got 0 at \(1,\)",
        ),
        (lambda: metrics.log_score_gaussian(0.0, -1.0, 0.0), r"std: expected numbers above 0, got -1"),
        (lambda: metrics.crps_ensemble(MEAN, Y), r"samples: expected one more axis than y"),
        (lambda: metrics.crps_ensemble(np.zeros((6, 0)), Y), r"samples: "),
        (lambda: metrics.pinball(MEAN, [0.5], Y), r"quantiles: expected shape \(6, 1\).*got \(6,\)"),
        (lambda: metrics.pinball(MEAN, 1.0, Y), r"levels: .*got 1.0"),
        (lambda: metrics.interval_score(MEAN, MEAN, Y, 90), r"coverage: .*got 90"),
        (lambda: metrics.interval_score([0.0, 1.0], [1.0, 0.0], 0.0, 0.9), r"high: .*got 0 below 1 at \(1,\)"),
        (lambda: metrics.coverage(1.0, 0.0, 0.0), r"high: "),
    ],
)
def test_bad_arrays_are_named(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_energy_score_is_its_definition_and_of_one_number_the_crps():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(3, 40, 5)), rng.normal(size=(3, 5))
    for i in range(3):
        off = np.mean([np.linalg.norm(a - y[i]) for a in x[i]])
        between = np.mean([np.linalg.norm(a - b) for a in x[i] for b in x[i]])
        assert_allclose(metrics.energy_score(x, y)[i], off - 0.5 * between, rtol=1e-12)
    assert_allclose(metrics.energy_score(x[..., :1], y[:, :1]), metrics.crps_ensemble(x[..., 0], y[:, 0]), rtol=1e-12)
    with pytest.raises(ValueError, match=r"samples: expected shape \(..., m, d\) with y of shape \(..., d\)"):
        metrics.energy_score(x, y[0])
