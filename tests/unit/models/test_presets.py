"""The models by name, and what the user's changes do to them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jaxtyping
import numpy as np
import pytest

from streamgp.models.gaussian.warmup import fit_ensemble
from streamgp.models.presets import IE_GP_DICTIONARY, PRESETS
from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streamgp.weights import BMA, Markov, Mixture, Share, SoftBayes, WeightRule

pytestmark = pytest.mark.slow

WARMUP, ROWS = 40, 48
WALK = "walk 0.001"


@pytest.fixture
def unchecked() -> Iterator[None]:
    """A user's process, where nobody checks types."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def run(spec: Spec) -> StreamLearner:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(ROWS, 2))
    y = X[:, :1] + np.sin(2 * X[:, 1:]) + 0.1 * rng.normal(size=(ROWS, 1))
    learner = StreamLearner(StreamSettings(spec, num_inputs=2, warmup=WARMUP))
    for info in learner.learn(X, y):
        assert np.isfinite(info.predictive.loc).all()
        assert (np.asarray(info.predictive.var) > 0.0).all()
    assert learner.is_warmed_up
    return learner


@pytest.mark.parametrize("name", [name for name in PRESETS if PRESETS[name].learner is None])  # others: their folders
def test_every_preset_runs(name: str):
    # e-doebe stands for the others that have all of its bases.
    bases = ["linear", "spline"] if name in ("oebe", "doebe", "soebe", "sdoebe") else None
    spec = make_spec(name, bases=bases, features_per_basis=4)
    learner = run(spec)
    switching = {"e-doebe", "soebe", "sdoebe", "sie-gp", "dsie-gp"}
    grids = {"e-doebe": {"static", "walk 0.0001", WALK}}
    grids |= {each: set(PRESETS[each].dynamics) for each in ("fast", "default", "best")}
    dynamics = grids.get(name, {WALK} if "d" in name[:2] else {"static"})
    assert {expert.dynamics for expert in learner.experts} == dynamics
    assert {expert.noise for expert in learner.experts} == set(spec.noise)
    assert len({expert.name for expert in learner.experts}) == len(learner.experts)
    provisional = (
        {"provisional"} if spec.robust else set()
    )  # the best filter of the warm-up goes on beside the others
    assert {expert.name.split()[0] for expert in learner.experts} <= {*spec.bases, *provisional}
    single = len(learner.experts) == 1
    rule = Mixture if name in ("fast", "default", "best") else Share if name in switching and not single else BMA
    assert isinstance(learner.state.model.rule, rule)
    if "ie-gp" in name:
        scales = np.concatenate([np.asarray(group.basis.lengthscale) for group in learner.state.model.groups])  # type: ignore[attr-defined]
        np.testing.assert_allclose(np.sort(scales[:, 0]), [s for s in np.sort(IE_GP_DICTIONARY) if s in scales])
        np.testing.assert_array_equal(scales[:, 0], scales[:, 1])
    if name in ("i-ssgpr", "linear"):
        assert len(learner.experts) == 1
    np.testing.assert_allclose(learner.weights.sum(), 1.0, rtol=1e-12)


def test_the_dictionary_is_that_of_the_paper():
    np.testing.assert_allclose(np.log10(np.square(IE_GP_DICTIONARY)), np.arange(-4, 7), atol=1e-12)


@pytest.mark.parametrize("name", PRESETS)
def test_without_changes_a_preset_is_itself(name: str):
    assert make_spec(name) == PRESETS[name]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"bases": ["spline", "linear"]}, {"bases": ("spline", "linear")}),
        ({"bases": "rbf"}, {"bases": ("rbf",)}),
        ({"features_per_basis": np.int64(7)}, {"features_per_basis": 7}),
        ({"n_samples": 5}, {"n_samples": 5}),
        ({"dynamics": ["static", 0.01, "revert 0.9"]}, {"dynamics": ("static", "walk 0.01", "revert 0.9")}),
        ({"dynamics": 0}, {"dynamics": ("static",)}),
        ({"weights": "bma-shutdown"}, {"rule": "bma-shutdown"}),
        ({"weights": [[0.9, 0.2], [0.1, 0.8]]}, {"rule": "Q", "transition": ((0.9, 0.2), (0.1, 0.8))}),
        ({"delta": 0.1, "switch": 0}, {"delta": 0.1, "switch": 0.0}),
        ({"paper": True}, {"q_absolute": True, "warmup_posterior": "prior", "share": 0.0}),
        ({"paper": True, "share": 0.1}, {"q_absolute": True, "warmup_posterior": "prior", "share": 0.1}),
        ({"paper": False}, {}),
    ],
)
def test_changes(changes: dict[str, Any], expected: dict[str, Any]):
    assert make_spec("e-doebe", **changes) == replace(PRESETS["e-doebe"], **expected)


@pytest.mark.parametrize("changes", [{"bases": "linear"}, {"weights": "stacking-newton"}, {"renew": False}])
def test_best_renews_where_it_can(changes: dict[str, Any]):
    assert make_spec("best").renew
    assert not make_spec("best", **changes).renew
    assert make_spec("best", bases=["linear", "boosted"]).renew


def test_the_default_trains_frequencies_anew_half_as_often_as_the_best_unless_asked():
    assert make_spec("default").renew
    assert make_spec("default").renewable == ("boosted", "fourier-trained")
    assert (make_spec("default").searched_every, make_spec("best").searched_every) == (6, 3)
    assert replace(make_spec("default", renew=True), model="best") == make_spec("best")
    assert not make_spec("default", renew=False).renew
    assert not make_spec("default", bases=["linear", "hilbert"]).renew
    assert not make_spec("fast").renew


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("model", "changes", "says"),
    [
        ("e-dobe", {}, "model: .*got 'e-dobe'; did you mean 'e-doebe'"),
        ("zzz", {}, "model: .*got 'zzz'$"),
        ("oebe", {"bases": ["forier"]}, "bases: .*did you mean 'fourier'"),
        ("oebe", {"bases": []}, "bases: expected at least one of linear"),
        ("oebe", {"features_per_basis": 0}, "features_per_basis: expected a whole number >= 1, got 0"),
        ("oebe", {"features_per_basis": 2.5}, "features_per_basis: .*got 2.5"),
        ("oebe", {"renew": True}, "renew: expected one of the bases boosted, fourier-trained, .* got linear"),
        (
            "best",
            {"bases": "linear", "renew": True},
            "renew: expected one .* got linear; add one, or choose the model",
        ),
        ("default", {"weights": "stacking-newton", "renew": True}, "renew: expected weights by a rule that lets "),
        ("best", {"task": "count"}, "for the task 'count', got 'best', which is for 'regression' alone"),
        ("oebe", {"n_samples": 0}, "n_samples: expected a whole number >= 1, got 0"),
        ("oebe", {"n_samples": 1.0}, "n_samples: expected a whole number >= 1, got 1.0"),
        ("oebe", {"dynamics": []}, "dynamics: expected at least one"),
        ("oebe", {"dynamics": ["walk -1"]}, "dynamics 'walk -1'"),
        ("oebe", {"dynamics": ["revert 2"]}, "dynamics 'revert 2'"),
        ("oebe", {"weights": "swiching"}, "weights: .*did you mean 'switching'"),
        ("oebe", {"weights": "Q"}, "weights: expected one of"),
        ("oebe", {"weights": [[0.5, 0.5], [0.4, 0.5]]}, "weights: .*columns sum to one"),
        ("oebe", {"weights": [[1.0], [0.0]]}, "weights: .*square"),
        ("oebe", {"weights": [[1.0, 0.0], [0.0]]}, "weights: "),
        ("oebe", {"delta": 1.0}, r"delta: expected a probability in \[0, 1\), got 1.0"),
        ("e-doebe", {"delta": 0.4}, "delta: expected at most 1/3, .* 3 copies, got 0.4"),
        ("oebe", {"switch": -0.1}, "switch: .*got -0.1"),
        ("oebe", {"warmup_posterior": "priors"}, "warmup_posterior: .*did you mean 'prior'"),
    ],
)
def test_what_is_refused(model: str, changes: dict[str, Any], says: str):
    with pytest.raises(ValueError, match=says) as caught:
        make_spec(model, **changes)
    assert "\n" not in str(caught.value)


def test_weight_rules_reach_the_ensemble():
    two = {"bases": ["linear"], "dynamics": ["static", "walk 0.01"]}
    Q = np.array([[0.9, 0.2], [0.1, 0.8]])
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 1))

    def rule_of(spec: Spec) -> WeightRule:
        return fit_ensemble(spec, X, y, seed=0, time_unit=1.0)[0].rule

    markov = rule_of(make_spec("oebe", weights=Q, **two))
    assert isinstance(markov, Markov)
    np.testing.assert_allclose(markov.matrix, Q, rtol=1e-12)
    share = rule_of(make_spec("oebe", weights="switching", switch=0.3, **two))
    assert isinstance(share, Share)
    np.testing.assert_allclose(share.matrix, [[0.7, 0.3], [0.3, 0.7]], rtol=1e-12)
    share = rule_of(make_spec("oebe", weights="e-doebe", delta=0.2, share=0.0, **two))
    assert isinstance(share, Share)
    np.testing.assert_allclose(share.matrix, [[0.8, 0.2], [0.2, 0.8]], rtol=1e-12)
    auto = rule_of(make_spec("oebe", weights="auto", **two))
    assert isinstance(auto, Mixture)
    assert list(map(type, auto.rules)) == [BMA, Share, Share, Share, SoftBayes]
    np.testing.assert_allclose(auto.rules[3].matrix, [[0.9455, 0.0545], [0.0545, 0.9455]], rtol=1e-12)
    shutdown = rule_of(make_spec("e-doebe", weights="bma-shutdown", **two))
    assert isinstance(shutdown, BMA)
    assert shutdown.threshold == 1e-16


def test_a_matrix_of_another_size_is_refused_when_the_experts_are_known():
    with pytest.raises(
        ValueError, match=r"weights: expected a 1 x 1 matrix Q for the 1 experts .* got shape \(2, 2\)"
    ):
        run(make_spec("linear", weights=np.eye(2)))


@pytest.mark.parametrize("task", ["classification", "count", "ordinal"])
def test_labels_and_counts_have_a_default_and_a_fast_ensemble_of_their_own(task: str):
    default, fast = (make_spec(name, task=task) for name in ("default", "fast"))
    assert (default.model, fast.model) == ("default", "fast")
    assert default.likelihood == fast.likelihood != "gaussian"
    assert default.robust and fast.robust
    assert len(fast.dynamics) < len(default.dynamics)
    assert fast.features_per_basis < default.features_per_basis  # type: ignore[operator]
    assert make_spec("fast", task=task, bases=["linear"]).bases == ("linear",)
