"""The campaigns of kills and of generated files, in small; the large ones are programs in benchmarks/robustness."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings

import streamgp
from benchmarks.robustness import fuzz

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.process]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(
    ("of", "kinds"), [("kills", ("plain",)), ("fleet_kills", ("saves, asleep", "command, asleep"))]
)
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(of: str, kinds: tuple[str, ...]):
    code = (
        f"from benchmarks.robustness.{of} import campaign\n"
        f"found = campaign(3, 1.0, kinds={kinds!r})\n"
        "assert not found['failures'], found"
    )
    environment = os.environ | {"PYTHONPATH": f"{Path(streamgp.__file__).parents[1]}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@seed(1)
@settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(fuzz.tables())
def test_no_file_ends_in_a_traceback_or_loses_a_row(
    tmp_path_factory: pytest.TempPathFactory, made: tuple[bytes, list[str]]
):
    fuzz.check(*made, tmp_path_factory.mktemp("fuzz"))
