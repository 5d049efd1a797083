"""The reproductions of Ghari and Shen (2021): what a run tells, on a few rows."""

from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

from streamgp.research.multikernel import FeatureBank
from streamgp_papers import kernel_regret, many_kernels, sfg

pytestmark = pytest.mark.papers


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    columns = {f"x{i}": X[:, i] for i in range(3)} | {"x3": np.ones(80), "y": X[:, 0] + 50.0}
    pl.DataFrame(columns).write_parquet(tmp_path / "airfoil.parquet")
    return tmp_path


def test_a_run_tells_of_every_learner(directory, monkeypatch):
    monkeypatch.setattr(many_kernels, "_score_causal", lambda *args: {"default": {"mse": 1.0, "seconds": 1.0}})
    run = many_kernels.run_many_kernels("airfoil-file", 0, directory=directory, rows=60)
    assert (run["rows"], run["inputs"]) == (60, 4)  # the constant input counts
    printed = {model for _, model, _ in sfg.TABLES.figures}
    assert printed | {"persistence", "running mean", "Bayesian, same scaling"} <= set(run["models"])
    y = pl.read_parquet(directory / "airfoil.parquet")["y"].to_numpy()[:60]
    scaled = (y - y.min()) / np.ptp(y)
    want = 1e3 * np.mean(np.square(np.diff(np.r_[0.5, scaled])))
    assert run["models"]["persistence"]["mse"] == pytest.approx(want)
    means = [0.5, *(scaled[:i].mean() for i in range(1, 60))]
    assert run["models"]["running mean"]["mse"] == pytest.approx(1e3 * np.mean(np.square(means - scaled)))
    assert all(scores["seconds"] > 0 for name, scores in run["models"].items() if "seconds" in scores)


def test_hindsight_is_the_best_of_all_coefficients_of_a_length():
    rng = np.random.default_rng(1)
    bank = FeatureBank(jax.numpy.asarray(rng.normal(size=(3, 2, 2)) * [[[0.5]], [[2.0]], [[6.0]]]))
    X = rng.uniform(size=(40, 2))
    y = np.sin(5.0 * X[:, 0]) * 2.0  # more than a length of 1 can follow
    found = kernel_regret.best_loss(bank, X, y)
    Z = np.asarray(bank(X))

    def best(kernel: int) -> float:
        def loss(theta: np.ndarray) -> float:
            return float(np.sum(np.square(Z[:, kernel] @ theta - y)))

        ball = {"type": "ineq", "fun": lambda theta: 1.0 - theta @ theta}
        return minimize(loss, np.full(4, 0.1), constraints=[ball], method="SLSQP", tol=1e-12).fun

    assert found == pytest.approx(min(map(best, range(3))), rel=1e-6)


def test_the_exponent_is_that_of_a_power():
    lengths = [256, 512, 1024, 2048]
    assert kernel_regret.fit_exponent(lengths, [9.0, *(3.0 * n**0.7 for n in lengths[1:])]) == pytest.approx(0.7)
    assert kernel_regret.fit_exponent(lengths, [1.0, -2.0, 3.0, 4.0]) == float("-inf")


def test_growth_needs_three_lengths(monkeypatch):
    monkeypatch.setattr(kernel_regret, "LENGTHS", (16, 32, 64))
    monkeypatch.setattr(kernel_regret, "FIT_FROM", 16)
    run = kernel_regret.run_growth("mkl-plane", 0, directory=None, rows=None)
    assert set(run["models"]) == set(kernel_regret.LEARNERS)
    assert run["regret"]["Raker"]["rows"] == [16, 32, 64]
    with pytest.raises(Exception, match="64 rows"):
        kernel_regret.run_growth("mkl-sines", 0, directory=None, rows=40)
