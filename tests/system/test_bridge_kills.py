"""Rows over a real broker while broker, bridge and service are killed; the large campaign is in benchmarks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("paho.mqtt")

import streamgp
from benchmarks.robustness import bridge_kills

ROOT = Path(__file__).parents[2]
CODE = (
    "import json; from benchmarks.robustness import bridge_kills; print(json.dumps(bridge_kills.campaign(4, 5.0, 7)))"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(bridge_kills.MOSQUITTO is None, reason="there is no broker: apt-get install mosquitto"),
]


def test_messages_twice_and_out_of_order_between_kills_are_rows_once_and_in_order():
    environment = os.environ | {"PYTHONPATH": f"{Path(streamgp.__file__).parents[1]}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == []
    assert found["kills"] == dict.fromkeys(bridge_kills.EVENTS, 1)
    assert found["rows"] == 7 * bridge_kills.BURST < found["messages"]
