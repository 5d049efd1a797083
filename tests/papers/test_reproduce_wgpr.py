"""The reproductions of Kepler et al.: the rows that are learnt and tested, scores, and what a run tells."""

from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from streamgp import StreamingGPRegressor
from streamgp.likelihoods import Predictive
from streamgp.research.sparse import BatchOptimiser
from streamgp.research.sparse import warmup as warmup_sparse
from streamgp_papers import local, wgpr

pytestmark = pytest.mark.papers


def write(directory: Path, name: str, X: np.ndarray, y: np.ndarray) -> None:
    columns = {f"x{i}": X[:, i] for i in range(X.shape[1])}
    pl.DataFrame(columns | {"y": y}).write_parquet(directory / f"{name}.parquet")


def test_the_first_batch_to_learn_sets_the_scale_and_no_other_row_does():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    test = rng.random(400) < 0.3
    one = local.split(X, y, test)
    assert len(one.X) == (~test).sum()
    assert one.X[: local.BATCH].mean(axis=0) == pytest.approx(0.0, abs=1e-12)
    assert one.X[: local.BATCH].std(axis=0) == pytest.approx(1.0)
    later = np.arange(400) > np.flatnonzero(~test)[local.BATCH]
    other = local.split(np.where(later[:, None], 9.0, X), np.where(later, 9.0, y), test)
    assert np.array_equal(one.X[: local.BATCH], other.X[: local.BATCH])
    assert (one.mean, one.scale) == (other.mean, other.scale)


def test_tables_are_shuffled_by_the_seed_and_a_fifth_is_held_out(tmp_path):
    X = np.arange(300.0)[:, None]
    write(tmp_path, "abalone", X, 2.0 * X[:, 0])
    one, same, other = (local.read_shuffled("abalone", seed, tmp_path, None) for seed in (1, 1, 2))
    assert (len(one.X), len(one.X_test)) == (240, 60)
    assert np.array_equal(one.X, same.X)
    assert not np.array_equal(one.X, other.X)
    learnt = one.mean + one.scale * one.y[:, 0]
    assert sorted([*learnt.round(6), *one.y_test]) == sorted(2.0 * X[:, 0])


def test_maps_are_sailed_line_after_line_to_and_fro(tmp_path):
    side = np.arange(40.0)
    X = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    write(tmp_path, "bathymetry_celt", X, X[:, 0] + 100.0 * X[:, 1])
    one = local.read_tracks("bathymetry_celt", 0, tmp_path, None)
    y = one.mean + one.scale * one.y[:, 0]
    line, place = np.round(y % 100.0), np.round(y // 100.0)
    assert set(line) == set(np.arange(0.0, 40.0, 4.0))
    assert (np.diff(line) >= 0.0).all()
    assert (np.diff(place[line == 0.0]) > 0.0).all()
    assert (np.diff(place[line == 4.0]) < 0.0).all()
    assert len(one.X) + len(one.X_test) == 100
    assert 5 < len(one.X_test) < 40


def test_scores_are_in_the_units_of_the_data():
    y_test = np.array([10.0, 14.0, 30.0])
    rows = local.Split(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((3, 1)), y_test, 12.0, 4.0)
    mean, std = np.array([-0.5, 0.25, 1.0]), np.array([0.5, 1.0, 1.5])
    said = Predictive(jnp.zeros((3, 1)), jnp.asarray(mean)[:, None, None], jnp.asarray(std**2)[:, None, None])
    found = rows.scores(said)
    at = 12.0 + 4.0 * mean
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y_test - at) ** 2)))
    assert found["pll"] == pytest.approx(norm.logpdf(y_test, at, 4.0 * std).mean())
    assert found["coverage"] == pytest.approx(2.0 / 3.0)


def test_the_line_has_two_regimes_of_the_stated_size():
    pairs = [local.generate_toy(seed, 240) for seed in range(40)]
    X, y = pairs[0][0], np.array([y for _, y in pairs])
    assert X[[0, -1], 0].tolist() == [0.0, 300.0]
    noise_var = local.TOY_NOISE**2
    steps = np.var(np.diff(y, axis=1), axis=0)
    gap = X[1, 0]
    for half, lengthscale, variance in zip(
        (slice(2, 118), slice(122, 238)), local.TOY_LENGTHSCALES, local.TOY_VARIANCES, strict=True
    ):
        moved = 2.0 * variance * (1.0 - np.exp(-0.5 * (gap / lengthscale) ** 2)) + 2.0 * noise_var
        assert np.mean(steps[half]) == pytest.approx(moved, rel=0.1)
        assert np.mean(y[:, half] ** 2) == pytest.approx(variance + noise_var, rel=0.35)


def test_runs_tell_of_every_method_that_is_printed_or_claimed(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "EXACT_ROWS", 60)
    monkeypatch.setattr(local, "HYPER_ROWS", 40)
    monkeypatch.setattr(local, "StreamingGPRegressor", partial(StreamingGPRegressor, "linear", warmup=50))
    monkeypatch.setattr(warmup_sparse, "INDUCING", 10)
    for module in (local, warmup_sparse):
        monkeypatch.setattr(module, "BatchOptimiser", lambda steps, alpha=0.0: BatchOptimiser(3, alpha))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    write(tmp_path, "abalone", X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=300))

    def named(reproduction: Any) -> set[str]:
        printed = {model for _, model, _ in reproduction.figures}
        return printed | {model for claim in reproduction.claims for model in (*claim.ahead, *claim.behind)}

    tables = local.run_tables("abalone", 0, directory=tmp_path, rows=None)
    assert named(wgpr.TABLES) <= set(tables["models"])
    assert tables["rows"] == 300
    assert all(one["rmse"] < 1.0 for one in tables["models"].values())
    assert tables["models"]["one model a batch"]["models"] == 2
    assert tables["models"]["OVFE"]["models"] == 1
    toy = local.run_toy("two-regimes", 0, directory=None, rows=200)
    assert named(wgpr.TOY) <= set(toy["models"])
