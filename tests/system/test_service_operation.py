"""A service that is ended under load, cannot write, or has a wrong clock, in small; the campaign is in benchmarks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import streamgp

ROOT = Path(__file__).parents[2]
CODE = (
    "import json; from benchmarks.robustness import service_operation; "
    "print(json.dumps(service_operation.campaign(2, 5.0, 3)))"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="limits of another process, and mounts, are Linux's"),
]


def test_nothing_that_was_answered_is_lost_whatever_happens_to_the_service():
    environment = os.environ | {"PYTHONPATH": f"{Path(streamgp.__file__).parents[1]}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == []
    assert found["ended_under_load"]["rows"] > 10
    assert "left_out" in found["unwritable"] or found["unwritable"]["refused_with"] == [507]
