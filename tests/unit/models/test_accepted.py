"""Models and options by what the targets are: what is refused says what there is, and what there is is taken."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from streamgp import StreamingGPClassifier, StreamingGPCountRegressor, StreamingGPOrdinal
from streamgp.models.accepted import check_accepted, family_name, models_for
from streamgp.models.families import every_family, family_of
from streamgp.models.options import FAMILY_TASKS, OPTIONS, TASKS
from streamgp.models.presets import PRESETS
from streamgp.models.registry import make_spec
from streamgp.service.config import StreamConfig
from streamgp.service.problems import Problem

OTHERS = tuple(task for task in TASKS if task != "regression")
X = np.random.default_rng(0).normal(size=(20, 2))
Y = {"classification": X[:, 0] > 0.0, "count": np.arange(20) % 4, "ordinal": np.arange(20) % 3}
ESTIMATORS = {
    "classification": StreamingGPClassifier,
    "count": StreamingGPCountRegressor,
    "ordinal": StreamingGPOrdinal,
}
REFUSED: dict[str, Any] = {
    "lags": [1, 2],
    "horizon": 3,
    "bounds": (0.0, None),
    "target_transform": "log",
    "noise": ["constant"],
    "n_samples": 2,
    "recalibrate": True,
    "rest": True,
    "renew": True,
}


def of(name: str) -> str:
    return "'regression' or 'count'" if name == "lags" else "'regression'"


@pytest.mark.parametrize("task", TASKS)
def test_every_model_that_is_named_can_be_made_and_no_other(task: str):
    there = models_for(task)
    assert "default" in there and "linear" in there
    for model in PRESETS:
        if model in there:
            assert family_of(make_spec(model, task=task)).name == family_name(model, task)
            continue
        with pytest.raises(ValueError, match="model: expected one of") as caught:
            make_spec(model, task=task)
        said = str(caught.value)
        assert all(name in said.partition(", got")[0] for name in there)
        assert f"for the task {task!r}, got {model!r}, which is for" in said


def test_families_are_those_that_are_declared():
    assert {family.name: family.tasks for family in every_family()} == FAMILY_TASKS


@pytest.mark.parametrize(
    ("task", "name"), [(task, name) for task in OTHERS for name in REFUSED if task not in OPTIONS[name].tasks]
)
def test_an_option_of_numbers_is_refused_and_those_that_there_are_are_taken(task: str, name: str):
    for refuse in (
        lambda: check_accepted("default", task, {name: REFUSED[name]}),
        lambda: make_spec("default", task=task, **{name: REFUSED[name]}),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected it with the task {of(name)} alone") as caught:
            refuse()
        named = str(caught.value).partition(" there are ")[2].split(", ")
        assert "robust" in named and name not in named
        for each in named:
            assert OPTIONS[each].takes("generalised", task)
    check_accepted("default", task, {"lags": "auto", "bases": ["linear"], "robust": False})


@pytest.mark.parametrize("task", OTHERS)
@pytest.mark.parametrize("model", ["best", "wgpr", "nothing"])
def test_estimators_refuse_before_they_learn(task: str, model: str):
    estimator = ESTIMATORS[task](model)
    with pytest.raises(ValueError, match=r"model: expected one of default, fast, .*linear"):
        estimator.partial_fit(X, Y[task])
    assert not estimator.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"task": "count", "model": "best"}, "model: expected one of default, fast, .*linear.* for the task 'count'"),
        ({"task": "classification", "classes": ["a", "b"], "model": "best"}, "model: expected one of default"),
        ({"task": "ordinal", "classes": ["a", "b"], "model": "raker"}, "model: expected one of default"),
        ({"task": "ordinal", "lags": [1]}, "lags: expected it with the task 'regression' or 'count' alone"),
        ({"model": "nothing"}, "model: expected one of default, fast"),
    ],
)
def test_the_service_refuses_when_a_stream_is_made(given: dict[str, Any], says: str):
    with pytest.raises(Problem, match=says) as caught:
        StreamConfig.from_document({"name": "s", "target": "y", "features": ["a"]} | given)
    assert caught.value.status == 422


@pytest.mark.process
def test_nothing_heavy_is_imported_to_say_so():
    code = "import sys, streamgp.app.commands.early; print(sorted({'jax', 'sklearn', 'polars'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
