"""The experiment of Lu et al. with latent variable models: scores, controls, baselines, and a run's results."""

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from streamgp.evaluation.neighbours import neighbour_error
from streamgp.latent import EmbeddedRows, LatentPosterior
from streamgp_papers import embeddings, gplvm
from streamgp_papers.data_files import load
from streamgp_papers.embeddings import Embedded, Images, align, copy_nearest

pytestmark = pytest.mark.papers


def test_a_row_is_wrong_where_the_nearest_other_row_has_another_label():
    places = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 0.0], [5.2, 0.0], [5.3, 0.0]])
    assert neighbour_error(places, ["a", "a", "a", "b", "b"]) == pytest.approx(0.2)
    some = Images(places, np.array([0, 1, 1, 1, 1]), 2, 0)
    assert some.error(places) == pytest.approx(40.0)
    twice = np.repeat(places, 2, axis=0)  # of two rows at one place, each is the other's neighbour
    assert neighbour_error(twice, np.repeat([0, 1, 2, 3, 4], 2)) == 0.0


def test_alignment_finds_turns_stretches_and_moves():
    rng = np.random.default_rng(0)
    places = rng.normal(size=(30, 2))
    angle = 0.7
    turn = np.array([[np.cos(angle), np.sin(angle)], [np.sin(angle), -np.cos(angle)]])  # and a mirror
    other = 3.0 * places @ turn + [1.0, -2.0]
    both = np.stack([places, other], axis=1)
    for reference, expected in ((0, places), (1, other)):
        assert_allclose(align(both, 12, reference), np.stack([expected, expected], axis=1), atol=1e-9)


def said(places: np.ndarray, log_joint: np.ndarray, log_weights: np.ndarray) -> EmbeddedRows:
    found, zero = LatentPosterior(places, log_joint, np.zeros((*places.shape, 2))), np.zeros(len(places))
    return EmbeddedRows(found, log_weights, zero, np.zeros((len(places), 3), bool), zero)


def test_the_rule_of_the_paper_takes_the_expert_that_explains_and_weighs_most():
    places, even = np.zeros((2, 3, 2)), np.zeros((2, 3))
    warmup = said(places, np.array([[1.0, 2.0, 0.0]] * 2), even)
    stream = said(places, np.array([[5.0, 0.0, 0.0], [5.0, 0.0, 4.0]]), np.array([[0.0, 0, 0], [-9.0, 0.0, -1.0]]))
    assert Embedded(None, warmup, stream, 0.0).chosen.tolist() == [1, 1, 0, 2]  # pyright: ignore


def test_the_control_copies_the_nearest_row_before():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    known = rng.normal(size=(10, 2, 2))

    class Leading:
        leading = 1

    whole = Embedded(Leading(), said(known, np.zeros((10, 2)), np.zeros((10, 2))), None, 0.0)  # pyright: ignore
    expected = [*known[:, 1]]
    for i in range(10, 40):
        expected.append(expected[int(np.argmin(np.square(X[:i] - X[i]).sum(axis=1)))])
    assert_allclose(copy_nearest(Images(X, np.zeros(40), 10, 0), whole), expected)


def rows(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Three groups on a curve in five dimensions."""
    rng = np.random.default_rng(2)
    label = rng.integers(0, 3, n)
    angle = 2.0 * label + rng.uniform(0.0, 1.0, n)
    truth = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.tanh(truth @ rng.normal(size=(2, 5))) + 0.02 * rng.normal(size=(n, 5)), label


def test_a_run_tells_of_every_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    X, label = rows()
    columns = {f"x{i}": X[:, i] for i in range(5)} | {"constant": np.ones(len(X)), "label": label}
    pl.DataFrame(columns).write_parquet(tmp_path / "oil_flow.parquet")
    monkeypatch.setitem(sys.modules, "umap", None)
    monkeypatch.setattr(embeddings, "WARMUP_SHARES", {"oil-flow": 0.3})
    monkeypatch.setattr(embeddings, "VARIANTS", {"one start": {"n_starts": 1}})
    told = embeddings.run("oil-flow", 3, directory=tmp_path, rows=100)
    assert (told["rows"], told["inputs"]) == (100, 6)
    models = told["models"]
    named = {model for claim in gplvm.IE_GPLVM.claims for model in (*claim.ahead, *claim.behind)}
    assert named <= set(models) and not any("UMAP" in name for name in models)
    for name, scores in models.items():
        assert name == "PCA of means in their place" or 0.0 <= scores["error"] <= 100.0
    assert models["IE-GPLVM"]["error"] < 10.0 and models["batch GPLVM"]["error"] < 10.0
    assert models["best expert, by the labels"]["error"] <= models["IE-GPLVM"]["error"]
    gaps = models["30% of entries missing"]
    assert gaps["fill_rmse"] < models["PCA of means in their place"]["fill_rmse"]
    assert 0.5 < gaps["coverage"] <= 1.0


def test_only_labels_up_to_four_are_kept_of_usps(tmp_path: Path):
    frame = pl.DataFrame({"split": [0, 1] * 5, "x0": np.arange(10.0), "x1": np.ones(10), "label": np.arange(10)})
    frame.write_parquet(tmp_path / "usps.parquet")
    X, label = load("usps", tmp_path, seed=1, keep_constant=True)
    assert sorted(label) == [0, 1, 2, 3, 4] and X.shape == (5, 2)
    assert sorted(X[:, 0]) == [0, 1, 2, 3, 4]


def test_parts_of_mnist_are_of_the_seed_and_stand_in(tmp_path: Path):
    uses = {use.data: use.stand_ins for use in gplvm.IE_GPLVM.uses}
    assert uses["mnist"] == ("mnist-3000", "mnist-t10k")
    assert embeddings.FIRST_ROWS["mnist-3000"] == 3_000
