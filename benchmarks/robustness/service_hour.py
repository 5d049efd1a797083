"""An hour of single rows at a fixed rate: how long each step takes, memory, disk, errors.

    python -m benchmarks.robustness.service_hour --minutes 60 --rate 500 --out benchmarks/results/NAME.json

The service is a process, the client is this one; both are on the same machine, over loopback. Steps of one row with 8
inputs and an id of its own are sent at their due times, whether those before were answered or not, and their time
counts from then: a stall of the service, or of the client, is in the times of all the steps that fell into it. What
the stream keeps is bounded: so many scored rows, so many megabytes of past entries. Then the service is ended and
begun again, and must know every row.

Beside the times stand the load of the machine in each minute, and for how long the threads of the service waited for
a processor that others had: where the machine is shared, the times are made of that.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.machine import machine
from benchmarks.common.serving import Changes, Server
from streamgp.client import Client

INPUTS = 8
STREAM: dict[str, Any] = {
    "name": "hour",
    "target": "y",
    "features": [f"x{j}" for j in range(INPUTS)],
    "model": "fast",
    "warmup": 1_000,
    "history_rows": 200_000,
    "archive_megabytes": 200,
}
BEFORE = 2_000  # rows that end the warm-up before the clock begins
CONNECTIONS = 64
PATIENCE = 60.0  # seconds for the last answers
MOST_MS = 50.0  # of the 99% quantile
MOST_GROWTH = 0.05  # of the memory from its first third to its last


def rows(numbers: range) -> list[dict[str, Any]]:
    """Return rows by their numbers."""
    rng = np.random.default_rng(numbers.start)
    X = rng.normal(size=(len(numbers), INPUTS))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=len(numbers))
    names = STREAM["features"]
    return [
        {"id": f"r{number}", "x": dict(zip(names, x, strict=True)), "y": target}
        for number, x, target in zip(numbers, X.tolist(), y.tolist(), strict=True)
    ]


class Steps:
    """Steps that are sent at their due times over a number of connections.

    Attributes
    ----------
    late
        Seconds after its due time at which each step was sent.
    took
        Seconds from its due time to its answer; NaN where there was none.
    errors
        What came in place of answers, with how often.
    """

    def __init__(self, port: int, rate: float, number: int) -> None:
        self.port, self.rate = port, rate
        self.late, self.took = np.full(number, np.nan), np.full(number, np.nan)
        self.errors = Counter[str]()
        self._idle = deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
        self._waiting = deque[int]()
        self._open: set[asyncio.Task[None]] = set()
        self._bodies: dict[int, bytes] = {}
        self.began = 0.0

    async def send_all(self) -> None:
        """Send each step when it is due; return after the last answer."""
        for _ in range(CONNECTIONS):
            self._idle.append(await asyncio.open_connection("127.0.0.1", self.port))
        self.began = time.perf_counter()
        for i in range(len(self.took)):
            if i % 500 == 0:
                self._bodies |= {row["number"]: row["body"] for row in self._made(range(i, i + 500))}
            rest = self.began + i / self.rate - time.perf_counter()
            if rest > 0.0:
                await asyncio.sleep(rest)
            self._waiting.append(i)
            self._send_waiting()
        until = time.perf_counter() + PATIENCE
        while self._open and time.perf_counter() < until:
            await asyncio.wait(self._open, timeout=1.0)
        unsent = int(np.isnan(self.late).sum())
        unanswered = int(np.isnan(self.took).sum()) - unsent - sum(self.errors.values())
        self.errors |= Counter({"not sent, as every connection waited": unsent, "no answer": unanswered})

    def _made(self, numbers: range) -> list[dict[str, Any]]:
        made = rows(range(BEFORE + numbers.start, BEFORE + numbers.stop))
        bodies = [json.dumps({"rows": [row]}).encode() for row in made]
        return [{"number": i, "body": body} for i, body in zip(numbers, bodies, strict=True)]

    def _send_waiting(self) -> None:
        while self._waiting and self._idle:
            task = asyncio.ensure_future(self._send(self._waiting.popleft(), *self._idle.popleft()))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _send(self, i: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body, due = self._bodies.pop(i), self.began + i / self.rate
        head = f"POST /v1/streams/hour/step HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.late[i] = time.perf_counter() - due
        try:
            writer.write(head.encode() + body)
            answered = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            length = next(line for line in answered if line.startswith("content-length:"))
            await reader.readexactly(int(length.partition(":")[2]))
            status = answered[0].split()[1]
            if status == "200":
                self.took[i] = time.perf_counter() - due
            else:
                self.errors[status] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            self.errors[type(error).__name__] += 1
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._idle.append((reader, writer))
        self._send_waiting()


def quantiles(seconds: np.ndarray) -> dict[str, float]:
    """Return times in milliseconds."""
    found = 1e3 * seconds[~np.isnan(seconds)]
    shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return {name: round(float(np.quantile(found, share)), 2) for name, share in shares.items()}


def size_mb(folder: Path, pattern: str = "*") -> float:
    """Return the size of files below a folder, of which some may be deleted meanwhile."""
    sizes = 0
    for path in folder.rglob(pattern):
        try:
            sizes += path.stat().st_size
        except FileNotFoundError:
            continue
    return round(sizes / 2**20, 1)


def seen(server: Server, stream: Path) -> dict[str, float]:
    """Return what the service takes of the machine."""
    return {
        "memory_mb": round(server.memory_mb(), 1),
        "directory_mb": size_mb(stream),
        "log_mb": size_mb(stream / "log"),
        "archive_mb": size_mb(stream, "archive.sqlite*"),
        "history_mb": size_mb(stream / "history"),
        "processor_seconds": round(server.cpu_seconds(), 1),
        "waited_for_a_processor_seconds": round(server.waited_seconds(), 1),
        "load": round(os.getloadavg()[0], 2),
    }


async def watched(server: Server, steps: Steps, stream: Path) -> list[dict[str, float]]:
    """Send all steps; return what was seen each minute."""
    sending = asyncio.ensure_future(steps.send_all())
    found = []
    while not sending.done():
        found.append(await asyncio.to_thread(seen, server, stream))
        print(json.dumps(found[-1]), flush=True)
        await asyncio.wait([sending], timeout=60.0)
    await sending
    return found


def campaign(minutes: float, rate: float, folder: Path) -> dict[str, Any]:
    """Send steps for so many minutes; what happened."""
    server = Server(folder / "live", folder / "cache")
    server.start(Changes(quick=False))
    server.wait()
    number = int(60.0 * minutes * rate)
    with Client(server.url, timeout=300.0) as client:
        client.request("POST", "/v1/streams", STREAM)
        client.request("POST", "/v1/streams/hour/step", {"rows": rows(range(BEFORE))})
    steps = Steps(server.port, rate, number)
    by_minute = asyncio.run(watched(server, steps, server.directory / "streams" / "hour"))
    with Client(server.url, timeout=300.0) as client:
        learned = client.stream("hour").status()["learned"]
    server.stop()
    began = time.monotonic()
    server.start(Changes(quick=False))
    server.wait()
    restart = time.monotonic() - began
    with Client(server.url, timeout=300.0) as client:
        known = client.stream("hour").status()["learned"]
    server.stop()
    minute, ten = int(60 * rate), int(600 * rate)
    found: dict[str, Any] = {
        "minutes": minutes,
        "rate": rate,
        "stream": {name: value for name, value in STREAM.items() if name not in ("features", "target", "name")},
        "steps": number,
        "errors": {name: times for name, times in steps.errors.items() if times},
        "milliseconds": quantiles(steps.took),
        "sent_late_milliseconds": quantiles(steps.late),
        "by_ten_minutes": [quantiles(steps.took[i : i + ten]) for i in range(0, number, ten)],
        "p99_by_minute": [quantiles(steps.took[i : i + minute])["p99"] for i in range(0, number, minute)],
        "by_minute": {name: [each[name] for each in by_minute] for name in by_minute[0]},
        "learned": learned,
        "learned_after_restart": known,
        "restart_seconds": round(restart, 1),
    }
    return found | {"failures": failures(found)}


def failures(found: dict[str, Any]) -> list[str]:
    """Return what is not as it should be."""
    wrong = [f"{times} times {name}" for name, times in found["errors"].items()]
    expected = BEFORE + found["steps"]
    for name in ("learned", "learned_after_restart"):
        wrong += [] if found[name] == expected else [f"{name}: expected {expected}, got {found[name]}"]
    p99 = found["milliseconds"]["p99"]
    wrong += [] if p99 < MOST_MS else [f"p99 is {p99:.0f} ms, more than {MOST_MS:g}"]
    memory = found["by_minute"]["memory_mb"]
    if len(memory) >= 9:
        third = len(memory) // 3
        growth = float(np.median(memory[-third:]) / np.median(memory[:third])) - 1.0
        wrong += [] if growth < MOST_GROWTH else [f"the memory grew by {growth:.0%}"]
    return wrong


def main() -> None:
    """Send, print and write what happened; fail if it is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=500.0, help="steps a second")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = campaign(args.minutes, args.rate, Path(folder))
    if args.out is not None:
        args.out.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
    print(json.dumps({name: each for name, each in found.items() if name != "by_minute"}, indent=1))
    if found["failures"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
