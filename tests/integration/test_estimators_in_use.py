"""What a user may get wrong, and several threads at once."""

import copy
import threading
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

from linear_user import ROWS, new, same, stream, x64  # noqa: F401 (a fixture for every test here)
from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPLVM,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    WarmupWarning,
)

pytestmark = pytest.mark.slow

EARLY = "still in its warm-up, with 5 of 24 rows learnt"


def test_predictions_in_the_warm_up_warn_once_in_every_fit():
    X, y = stream()
    model = new().partial_fit(X[:5], y[:5])
    for _ in range(2):
        with pytest.warns(WarmupWarning, match=EARLY):
            model.predict(X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.predict(X)
            model.predict_one(X[0])
        model.fit(X[:50], y[:50]).predict(X)
        model = new().partial_fit(X[:5], y[:5])


def test_counts_and_labels_warn_too():
    X, y = stream()
    for estimator in (StreamingGPCountRegressor, StreamingGPClassifier):
        with pytest.warns(WarmupWarning, match=EARLY):
            estimator("linear", warmup=24).partial_fit(X[:5], y[:5] > 0).predict(X)


def test_the_warning_can_be_silenced():
    X, y = stream()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore", WarmupWarning)
        new().partial_fit(X[:5], y[:5]).predict(X)
    assert not found


def test_whether_it_is_warm():
    X, y = stream()
    for estimator in (
        new(),
        StreamingGPClassifier("linear", warmup=24),
        StreamingGPCountRegressor("linear", warmup=24),
    ):
        assert not estimator.is_warm_
        assert not estimator.partial_fit(X[:23], y[:23] > 0).is_warm_
        assert estimator.partial_fit(X[23:24], y[23:24] > 0).is_warm_
    latent = StreamingGPLVM(n_components=1, warmup=30)
    assert not latent.is_warm_
    assert not latent.partial_fit(np.tile(X[:29], 3)).is_warm_


def test_with_lags_many_rows_at_once_warn():
    X, y = stream()
    model = new(lags=(1, 2)).partial_fit(X, y)
    model.predict(X[:1])
    model.predict_one(X[0])
    with pytest.warns(UserWarning, match=r"each of the 3 rows is taken as the next one.*use evaluate"):
        model.predict(X[:3])
    new().partial_fit(X, y).predict(X)


@pytest.mark.parametrize(("lags", "least"), [(None, 12), ((1, 3), 14)])
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_a_warm_up_that_is_too_short_is_refused(lags: Any, least: int, call: str):
    X, y = stream()
    with pytest.raises(ValueError, match=rf"^warmup: expected at least {least} rows.*got {least - 1}"):
        getattr(new(lags=lags, warmup=least - 1), call)(X, y)
    assert getattr(new(lags=lags, warmup=least), call)(X, y)._learner.is_warmed_up
    with pytest.raises(ValueError, match=r"^warmup"):
        new(warmup=2).fit(X, y)


def test_of_very_few_rows_nothing_is_fitted():
    X, y = stream()
    model = StreamingGPRegressor("linear").fit(X[:11], y[:11])
    with pytest.warns(UserWarning, match="11 of 12 rows"):
        model.predict(X)


def test_no_quantiles_are_an_empty_table():
    X, y = stream()
    assert new().partial_fit(X, y).predict_quantiles(X, []).shape == (ROWS, 0)
    two = np.column_stack([y, y])
    assert new().partial_fit(X, two).predict_quantiles(X[:3], []).shape == (3, 2, 0)
    counts = StreamingGPCountRegressor("linear", warmup=24).partial_fit(X, np.abs(np.round(y)))
    assert counts.predict_quantiles(X[:3], []).shape == (3, 0)


LABELS: dict[str, tuple[Any, str]] = {
    "none": (["a", None, "b"], r"^y: expected a label in every row, got None at row 1; .*missing='skip'"),
    "none among numbers": ([1, 2, None], r"^y: expected a label in every row, got None at row 2"),
    "mixed": (
        ["a", 1, "b"],
        r"^y: expected labels of one kind, got 'a' \(text\) at row 0 and 1 \(a number\) at row 1",
    ),
    "mixed objects": (np.array([2, 1, "b"], object), r"^y: expected labels of one kind, got 2 \(a number\) at row 0"),
    "lists in a series": (
        pl.Series([["a"], ["a", "b"], ["c"]]),
        r"^y: expected text or a number for a label, got .*'a'.* at row 0",
    ),
}


@pytest.mark.parametrize("problem", LABELS)
def test_labels_that_are_none_or_mixed(problem: str):
    X, _ = stream()
    y, says = LABELS[problem]
    for call in (
        lambda: StreamingGPClassifier("linear", missing="raise").fit(X[:3], y),
        lambda: StreamingGPClassifier("linear", missing="raise").partial_fit(X[:3], y),
        lambda: StreamingGPOrdinal("linear", missing="raise").partial_fit(X[:3], y),
    ):
        with pytest.raises(ValueError, match=says):
            call()
    if "none" in problem:
        model = StreamingGPClassifier("linear", missing="skip").fit(X[:3], y)
        assert (model.rows_, model.skipped_rows_, len(model.classes_)) == (2, 1, 2)


def test_labels_of_another_kind_than_before():
    X, _ = stream()
    model = StreamingGPClassifier("linear").partial_fit(X[:2], ["a", "b"])
    with pytest.raises(ValueError, match=r"^y: expected labels that are text, as before, got numbers"):
        model.partial_fit(X[:2], [1, 2])
    assert model.classes_.tolist() == ["a", "b"]
    assert model.rows_ == 2


class TestThreads:
    @pytest.mark.parametrize("warm", [False, True])
    def test_rows_of_several_threads_are_learnt_in_some_order(self, warm: bool):
        X, y = stream()
        first = 30 if warm else 1
        model = new(dynamics="static").partial_fit(X[:first], y[:first])
        serial = copy.deepcopy(model)
        errors: list[BaseException] = []
        done: list[tuple[Any, Any]] = []
        learn = model._learner.learn

        def watched(rows: np.ndarray, targets: np.ndarray, times: Any = None) -> Any:
            done.append((rows, targets))
            return learn(rows, targets, times)

        model._learner.learn = watched  # type: ignore[method-assign]
        gate = threading.Barrier(4)

        def work(part: int) -> None:
            try:
                gate.wait()
                for i in range(first + part, ROWS, 4):
                    model.partial_fit(X[i : i + 1], y[i : i + 1])
                    model.predict(X[:2])
                    model.weights_  # noqa: B018
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        del model._learner.learn
        assert errors == []
        assert model.rows_ == ROWS
        for rows, targets in done:
            serial.partial_fit(rows, targets[:, 0])
        np.testing.assert_allclose(model.predict(X), serial.predict(X), rtol=1e-9)

    def test_single_rows_too(self):
        X, y = stream()
        model = new().partial_fit(X[:30], y[:30])
        order: list[int] = []
        learn = model._learner.learn_one

        def watched(x: np.ndarray, target: np.ndarray, time: float = np.nan) -> None:
            order.append(int(np.flatnonzero((x == X).all(axis=1))[0]))
            learn(x, target, time)

        model._learner.learn_one = watched  # type: ignore[method-assign]

        def work(part: int) -> None:
            for i in range(30 + part, ROWS, 3):
                model.predict_one(X[i])
                model.learn_one(X[i], y[i])

        threads = [threading.Thread(target=work, args=(part,)) for part in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        del model._learner.learn_one
        serial = new().partial_fit(X[:30], y[:30])
        for i in order:
            serial.learn_one(X[i], y[i])
        assert sorted(order) == list(range(30, ROWS))
        assert model.rows_ == ROWS
        np.testing.assert_allclose(model.predict(X), serial.predict(X), rtol=1e-9)

    def test_the_lock_is_no_part_of_the_estimator(self):
        X, y = stream()
        model = new().partial_fit(X, y)
        for other in (copy.deepcopy(model), copy.copy(model)):
            assert other._access is not model._access
            assert same(other, model)
        assert "_access" not in vars(model)
        assert "_access" not in model.get_params()
