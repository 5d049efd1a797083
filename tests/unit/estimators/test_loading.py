"""`streamgp.load`: any estimator or fleet, by the kind that its checkpoint names."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import small_models
import streamgp
from fleet_streams import fleet, frame
from linear_user import new, stream
from streamgp import CheckpointError
from streamgp.annexes import annexes
from streamgp.estimators import loading
from streamgp.numerics import checkpoint


@pytest.mark.parametrize("name", ["two-targets", "splitting", "classifier", "counts", "ordinal", "latent"])
def test_every_kind_comes_back_as_itself(name: str, tmp_path: Path):
    kind = streamgp.StreamingGPLVM if name == "latent" else type(small_models.ESTIMATORS[name]())
    path = small_models.save(name, tmp_path)
    found = streamgp.load(path)
    assert type(found) is kind
    assert found.rows_ == kind.load(path).rows_ > 0
    assert found.get_params().keys() == kind().get_params().keys()


def test_it_goes_on_with_the_same_numbers(tmp_path: Path):
    X, y = stream()
    model = new().partial_fit(X[:60], y[:60])
    model.save(tmp_path)
    found = streamgp.load(tmp_path).partial_fit(X[60:], y[60:])
    np.testing.assert_array_equal(found.predict(X), model.partial_fit(X[60:], y[60:]).predict(X))


def test_a_fleet(tmp_path: Path):
    rows = frame(keys=3)
    seen = fleet().partial_fit(rows)
    seen.save(tmp_path)
    found = streamgp.load(tmp_path)
    assert type(found) is streamgp.StreamingGPFleet
    assert found.predict(rows).equals(seen.predict(rows))


def test_learners_are_handed_on(tmp_path: Path):
    X, y = stream()
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    model = new(learners=[tree]).partial_fit(X, y)
    model.save(tmp_path)
    assert len(streamgp.load(tmp_path, learners=[tree]).learners) == 1
    with pytest.raises(CheckpointError, match="learners"):
        streamgp.load(tmp_path)


def test_learners_of_a_kind_that_has_none(tmp_path: Path):
    with pytest.raises(CheckpointError, match="StreamingGPCountRegressor cannot have"):
        streamgp.load(small_models.save("counts", tmp_path), learners=[DecisionTreeRegressor()])


@pytest.mark.parametrize("name", small_models.OPTIMISERS)
def test_an_optimiser_is_named_as_what_reads_it(name: str, tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"TimeVaryingOptimizer\.load"):
        streamgp.load(small_models.save(name, tmp_path))


def test_what_is_no_estimator(tmp_path: Path):
    with pytest.raises(CheckpointError, match="no such directory"):
        streamgp.load(tmp_path / "none")
    checkpoint.save(tmp_path, {"rows": 1}, {"kind": "run"})
    with pytest.raises(CheckpointError, match=r"got one of 'run'.*--resume"):
        streamgp.load(tmp_path)


def test_no_public_kind_is_left_out():
    exported = {name: getattr(streamgp, name) for name in streamgp.__all__}
    kinds = {name for name, found in exported.items() if hasattr(found, "load") and hasattr(found, "save")}
    assert kinds - {"TimeVaryingOptimizer"} == set(loading._HOMES) | {
        name for annex in annexes() for name in annex.loadable
    }
