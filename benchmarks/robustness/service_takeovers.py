"""Kill the leader of two services under load, have its standby take over, and look for rows that are lost or twice.

    python -m benchmarks.robustness.service_takeovers --kills 200 --out benchmarks/results/service_takeovers.json

Both are real processes. Clients send steps, predictions and labels, each under an id of its own, and send again what
was not acknowledged, to whoever leads. The leader is killed with -9 at a random moment, or stopped, so that nobody
sees it, and let go again; its standby is promoted at once, without force. The former leader comes back as if nothing
had happened, while a stubborn client goes on to ask it, or as the standby of the new one. In between the standby is
killed too. In the end every acknowledged row must be once in the log of the leader and in that of the standby, which
must be the same, and a stream that learns these rows in their order must predict the same (1e-9).

What a stubborn client was acknowledged is counted by when. "while it led": before the leader was stopped. "sent while
it led": the row was on its way when the leader was stopped, its standby had it on disk, and the leader said so once
it was let go. "sent later": a row that came after that, which a former leader may never acknowledge: a failure. Rows
of the first two must be in both logs in the end, like those of all others.
"""

import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import httpx2 as httpx
import numpy as np

from benchmarks.common import campaigns
from benchmarks.common.serving import Changes, Server
from benchmarks.robustness.service_kills import RENEW_BYTES, SMALL
from streamgp.client import Client, ServiceError
from streamgp.service.archive import kept_entries
from streamgp.service.config import StreamConfig
from streamgp.service.live_stream import LiveStream
from streamgp.service.packing import unpack
from streamgp.service.payload import rows_with_inputs

STREAM = {"name": "power", "target": "y", "features": ["u", "v"], "model": "linear", "warmup": 50}
TIMEOUT = 5  # seconds for which a leader waits for its standby
MOST_SECONDS = 5.0  # of a takeover
CLIENTS = 2
RUN = 20  # kills, after which all is compared and another pair begins
TOLERANCE = 1e-9
SENT_LATER = "acknowledged, sent later"
EVENTS = ("kill", "kill", "kill", "kill, old one back", "pause", "standby")
"""What happens to the leader, or to the standby."""


def row(name: str) -> dict[str, Any]:
    """Return the row of an id."""
    rng = np.random.default_rng(abs(hash_of(name)))
    u, v, noise = rng.normal(size=3)
    return {"id": name, "x": {"u": float(u), "v": float(v)}, "y": float(u - v + 0.1 * noise)}


def hash_of(name: str) -> int:
    """Return a number of a name, the same in every process."""
    return int.from_bytes(name.encode()[-12:], "big")


class Load:
    """Clients that send rows until each is acknowledged, to whoever leads."""

    def __init__(self, run: int) -> None:
        self.url = ""
        self.acknowledged: dict[str, float] = {}
        self.wrong: list[str] = []
        self._run = run
        self._stop = threading.Event()
        self._has_failed = False
        self._threads = [threading.Thread(target=self._send_all, args=(i,)) for i in range(CLIENTS)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self, has_failed: bool = False) -> None:
        """End, once all that was sent is acknowledged, or at once if nobody leads any more."""
        self._has_failed = has_failed
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send_all(self, client: int) -> None:
        chance, number = random.Random(client + 100 * self._run), 0
        clients = dict[str, Client]()  # by address; to make one takes longer than a request
        while not self._stop.is_set():
            rows = [row(f"{client}-{number + i}") for i in range(chance.choice((1, 1, 2, 5)))]
            number += len(rows)
            if chance.random() < 0.3:
                self._send(clients, "predict", [{"id": each["id"], "x": each["x"]} for each in rows])
                self._send(clients, "learn", [{"id": each["id"], "y": each["y"]} for each in rows])
            else:
                self._send(clients, "step", rows)
            if self._has_failed:
                return
            now = time.monotonic()
            self.acknowledged |= {each["id"]: now for each in rows}

    def _send(self, clients: dict[str, Client], what: str, rows: list[dict[str, Any]]) -> None:
        """Send rows until they are acknowledged."""
        while not self._has_failed:
            try:
                url = self.url
                client = clients.setdefault(url, clients.get(url) or Client(url, timeout=3.0))
                client.request("POST", f"/v1/streams/power/{what}", {"rows": rows})
                return
            except ServiceError as error:
                # A prediction whose label came, and whose answer got lost, is known.
                if error.status not in (500, 503):
                    self.wrong.append(f"{what} of {rows[0]['id']}: {error.status} {error}")
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.02)


class Stubborn:
    """A client that holds on to the address of a leader, and sends each row once."""

    def __init__(self, url: str, name: str) -> None:
        self.answered: Counter[str] = Counter()
        self.acknowledged: list[tuple[str, float, float]] = []  # a row, when it was sent, and when answered
        self._url, self._name = url, name
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send_all, args=(i,)) for i in range(2)]
        for thread in self._threads:
            thread.start()

    def _send_all(self, thread: int) -> None:
        number, client = 0, Client(self._url, timeout=30.0)
        while not self._stop.is_set():
            name, number, sent = f"{self._name}-{thread}-{number}", number + 1, time.monotonic()
            try:
                client.request("POST", "/v1/streams/power/step", {"rows": [row(name)]})
                self.acknowledged.append((name, sent, time.monotonic()))
            except ServiceError as error:
                self.answered[str(error.status)] += 1
                time.sleep(0.05)
            except httpx.HTTPError:
                self.answered["no answer"] += 1
                time.sleep(0.02)

    def stop(self) -> None:
        """End."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def by_time(self, stopped: float) -> dict[str, int]:
        """Count the rows that were acknowledged, by when, given when the leader was stopped."""
        led = sum(answered <= stopped for _, _, answered in self.acknowledged)
        later = sum(sent > stopped for _, sent, _ in self.acknowledged)
        sent_before = len(self.acknowledged) - led - later
        return {
            "acknowledged while it led": led,
            "acknowledged later, sent while it led": sent_before,
            SENT_LATER: later,
        }


class Pair:
    """Two services, of which one leads."""

    def __init__(self, folder: Path, number: int, chance: random.Random) -> None:
        self.chance = chance
        self.number = number
        self.leader, self.standby = (Server(folder / f"{number}{name}", folder / "cache") for name in "ab")
        self.load = Load(number)
        self.seconds: list[float] = []
        self.events: Counter[str] = Counter()
        self.stubborn: Counter[str] = Counter()
        self.once: list[str] = []  # rows that a stubborn client was told are kept
        self.wrong: list[str] = []

    def start(self, server: Server, leader: Server | None = None) -> None:
        """Start one of the two."""
        server.options = ["--standby-timeout", str(TIMEOUT)]
        server.options += [] if leader is None else ["--standby-of", leader.url]
        often = {"streamgp.service.checkpointing:SECONDS": self.chance.choice((0.05, 0.5))}
        server.start(Changes(SMALL | often, renew_bytes=RENEW_BYTES, quick=False))

    def begin(self) -> None:
        """Start both, and the clients."""
        self.start(self.leader)
        assert self.leader.wait(), self.leader.said()
        with Client(self.leader.url) as client:
            client.request("POST", "/v1/streams", STREAM)
        self.load.url = self.leader.url
        self.load.start()
        self.start(self.standby, self.leader)
        self.in_step()

    def in_step(self) -> None:
        """Wait until the standby may lead."""
        until = time.monotonic() + 120.0
        while time.monotonic() < until:
            try:
                if httpx.get(f"{self.standby.url}/v1/standby", timeout=5.0).json().get("may_lead"):
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.02)
        raise TimeoutError(f"the standby is not in step: {self.standby.said()[-500:]}")

    def event(self) -> bool:
        """Have something happen; return whether the leader was taken from its place."""
        what = self.chance.choice(EVENTS)
        self.events[what] += 1
        time.sleep(self.chance.uniform(0.0, 0.6))
        if what == "standby":
            self.standby.kill()
            time.sleep(self.chance.choice((0.0, TIMEOUT + 2.0)))  # the leader waits, or goes on alone
            self.start(self.standby, self.leader)
            self.in_step()
            return False
        old, witness = self.leader, None
        if what == "pause":
            witness = Stubborn(old.url, f"w{self.number}-{sum(self.events.values())}")
            time.sleep(0.2)
        began = time.monotonic()
        stop(old.process.pid, signal.SIGSTOP if what == "pause" else signal.SIGKILL)
        stopped = time.monotonic()
        self.take_over(began)
        if what == "pause":
            time.sleep(self.chance.choice((0.0, TIMEOUT + 1.0)))
            os.kill(old.process.pid, signal.SIGCONT)
        elif what == "kill, old one back":
            old.process.join()
            self.start(old)
            witness = Stubborn(old.url, f"s{self.number}-{sum(self.events.values())}")
            old.wait()
        if witness is not None:
            time.sleep(TIMEOUT + 2.0)
            witness.stop()
            self.once += [name for name, _, _ in witness.acknowledged]
            by_time = witness.by_time(stopped)
            self.stubborn += witness.answered + Counter(by_time)
            if by_time[SENT_LATER]:
                self.wrong.append(f"{what}: {by_time[SENT_LATER]} rows were acknowledged by a former leader")
            role = httpx.get(f"{old.url}/readyz", timeout=5.0).json()["role"]
            self.wrong += [] if role == "fenced" else [f"{what}: the former leader is not fenced, but {role}"]
            old.kill()
        old.process.join()
        self.start(self.standby, self.leader)
        self.in_step()
        return True

    def take_over(self, began: float) -> None:
        """Promote the standby; note the seconds until it acknowledges a row."""
        self.leader, self.standby = self.standby, self.leader
        asked = httpx.post(f"{self.leader.url}/v1/standby/promote", json={"force": False}, timeout=30.0)
        if asked.status_code != 200:
            raise RuntimeError(f"not promoted: {asked.text}")
        promoted = time.monotonic()
        self.load.url = self.leader.url
        while max(self.load.acknowledged.values(), default=0.0) < promoted and time.monotonic() < began + 60.0:
            time.sleep(0.005)
        self.seconds.append(time.monotonic() - began)

    def end(self) -> None:
        """End the clients and both services, and look at what these have."""
        self.load.stop()
        self.in_step()
        until = time.monotonic() + 60.0
        while time.monotonic() < until and len({position(each) for each in (self.leader, self.standby)}) > 1:
            time.sleep(0.1)
        self.leader.stop()
        self.standby.stop()
        acknowledged = [*self.load.acknowledged, *self.once]
        orders = []
        for server in (self.leader, self.standby):
            entries = list(kept_entries(server.directory / "streams" / "power", 0, last(server)))
            orders.append([entry[4] for entry in entries])
            names = Counter(rows_of(entries))
            lost = [name for name in acknowledged if not names[name]]
            twice = [name for name, times in names.items() if times > 1]
            self.wrong += [f"{server.directory.name}: lost {lost[:5]}"] if lost else []
            self.wrong += [f"{server.directory.name}: twice {twice[:5]}"] if twice else []
        self.wrong += [] if orders[0] == orders[1] else ["the two logs differ"]
        self.wrong += self.load.wrong + self.differs()

    def differs(self) -> list[str]:
        """Return whether a stream that nobody killed predicts otherwise after the same entries."""
        found = []
        asked = [{"x": {"u": 0.1 * i, "v": -0.2 * i}} for i in range(5)]
        directory = self.leader.directory / "streams" / "power"
        entries = list(kept_entries(directory, 0, last(self.leader)))
        whole = directory.with_name("whole")
        for at in (directory, whole):
            stream = LiveStream(at, StreamConfig.from_document(STREAM))
            stream.start()
            stream.has_begun.wait()
            if at == whole:
                replay(stream, entries)
            rows = rows_with_inputs(stream.config, asked, with_target=False)
            found.append(np.asarray(stream.predict(rows, keep=False)[0].columns["mean"]))
            stream.stop()
        # The means reach from -0.4 to 1.2; one of zero has no digits of its own.
        most = float(np.abs(found[0] - found[1]).max())
        return [] if most < TOLERANCE else [f"predictions differ by {most:.2g} from an unbroken run"]


def stop(process: int, how: signal.Signals) -> None:
    """Stop or kill a process, and wait until none of its threads runs."""
    os.kill(process, how)
    while _runs(process):
        time.sleep(0.001)


def _runs(process: int) -> bool:
    try:
        stats = [each.read_text() for each in Path(f"/proc/{process}/task").glob("*/stat")]
    except OSError:
        return Path(f"/proc/{process}").exists()  # a thread has ended, or all of it has
    return any(stat.rpartition(")")[2].split()[0] not in "TZX" for stat in stats)


def replay(stream: LiveStream, entries: list[Any]) -> None:
    """Send the requests of a log to a stream, one after the other."""
    from streamgp.service.requests import restored

    for number, kind, at, body, _ in entries:
        request = restored(kind, number, at, unpack(body))
        if kind == "step" and request.rows is not None:
            stream.step(request.rows).result(60)
        elif kind == "predict" and request.rows is not None:
            future = stream.predict(request.rows)[1]
            assert future is not None
            future.result(60)
        elif kind == "learn":
            stream.learn(request.rows, request.labels).result(60)


def rows_of(entries: list[Any]) -> list[str]:
    """Return the ids of all rows that a log has."""
    found = []
    for _, _, _, body, _ in entries:
        found += unpack(body).get("rows", {"ids": []})["ids"]
    return found


def last(server: Server) -> int:
    """Return the last position of the stream of a service that has ended."""
    from streamgp.service.log_end import NAME, EndFile

    end = EndFile(server.directory / "streams" / "power" / "log" / NAME).end
    assert end is not None
    return end.position


def position(server: Server) -> int:
    """Return the position of the stream of a service."""
    return httpx.get(f"{server.url}/v1/streams/power", timeout=30.0).json()["position"]


def campaign(kills: int, minutes: float, seed: int = 0) -> dict[str, Any]:
    """Take leaders from their places until there were so many, or so many minutes have passed; what happened."""
    began, chance = time.monotonic(), random.Random(seed)
    seconds: list[float] = []
    failures: list[str] = []
    events, stubborn, rows = Counter[str](), Counter[str](), 0
    while len(seconds) < kills and time.monotonic() - began < 60.0 * minutes:
        with tempfile.TemporaryDirectory() as folder:
            pair, taken = Pair(Path(folder), int(time.monotonic() - began), chance), 0
            try:
                pair.begin()
                while taken < min(RUN, kills - len(seconds)) and time.monotonic() - began < 60.0 * minutes:
                    taken += pair.event()
                pair.end()
            except Exception as error:
                said = f"{pair.leader.said()[-400:]} | {pair.standby.said()[-400:]}"
                pair.wrong.append(f"{type(error).__name__}: {error}; {said}")
            finally:
                pair.load.stop(has_failed=True)
                for server in (pair.leader, pair.standby):
                    if server.is_alive():
                        server.kill()
        seconds += pair.seconds
        events += pair.events
        stubborn += pair.stubborn
        rows += len(pair.load.acknowledged) + len(pair.once)
        failures += pair.wrong
        print(f"{len(seconds)} of {kills}, {rows} rows, {pair.wrong}, {time.monotonic() - began:.0f} s", flush=True)
    late = [each for each in seconds if each > MOST_SECONDS]
    failures += [f"{len(late)} takeovers took more than {MOST_SECONDS:g} s: {late[:5]}"] if late else []
    return {
        "takeovers": len(seconds),
        "events": dict(events),
        "acknowledged_rows": rows,
        "takeover_seconds": {
            "median": round(median(seconds), 3),
            "largest": round(max(seconds), 3),
        },
        "stubborn_clients": dict(stubborn),
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "kills", 200, campaign)


if __name__ == "__main__":
    main()
