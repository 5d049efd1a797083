"""The live service under kills, in small; the large campaign is a program in benchmarks/robustness."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import streamgp

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL"),
]


def run(code: str) -> None:
    environment = os.environ | {"PYTHONPATH": f"{Path(streamgp.__file__).parents[1]}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["linear", "keys"])
def test_a_service_that_is_killed_again_and_again_ends_as_if_it_had_not_been(kind: str):
    run(
        "import tempfile\n"
        "from pathlib import Path\n"
        "from benchmarks.robustness import service_kills\n"
        "service_kills.REQUESTS = 30\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    work = service_kills.Campaign(Path(folder), 3)\n"
        f"    work.run({kind!r}, 4)\n"
        "assert work.kills, 'nobody was killed'\n"
        "assert not work.failures, work.failures"
    )


def test_a_directory_that_is_copied_under_load_holds_what_came_first():
    run(
        "import tempfile\n"
        "from pathlib import Path\n"
        "from benchmarks.robustness.service_disks import backup\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    found = backup(Path(folder) / 'live', Path(folder) / 'cache', 0.0)\n"
        "assert not found['failures'], found"
    )
