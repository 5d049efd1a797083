"""Directories of the live service that are copied under load, and a disk that is full for a while."""

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np

from benchmarks.common.service_requests import differences, probe
from benchmarks.common.serving import Changes, Server
from streamgp.client import Client, ServiceError
from streamgp.service.backup_run import back_up_directory

NAME = "linear"
STREAM = {"name": NAME, "target": "y", "features": ["a", "b"], "model": "linear", "warmup": 30}
COPIED = {"streamgp.service.checkpointing:SECONDS": 1.0}
FULL_MB = 20


def rows(n: int) -> list[dict[str, Any]]:
    """Return rows with ids and targets."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)
    return [
        {"id": f"s{i}", "x": {"a": float(a), "b": float(b)}, "y": float(t)}
        for i, ((a, b), t) in enumerate(zip(X, y, strict=True))
    ]


def step(client: Client, some: list[dict[str, Any]]) -> dict[str, Any]:
    """Send rows to be predicted and learnt."""
    return client.request("POST", f"/v1/streams/{NAME}/step", {"rows": some})


def predicted(client: Client) -> list[dict[str, Any]]:
    """Return predictions of fixed rows."""
    return client.request("POST", f"/v1/streams/{NAME}/predict", probe(NAME))["rows"]


def started(directory: Path, cache: Path, changes: Changes | None = None) -> Server:
    """Return a service that is ready."""
    server = Server(directory, cache)
    server.start(changes)
    if not server.wait():
        raise AssertionError(f"it ended at once: {server.said()}")
    return server


def backup(directory: Path, cache: Path, pause: float, most: int = 20_000) -> dict[str, Any]:
    """Copy a directory with `streamgp backup` while rows come singly; the copy must hold what came first."""
    server = started(directory, cache, Changes(COPIED, renew_bytes=300_000))
    given, done, stop = rows(most), [0], threading.Event()
    copy = directory.with_name(directory.name + ", copy")
    failures: list[str] = []

    def load() -> None:
        with Client(server.url) as client:
            for i in range(40, most):
                if stop.is_set():
                    return
                step(client, given[i : i + 1])
                done[0] = i + 1

    with Client(server.url) as client:
        client.request("POST", "/v1/streams", STREAM)
        step(client, given[:40])
        done[0] = 40
    loading = threading.Thread(target=load, daemon=True)
    loading.start()
    time.sleep(2.0 + pause)
    before = done[0]
    back_up_directory(directory, copy)
    after = done[0] + 1
    time.sleep(0.2)
    stop.set()
    loading.join()
    server.stop()
    opened = started(copy, cache)
    with Client(opened.url) as client:
        status = client.request("GET", f"/v1/streams/{NAME}")
        held, found = status["learned"], predicted(client)
        more = step(client, given[held : held + 1])["learned"]
    opened.stop()
    if status["state"] != "ready" or not before <= held <= after:
        failures.append(f"the copy holds {held} rows ({status['state']}), expected {before} to {after}")
    if more != 1:
        failures.append("the copy does not learn the next row")
    anew = started(directory.with_name(directory.name + ", anew"), cache)
    with Client(anew.url) as client:
        client.request("POST", "/v1/streams", STREAM)
        step(client, given[:held])
        failures += differences(found, predicted(client), "predictions of the copy")
    anew.stop()
    return {"acknowledged_before": before, "acknowledged_after": after, "held": held, "failures": failures[:5]}


@contextmanager
def small_disk(path: Path, megabytes: int = FULL_MB) -> Iterator[bool]:
    """Mount a file system of a few megabytes in memory; yield whether that is allowed."""
    path.mkdir(parents=True)
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    is_there = shutil.which("mount") is not None and subprocess.run(["mount", *options], check=False).returncode == 0
    try:
        yield is_there
    finally:
        if is_there:
            subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> None:
    """Write until the disk takes no more."""
    with path.open("wb", buffering=0) as file:
        size = 1 << 16
        while size:
            try:
                file.write(b"x" * size)
            except OSError:
                size //= 2


def full_disk(directory: Path, cache: Path) -> dict[str, Any]:
    """Fill the disk of a service, and give it its space back, three times; the second time with a kill, too."""
    with small_disk(directory) as is_there:
        if not is_there:
            return {"left_out": "a file system in memory could not be mounted"}
        work = _Filled(directory, cache)
        try:
            for turn in range(3):
                work.turn(turn)
            work.compare()
        except (AssertionError, ServiceError, httpx.HTTPError) as error:
            work.failures.append(f"{type(error).__name__}: {error}")
        finally:
            work.server.stop()
        return {
            "turns": 3,
            "refused": work.refused,
            "acknowledged": work.done,
            "predicted_while_full": work.predicted,
            "failures": work.failures[:5],
        }


class _Filled:
    """A service whose disk is full now and then."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.disk, self.cache = directory, cache
        quick = {"streamgp.service.checkpointing:SECONDS": 0.2}
        self.changes = Changes(quick, renew_bytes=300_000)
        self.server = started(directory / "live", cache, self.changes)
        self.given, self.done, self.predicted = rows(10_000), 0, 0
        self.refused: dict[str, int] = {}
        self.failures: list[str] = []
        with Client(self.server.url) as client:
            client.request("POST", "/v1/streams", STREAM)
            self.step(client, 40)

    def step(self, client: Client, n: int) -> None:
        step(client, self.given[self.done : self.done + n])
        self.done += n

    def turn(self, turn: int) -> None:
        """Fill the disk, learn and predict, give it space, and learn what was refused."""
        filler = self.disk / "filler"
        with Client(self.server.url) as client:
            for _ in range(50):
                self.step(client, 1)
            fill(filler)
            refusals = 0
            for _ in range(200):
                try:
                    self.step(client, 1)
                except ServiceError as error:
                    self.refused[str(error.status)] = self.refused.get(str(error.status), 0) + 1
                    if error.status != 507:
                        self.failures.append(f"full: {error.status}: {error}")
                    refusals += 1
                fill(filler.with_name(f"filler {refusals}"))
                if refusals == 20:
                    break
            if not refusals:
                self.failures.append("nothing was refused while the disk was full")
            answer = client.request("POST", f"/v1/streams/{NAME}/predict", {"rows": [{"x": {"a": 1.0, "b": 0.0}}]})
            self.predicted += 1
            if answer.get("kept") is not False:
                self.failures.append(f"a prediction on a full disk says {answer}")
            time.sleep(0.5)
        if turn == 1:
            self.server.kill()
        for each in self.disk.glob("filler*"):
            each.unlink()
        if turn == 1:
            self.server = started(self.disk / "live", self.cache, self.changes)
        with Client(self.server.url) as client:
            for _ in range(50):
                self.step(client, 1)

    def compare(self) -> None:
        """Hold the end against a service that was given all rows at once."""
        with Client(self.server.url) as client:
            learned, found = client.request("GET", f"/v1/streams/{NAME}")["learned"], predicted(client)
        if learned != self.done:
            self.failures.append(f"{self.done} rows were acknowledged, and {learned} are known")
        anew = started(self.disk.with_name("emptied"), self.cache)
        with Client(anew.url) as client:
            client.request("POST", "/v1/streams", STREAM)
            step(client, self.given[: self.done])
            self.failures += differences(found, predicted(client), "predictions after a full disk")
        anew.stop()
