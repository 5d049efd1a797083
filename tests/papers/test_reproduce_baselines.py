"""The baselines of Lu et al.: each row is predicted before its target is seen, and better than by chance."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from streamgp.research.multikernel import SquaredLoss
from streamgp_papers import regret, running_times
from streamgp_papers.bank import Family, stream
from streamgp_papers.baselines import adaraker, ssgp
from streamgp_papers.classification_baselines import SSGP, ClassificationData, predict
from streamgp_papers.mixing import Mix

pytestmark = pytest.mark.papers


def some(rows: int = 230) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    return X, (np.sin(2.0 * X[:, :1]) + 0.1 * rng.normal(size=(rows, 1))) / 0.8


def test_ssgp_says_nothing_that_it_cannot_know():
    X, y = some()
    sizes = {"warmup": 100, "num_inducing": 15, "batch_size": 30}
    predicted = ssgp(X, y, 0, **sizes)
    mean = np.asarray(predicted.mean)[:, 0]
    assert_allclose(mean[:30], 0.0)
    assert_allclose(np.asarray(predicted.variance)[:30], 1.0)
    assert np.mean(np.square(mean - y[:, 0])[100:]) < 0.1
    for row, batch in ((29, 30), (99, 100), (150, 160), (229, 230)):
        changed = y.copy()
        changed[row:] += 3.0
        other = np.asarray(ssgp(X, changed, 0, **sizes).mean)[:, 0]
        assert_allclose(other[:batch], mean[:batch])
        assert batch == 230 or not np.allclose(other[batch : batch + 1], mean[batch : batch + 1])


def test_adaraker_says_nothing_that_it_cannot_know():
    X, y = some()
    mean = np.asarray(adaraker(X, y, 0, 20, SquaredLoss(1)).mean)[:, 0]
    changed = y.copy()
    changed[200:] += 3.0
    other = np.asarray(adaraker(X, changed, 0, 20, SquaredLoss(1)).mean)[:, 0]
    assert_allclose(other[:201], mean[:201])
    assert not np.allclose(other[201:], mean[201:])


@pytest.mark.parametrize("name", ["AdaRaker", SSGP])
def test_classes_are_predicted_with_probabilities(name):
    X, y = some()
    labels = (y[:, 0] > 0.0).astype(float)
    features = [np.zeros((len(X), 20))] * 11
    found, remarks = predict([name], ClassificationData(X, X, features, labels, 100, 0))
    assert not remarks
    predicted = found[name].log_probability
    assert predicted is not None
    right = found[name].predicted == labels
    # What was predicted to be likelier than not came.
    assert np.array_equal(right, predicted > np.log(0.5)) or np.any(predicted == np.log(0.5))
    assert predicted[100:].mean() > np.log(0.5)


def test_each_model_is_timed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    X, y = some(120)
    columns = {"x0": X[:, 0], "x1": X[:, 1], "y": y[:, 0]}
    pl.DataFrame(columns).write_parquet(tmp_path / "air_quality_raker.parquet")
    timed: list[list[bool]] = []

    def watch(experts: Any, *rows: Any) -> Any:
        timed.append([float(expert.dynamics.diffusion) > 0.0 for expert in experts])
        return stream(experts, *rows)

    monkeypatch.setattr(running_times, "stream", watch)
    families = (Family("dictionary", "fourier", 4, (1.0, 2.0), plain=True, fixed=True),)
    mixes = (Mix("IE-GP", ("dictionary",), moving=False), Mix("DIE-GP", ("dictionary",), moving=True))
    sizes = {"num_inducing": 5, "batch_size": 20}
    told = running_times.run_times(
        "air_quality",
        0,
        directory=tmp_path,
        rows=None,
        warmup=40,
        families=families,
        mixes=mixes,
        ssgp_sizes=sizes,
        features=4,
    )
    assert timed == [[False, False], [True, True]]
    assert (told["rows"], told["inputs"]) == (120, 2)
    assert [*told["models"]] == ["IE-GP", "DIE-GP", "SSGP", "AdaRaker"]
    assert all(scores["seconds"] > 0.0 for scores in told["models"].values())


def test_the_counterexamples_break_the_printed_lemmas_alone():
    found = regret.run_check("iegp-counterexamples", 0, directory=None, rows=None)["models"]
    of = {name: scores["regret"] for name, scores in found.items()}
    # By hand: each of six switches costs log(9 T / S) and all other rows log(T / (T - S)).
    T, S = 1_000, 6
    by_hand = np.log(10) + S * np.log(9 * T / S) + (T - 1 - S) * np.log(T / (T - S))
    assert of["switching experts"] == pytest.approx(by_hand, rel=1e-9)
    assert of["Lemma 2's bound, as printed"] < of["switching experts"] <= of["Lemma 2's bound, corrected"]
    assert of["SIE-GP's experts"] > 1_000 * of["Lemma 3's bound"]
    assert of["experts of their own slots"] <= of["Lemma 3's bound"] * (1.0 + 1e-9)
