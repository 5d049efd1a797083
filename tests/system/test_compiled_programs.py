"""What a process has compiled serves the next one where the user asks for it, and nothing is set where not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import streamgp

pytestmark = pytest.mark.process

# A user who compiles programs of their own before; the second argument is a cache that they set up themselves.
CODE = """
import json, os, sys
import jax, numpy as np
from jax._src import monitoring
from streamgp import StreamingGPRegressor, keep_compiled_programs

if sys.argv[1]:
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.jit(lambda x: x + 1)(1.0)
if sys.argv[2]:
    keep_compiled_programs()
found = {"cache_hits": 0, "cache_misses": 0}


def count(name, **_):
    found[name.split("/")[-1]] = found.get(name.split("/")[-1], 0) + 1


monitoring.register_event_listener(count)
X = np.random.default_rng(0).normal(size=(60, 2))
if sys.argv[1]:
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
model = StreamingGPRegressor(model="raker", warmup=50).partial_fit(X, X[:, 0])
print(json.dumps({
    "directory": jax.config.jax_compilation_cache_dir, "mean": float(model.predict(X[:1])[0]), **found
}))
"""


def learn(setting: object, own: object = "", ask: bool = True) -> dict[str, Any]:
    """Learn a stream in a process of its own, with this STREAMGP_CACHE."""
    environment = os.environ | {
        "PYTHONPATH": str(Path(streamgp.__file__).parents[1]),
        "PYTHONWARNINGS": "error",
        "STREAMGP_CACHE": str(setting),
    }
    command = [sys.executable, "-c", CODE, str(own), "ask" if ask else ""]
    ended = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=120, check=True)
    assert not ended.stderr
    return json.loads(ended.stdout)


def test_the_next_process_finds_what_this_one_has_compiled(tmp_path: Path):
    first, second = learn(tmp_path / "kept"), learn(tmp_path / "kept")
    assert first["directory"] == str(tmp_path / "kept")
    assert first["cache_misses"] > 2
    assert (second["cache_misses"], second["cache_hits"]) == (0, first["cache_misses"] + first["cache_hits"])
    assert second["mean"] == first["mean"]


def test_a_learner_never_sets_up_a_cache_by_itself(tmp_path: Path):
    assert learn(tmp_path / "kept", ask=False)["directory"] is None
    assert not (tmp_path / "kept").exists()


def test_a_cache_of_the_users_own_stays(tmp_path: Path):
    assert learn(tmp_path / "kept", own=tmp_path / "own")["directory"] == str(tmp_path / "own")
    assert not (tmp_path / "kept").exists()
    assert any((tmp_path / "own").iterdir())


def test_a_cache_that_cannot_be_written_does_no_harm_and_a_user_says_no(tmp_path: Path):
    (tmp_path / "file").touch()
    without = learn("off")
    assert without["directory"] is None
    assert learn(tmp_path / "file" / "kept")["mean"] == without["mean"]
