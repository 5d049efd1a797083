"""The commands of the how-to pages on the live service, on a service that runs."""

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")
pytestmark = [pytest.mark.slow, pytest.mark.process]

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "how-to").glob("service*.md")}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "streamgp.app.cli", "serve", str(tmp_path / "live"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+?(?=;)", line)
        assert found, line
        yield found[0]
        process.terminate()
        assert process.wait(60) == 0


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGES[page], flags=re.DOTALL)


def requests(page: str) -> str:
    """The commands of a page that ask the service, of which each has one block."""
    (block,) = (block for block in blocks(page, "bash") if "curl" in block)
    return block


def test_the_commands_do_what_they_say(address: str):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    port = address.rpartition(":")[2]

    def answers(script: str) -> list[dict[str, Any]]:
        script = script.replace(":8765", f":{port}").replace("curl ", "curl -sS --fail-with-body ")
        found = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=120)
        assert found.returncode == 0, found.stdout + found.stderr
        return [json.loads(part) for part in re.split(r"(?<=\})(?=\{)", found.stdout)]

    created, predicted, learned, stepped, scores = answers(requests("service"))
    assert created["name"] == "power"
    assert predicted["rows"][0]["id"] == "monday-12h" and predicted["rows"][0]["quantiles"]["0.95"] > 0.0
    assert learned["learned"] == 1
    assert stepped["rows"][0]["id"] == "monday-13h"
    assert scores["rows"] == 2
    looked_at, ahead, pending = answers(requests("service-requests"))
    assert looked_at["rows"][0]["id"] is None
    assert [row["step"] for row in ahead["rows"]] == [1, 2]
    assert pending["count"] == 0 and pending["pending"] == []
    (in_python,) = blocks("service", "python no-run")
    code = in_python.replace(":8765", f":{port}")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "'0.95'" in found.stdout
    with urllib.request.urlopen(f"{address}/v1/streams/power") as answer:
        assert json.load(answer)["learned"] == 3
    (written,) = answers("curl -X POST http://127.0.0.1:8765/v1/streams/power/checkpoint")
    listed, restored = answers(requests("service-recovery").replace("1234", str(written["position"])))
    begun, challengers, promoted = answers(requests("service-challengers"))
    assert begun["name"] == challengers["challengers"][0]["name"] == promoted["promoted"] == "lagged"
    assert listed["checkpoints"][0]["position"] == restored["restored"] == written["position"]
    described, sold = answers(requests("service-streams"))
    assert described["categories"] == {"site": ["north", "south"]} and described["bounds"] == [0, None]
    assert sold["rows"][0]["quantiles"]["0.05"] >= 0.0


def test_every_route_is_in_the_table(tmp_path: Path):
    from streamgp.service.streams import Streams
    from streamgp.service.web.app import make_app

    app = make_app(Streams(tmp_path))._app
    paths = {path.rpartition("/")[2] for path in app.openapi()["paths"]} - {"{name}", "{challenger}", "streams"}
    missing = [path for path in paths if path not in PAGES["service-requests"]]
    assert not missing


def test_the_examples_can_be_read():
    directory = ROOT / "examples" / "service"
    dashboard = json.loads((directory / "grafana.json").read_text())
    rules = (directory / "alerts.yml").read_text()
    from streamgp.service.web import measures

    of_streams = *measures._STATUS, *measures._DURABILITY, "failed", "recent"
    known = {f"streamgp_{name}" for name in (*of_streams, *measures._STANDBY)}
    known |= {"streamgp_request_seconds_bucket", "streamgp_answers_total"}
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = set(re.findall(r"streamgp_\w+", " ".join(expressions) + rules))
    assert named <= known
