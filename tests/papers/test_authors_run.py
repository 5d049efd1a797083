"""What the authors of SFG-MKL ran, beside the library's learners wherever chance decides nothing."""

from dataclasses import replace

import numpy as np
import pytest

from streamgp.numerics.accelerator import jnp
from streamgp.numerics.precision import float64
from streamgp.research.annex import SFG_MKL_DICTIONARY
from streamgp.research.multikernel import SFG, FeatureBank, FeedbackGraph, Raker, constant, squared_exponentials
from streamgp_papers import authors_run
from streamgp_papers.authors_run import AS_RUN, PATH, PRINTED, predicted_by_omkl_gf, predicted_by_sfg
from streamgp_papers.many_kernels import FEATURES, LOSS, NEIGHBOURS, PENALTY, predict_stream

pytestmark = pytest.mark.papers

ROWS, INPUTS = 120, 3


def stream() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(ROWS, INPUTS)) / np.sqrt(INPUTS)
    y = np.clip(0.5 + 0.3 * np.sin(5.0 * X[:, 0]) + 0.05 * rng.normal(size=ROWS), 0.0, 1.0)
    scales = np.asarray(SFG_MKL_DICTIONARY)
    return X, y, rng.normal(size=(len(scales), FEATURES // 2, INPUTS)) / scales[:, None, None]


@pytest.mark.parametrize("one_dimensional", [False, True])
def test_the_first_kernel_and_its_neighbours_are_those_of_the_library(
    one_dimensional: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(authors_run, "GREEDY_AFTER", 0)
    X, y, frequencies = stream()
    clips = (0.1, 0.2)
    departures = replace(PRINTED, clips=clips, first_kernel=True, one_dimensional=one_dimensional)
    found = predicted_by_sfg(X, y, frequencies, departures, np.random.default_rng(0))
    with float64():
        graph = FeedbackGraph.of(
            squared_exponentials(SFG_MKL_DICTIONARY), 1 if one_dimensional else INPUTS, NEIGHBOURS
        )
        eta, bank = constant(ROWS**-0.5), FeatureBank(jnp.asarray(frequencies))
        learner = SFG(bank, graph, LOSS, eta, eta, penalty=PENALTY, greedy_after=0, stay_at=0, clip=clips)
        expected, _ = predict_stream(learner, X, y, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_where_all_kernels_are_drawn_omkl_gf_is_raker(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(authors_run, "DRAWS", 20_000)
    X, y, frequencies = stream()
    found = predicted_by_omkl_gf(X, y, frequencies, np.random.default_rng(0), stays=False)
    with float64():
        learner = Raker(FeatureBank(jnp.asarray(frequencies)), LOSS, constant(ROWS**-0.5), PENALTY)
        expected, _ = predict_stream(learner, X, y, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("stays", [False, True])
def test_no_prediction_knows_its_own_target_or_a_later_one(stays: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(authors_run, "GREEDY_AFTER", 40)
    X, y, frequencies = stream()
    other = np.where(np.arange(ROWS) >= 70, 1.0 - y, y)
    for run in (
        lambda target: predicted_by_sfg(X, target, frequencies, PATH[AS_RUN], np.random.default_rng(0)),
        lambda target: predicted_by_omkl_gf(X, target, frequencies, np.random.default_rng(0), stays=stays),
    ):
        one, two = run(y), run(other)
        np.testing.assert_array_equal(one[:71], two[:71])
        assert not np.array_equal(one[71:], two[71:])


def test_each_step_of_the_path_has_one_departure_more():
    changed = [
        sum(a != b for a, b in zip(vars(each).values(), vars(PRINTED).values(), strict=True))
        for each in PATH.values()
    ]
    assert changed == [0, 1, 2, 3, 4]
