"""A checkpoint whose checksums hold, but not what it says, is an error of the checkpoint, at every door."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import safetensors.numpy

import streamgp
from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPFleet,
    StreamingGPLVM,
    StreamingGPRegressor,
)
from streamgp.bandits.optimizer import TimeVaryingOptimizer
from streamgp.numerics.checkpoint import MANIFEST, CheckpointError
from streamgp.numerics.checkpoint.directory import _seal, _sha256

pytestmark = pytest.mark.slow
DOORS: dict[str, Callable[[Path], Any]] = {
    "numbers": StreamingGPRegressor.load,
    "late": streamgp.load,
    "classes": StreamingGPClassifier.load,
    "counts": streamgp.load,
    "latent": StreamingGPLVM.load,
    "fleet": StreamingGPFleet.load,
    "optimiser": TimeVaryingOptimizer.load,
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of checkpoints, one for each door."""
    directory, rng = tmp_path_factory.mktemp("kept"), np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    made: dict[str, Any] = {
        "numbers": StreamingGPRegressor("linear", warmup=20).partial_fit(X, y),
        "late": StreamingGPRegressor("linear", warmup=20).partial_fit(X, y),
        "classes": StreamingGPClassifier(bases=["linear"], warmup=20).partial_fit(X, y > 0, classes=[False, True]),
        "counts": StreamingGPCountRegressor(bases=["linear"], warmup=20).partial_fit(X, rng.poisson(2, size=60)),
        "latent": StreamingGPLVM(warmup=20, n_components=1).partial_fit(np.column_stack([X, y])),
    }
    made["late"].predict_later(X[0])
    rows = {"unique_id": ["a", "b"] * 30, "ds": np.repeat(np.arange(30.0), 2), "x": X[:, 0], "y": y}
    made["fleet"] = StreamingGPFleet(warmup=40)
    made["fleet"].partial_fit(pl.DataFrame(rows))
    made["optimiser"] = TimeVaryingOptimizer([(0.0, 1.0)])
    for _ in range(4):
        made["optimiser"].tell(made["optimiser"].ask(), 0.5)
    for name, each in made.items():
        each.save(directory / name)
    return directory


DEEP: Any = None
for _ in range(600):
    DEEP = [DEEP]
TREES = [[], "x", {}, None, 5, {"$array": "a"}, {"$tuple": []}, {"$module": "nobody", "fields": {}}, DEEP]
ODD: list[Any] = [[], "x", {}, None, -1, 1e300, True, "(2,3", {"$tuple": [1]}, [[[1]]], DEEP]


def crafted(kept: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Return a copy of a checkpoint in which something was changed by somebody who knows of the checksum."""
    shutil.copytree(kept, to)
    document = json.loads((to / MANIFEST).read_text())
    document.pop("checksum")
    change(document)
    (to / MANIFEST).write_bytes(_seal(document))
    return to


def loads(door: Callable[[Path], Any], path: Path) -> str:
    """Return ``refused`` or ``loaded``; any other error goes on."""
    try:
        door(path)
    except CheckpointError:
        return "refused"
    return "loaded"


@pytest.mark.parametrize("name", DOORS)
def test_another_tree_is_no_checkpoint(kept: Path, name: str, tmp_path: Path):
    for i, tree in enumerate(TREES):
        path = crafted(kept / name, tmp_path / str(i), lambda document, tree=tree: document.update(tree=tree))
        with pytest.raises(CheckpointError):
            DOORS[name](path)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all values within a tree."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    found = [] if not path else [path]
    for key, value in items:
        found += places(value, (*path, key))
    return found


def put(node: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value


@pytest.mark.parametrize("name", DOORS)
def test_odd_values_anywhere_are_refused_or_do_no_harm(kept: Path, name: str, tmp_path: Path):
    whole = json.loads((kept / name / MANIFEST).read_text())["tree"]
    every, rng = places(whole), np.random.default_rng(1)
    counted = {"refused": 0, "loaded": 0}
    for i in range(60):
        place, value = every[rng.integers(len(every))], ODD[rng.integers(len(ODD))]
        path = crafted(kept / name, tmp_path / str(i), lambda document, p=place, v=value: put(document["tree"], p, v))
        counted[loads(DOORS[name], path)] += 1
        shutil.rmtree(path)
    assert counted["refused"] > 20


@pytest.mark.parametrize("dtype", ["(2,3", "O", "f8,", "float64[", "9" * 99, "<f9", "{'a'}"])
def test_a_dtype_that_is_none_is_named(kept: Path, dtype: str, tmp_path: Path):
    whole = json.loads((kept / "numbers" / MANIFEST).read_text())["tree"]
    place = next(each for each in places(whole) if each[-1] == "dtype")
    path = crafted(kept / "numbers", tmp_path / "odd", lambda document: put(document["tree"], place, dtype))
    with pytest.raises(CheckpointError, match="use another copy"):
        streamgp.load(path)


def at(node: Any, path: str) -> Any:
    """Return what lies at a path, whose parts are separated by slashes."""
    for key in path.split("/"):
        node = node[int(key) if isinstance(node, list) else key]
    return node


MEANINGLESS: list[tuple[str, str, str, Any]] = [
    ("numbers", "learner/targets/fields", "mean", []),
    ("numbers", "learner/targets/fields", "mean", {"$float": "nan"}),
    ("numbers", "learner", "model_state", "x"),
    ("numbers", "learner/inputs/fields", "bounds", -1),
    ("numbers", "learner", "rows", -1),
    ("numbers", "learner/spec", "likelihood", {}),
    ("numbers", "learner/inputs/fields/lags/fields", "lags", {"$tuple": [1, 2]}),
    ("numbers", "learner/model/fields", "rule", 1),
    ("numbers", "learner/model/fields", "groups", {"$tuple": []}),
    ("numbers", "learner/model/fields", "order", {"$tuple": [0, 7]}),
    ("numbers", "learner/model_state/fields", "filters", {"$tuple": []}),
    ("numbers", "learner/model_state/fields", "weights", 1.0),
    ("classes", "learner/model/fields", "rule", {"$float": "nan"}),
    ("classes", "learner/model_state/fields", "filters", {"$tuple": [1]}),
    ("latent", "learner/model/fields", "rule", 2),
    ("latent", "learner", "state", 5),
    ("optimiser", "space/fields", "parameters", [1]),
    ("optimiser", "history/fields", "times", None),
    ("optimiser", "belief", "fitted_at", "never"),
    *(("optimiser", "", name, []) for name in ("failures", "history", "settings", "again", "price")),
    ("optimiser", "", "out", 0.5),
]


@pytest.mark.parametrize(("name", "where", "field", "value"), MEANINGLESS)
def test_a_value_that_means_nothing_is_refused_when_loaded(
    kept: Path, name: str, where: str, field: str, value: Any, tmp_path: Path
):
    def change(document: dict[str, Any]) -> None:
        holder = at(document["tree"], where) if where else document["tree"]
        assert field in holder
        holder[field] = value

    with pytest.raises(CheckpointError, match=r"does not fit|use another copy"):
        DOORS[name](crafted(kept / name, tmp_path / "odd", change))


def with_arrays(kept: Path, to: Path, change: Callable[[str, np.ndarray], np.ndarray]) -> Path:
    """Return a copy of a checkpoint whose arrays were changed, by their names, so that its checksums hold."""

    def document_too(document: dict[str, Any]) -> None:
        path = to / document["arrays"]["file"]
        arrays = {name: change(name, array) for name, array in safetensors.numpy.load_file(path).items()}
        payload = safetensors.numpy.save(arrays)
        path.write_bytes(payload)
        document["arrays"] |= {"bytes": len(payload), "sha256": _sha256(payload)}

    return crafted(kept, to, document_too)


@pytest.mark.parametrize(
    ("name", "array", "value"),
    [
        ("numbers", "/learner/targets/mean", np.nan),
        ("numbers", "/learner/inputs/scaling/m2", -1.0),
        ("numbers", "/learner/targets/count", -1.0),
        ("numbers", "/learner/model_state/weights", np.nan),
        ("classes", "/learner/model_state/weights", np.inf),
    ],
)
def test_numbers_that_mean_nothing_are_refused_when_loaded(
    kept: Path, name: str, array: str, value: float, tmp_path: Path
):
    changed: list[str] = []

    def change(path: str, numbers: np.ndarray) -> np.ndarray:
        if not path.startswith(array) or numbers.dtype.kind != "f":
            return numbers
        changed.append(path)
        return np.full_like(numbers, value)

    path = with_arrays(kept / name, tmp_path / "odd", change)
    assert changed
    with pytest.raises(CheckpointError, match="use another copy"):
        DOORS[name](path)
