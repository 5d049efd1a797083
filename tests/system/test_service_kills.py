"""The live service under kills, in small; the large campaign is a program in benchmarks/robustness."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import streamgp

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL"),
]


CODE = """
import json, tempfile
from pathlib import Path
from benchmarks.robustness import service_kills
from benchmarks.robustness.service_disks import backup

service_kills.REQUESTS = 30
found = {}
with tempfile.TemporaryDirectory() as folder:
    for kind in ("linear", "keys"):
        work = service_kills.Campaign(Path(folder), 3)
        work.run(kind, 4)
        found[kind] = {"kills": work.kills, "failures": work.failures}
    found["copy"] = backup(Path(folder) / "live", Path(folder) / "cache", 0.0)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What happened, all in one process, as most of the time goes into its beginning."""
    environment = os.environ | {"PYTHONPATH": f"{Path(streamgp.__file__).parents[1]}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["linear", "keys"])
def test_a_service_that_is_killed_again_and_again_ends_as_if_it_had_not_been(kind: str, found: dict[str, Any]):
    assert found[kind]["kills"], "nobody was killed"
    assert not found[kind]["failures"]


def test_a_directory_that_is_copied_under_load_holds_what_came_first(found: dict[str, Any]):
    assert not found["copy"]["failures"]
