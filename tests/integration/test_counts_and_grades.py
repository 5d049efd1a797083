"""Streams of counts and of grades, through their estimators."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, poisson

from streamgp import StreamingGPCountRegressor, StreamingGPOrdinal, evaluate

pytestmark = pytest.mark.slow

LINEAR: dict[str, Any] = {"model": "linear", "warmup": 60}
MOVING: dict[str, Any] = {"dynamics": ["static", "walk 0.001"], "warmup": 200}


def counts(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, rng.poisson(np.exp(1.0 + 0.5 * X[:, 0])).astype(float)


def grades(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(1.5 * X[:, 0] + rng.normal(size=n), [-1.0, 0.5, 1.5]) + 3


class TestCounts:
    def test_a_rate_that_drifts_tenfold_is_tracked_within_its_bands(self):
        rng = np.random.default_rng(1)
        n = 1200
        X = rng.normal(size=(n, 1))
        rate = np.exp(1.0 + np.log(10.0) * np.arange(n) / n + 0.3 * X[:, 0])
        y = rng.poisson(rate).astype(float)
        moving = evaluate(StreamingGPCountRegressor("linear", likelihood="poisson", **MOVING), X, y)
        late, last = slice(n // 2, None), slice(n - 200, None)
        assert np.median(np.abs(np.log(moving.mean[late] / rate[late]))) < 0.12
        static = StreamingGPCountRegressor("linear", likelihood="poisson", warmup=200).partial_fit(X, y)
        assert np.median(np.abs(np.log(static.predict(X[last]) / rate[last]))) > 0.3
        for level in (50, 90, 95):  # two-sided: three standard errors, and a point for what tracking costs
            share = level / 100.0
            slack = 3.0 * np.sqrt(share * (1.0 - share) / (n - 200)) + 0.01
            assert abs(moving.metrics["coverage"][str(level)] - share) < slack
        best = poisson.logpmf(y, rate)[200:].mean()
        assert abs(moving.metrics["pll"] - best) < 0.1
        assert moving.metrics["deviance"] < moving.metrics["naive"]["running_mean"]["deviance"]

    def test_the_excess_of_variance_is_found(self):
        rng = np.random.default_rng(2)
        X = rng.normal(size=(700, 1))
        rate = np.exp(2.0 + 0.3 * X[:, 0]) * rng.gamma(2.0, 0.5, size=700)
        y = rng.poisson(rate).astype(float)
        broad = evaluate(StreamingGPCountRegressor("linear", **MOVING), X, y)
        narrow = evaluate(StreamingGPCountRegressor("linear", likelihood="poisson", **MOVING), X, y)
        assert abs(broad.metrics["coverage"]["90"] - 0.9) < 0.03
        assert narrow.metrics["coverage"]["90"] < 0.8
        assert broad.metrics["pll"] > narrow.metrics["pll"] + 0.2

    def test_exposure_multiplies_the_rate(self):
        rng = np.random.default_rng(3)
        X = rng.normal(size=(400, 2))
        hours = rng.uniform(0.2, 5.0, size=400)
        y = rng.poisson(3.0 * hours).astype(float)
        model = StreamingGPCountRegressor(**LINEAR).partial_fit(X, y, exposure=hours)
        one, five = (model.predict([[0.0, 0.0]], exposure=[h])[0] for h in (1.0, 5.0))
        assert_allclose(five, 5.0 * one, rtol=1e-9)
        assert abs(one - 3.0) < 0.3
        with pytest.raises(ValueError, match="exposure"):
            model.predict([[0.0, 0.0]])
        with pytest.raises(ValueError, match="exposure"):
            model.partial_fit(X[:2], y[:2])
        with pytest.raises(ValueError, match="row 1"):
            model.partial_fit(X[:2], y[:2], exposure=[1.0, 0.0])

    def test_quantiles_are_counts_and_hold_their_share(self):
        X, y = counts(600)
        model = StreamingGPCountRegressor(**LINEAR).partial_fit(X[:400], y[:400])
        low, median, high = model.predict_quantiles(X[400:], [0.05, 0.5, 0.95]).T
        for q in (low, median, high):
            assert_array_equal(q, np.round(q))
        assert np.mean((y[400:] >= low) & (y[400:] <= high)) > 0.87  # of whole numbers: 90% or more
        draws = model.sample(X[400:404], 4000)
        assert draws.shape == (4, 4000)
        mean, std = model.predict(X[400:404], return_std=True)
        assert_allclose(draws.mean(axis=1), mean, atol=4 * (std / np.sqrt(4000)).max())

    def test_saved_and_loaded_goes_on_as_if_unbroken(self, tmp_path: Path):
        X, y = counts()
        hours = np.linspace(1, 2, 200)
        unbroken = StreamingGPCountRegressor(**LINEAR).partial_fit(X[:100], y[:100], exposure=hours[:100])
        unbroken.save(tmp_path / "c")
        loaded = StreamingGPCountRegressor.load(tmp_path / "c")
        for model in (unbroken, loaded):
            model.partial_fit(X[100:], y[100:], exposure=hours[100:])
        assert_array_equal(loaded.predict(X, exposure=hours), unbroken.predict(X, exposure=hours))
        assert loaded.n_features_in_ == 2

    @pytest.mark.parametrize("bad", [-1.0, 2.5])
    def test_what_is_no_count_is_refused_or_skipped(self, bad: float):
        X, y = counts(80)
        y[7] = bad
        with pytest.raises(ValueError, match=r"whole numbers.*row 7"):
            StreamingGPCountRegressor(**LINEAR).partial_fit(X, y)
        model = StreamingGPCountRegressor(**LINEAR, missing="skip").partial_fit(X, y)
        assert (model.rows_, model.skipped_rows_) == (79, 1)

    def test_a_stream_of_zeros(self):
        X, _ = counts(120)
        result = evaluate(StreamingGPCountRegressor(**LINEAR), X, np.zeros(120))
        assert np.isfinite(result.log_density).all()
        assert result.mean[-1] < 0.2  # half a count in the warm-up's rows, and falling
        assert np.all(np.diff(result.mean[[2, 20, 119]]) < 0.0)

    @pytest.mark.parametrize("dynamics", ["static", "walk 0.1"])
    def test_zeros_for_long_predict_next_to_nothing(self, dynamics: str):
        X, _ = counts(500)
        model = StreamingGPCountRegressor("linear", dynamics=dynamics, warmup=60, robust=True)
        model.partial_fit(X, np.zeros(500))
        mean, std = model.predict(3.0 * X, return_std=True)
        assert mean.max() < 0.05
        assert std.max() < 1.0
        assert (model.predict_quantiles(X, [0.5, 0.99]) == 0.0).all()

    @pytest.mark.parametrize("row", [5, 59, 100])
    @pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
    def test_an_absurd_count_leaves_predictions_nearly_as_they_were(self, row: int, likelihood: str):
        X, y = counts(160)
        clean, glitched = (
            StreamingGPCountRegressor(**LINEAR, likelihood=likelihood, dynamics=["static", 0.1], robust=True)
            for _ in range(2)
        )
        wild = y.copy()
        wild[row] = 1e6
        ratio = glitched.partial_fit(X, wild).predict(X) / clean.partial_fit(X, y).predict(X)
        assert ratio.min() > 1.0 / 1.2
        assert ratio.max() < 1.2

    def test_with_absurd_counts_chunks_of_any_size_give_the_same_numbers(self, tmp_path: Path):
        X, y = counts(200)
        y[[30, 70, 71, 150]] = 1e5
        y[170:] += 500.0
        options: dict[str, Any] = {**LINEAR, "dynamics": ["static", 0.1], "robust": True}
        whole = evaluate(StreamingGPCountRegressor(**options), X, y)
        parts = StreamingGPCountRegressor(**options)
        means = []
        for rows in np.split(np.arange(200), [1, 2, 9, 59, 61, 70, 71, 130, 173]):
            means.append(evaluate(parts, X[rows], y[rows]).mean)
            parts.save(tmp_path / "c")
            parts = StreamingGPCountRegressor.load(tmp_path / "c")
        assert_allclose(np.concatenate(means), whole.mean, rtol=1e-9)

    def test_a_rate_that_leaps_is_followed_after_five_rows(self):
        X, y = counts(300)
        y[200:] *= 100.0
        model = StreamingGPCountRegressor(**LINEAR, dynamics=["static", 0.1], robust=True).partial_fit(
            X[:204], y[:204]
        )
        before = np.median(model.predict(X[200:]) / y[200:].clip(1.0))
        assert before < 0.1
        model.partial_fit(X[204:230], y[204:230])
        assert 0.5 < np.median(model.predict(X[230:]) / y[230:].clip(1.0)) < 2.0

    def test_an_input_that_begins_to_move_predicts_nothing_absurd(self):
        X, y = counts(200)
        X[:, 1] = 5.0
        model = StreamingGPCountRegressor(**LINEAR, robust=True).partial_fit(X, y)
        X[:, 1] = 55.0
        mean, std = model.predict(X, return_std=True)
        assert mean.max() < 10 * y.max()
        assert std.max() < 100 * y.max()

    def test_what_is_predicted_is_one_distribution_in_double_precision(self):
        """Bounded as it is: moments and quantiles are those of its probabilities."""
        X, y = counts(100)
        model = StreamingGPCountRegressor(**LINEAR, dynamics=["static", 0.1], robust=True).partial_fit(X, y)
        far = np.array([[6.0, -4.0]])
        mean, std = model.predict(far, return_std=True)
        k = np.arange(20_000.0)
        p = np.exp(model.log_density(np.repeat(far, len(k), axis=0), k))
        assert mean.dtype == std.dtype == np.float64
        assert_allclose(p.sum(), 1.0, atol=1e-4)
        assert_allclose(p @ k, mean[0], rtol=0.01)
        for level in (0.05, 0.5, 0.95):
            assert model.predict_quantiles(far, [level])[0, 0] == np.argmax(np.cumsum(p) >= level)
        with jax.enable_x64(True):
            assert_array_equal(model.predict(far), mean)


class TestGrades:
    def test_probabilities_are_those_of_the_model_that_made_the_data(self):
        X, y = grades(2500)
        result = evaluate(StreamingGPOrdinal("linear", warmup=300), X, y)
        cuts = np.array([-np.inf, -1.0, 0.5, 1.5, np.inf])
        true = np.diff(norm.cdf(cuts[None, :] - 1.5 * X[:, :1]), axis=1)
        assert np.abs(result.probabilities[1500:] - true[1500:]).mean() < 0.015
        best = -np.log(true[np.arange(2500), y - 3])[300:].mean()
        assert abs(result.metrics["log_loss"] - best) < 0.02
        assert result.metrics["rps"] < result.metrics["naive"]["frequencies"]["rps"]

    def test_grades_may_be_words_in_the_order_of_the_user(self, tmp_path: Path):
        X, y = grades()
        words = np.array(["poor", "fair", "good", "great"])[y - 3]
        named = StreamingGPOrdinal(**LINEAR).partial_fit(X, words, grades=["poor", "fair", "good", "great"])
        plain = StreamingGPOrdinal(**LINEAR).partial_fit(X, y, grades=[3, 4, 5, 6])
        assert_array_equal(named.predict_proba(X), plain.predict_proba(X))
        assert named.predict(X[:1])[0] in named.classes_
        named.save(tmp_path / "c")
        loaded = StreamingGPOrdinal.load(tmp_path / "c")
        assert loaded.classes_.tolist() == ["poor", "fair", "good", "great"]
        assert_array_equal(loaded.predict(X), named.predict(X))

    def test_the_median_grade_is_predicted(self):
        X, y = grades()
        model = StreamingGPOrdinal(**LINEAR).fit(X, y)
        p = model.predict_proba(X)
        medians = np.array([3 + np.searchsorted(np.cumsum(row), 0.5) for row in p])
        assert_array_equal(model.predict(X), medians)

    def test_a_grade_that_nobody_named_is_refused_and_nothing_learnt(self):
        X, y = grades()
        model = StreamingGPOrdinal(**LINEAR).partial_fit(X, y)
        before = model.predict_proba(X)
        with pytest.raises(ValueError, match=r"9 at row 1"):
            model.partial_fit(X[:2], [3, 9])
        assert_array_equal(model.predict_proba(X), before)
        with pytest.raises(ValueError, match="two classes of grades"):
            StreamingGPOrdinal(**LINEAR).partial_fit(X[:2], [3, 3])


def test_counts_of_any_size_are_predicted_like_others():
    """In units of the scale, a count that large is as probable as its ratio to the scale is dense."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    ratios = np.exp(0.3 * X[:, 0]) * rng.gamma(20.0, 0.05, size=300)
    other = evaluate(StreamingGPCountRegressor("linear", warmup=100), X, np.floor(1e7 * ratios))
    for scale in (1e15, 1e60):
        result = evaluate(StreamingGPCountRegressor("linear", warmup=100), X, np.floor(scale * ratios))
        assert result.metrics["pll"] + np.log(scale) == pytest.approx(other.metrics["pll"] + np.log(1e7), abs=1e-3)
        assert result.metrics["nmse"] == pytest.approx(other.metrics["nmse"], abs=1e-3)


def overdispersed(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return counts of which those with a high second input vary more than those with a low one, with equal means."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    mean, r = np.exp(2.0 + X[:, 0]), np.where(X[:, 1] > 0.0, 1.0, 1e6)
    return X, rng.poisson(mean * rng.gamma(r, 1.0 / r))


def following(**options: Any) -> StreamingGPCountRegressor:
    given = {"model": "fast", "warmup": 200, "random_state": 0, "noise_by_input": True, **options}
    return StreamingGPCountRegressor(**given)


def test_bands_of_counts_hold_for_each_kind_of_row():
    X, y = overdispersed(3_000, 0)
    held = {}
    for on in (False, True):
        found = evaluate(following(noise_by_input=on), X, y, progress=False)
        late, loud = np.arange(len(y)) >= 1_000, X[:, 1] > 0.0
        inside = (found.q05 <= y) & (y <= found.q95)
        held[on] = [inside[late & rows].mean() for rows in (~loud, loud)] + [found.metrics["pll"]]
    # Counts are whole, so that their bands hold more than 90%.
    assert held[False][1] < 0.89 and held[False][0] > 0.99
    assert 0.9 < held[True][1] < held[True][0] < 0.98
    assert held[True][2] > held[False][2] + 0.1


@pytest.mark.parametrize("exposed", [False, True])
def test_the_variance_of_counts_is_the_same_by_rows_chunks_and_after_a_restart(exposed, tmp_path):
    X, y = overdispersed(360, 1)
    y[300] = 10**9
    given = {"exposure": np.exp(X[:, 0])} if exposed else {}

    def fed(size: int, model: StreamingGPCountRegressor, rows: range) -> StreamingGPCountRegressor:
        for at in range(rows.start, rows.stop, size):
            some = slice(at, min(at + size, rows.stop))
            model.partial_fit(X[some], y[some], **{name: each[some] for name, each in given.items()})
        return model

    def said(model: StreamingGPCountRegressor) -> np.ndarray:
        new = {name: each[:20] for name, each in given.items()}
        return np.concatenate(
            [model.predict(X[:20], return_std=True, **new)[1], model.predict_quantiles(X[:20], [0.9], **new)[:, 0]]
        )

    whole = fed(360, following(), range(360))
    fed(310, following(), range(310)).save(tmp_path / "model")
    for other in (
        fed(1, following(), range(360)),
        fed(7, StreamingGPCountRegressor.load(tmp_path / "model"), range(310, 360)),
    ):
        np.testing.assert_allclose(said(other), said(whole), rtol=1e-9)


def test_the_variance_of_a_poisson_follows_nothing():
    with pytest.raises(ValueError, match="got poisson, whose variance is its mean"):
        following(likelihood="poisson").fit(*overdispersed(250, 0))
