"""A service that is run for years: ended under load, on a disk that turns read-only, with a clock that goes back.

    python -m benchmarks.robustness.service_operation --times 20 --out benchmarks/results/service_operation.json

Real processes. Ended by SIGTERM under load, so many times: every row that was answered is there, and what was not
answered is learnt once when it is sent again. A hundred readers of events who read nothing: steps take no longer.
Files that take nothing for a while: nothing is acknowledged, and all goes on afterwards; on a read-only directory it
does not begin. A clock that is an hour back after a restart: nothing is lost, and the stream goes back to a position.
A second service on the directory: refused.
"""

import os
import random
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np

from benchmarks.common import campaigns
from benchmarks.common.serving import Changes, Server
from benchmarks.robustness.service_disks import small_disk
from streamgp.client import Client, NoAnswer, ServiceError, Stream

OPTIONS: dict[str, Any] = {"target": "y", "features": ["a"], "model": "linear", "warmup": 30}
CLIENTS = 4
READERS = 100
HOUR = 3_600.0
TOLERANCE = 1e-9
ENDED_WITHIN = 30.0  # seconds


def row(i: int) -> dict[str, Any]:
    """Return a row by its number."""
    a = float(np.sin(1.7 * i))
    return {"id": f"r{i}", "x": {"a": a}, "y": 2.0 * a + 0.1 * float(np.cos(11.0 * i))}


def hour_ago() -> float:
    """Return the time on a clock that is an hour slow."""
    return time.time() - HOUR


def step(stream: Stream, i: int) -> dict[str, Any]:
    """Send a row; return what was predicted."""
    each = row(i)
    return stream.step(each["x"], each["y"], id=each["id"])


def ahead(stream: Stream) -> list[float]:
    """Return what is predicted of some rows, which do not count."""
    found = stream.predict([{"a": a} for a in (-1.0, 0.0, 0.5)], keep=False)
    return [value for each in found for value in (each["mean"], each["std"])]


class Clients:
    """Threads that send rows, each one after the other, until the service answers no more."""

    def __init__(self, url: str, first: int) -> None:
        self.next = first
        self.sent: list[int] = []
        self.answered: list[int] = []
        self.odd: list[str] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send, args=(url,)) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _send(self, url: str) -> None:
        with Client(url) as client:
            stream = client.stream("s")
            while True:
                with self._lock:
                    i, self.next = self.next, self.next + 1
                    self.sent.append(i)
                try:
                    step(stream, i)
                except NoAnswer:
                    return
                except ServiceError as error:
                    if error.status != 503:
                        self.odd.append(f"{error.status}: {error}")
                    return
                self.answered.append(i)

    def join(self) -> None:
        """Wait for their end."""
        for thread in self._threads:
            thread.join()


def ended_under_load(server: Server, times: int, chance: random.Random) -> dict[str, Any]:
    """End a service by SIGTERM while clients send; begin it again, and look for each row that was answered."""
    failures: list[str] = []
    server.start()
    server.wait()
    with Client(server.url) as client:
        client.create("s", **OPTIONS)
    first, unanswered, seconds = 0, 0, []
    for _ in range(times):
        clients = Clients(server.url, first)
        time.sleep(chance.uniform(0.2, 0.6))
        began = time.monotonic()
        os.kill(server.process.pid, signal.SIGTERM)
        server.process.join(ENDED_WITHIN)
        seconds.append(time.monotonic() - began)
        if server.process.exitcode != 0:
            failures.append(
                f"it ended with {server.process.exitcode} after {seconds[-1]:.1f} s: {server.said()[-300:]}"
            )
            server.kill()
        clients.join()
        failures += clients.odd
        server.start()
        server.wait()
        with Client(server.url) as client:
            stream = client.stream("s")
            for i in clients.answered:
                if "repeated" not in step(stream, i):
                    failures.append(f"row {i} was answered, and is lost")
            for i in set(clients.sent) - set(clients.answered):
                step(stream, i)
                unanswered += 1
            learned = stream.status()["learned"]
            if learned != clients.next:
                failures.append(f"expected {clients.next} rows, got {learned}")
        first = clients.next
    server.stop()
    largest = round(max(seconds), 2)
    return {"ends": times, "rows": first, "unanswered": unanswered, "largest_seconds": largest, "failures": failures}


def slow_readers(server: Server) -> dict[str, Any]:
    """Open streams of events that nobody reads, and compare how long steps take with and without them."""
    failures: list[str] = []
    server.start()
    server.wait()
    with Client(server.url) as client:
        stream = client.create("s", **OPTIONS)
        _timed(stream, 0)
        alone = _timed(stream, 200)
        readers = []
        for _ in range(READERS):
            reader = socket.create_connection(("127.0.0.1", server.port))
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            reader.sendall(b"GET /v1/streams/s/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            readers.append(reader)
        memory = server.memory_mb()
        beside = _timed(stream, 400)
        more = server.memory_mb() - memory
        if httpx.get(f"{server.url}/livez", timeout=5.0).status_code != 200:
            failures.append("/livez gives no answer")
        for reader in readers:
            reader.close()
    if beside > 2.0 * alone + 0.05:
        failures.append(f"a step takes {beside:.4f} s beside {READERS} readers, {alone:.4f} s alone")
    server.stop()
    medians = {"alone": round(1_000 * alone, 2), "beside_readers": round(1_000 * beside, 2)}
    return {"readers": READERS, "step_milliseconds": medians, "more_megabytes": round(more, 1), "failures": failures}


def _timed(stream: Stream, first: int) -> float:
    """Return the median of the seconds that a step takes, while its target jumps again and again."""
    found = []
    for i in range(first, first + 200):
        began = time.monotonic()
        stream.step(row(i)["x"], row(i)["y"] + 30.0 * (i // 50 % 2))
        found.append(time.monotonic() - began)
    return float(np.median(found))


def unwritable(disk: Path, cache: Path) -> dict[str, Any]:
    """Let a service write nothing for a while (`RLIMIT_FSIZE`), and begin it on a directory that is read-only."""
    failures: list[str] = []
    statuses: list[int] = []
    with small_disk(disk) as is_there:
        if not is_there:
            return {"left_out": "a file system in memory could not be mounted"}
        server = Server(disk / "live", cache)
        server.log = disk.with_name("read-only.txt")
        server.start()
        server.wait()
        with Client(server.url) as client:
            stream = client.create("s", **OPTIONS)
            for i in range(60):
                step(stream, i)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            for i in range(60, 65):
                try:
                    step(stream, i)
                    failures.append(f"row {i} was acknowledged, and could not be written")
                except ServiceError as error:
                    statuses.append(error.status)
            ahead(stream)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            for i in range(60, 90):
                step(stream, i)
            before = ahead(stream)
        server.stop()
        _turn(disk, "ro")
        server.start()
        server.process.join(60.0)
        said = server.said()
        if server.is_alive() or "nothing can be written to" not in said:
            failures.append(f"on a read-only directory it says: {said[-300:]}")
        _turn(disk, "rw")
        server.start()
        server.wait()
        with Client(server.url) as client:
            stream = client.stream("s")
            learned = stream.status()["learned"]
            if learned != 90 or not np.allclose(ahead(stream), before, rtol=TOLERANCE):
                failures.append(f"after a restart {learned} rows of 90, or other predictions")
        server.stop()
    return {"refused_with": sorted(set(statuses)), "refused": len(statuses), "failures": failures}


def _turn(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


def clock_back(server: Server) -> dict[str, Any]:
    """Begin a service again with a clock that is an hour back."""
    failures: list[str] = []
    server.start()
    server.wait()
    with Client(server.url) as client:
        stream = client.create("s", **OPTIONS)
        for i in range(60):
            step(stream, i)
        position, before = stream.checkpoint()["position"], ahead(stream)
    server.stop()
    modules = ("sequencer", "archive", "checkpointing", "live_stream")
    found = {f"streamgp.service.{name}:time": hour_ago for name in modules}
    clocks = {name: clock for name, clock in found.items() if _has(name)}
    server.start(Changes(clocks))
    server.wait()
    with Client(server.url) as client:
        stream = client.stream("s")
        for i in range(60, 120):
            step(stream, i)
        if "repeated" not in step(stream, 30):
            failures.append("a row from before is not known")
        after = ahead(stream)
        stream.checkpoint()
    server.kill()
    server.start(Changes(clocks))
    server.wait()
    with Client(server.url) as client:
        stream = client.stream("s")
        if stream.status()["learned"] != 120 or not np.allclose(ahead(stream), after, rtol=TOLERANCE):
            failures.append("after a kill it is not what it was")
        stream.restore(position)
        if stream.status()["learned"] != 60 or not np.allclose(ahead(stream), before, rtol=TOLERANCE):
            failures.append("at the position before the clock went back it is not what it was")
    server.stop()
    return {"clocks": len(clocks), "rows": 120, "failures": failures}


def _has(name: str) -> bool:
    from importlib import import_module

    module, _, constant = name.partition(":")
    return hasattr(import_module(module), constant)


def two_services(server: Server) -> dict[str, Any]:
    """Begin a second service on the directory of one that runs, and another one once that is killed."""
    failures: list[str] = []
    server.start()
    server.wait()
    second = Server(server.directory, server.cache)
    second.log = server.directory.with_name("second.txt")
    second.start()
    second.process.join(60.0)
    if (
        second.is_alive()
        or f"is being written by another process (process {server.process.pid})" not in second.said()
    ):
        failures.append(f"the second one says: {second.said()[-300:]}")
    with Client(server.url) as client:
        step(client.create("s", **OPTIONS), 0)
    server.kill()
    second.start()
    second.wait()
    with Client(second.url) as client:
        if client.stream("s").status()["learned"] != 1:
            failures.append("the row of the first one is lost")
    second.stop()
    return {"failures": failures}


def campaign(times: int, minutes: float, seed: int = 0) -> dict[str, Any]:
    """Try all; return what happened."""
    began = time.monotonic()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name), Path(name) / "cache"
        server = Server(folder / "ended", cache)
        found["ended_under_load"] = ended_under_load(server, times, random.Random(seed))
        found["slow_readers"] = slow_readers(Server(folder / "readers", cache))
        found["unwritable"] = unwritable(folder / "disk", cache)
        found["clock_back"] = clock_back(Server(folder / "clock", cache))
        found["two_services"] = two_services(Server(folder / "two", cache))
    failures = [f"{what}: {each}" for what, part in found.items() for each in part.pop("failures", ())]
    return found | {"failures": failures, "seconds": round(time.monotonic() - began, 1), "seed": seed}


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "times", 20, campaign)


if __name__ == "__main__":
    main()
