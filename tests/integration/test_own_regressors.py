"""Regressors of the user's inside a stream: what they bring, when they are fitted, and that the numbers stay."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from streamgp import StreamingGPRegressor, evaluate
from streamgp.bases.learners import LearnerError
from streamgp.numerics.checkpoint import CheckpointError
from streams import same

pytestmark = pytest.mark.slow

WARMUP, ROWS = 120, 400


def rows(n: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a function with edges, which no plane follows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sign(X[:, 0]) * np.sign(X[:, 1]) + 0.1 * rng.normal(size=n)


def new(**options: object) -> StreamingGPRegressor:
    settings = {"learners": [RandomForestRegressor(10)], "renew": True, "warmup": WARMUP} | options
    return StreamingGPRegressor("linear", **settings)  # type: ignore[arg-type]


def test_its_mean_counts_with_our_bands():
    X, y = rows(1_000)
    plain, found = (
        evaluate(new(**more), X, y, progress=False).metrics for more in ({"learners": None, "renew": None}, {})
    )
    assert found["nmse"] < 0.5 * plain["nmse"]
    assert abs(found["coverage"]["90"] - 0.9) < 0.05


def test_a_useless_one_costs_next_to_nothing():
    """The mixture is worse than the plane alone by ln K per run at most, and what the first rows of a fit cost."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1_000, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.5 * rng.normal(size=1_000)
    plain, found = (
        evaluate(new(**more), X, y, progress=False).metrics["pll"]
        for more in ({"learners": None, "renew": None}, {"learners": [DecisionTreeRegressor(max_depth=1)]})
    )
    assert found > plain - 0.01


def test_row_by_row_in_chunks_and_resumed_are_the_same(tmp_path: Path):
    X, y = rows()
    whole = evaluate(new(), X, y, progress=False)
    one = new().partial_fit(X[:WARMUP], y[:WARMUP])
    means = []
    for i in range(WARMUP, ROWS):
        means.append(one.predict_one(X[i])[0])
        one.learn_one(X[i], y[i])
        if i == 250:
            one.save(tmp_path / "model")
            one = StreamingGPRegressor.load(tmp_path / "model", learners=[RandomForestRegressor(10)])
    np.testing.assert_allclose(means, whole.mean[WARMUP:], rtol=1e-9, atol=1e-9)
    assert {e["since"] for e in one.experts_} - {0}


def test_another_process_goes_on_with_the_same_numbers(tmp_path: Path):
    X, y = rows()
    model = new().partial_fit(X, y)
    model.save(tmp_path / "model")
    program = (
        "import sys, numpy as np\n"
        "from sklearn.ensemble import RandomForestRegressor\n"
        "from streamgp import StreamingGPRegressor\n"
        "model = StreamingGPRegressor.load(sys.argv[1], learners=[RandomForestRegressor(10)])\n"
        "np.save(sys.argv[2], model.predict(np.load(sys.argv[3])))\n"
    )
    np.save(tmp_path / "X.npy", X[:50])
    words = [tmp_path / "model", tmp_path / "mean.npy", tmp_path / "X.npy"]
    subprocess.run([sys.executable, "-c", program, *map(str, words)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "mean.npy"), model.predict(X[:50]))


def test_a_checkpoint_needs_the_same_regressors(tmp_path: Path):
    X, y = rows(150)
    new().partial_fit(X, y).save(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"learners=\[RandomForestRegressor\(n_estimators=10\)\] and was given"):
        StreamingGPRegressor.load(tmp_path / "model")


def test_scikit_learns_clone_and_copies_keep_them():
    X, y = rows(200)
    model = new().partial_fit(X, y)
    copy: Any = clone(model)
    assert repr(copy.learners) == repr(model.learners)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


class Sick(Ridge):
    """A regressor that cannot be fitted to more than 150 rows."""

    def fit(self, X, y):  # type: ignore[override]
        if len(X) > 150:
            raise MemoryError("too many rows")
        return super().fit(X, y)


def test_one_that_fails_in_midstream_is_named_and_the_stream_goes_on():
    X, y = rows()
    model = new(learners=[Sick()]).partial_fit(X[:WARMUP], y[:WARMUP])
    with pytest.warns(UserWarning, match=r"renewal after \d+ rows: learners: Sick\(\) failed to fit .*too many rows"):
        model.partial_fit(X[WARMUP:], y[WARMUP:])
    assert model.rows_ == ROWS
    assert np.isfinite(model.predict(X)).all()


def test_one_that_fails_in_the_warmup_is_an_error_and_nothing_is_learnt():
    X, y = rows()
    model = new(learners=[Sick()], warmup=300).partial_fit(X[:299], y[:299])
    with pytest.raises(LearnerError, match="too many rows"):
        model.partial_fit(X[299:], y[299:])
    assert model.rows_ == 299


class Choosy(Ridge):
    """A regressor that refuses to predict some rows."""

    def predict(self, X):  # type: ignore[override]
        if (X[:, 0] > 4.0).any():
            raise RuntimeError("not this one")
        return super().predict(X)


def test_one_that_fails_to_predict_is_named_and_nothing_is_learnt():
    X, y = rows(140)
    X[:, 0] = np.clip(X[:, 0], -2.0, 2.0)
    far = np.array([9.0, 0.0, 0.0])
    options = {"learners": [Choosy()], "weights": "bma", "dynamics": "static", "noise": "constant"}
    model, other = (new(**options).partial_fit(X[:WARMUP], y[:WARMUP]) for _ in range(2))
    for i in range(WARMUP, 140):
        with pytest.raises(LearnerError, match=r"Choosy\(\) failed to predict 1 rows \(RuntimeError: not this one\)"):
            model.learn_one(far, 1.0) if i % 2 else model.predict_one(far)
        for each in (model, other):
            each.learn_one(X[i], y[i])
    assert same(model._learner, other._learner)
    for call in (lambda: model.partial_fit([far], [1.0]), lambda: model.predict([far])):
        with pytest.raises(LearnerError, match="not this one"):
            call()
    assert same(model._learner, other._learner)


def test_with_lags_each_serves_with_and_without_them():
    X, y = rows()
    y = np.convolve(y, [1.0, 0.9, 0.8])[: len(y)] + X @ [1.0, 2.0, 3.0]
    model = StreamingGPRegressor("fast", bases=["linear"], learners=[Ridge()], lags=[1], warmup=WARMUP)
    names = {e["basis"] for e in model.partial_fit(X[:150], y[:150]).experts_}
    assert {"learner Ridge()", "learner Ridge() without lags"} <= names
    assert "learner Ridge() of lags alone" not in names


def test_several_targets_have_a_copy_each():
    X, y = rows()
    model = new().partial_fit(X, np.stack([y, X @ [1.0, 2.0, 3.0]], axis=1))
    assert model.predict(X[:5]).shape == (5, 2)
