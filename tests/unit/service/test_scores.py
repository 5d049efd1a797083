"""Scores of a stream, and the naive baseline's."""

import numpy as np
import pytest

from streamgp.service.scores import LEAST, NaiveScore, recent


def test_the_naive_density_is_that_of_the_last_target_with_its_past_errors():
    y = np.random.default_rng(0).normal(size=40).cumsum()
    whole, parts = NaiveScore(), NaiveScore()
    found = whole.add(y)
    assert np.isnan(found[: LEAST + 1]).all()
    for t in (LEAST + 1, 39):
        errors = np.diff(y[:t])
        variance = np.mean(errors**2)
        expected = -0.5 * (np.log(2 * np.pi * variance) + (y[t] - y[t - 1]) ** 2 / variance)
        assert found[t] == pytest.approx(expected, rel=1e-12)
    again = NaiveScore()
    first = parts.add(y[:17])
    again.restore(parts.to_tree())
    np.testing.assert_array_equal(np.concatenate([first, again.add(y[17:])]), found)


def test_scores_of_the_latest_rows():
    n = 200
    rng = np.random.default_rng(1)
    y = rng.normal(size=n)
    columns = {"row": np.arange(n), "y": y, "mean": 0.5 * y, "pit": np.linspace(0.0, 1.0, n), "log_density": y}
    columns |= {"persistence": np.r_[np.nan, y[:-1]], "running_mean": np.zeros(n)}
    found = recent(columns)
    assert found["nmse"] == pytest.approx(np.mean((0.5 * y) ** 2) / y.var())
    assert found["coverage"]["90"] == pytest.approx(0.9, abs=0.01)
    assert found["baselines"]["persistence"]["nmse"] == pytest.approx(np.mean(np.diff(y) ** 2) / y.var())
    assert found["baselines"]["persistence"]["pll"] is None
    assert recent({}) == {"rows": 0}
    labels = {"row": np.arange(2), "y": ["a", "b"], "label": ["a", "a"], "probability": np.array([0.9, 0.1])}
    assert recent(labels | {"log_density": np.log([0.9, 0.1])})["error_rate"] == 0.5
