"""Scores of several targets at once, against their definitions."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from streamgp.evaluation.metrics import energy_score
from streamgp.evaluation.regression import RegressionMetrics
from streamgp.evaluation.regression_scores import RegressionScores, score_regression
from streamgp.likelihoods import Predictive
from streamgp.likelihoods.recalibration_by_spread import PRIOR
from streamgp.numerics import keys
from streamgp.numerics.precision import float64

N = 12


@pytest.fixture(scope="module")
def rows() -> tuple[Predictive, np.ndarray]:
    rng = np.random.default_rng(0)
    r = rng.uniform(-0.95, 0.95, size=N)
    matrices = np.tile(np.eye(2), (N, 1, 1))
    matrices[:, 0, 1] = matrices[:, 1, 0] = r
    counts = np.abs(rng.normal(size=(N, 2, 6))) + PRIOR
    p = Predictive(
        np.log(rng.dirichlet(np.ones(3), N)),
        rng.normal(size=(N, 3, 2)),
        rng.uniform(0.3, 2.0, size=(N, 3, 2)),
        np.tile([np.inf, 8.0, 12.0], (N, 1)),
        recalibration=counts / counts.sum(-1, keepdims=True),
        correlation=matrices,
    )
    return p, rng.normal(size=(N, 2))


def test_the_joint_log_density_is_that_of_the_prediction(rows):
    p, y = rows
    scores = score_regression(p, y)
    np.testing.assert_allclose(scores.joint_log_density, p.joint_log_density(y), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(scores.log_density, p.log_density(y), rtol=1e-11, atol=1e-12)


def test_of_correlated_gaussians_it_is_dense_and_above_that_of_independent_ones():
    rng = np.random.default_rng(1)
    cov = np.array([[1.0, 1.6], [1.6, 4.0]])
    y = rng.multivariate_normal([0.0, 0.0], cov, size=300)
    p = Predictive(
        np.zeros((300, 1)), np.zeros((300, 1, 2)), np.tile([1.0, 4.0], (300, 1, 1)),
        correlation=np.tile([[1.0, 0.8], [0.8, 1.0]], (300, 1, 1)),
    )  # fmt: skip
    scores = score_regression(p, y)
    inside = (np.abs(y / np.sqrt(np.diag(cov))) < 4.0).all(1)
    dense = multivariate_normal.logpdf(y, cov=cov)
    np.testing.assert_allclose(scores.joint_log_density[inside], dense[inside], rtol=1e-9)
    assert scores.joint_log_density.mean() > scores.log_density.mean() + 0.3
    metrics = RegressionMetrics(["a", "b"], 100)
    metrics.add(RegressionScores(*(a[:150] for a in scores)))
    metrics = RegressionMetrics.from_tree(metrics.to_tree())
    metrics.add(RegressionScores(*(a[150:] for a in scores)))
    result = metrics.result()
    np.testing.assert_allclose(result["joint_pll"], scores.joint_log_density[100:].mean(), rtol=1e-12)
    np.testing.assert_allclose(result["energy"], scores.energy[100:].mean(), rtol=1e-12)


def test_the_energy_score_is_that_of_many_draws(rows):
    p, y = rows
    with float64():
        draws = np.moveaxis(np.asarray(p.sample(keys.key(0), (1500,))), 0, 1)
    exact = energy_score(draws, y)
    assert abs(score_regression(p, y).energy - exact).max() < 0.05
    alone = energy_score(draws[:, :64], y)  # what as many random draws are off by
    assert abs(score_regression(p, y).energy - exact).mean() < abs(alone - exact).mean()


def test_of_one_target_they_are_what_there_was(rows):
    p, y = rows
    one = Predictive(p.log_weights, p.loc[..., :1], p.var[..., :1], p.dof, recalibration=p.recalibration[:, :1])
    scores = score_regression(one, y[:, :1])
    np.testing.assert_array_equal(scores.joint_log_density, scores.log_density)
    np.testing.assert_array_equal(scores.energy, scores.crps[:, 0])
    metrics = RegressionMetrics(["a"], 0)
    metrics.add(scores)
    assert "joint_pll" not in metrics.result()
