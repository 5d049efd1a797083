"""Race `streamgp backup` against writes, and hold every copy against what was acknowledged.

    python -m benchmarks.robustness.service_backup --copies 100 --out benchmarks/results/service_backup.json

A service learns rows as they are acknowledged, one after the other, and writes checkpoints, files of scored rows and
new files of its log all the time. Another process copies its directory again and again. Every copy must hold all that
was acknowledged before it was begun, and nothing that was not sent when it was done; know exactly what a stream knows
that was given these rows and no others; and go on so through three restarts, two of them after a kill.
"""

import random
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import campaigns
from benchmarks.common.serving import Changes, Server
from benchmarks.robustness.service_damage import CONFIG, NAME, PATIENCE, known, opened, rows, send
from streamgp.client import Client
from streamgp.service import checkpointing, history
from streamgp.service.backup_run import back_up_directory
from streamgp.service.live_stream import LiveStream
from streamgp.service.payload import rows_with_inputs

MORE = 3  # rows that a copy is given after each of its restarts
FIRST = 50  # rows before the first copy
MOST = 20_000  # rows of a campaign
BUSY = {"streamgp.service.checkpointing:SECONDS": 0.05, "streamgp.service.checkpointing:SHARE": 1.0}
BUSY |= {"streamgp.service.history:PART": 40}
RENEW_BYTES = 100_000


class Writer(threading.Thread):
    """A client that has one row after the other learnt, until it is stopped."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.rows = rows(MOST)
        self.acknowledged = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        """Send rows."""
        with Client(self.url, timeout=PATIENCE) as client:
            for i, row in enumerate(self.rows):
                client.request("POST", f"/v1/streams/{NAME}/step", {"rows": [row]})
                self.acknowledged = i + 1
                if self.stopping.is_set():
                    return


def judged(copy: Path, low: int, high: int, expected: list[list[float]], given: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong with a copy, which should hold `low` to `high` rows; it is given more after restarts."""
    wrong: list[str] = []
    for restart in range(4):
        directory = copy / "streams" / NAME
        with opened(directory) as stream:
            held = stream.last_position
            if not low <= held <= high:
                wrong.append(f"start {restart}: it holds {held} rows, expected {low} to {high}")
            wrong += [f"start {restart}: {each}" for each in stream.notices]
            wrong += _differs(stream, expected, restart)
            for row in given[held : held + MORE]:
                send(stream, row, late=False)
            wrong += _differs(stream, expected, restart)
            again = rows_with_inputs(CONFIG, given[max(0, held - 20) : held + MORE], with_target=True)
            if stream.step(again).result(PATIENCE).get("repeated") != len(again.X):
                wrong.append(f"start {restart}: rows that were learnt are learnt again")
            low = high = held + MORE
            if restart in (0, 1):  # what a kill would leave
                copy = Path(shutil.copytree(copy, copy.with_name(f"{copy.name}, killed {restart}")))
    return wrong


def _differs(stream: LiveStream, expected: list[list[float]], restart: int) -> list[str]:
    held = stream.last_position
    if stream.status()["learned"] != held:
        return [f"start {restart}: of {held} rows {stream.status()['learned']} are learnt"]
    if not np.allclose(known(stream), expected[held], rtol=1e-9, atol=1e-12):
        return [f"start {restart}: after {held} rows its predictions are other ones"]
    return []


def expectations(directory: Path, given: list[dict[str, Any]]) -> list[list[float]]:
    """Return the predictions of a stream that nobody copies, after each row."""
    directory.mkdir(parents=True)
    (directory / "stream.json").write_text(CONFIG.to_json())
    with opened(directory) as stream:
        found = [known(stream)]
        for row in given:
            send(stream, row, late=False)
            found.append(known(stream))
    return found


def campaign(copies: int, minutes: float, seed: int = 0) -> dict[str, Any]:
    """Make so many copies under load, and judge them; what happened."""
    began, random_ = time.monotonic(), random.Random(seed)
    failures: list[str] = []
    made: list[tuple[Path, int, int, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        live = Path(folder) / "live"
        server = Server(live, Path(folder) / "cache")
        server.start(Changes(BUSY, renew_bytes=RENEW_BYTES))
        assert server.wait(), server.said()
        with Client(server.url) as client:
            document = {name: value for name, value in CONFIG.document().items() if value not in ([], {}, None)}
            client.request("POST", "/v1/streams", document)
        writer = Writer(server.url)
        writer.start()
        while writer.acknowledged < FIRST and writer.is_alive():
            time.sleep(0.01)
        while len(made) < copies and time.monotonic() - began < 60 * minutes:
            time.sleep(random_.uniform(0.0, 0.15))
            target, low, start = Path(folder) / f"copy {len(made)}", writer.acknowledged, time.monotonic()
            try:
                back_up_directory(live, target)
            except Exception as error:
                failures.append(f"copy {len(made)}: {type(error).__name__}: {error}")
            made.append((target, low, writer.acknowledged + 1, time.monotonic() - start))
        writer.stopping.set()
        writer.join()
        newest = max(path.name for path in (live / "streams" / NAME / "log").glob("log-*.sqlite"))
        server.stop()
        checkpointing.SECONDS, history.PART = 1e9, 40
        most = writer.acknowledged + 5 * MORE
        expected = expectations(Path(folder) / "expected", writer.rows[:most])
        for i, (target, low, high, _) in enumerate(made):
            if target.exists():
                try:
                    wrong = judged(target, low, high, expected, writer.rows)
                except Exception as error:
                    wrong = [f"{type(error).__name__}: {error}"]
                failures += [f"copy {i}: {each}" for each in wrong]
            for path in target.parent.glob(f"{target.name}*"):
                shutil.rmtree(path, ignore_errors=True)
    seconds = sorted(each[3] for each in made)
    return {
        "copies": len(made),
        "rows": writer.acknowledged,
        "rows_while_copied": {
            "median": int(np.median([high - low for _, low, high, _ in made])),
            "most": max(high - low for _, low, high, _ in made),
        },
        "files_of_the_log": int(newest[4:12]),
        "seconds_of_a_copy": {"median": round(float(np.median(seconds)), 3), "most": round(seconds[-1], 3)},
        "restarts": 3 * len(made),
        "failures": failures[:50],
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "copies", 100, campaign)


if __name__ == "__main__":
    main()
