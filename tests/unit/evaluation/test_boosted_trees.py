"""LightGBM as a baseline: the textbook's loop, whatever the chunks, and no target before its time."""

import sys
from typing import Any

import numpy as np
import pytest

from streamgp import StreamingGPRegressor, evaluate
from streamgp.evaluation import boosted_trees
from streamgp.evaluation.baseline_bands import BaselineBands
from streamgp.evaluation.boosted_trees import NAME, BoostedTrees
from streamgp.session.by_task import check_baselines

lightgbm = pytest.importorskip("lightgbm")
ROWS, WARMUP, EVERY, KEPT, LAG = 330, 60, 50, 120, 2


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_trees, "EVERY", EVERY)
    monkeypatch.setattr(boosted_trees, "KEPT", KEPT)
    monkeypatch.setattr(boosted_trees, "_TREES", 5)


@pytest.fixture
def many_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_trees, "KEPT", 1_200)
    monkeypatch.setattr(boosted_trees, "_TREES", 100)


def stream() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    y = X[:, :1] + 0.3 * rng.normal(size=(ROWS, 1))
    y[[100, 200]] = np.nan
    X[150, 1] = np.nan
    return X, y, 0.9 * X[:, :1]


def fed(known: int, *sizes: int, targets: np.ndarray | None = None, again: bool = False) -> dict[str, Any]:
    """Return the scores of the stream in chunks, with a checkpoint amid them or not."""
    X, y, ours = stream()
    y = y if targets is None else targets
    trees, at = BoostedTrees(1, WARMUP, known), 0
    while at < ROWS:
        for size in sizes:
            part = slice(at, min(at + size, ROWS))
            trees.add(X[part], y[part], ours[part], [LAG] if part.stop >= WARMUP else [])
            at = part.stop
            if again and at > 200:
                trees, again = BoostedTrees.from_tree(trees.to_tree()), False
    found = {"judgement": trees._paired[0].judgement("squared_error").to_json(), "naive": {}}
    trees.join(found)
    return found


def by_hand(known: int) -> dict[str, Any]:
    """Return the scores by the definition: trees of the rows known by then, asked for each row before its target."""
    X, y, _ = stream()
    back = max(LAG, known)
    lagged = np.concatenate([np.full(back, np.nan), y[:-back, 0]])
    fits, booster, mean = {WARMUP // 2, *range(WARMUP, ROWS, EVERY)}, None, np.full(ROWS, np.nan)
    inputs = X
    for i in range(ROWS):
        if i in fits:
            inputs = X if i < WARMUP else np.column_stack([X, lagged])
            rows = np.arange(max(0, i - known + 1 - KEPT), i - known + 1)
            rows = rows[np.isfinite(y[rows, 0])]
            data = lightgbm.Dataset(inputs[rows], y[rows, 0])
            booster = lightgbm.train(boosted_trees._SETTINGS, data, 5)
        if booster is not None:
            mean[i] = booster.predict(inputs[i : i + 1])[0]
    there = np.isfinite(y[:, 0])
    scored = there & (np.cumsum(there) > WARMUP)
    error = mean - y[:, 0]
    bands = BaselineBands(known - 1)
    bands.add(-error, scored)
    mse = np.mean(error[scored] ** 2)
    own = {"nmse": mse / np.var(y[scored]), "rmse": np.sqrt(mse), "mae": np.mean(np.abs(error[scored]))}
    return own | bands.result()


@pytest.mark.parametrize("known", [1, 4])
def test_the_scores_are_those_of_the_textbook_loop(known: int):
    assert fed(known, 64)["naive"][NAME] == pytest.approx(by_hand(known))


def test_chunks_do_not_matter_and_neither_does_a_checkpoint():
    whole = fed(1, ROWS)
    for found in (fed(1, 64), fed(1, 7, 1, again=True)):
        assert found["naive"][NAME] == pytest.approx(whole["naive"][NAME], rel=1e-9)
        for name, value in found["judgement"]["against"][NAME].items():
            assert value == (
                value if isinstance(value, str) else pytest.approx(whole["judgement"]["against"][NAME][name])
            )


def test_targets_that_are_not_known_yet_change_no_prediction():
    X, y, _ = stream()
    other = y.copy()
    other[-4:] += 100.0
    one, two = BoostedTrees(1, WARMUP, 4), BoostedTrees(1, WARMUP, 4)
    for trees, targets in ((one, y), (two, other)):
        trees.add(X[:-1], targets[:-1], targets[:-1], [LAG])
    assert np.array_equal(one._predict(X[-1:], y[-1:]), two._predict(X[-1:], other[-1:]))
    assert one._boosters[0].model_to_string() == two._boosters[0].model_to_string()


def test_an_evaluation_is_judged_beside_the_trees():
    X, y, _ = stream()
    model = StreamingGPRegressor("linear", warmup=WARMUP, random_state=0)
    m = evaluate(model, X, y[:, 0], baselines=[NAME], progress=False).metrics
    assert {"crps", "width", "interval_score", "nmse"} <= set(m["naive"][NAME])
    losses = [each["loss"] for each in m["judgement"]["against"].values()]
    assert losses == sorted(losses) and NAME in m["judgement"]["against"]
    assert m["judgement"]["against"][NAME]["loss"] == pytest.approx(m["naive"][NAME]["rmse"] ** 2)


@pytest.mark.usefixtures("many_trees")
def test_the_trees_know_the_clock_as_the_model_does():
    hours = np.arange("2024-03-01", "2024-04-20", dtype="datetime64[h]")
    rng = np.random.default_rng(0)
    a = rng.normal(size=(len(hours), 1))
    y = a[:, 0] + 2.0 * np.sin(2.0 * np.pi * np.arange(len(hours)) / 24.0) + 0.3 * rng.normal(size=len(hours))
    model = StreamingGPRegressor("linear", warmup=400, calendar=["day"], random_state=0)
    naive = evaluate(model, a, y, times=hours, baselines=[NAME], progress=False).metrics["naive"]
    assert naive[NAME]["rmse"] < 0.7 < 1.5 < naive["running_mean"]["rmse"]


def test_what_is_not_to_be_had_is_refused(monkeypatch: pytest.MonkeyPatch):
    check_baselines("regression", [NAME], 3)
    check_baselines("count", [], "column")
    for task, names, delay, said in (
        ("regression", ["trees"], 0, "expected lightgbm, got 'trees'"),
        ("count", [NAME], 0, "expected numbers"),
        ("regression", [NAME], "when", "column of arrivals"),
    ):
        with pytest.raises(ValueError, match=said):
            check_baselines(task, names, delay)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ValueError, match=r"pip install 'streamgp\[lightgbm\]'"):
        check_baselines("regression", [NAME], 0)
