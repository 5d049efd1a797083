"""Streams of labels: what is predicted, what is learnt, and what happens when the labels are unkind."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.metrics import average_precision_score, roc_auc_score

from streamgp import StreamingGPClassifier, StreamingGPOrdinal, evaluate
from streamgp.stream.learn_step import with_class

pytestmark = pytest.mark.slow

LINEAR: dict[str, Any] = {"model": "linear", "warmup": 40}


def two_classes(n: int = 160, seed: int = 0, slope: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(rng.random(n) < expit(slope * X[:, 0] - 0.5), "yes", "no")


def three_classes(n: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    scores = np.column_stack([2 * X[:, 0], 2 * X[:, 1], -2 * X[:, 0]]) + rng.gumbel(size=(n, 3))
    return X, scores.argmax(axis=1)


def test_evaluate_scores_what_predict_proba_had_said():
    X, y = two_classes()
    result = evaluate(StreamingGPClassifier(**LINEAR), X, y)
    model = StreamingGPClassifier(**LINEAR)
    for i in range(len(X)):
        if i >= 100:
            before = model.predict_proba(X[i : i + 1])[0]
            assert_allclose(result.probabilities[i], before, rtol=1e-9)
            own = before[list(model.classes_).index(y[i])]
            assert_allclose(result.log_density[i], np.log(own), rtol=1e-8)
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    scored = slice(40, None)
    wrong = np.mean(result.predicted[scored] != y[scored])
    assert_allclose(result.metrics["error_rate"], wrong, rtol=1e-12)
    assert_allclose(result.metrics["log_loss"], -result.log_density[scored].mean(), rtol=1e-12)
    assert wrong < result.metrics["naive"]["frequencies"]["error_rate"]


@pytest.mark.parametrize("rows", [90])
def test_saved_and_loaded_goes_on_as_if_unbroken(rows: int, tmp_path: Path):
    X, y = two_classes()
    unbroken = StreamingGPClassifier(**LINEAR).partial_fit(X[:rows], y[:rows])
    unbroken.save(tmp_path / "c")
    loaded = StreamingGPClassifier.load(tmp_path / "c")
    assert_array_equal(loaded.classes_, unbroken.classes_)
    for model in (unbroken, loaded):
        model.partial_fit(X[rows:], np.where(X[rows:, 1] > 1.5, "maybe", y[rows:]))
    assert loaded.classes_.tolist() == unbroken.classes_.tolist()
    assert set(loaded.classes_.tolist()) == {"yes", "no", "maybe"}
    assert_array_equal(loaded.predict_proba(X), unbroken.predict_proba(X))


def error_rate(X: np.ndarray, y: np.ndarray, learnt: int) -> float:
    """Return the share of errors from row 200 on after so many rows."""
    model = StreamingGPClassifier(bases=["linear"], warmup=60, robust=True).partial_fit(X[:learnt], y[:learnt])
    return float(np.mean(model.predict(X[200:]) != y[200:]))


@cache
def clean_error_rate(learnt: int) -> float:
    """Return that of inputs without an absurd one."""
    return error_rate(*two_classes(1200, slope=4.0), learnt)


@pytest.mark.parametrize("value", [1e3, 1e9])
@pytest.mark.parametrize("place", [(12, 0), (39, 1), (60, 0)])
def test_one_absurd_input_costs_next_to_nothing(value: float, place: tuple[int, int]):
    X, y = two_classes(1200, slope=4.0)
    X[place] = value
    for learnt in (61, 200):
        assert error_rate(X, y, learnt) <= clean_error_rate(learnt) + 0.01


def test_with_absurd_inputs_chunks_of_any_size_give_the_same_numbers(tmp_path: Path):
    X, y = two_classes()
    X[[20, 60, 61, 100], 0] = 1e6
    X[130:, 1] += 50.0
    options: dict[str, Any] = {**LINEAR, "robust": True}
    whole = StreamingGPClassifier(**options).partial_fit(X, y)
    parts = StreamingGPClassifier(**options)
    for rows in np.split(np.arange(160), [1, 2, 3, 10, 40, 61, 62, 132, 133]):
        parts.partial_fit(X[rows], y[rows]).save(tmp_path / "c")
        parts = StreamingGPClassifier.load(tmp_path / "c")
    assert_allclose(parts.predict_proba(X), whole.predict_proba(X), rtol=1e-9)
    assert whole.outside_rows_ == parts.outside_rows_ == 2 + 1 + 5


class TestANewClass:
    def test_in_mid_stream_it_is_admitted_and_learnt(self):
        X, y = two_classes(400)
        y = np.where((X[:, 1] > 0.8) & (np.arange(400) >= 200), "new", y)
        first = int(np.argmax(y == "new"))
        result = evaluate(StreamingGPClassifier(**LINEAR), X, y)
        assert result.metrics["new_class_rows"] == 1
        new = 2  # the third label to come
        assert_array_equal(result.probabilities[: first + 1, new], 0.0)
        assert_allclose(result.probabilities[:, :].sum(axis=1), 1.0, rtol=1e-12)
        # Of the row itself nothing was known but that n rows had not had it.
        assert_allclose(result.log_density[first], -np.log(first + 2.0), rtol=1e-12)
        there = (X[:, 1] > 0.8) & (np.arange(400) > 300)
        elsewhere = (X[:, 1] < -0.5) & (np.arange(400) > 300)
        assert result.probabilities[there, new].mean() > 0.6
        assert result.probabilities[elsewhere, new].mean() < 0.1

    def test_beliefs_about_the_others_stay_as_they_are(self):
        X, y = two_classes()
        model = StreamingGPClassifier(**LINEAR).partial_fit(X, y)
        learner = model._learner
        before = learner.state.model_state.filters[0]
        after = with_class(learner.settings, learner.state).model_state.filters[0]
        n = before.mean.shape[-2]
        assert_array_equal(after.mean[..., :n, :], before.mean)
        assert_array_equal(after.cov[..., :n, :n], before.cov)
        assert_array_equal(after.mean[..., n:, :], 0.0)
        assert_array_equal(after.cov[..., n:, :n], 0.0)
        prior = learner.state.model.groups[0].prior_var
        assert_allclose(after.cov[0, 0, n:, n:], float(prior[0, 0]) * np.eye(n), rtol=1e-12)

    def test_in_the_warm_up(self):
        X, y = three_classes()
        y = np.sort(y[:40]).tolist() + y[40:].tolist()
        model = StreamingGPClassifier(**LINEAR).partial_fit(X, y)
        assert model.classes_.tolist() == [0, 1, 2]
        assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)

    def test_classes_named_at_the_start_need_not_come_first(self):
        X, y = two_classes()
        model = StreamingGPClassifier(**LINEAR).partial_fit(X[:5], y[:5], classes=["no", "perhaps", "yes"])
        assert model.classes_.tolist() == ["no", "perhaps", "yes"]
        p = model.predict_proba(X[:1])[0]
        assert p.shape == (3,)
        assert 0.0 < p[1] < 0.5


class TestUnkindStreams:
    def test_a_single_class_has_probability_one_until_another_comes(self):
        X, _ = two_classes(100)
        model = StreamingGPClassifier(**LINEAR).partial_fit(X[:80], ["on"] * 80)
        assert_array_equal(model.predict_proba(X), np.ones((100, 1)))
        assert model.predict(X[:2]).tolist() == ["on", "on"]
        model.partial_fit(X[80:81], ["off"])
        p = model.predict_proba(X[80:81])[0]
        assert p.shape == (2,)
        assert 1.0 / 200 < p[1] < 0.9
        model.partial_fit(X[81:], np.where(X[81:, 0] > 0, "on", "off"))
        assert np.isfinite(model.predict_proba(X)).all()

    def test_separable_classes_are_learnt_without_running_away(self):
        X, _ = two_classes(1500)
        y = X[:, 0] > 0
        result = evaluate(StreamingGPClassifier(**LINEAR), X, y)
        assert result.metrics["error_rate"] < 0.02
        assert np.isfinite(result.log_density).all()
        assert result.metrics["log_loss"] < 0.06

    def test_a_rare_class_gets_its_share_of_probability(self):
        rng = np.random.default_rng(3)
        X = rng.normal(size=(3000, 2))
        y = (rng.random(3000) < 0.02).astype(int)
        result = evaluate(StreamingGPClassifier("linear", warmup=300), X, y)
        scored = result.probabilities[300:, 1]
        # Two-sided: three standard errors of the share of the rare class.
        share = y[300:].mean()
        assert abs(scored.mean() - share) < 3 * np.sqrt(share / 2700)
        entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
        assert result.metrics["log_loss"] < 1.1 * entropy


class TestInput:
    def test_bad_rows_leave_everything_as_it_was(self):
        X, y = two_classes()
        model = StreamingGPClassifier(**LINEAR, missing="raise").partial_fit(X, y)
        before = model.predict_proba(X)
        bad = X[:4].copy()
        bad[2, 1] = np.nan
        with pytest.raises(ValueError, match="row 2, column 1"):
            model.partial_fit(bad, ["yes", "no", "yes", "never"])
        assert model.classes_.tolist() == ["no", "yes"] or model.classes_.tolist() == ["yes", "no"]
        assert_array_equal(model.predict_proba(X), before)

    def test_a_label_that_only_skipped_rows_have_is_not_admitted(self):
        X, y = two_classes()
        model = StreamingGPClassifier(**LINEAR, missing="skip").partial_fit(X, y)
        bad = X[:3].copy()
        bad[1] = np.nan
        model.partial_fit(bad, ["later", "never", "yes"])
        assert model.skipped_rows_ == 1
        assert sorted(model.classes_.tolist()) == ["later", "no", "yes"]

    def test_missing_labels_are_bad_rows(self):
        X, y = two_classes()
        labels = y.astype(object)
        labels[7] = None
        with pytest.raises(ValueError, match="row 7"):
            StreamingGPClassifier(**LINEAR, missing="raise").partial_fit(X, labels)
        model = StreamingGPClassifier(**LINEAR, missing="skip").partial_fit(X, labels)
        assert model.skipped_rows_ == 1

    @pytest.mark.parametrize("labels", [[True, False], [3, 5], ["b", "a"], [1.0, 2.0]])
    def test_labels_keep_their_type(self, labels: list):
        X, _ = two_classes(60)
        y = np.asarray(labels)[(X[:, 0] > 0).astype(int)]
        model = StreamingGPClassifier(**LINEAR).fit(X, y)
        assert model.classes_.dtype.kind == y.dtype.kind
        assert model.classes_.tolist() == sorted(labels)
        assert np.mean(model.predict(X) == y) > 0.8

    @pytest.mark.parametrize("option", [{"model": "none"}, {"dynamics": "fast"}, {"warmup": 0}])
    def test_options_that_mean_nothing_are_refused(self, option: dict):
        X, y = two_classes(60)
        with pytest.raises(ValueError, match=next(iter(option))):
            StreamingGPClassifier(**(LINEAR | option)).partial_fit(X, y)


def test_times_set_the_pace_of_forgetting():
    X, y = two_classes(120)
    settings = LINEAR | {"dynamics": ["walk 0.01"]}
    by_rows = StreamingGPClassifier(**settings).partial_fit(X, y)
    even = StreamingGPClassifier(**settings).partial_fit(X, y, times=np.arange(120.0) * 5)
    gaps = np.where(np.arange(120) < 100, 1.0, 50.0).cumsum()
    uneven = StreamingGPClassifier(**settings).partial_fit(X, y, times=gaps)
    later = {"times": np.full(120, 119.0 * 5 + 5)}
    assert_allclose(even.predict_proba(X, **later), by_rows.predict_proba(X), rtol=1e-9)
    apart = np.abs(uneven.predict_proba(X, times=np.full(120, gaps[-1] + 1)) - by_rows.predict_proba(X))
    assert apart.max() > 1e-3


@pytest.mark.parametrize("make", [list, pd.Series, pl.Series, lambda y: np.array(y, dtype=object)])
def test_labels_that_differ_by_a_nul_are_two(make: Callable[[list[str]], Any]):
    """An array of text has no NUL at the end of an item: NumPy takes it for filling."""
    X = np.linspace(-1.0, 1.0, 60)[:, None]
    y = ["a" if x < 0.0 else "a\0" for x in X[:, 0]]
    model = StreamingGPClassifier("linear", warmup=20).fit(X, make(y))
    assert model.classes_.tolist() == ["a", "a\0"]
    assert model.predict([[-1.0], [1.0]]).tolist() == ["a", "a\0"]
    named = StreamingGPClassifier("linear", warmup=20).partial_fit(X, make(y), classes=make(["a\0", "a", "b"]))
    assert named.classes_.tolist() == ["a", "a\0", "b"]
    grades = StreamingGPOrdinal("linear", warmup=20).partial_fit(X, make(y), grades=["a\0", "a"])
    assert grades.classes_.tolist() == ["a\0", "a"]


def test_the_fast_model_has_fewer_experts_and_learns_what_a_plane_cannot():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(700, 2))
    y = rng.random(700) < expit(4.0 * (np.hypot(X[:, 0], X[:, 1]) - 1.2))
    found = {}
    for name in ("default", "fast", "linear"):
        model = StreamingGPClassifier(name, warmup=300)
        found[name] = evaluate(model, X, y).metrics["log_loss"], len(model.experts_)
    assert found["fast"][1] <= found["default"][1] / 2
    assert found["fast"][0] < 1.1 * found["default"][0] < 0.9 * found["linear"][0]


def test_areas_are_those_of_the_probabilities():
    X, y = two_classes(400, slope=3.0)
    result = evaluate(StreamingGPClassifier(**LINEAR), X, y)
    scored = slice(40, None)
    rare = result.metrics["rarest_class"]
    assert rare == min(("yes", "no"), key=lambda name: np.sum(y[scored] == name))
    p = result.probabilities[scored, ["no", "yes"].index(rare)]
    assert_allclose(result.metrics["roc_auc"][rare], roc_auc_score(y[scored] == rare, p), atol=2e-3)
    assert_allclose(
        result.metrics["average_precision"][rare], average_precision_score(y[scored] == rare, p), atol=5e-3
    )
