"""Importance and contributions, beside what they must be for a plane."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from linear_user import new, stream, x64  # noqa: F401 (a fixture for every test here)
from streamgp.stream.attribution import kept_rows

X, Y = stream()
WORDS = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]


def frame() -> pl.DataFrame:
    return pl.DataFrame({"one": X[:, 0], "word": WORDS, "two": X[:, 1], "same": np.ones(len(X))})


def learnt(y: Any = Y, **options: Any) -> Any:
    return new(**options).partial_fit(frame(), y + 3.0 * (WORDS == "b") if y.ndim == 1 else y)


def test_contributions_to_a_plane_are_its_slopes_times_the_distance():
    model = learnt()
    x = {"one": 1.5, "word": "b", "two": -0.5, "same": 1.0}
    found = model.explain(x)
    rows = kept_rows(model._learner.settings, model._learner.state)
    step = [model.predict_one(x | {"one": value})[0] for value in (1.5, 2.5)]
    slope = step[1] - step[0]
    assert slope == pytest.approx(1.0, abs=0.2)
    assert found.contributions["one"] == pytest.approx(slope * (1.5 - rows[:, 0].mean()), rel=1e-6)
    error = slope * rows[:, 0].std(ddof=1) / np.sqrt(len(rows))
    assert found.std_errors["one"] == pytest.approx(error, rel=1e-6)
    assert found.contributions["same"] == pytest.approx(0.0, abs=1e-9)
    assert found.contributions["word"] == pytest.approx(3.0 * (1.0 - (rows[:, 2] == 1.0).mean()), abs=0.3)
    assert found.prediction == pytest.approx(model.predict_one(x)[0], rel=1e-9)
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.prediction, rel=1e-9)
    table = found.to_frame()
    assert table.columns == ["feature", "contribution", "std_error"]
    assert table["contribution"].abs().is_sorted(descending=True)


def test_contributions_share_what_inputs_do_together():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 2))
    model = new(bases=["fourier"], warmup=200).partial_fit(Z, 2.0 * Z[:, 0] * Z[:, 1])
    x = [1.2, 1.2]
    found = model.explain(x)
    rows = kept_rows(model._learner.settings, model._learner.state)
    corners = [
        np.column_stack([np.full(len(rows), 1.2), rows[:, 1]]),
        np.column_stack([rows[:, 0], rows[:, 0] * 0 + 1.2]),
    ]
    alone = [(model.predict(each) - model.predict(rows)).mean() for each in corners]
    rest = [(model.predict_one(x)[0] - model.predict(each)).mean() for each in corners[::-1]]
    want = 0.5 * (np.array(alone) + rest)  # the definition, for two inputs
    assert_allclose(list(found.contributions.values()), want, rtol=1e-6)


def test_importance_is_the_share_of_the_variance():
    model, rng = new(), np.random.default_rng(1)
    more = rng.normal(size=(600, 2))
    noise = rng.normal(size=600)
    model.partial_fit(np.column_stack([more, np.ones(600)]), 2.0 * more[:, 0] + more[:, 1] + noise)
    found = model.feature_importance()
    assert list(found) == ["x0", "x1", "x2"]
    variance = np.array([4.0 * more[:, 0].var(), more[:, 1].var(), noise.var()])  # of rows that are all kept
    want = variance / variance.sum()
    assert found["x0"] == pytest.approx(want[0], abs=0.03)
    assert found["x1"] == pytest.approx(want[1], abs=0.03)
    assert found["x2"] == 0.0


def test_several_targets_have_arrays():
    model = learnt(np.column_stack([Y, X[:, 0]]))
    found = model.feature_importance()
    assert found["two"].shape == (2,)
    assert found["two"][1] < 0.1 < found["two"][0]
    one = model.explain({"one": 1.0, "word": "a", "two": 0.0, "same": 1.0})
    assert_allclose(one.prediction, model.predict(frame()[:1].with_columns(one=1.0, two=0.0, word=pl.lit("a")))[0])
    with pytest.raises(ValueError, match=r"^to_frame: expected one target, got 2"):
        one.to_frame()


def test_gaps_and_too_few_rows():
    model = learnt()
    assert np.isfinite(model.explain({"one": None, "word": "a", "two": 0.0, "same": 1.0}).prediction)
    with pytest.raises(ValueError, match=r"^expected a model that has columns of X and has learnt 2 rows"):
        new().partial_fit(X[:1], Y[:1]).feature_importance()
