"""`evaluate` of pipelines: their steps see the warm-up alone, and the rest is as for the last step."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from linear_user import ROWS, WARMUP, new, stream
from streamgp import evaluate

X, Y = stream()


def run(model: Any, X: Any = X, y: Any = Y, **options: Any) -> Any:
    return evaluate(model, X, y, progress=False, **options)


def test_the_steps_are_fitted_to_the_warmup_alone():
    y = Y.copy()
    y[[3, 5]] = np.nan  # which the warm-up does not count
    pipeline = make_pipeline(StandardScaler(), new())
    found = run(pipeline, y=y)
    scaler = StandardScaler().fit(X[: WARMUP + 2])
    assert_allclose(pipeline[0].mean_, scaler.mean_, rtol=1e-12)
    assert_allclose(found.mean, run(new(), scaler.transform(X), y).mean, rtol=1e-9)


def test_later_rows_change_nothing_before_them():
    other = X.copy()
    other[60:] *= 1e3
    one, two = (run(make_pipeline(StandardScaler(), new()), each) for each in (X, other))
    assert_allclose(one.mean[:60], two.mean[:60], rtol=1e-12)


def test_a_pipeline_goes_on_as_it_is():
    pipeline = make_pipeline(StandardScaler(), new())
    parts = [run(pipeline, X[rows], Y[rows]).mean for rows in (slice(50), slice(50, None))]
    assert_allclose(np.concatenate(parts), run(make_pipeline(StandardScaler(), new())).mean, rtol=1e-9)
    assert pipeline.predict(X[:3]).shape == (3,)


def test_frames_and_words_and_times():
    frame = pd.DataFrame({"t": np.arange(ROWS), "a": X[:, 0], "b": X[:, 1], "word": ["one", "two"] * (ROWS // 2)})
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["word"]), remainder="passthrough", sparse_threshold=1.0
    )
    found = run(make_pipeline(encode, new()), frame, times="t")
    assert found.metrics["nmse"] < 0.2
    assert len(found.mean) == ROWS


def test_what_cannot_be():
    with pytest.raises(ValueError, match="last step is an estimator of streamgp, got LinearRegression"):
        run(make_pipeline(StandardScaler(), LinearRegression()))
    with pytest.raises(ValueError, match="expected a number of rows with a pipeline"):
        run(make_pipeline(StandardScaler(), new()), delay="known")
