"""Checkpoints in which something was changed, with checksums that hold: refused as such, or loaded and at work.

    python -m benchmarks.robustness.fuzz_checkpoints --cases 3000 --out benchmarks/results/fuzz_checkpoints.json

Each case changes one to three places of a checkpoint of a small model of any kind: a value of another type, a huge or
negative number, a key or an element left out or twice, deep nests, another class, arrays cut, exchanged or made NaN.
A failure is any error of `load` but `CheckpointError`, and a case that takes more than ten seconds. Counted are
those that load and then cannot predict.
"""

import json
import random
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import safetensors.numpy

import streamgp
from benchmarks.common import campaigns
from streamgp import TimeVaryingOptimizer
from streamgp.numerics.checkpoint import MANIFEST, CheckpointError
from streamgp.numerics.checkpoint.directory import _seal, _sha256
from tests import small_models

X = np.array([[0.1, -0.3], [1.0, 1.0]])
ROWS = pl.DataFrame({"unique_id": [0, 1, 9], "ds": [900.0, 901.0, 902.0], "a": [0.1, 0.2, 0.3]})
LONGEST = 10.0  # seconds
DEEP: Any = []
for _ in range(600):
    DEEP = [DEEP]
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 7, 10**18, -(10**18), 0.5, 1e300, "", "x", "(2,3", "nan", [], {}, [1], [[]], DEEP),
    *(
        {"$float": "nan"},
        {"$tuple": []},
        {"$dict": {}},
        {"$module": "Nobody", "fields": {}},
        {"$function": "os:system"},
    ),
)
SHAPES = ([], [-1], [-2, -3], [10**12], [2.0], ["x"], [True], [0], [[1]])
DTYPES = ("float32", "int64", "O", "(2,3", "V0", "S0", "U1", "f8,i4", "M8[s]", "bfloat16", "x" * 100)


def load(path: Path) -> Any:
    """Load whatever is there."""
    return TimeVaryingOptimizer.load(path) if path.name in ("tv-gp-ucb", "ensemble") else streamgp.load(path)


def use(name: str, model: Any) -> None:
    """Predict."""
    if isinstance(model, TimeVaryingOptimizer):
        model.ask()
    elif name == "fleet":
        model.predict(ROWS)
    elif name == "latent":
        model.transform(np.zeros((1, 5)))
    else:
        model.predict(X)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Return all containers within a tree, each with one of its keys."""
    found, left = [], [tree]
    while left:  # the deepest are deeper than calls go
        node = left.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        found += [(node, key) for key in keys]
        left += [node[key] for key in keys]
    return found


def change(rng: random.Random, tree: Any, arrays: dict[str, np.ndarray]) -> str:
    """Change one thing; say of which kind."""
    kind = rng.choice(
        ("value", "value", "left out", "twice", "exchanged", "shape", "dtype", "class", "array", "array")
    )
    holders = places(tree)
    node, key = rng.choice(holders)
    if kind == "value":
        node[key] = json.loads(json.dumps(rng.choice(ODD)))
    elif kind == "left out":
        del node[key]
    elif kind == "twice" and isinstance(node, list):
        node.append(node[key])
    elif kind == "exchanged":
        other, its = rng.choice(holders)
        node[key] = json.loads(json.dumps(other[its]))
    elif kind in ("shape", "dtype"):
        found = [each for each, its in holders if its == kind and "$array" in each]
        if found:  # an earlier change may have left none
            rng.choice(found)[kind] = rng.choice(SHAPES if kind == "shape" else DTYPES)
    elif kind == "class":
        found = [each for each, its in holders if its == "$module"]
        if found:
            rng.choice(found)["$module"] = rng.choice(found)["$module"]
    elif kind == "array":
        if not arrays:
            return kind
        name = rng.choice(list(arrays))
        what, array = rng.choice(("cut", "nan", "zero", "gone", "exchanged")), arrays[name]
        if what == "cut":
            arrays[name] = array.ravel()[: array.size // 2]
        elif what == "nan" and array.dtype.kind == "f":
            arrays[name] = np.full_like(array, np.nan)
        elif what == "zero":
            arrays[name] = np.zeros_like(array)
        elif what == "gone":
            del arrays[name]
        else:
            arrays[name] = arrays[rng.choice(list(arrays))]
    return kind


def crafted(rng: random.Random, path: Path) -> str:
    """Change a checkpoint on disk so that its checksums hold."""
    parts = sorted(each.parent for each in path.rglob(MANIFEST))
    part = rng.choice(parts)
    document = json.loads((part / MANIFEST).read_text())
    document.pop("checksum")
    arrays = safetensors.numpy.load_file(part / document["arrays"]["file"])
    said = [change(rng, document["tree"], arrays) for _ in range(rng.choice((1, 1, 2, 3)))]
    payload = safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    (part / document["arrays"]["file"]).write_bytes(payload)
    document["arrays"] |= {"bytes": len(payload), "sha256": _sha256(payload)}
    (part / MANIFEST).write_bytes(_seal(document))
    return said[0]


def outcome(name: str, path: Path, note: Callable[[str], None]) -> str:
    """Return what becomes of a checkpoint; of an error that is none of the checkpoint, the error."""
    began = time.monotonic()
    try:
        model = load(path)
    except CheckpointError:
        found = "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.200}"
    else:
        try:
            use(name, model)
            found = "predicted"
        except Exception as error:
            note(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else '':.90}")
            found = "loaded, and predicts nothing"
    return f"{time.monotonic() - began:.0f} seconds" if time.monotonic() - began > LONGEST else found


def campaign(cases: int, minutes: float, seed: int) -> dict[str, Any]:
    """Change, load and use checkpoints."""
    warnings.simplefilter("ignore")
    rng, until = random.Random(seed), time.monotonic() + 60.0 * minutes
    found: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: small_models.save(name, Path(folder)) for name in sorted(small_models.NAMES)}
        for name, path in kept.items():  # compile what all the others use
            use(name, load(path))
        for case in range(cases):
            if time.monotonic() > until:
                break
            name = rng.choice(list(kept))
            path = Path(shutil.copytree(kept[name], Path(folder) / str(case) / name))
            kind = crafted(rng, path)
            what = outcome(name, path, lambda text: errors.update([text]))
            if what not in ("refused", "predicted", "loaded, and predicts nothing"):
                failures.append(f"case {case} of seed {seed}, {name}, {kind}: {what}")
                what = "another error"
            found[what] += 1
            shutil.rmtree(path.parent)
    return {
        "cases": sum(found.values()),
        **found,
        "of those that predict nothing": dict(errors.most_common(8)),
        "failures": failures,
    }


if __name__ == "__main__":
    campaigns.run(__doc__, "cases", 3_000, campaign)
