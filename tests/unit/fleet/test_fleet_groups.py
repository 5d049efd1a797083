"""Groups of keys: their priors by definition, what they are worth to a new key, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fleet_streams import assert_same, fleet, frame, steps_ahead
from streamgp import StreamingGPFleet
from streamgp.fleet import directory
from streamgp.fleet.pooling import MOST, BeliefSums, fleet_keys, group_priors, pooled_prior
from streamgp.fleet.prior import PRIOR_KEYS, PooledPrior
from streamgp.table import DataError

ROWS = frame(keys=6, rows=50).with_columns(kind=pl.col("unique_id").str.slice(4).cast(int) % 2)


def sums_of(means: list[np.ndarray], covs: list[np.ndarray]) -> BeliefSums:
    """Return the sums of groups of keys with these means and covariances, of one expert."""
    weights = np.array([len(each) * np.array([0.75, 0.25]) for each in means])
    return BeliefSums(
        np.array([[float(len(each))] for each in means]),
        np.stack([each.sum(0)[None] for each in means]),
        np.stack([(each.T @ each)[None] for each in means]),
        np.stack([each.sum(0)[None] for each in covs]),
        weights,
        np.array([float(len(each)) for each in means]),
    )


def fleet_prior(root: np.ndarray) -> PooledPrior:
    return PooledPrior(np.zeros((1, len(root))), root[None], np.log([0.5, 0.5]))


def keys(sizes: list[int], between: float, seed: int, root: np.ndarray) -> BeliefSums:
    """Return keys whose groups' means have a variance, beside theirs within the group of one, in units of a root."""
    rng = np.random.default_rng(seed)
    d = len(root)
    means = [(np.sqrt(between) * rng.normal(size=d) + rng.normal(size=(n, d))) @ root.T for n in sizes]
    return sums_of(means, [np.broadcast_to(0.1 * np.eye(d), (n, d, d)) for n in sizes])


def test_a_group_s_prior_is_drawn_to_the_fleet_s_by_its_keys():
    root = np.array([[2.0, 0.0], [0.5, 1.0]])
    sums, fleets = keys([3, 0, 40], 1.0, 0, root), fleet_prior(root)
    drawn = float(fleet_keys(sums, fleets)[0])
    assert 1.0 <= drawn < 100.0
    found = group_priors(sums, fleets)
    assert found[1] is fleets
    for g in (0, 2):
        n = sums.count[g]
        mean = sums.total[g, 0] / (n + drawn)
        np.testing.assert_allclose(found[g].mean[0], mean, rtol=1e-12)
        # Scatter around that mean, the beliefs' own covariances, and some keys of the fleet's.
        around = sums.scatter[g, 0] - np.outer(mean, sums.total[g, 0]) - np.outer(sums.total[g, 0], mean)
        cov = around + n * np.outer(mean, mean) + sums.within[g, 0] + PRIOR_KEYS * root @ root.T
        np.testing.assert_allclose(found[g].root[0] @ found[g].root[0].T, cov / (n + PRIOR_KEYS), rtol=1e-9)
        share = (n * np.array([0.75, 0.25]) + PRIOR_KEYS * 0.5) / (n + PRIOR_KEYS)
        np.testing.assert_allclose(np.exp(found[g].log_weights), 0.995 * share + 0.005 / 2, rtol=1e-9)


@pytest.mark.parametrize("between", [0.25, 1.0])
def test_the_fleet_counts_for_as_many_keys_as_groups_are_alike(between: float):
    root = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, -0.3, 0.2]])
    found = [fleet_keys(keys([30] * 60, between, seed, root), fleet_prior(root))[0] for seed in range(30)]
    error = np.std(found) / np.sqrt(len(found))
    expected = max(1.0 / between, 1.0)
    bias = 0.05 * expected  # of a ratio of estimates, and of what is cut off below one
    assert abs(np.mean(found) - expected) < 4.0 * error + bias


def test_groups_that_do_not_differ_have_the_fleet_s_mean():
    root = np.diag([1.0, 2.0, 0.0])  # of the last feature there is no variance
    found = [fleet_keys(keys([20] * 8, 0.0, seed, root), fleet_prior(root))[0] for seed in range(40)]
    assert np.median(found) > 50.0
    one = keys([20], 0.0, 0, root)
    assert fleet_keys(one, fleet_prior(root))[0] == MOST
    np.testing.assert_allclose(group_priors(one, fleet_prior(root))[0].mean, 0.0, atol=1e-3)


def test_the_sums_of_all_groups_are_those_of_the_fleet():
    root = np.eye(2)
    apart, fleets = keys([5, 9], 1.0, 3, root), fleet_prior(root)
    both = BeliefSums(*(each.sum(0, keepdims=True) for each in apart))
    one, other = pooled_prior(apart, fleets), pooled_prior(both, fleets)
    np.testing.assert_allclose(one.mean, other.mean)
    np.testing.assert_allclose(one.root, other.root)


def swings(keys: int, rows: int, seed: int, first: int = 0) -> pl.DataFrame:
    """Return rows of keys in turn: those of one group go on as they were, those of the other swing back."""
    rng = np.random.default_rng(seed)
    kind = np.arange(keys) % 2
    last, parts = rng.normal(size=keys), []
    for day in range(rows):
        last = np.where(kind == 0, 0.9, -0.9) * last + 0.3 * rng.normal(size=keys)
        ids = [f"key {first + k}" for k in range(keys)]
        parts.append(pl.DataFrame({"unique_id": ids, "ds": float(day), "y": last, "kind": kind}))
    return pl.concat(parts)


@pytest.mark.slow
def test_a_new_key_of_a_group_starts_from_its_group():
    gains = []
    for seed in range(3):
        old, new = swings(30, 60, seed), swings(40, 6, 100 + seed, first=1000)
        new = new.with_columns(ds=pl.col("ds") + 60.0)
        found = []
        for options, rows in (({"group_col": "kind"}, (old, new)), ({}, (old.drop("kind"), new.drop("kind")))):
            model = StreamingGPFleet(warmup=600, season=None, **options).partial_fit(rows[0])
            scored = model.evaluate(rows[1]).frame.filter(pl.col("ds") > 60.0)
            found.append(scored.group_by("unique_id", maintain_order=True).agg(pl.col("log_density").mean()))
        gains.append((found[0]["log_density"] - found[1]["log_density"]).to_numpy())
    gain = np.concatenate(gains)
    assert gain.mean() > 0.1 + 4.0 * gain.std() / np.sqrt(len(gain))


def test_another_group_is_refused_and_nothing_learnt():
    model, plain = (fleet(group_col="kind").partial_fit(ROWS[:100]) for _ in range(2))
    for kind, said in (
        (pl.lit(5), r"and of one group, got no group, or another one .* in row 0 \('key \d' at"),
        (pl.lit(None, pl.Int64), "got no group, or another one"),
        (pl.lit("five"), "column 'kind': expected a column of type whole number"),
        (pl.lit(0.5), r"column 'kind': expected keys of text or whole numbers, got 0\.5"),
    ):
        with pytest.raises(DataError, match=said):
            model.partial_fit(ROWS[100:105].with_columns(kind=kind))
    assert (model.rows_, model.learner.directory.groups) == (100, plain.learner.directory.groups)
    assert_same(model.evaluate(ROWS[100:]).frame, plain.evaluate(ROWS[100:]).frame)


def test_rows_of_another_group_are_skipped_and_counted():
    model = fleet(group_col="kind", missing="skip")
    rows = ROWS[:3].with_columns(
        unique_id=pl.Series(["a", "a", "a"]), ds=pl.Series([1.0, 2.0, 3.0]), kind=pl.Series([None, 8, 9])
    )
    found = model.evaluate(rows).frame
    assert found["mean"].is_nan().to_list() == [True, False, True]
    scores = model.scores()
    assert scores.select("unique_id", "group", "rows", "skipped").rows() == [("a", 8, 1, 2)]
    with pytest.raises(DataError, match="'kind' missing"):
        model.predict(rows.drop("kind"))


def test_more_groups_than_are_sensible_are_refused(monkeypatch):
    monkeypatch.setattr(directory, "MAX_GROUPS", 3)
    with pytest.raises(DataError, match="expected at most 3 groups, got 6; make them larger"):
        fleet(group_col="kind").partial_fit(ROWS.with_columns(kind="unique_id"))


def test_text_groups_in_pandas_frames(tmp_path):
    rows = ROWS.with_columns(kind=pl.when(pl.col("kind") == 0).then(pl.lit("even")).otherwise(pl.lit("odd")))
    model = fleet(group_col="kind").partial_fit(pd.DataFrame(rows.to_dict(as_series=False)))
    assert set(model.scores()["group"]) == {"even", "odd"}
    model.save(tmp_path)
    assert StreamingGPFleet.load(tmp_path).scores().equals(model.scores())
    future = pd.DataFrame(steps_ahead(model, 2, a=0.0, b=0.0).to_dict(as_series=False))
    assert len(model.forecast(2, X_future=future)) == 12
