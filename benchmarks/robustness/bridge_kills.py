"""Rows over an MQTT broker, twice and out of order, while broker, bridge or service is killed: as over HTTP, once.

    python -m benchmarks.robustness.bridge_kills --kills 100 --out benchmarks/results/bridge_kills.json

Broker (mosquitto), bridge and service are real processes. Messages come in bursts: steps in order, or predictions
and then their labels in any order, some twice. During most bursts one of the three is killed with -9, or the broker
ended, and begun again. What a killed broker had is lost with it, so that the burst is sent again; a broker that ends,
and a killed bridge or service, must miss nothing by themselves. The same rows go to a second stream over HTTP, once
and in order: in the end both must know the same, and predictions that came must be those of HTTP (1e-9).
"""

import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.common import campaigns
from benchmarks.common.serving import Server
from streamgp.client import Client, Stream

# Debian's is not on the path of every user.
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
OPTIONS: dict[str, Any] = {"target": "y", "features": ["u", "v"], "model": "linear", "warmup": 40}
BURST = 20  # rows
TOLERANCE = 1e-9
PATIENCE = 60.0
EVENTS = ("bridge", "service", "broker", "broker ended")
"""What is killed during a burst."""


def until(is_so: Any, what: str) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"waited in vain: {what}")
        time.sleep(0.02)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Program:
    """A process that may be killed and begun again, and what it says."""

    def __init__(self, words: list[str], log: Path) -> None:
        self.words = words
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)

    def end(self, at_once: bool = True) -> None:
        """Kill it, or ask it to end."""
        if self.process is not None:
            (self.process.kill if at_once else self.process.terminate)()
            self.process.wait(PATIENCE)

    def said(self) -> str:
        """Return what it has said."""
        return self.log.read_text() if self.log.exists() else ""


class Listener:
    """Takes down what is predicted and what is refused."""

    def __init__(self, port: int) -> None:
        self.predictions: dict[str, list[dict[str, Any]]] = {}
        self.refused: list[str] = []
        self._client = paho.Client(CallbackAPIVersion.VERSION2, "listener", clean_session=False)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda client, *_: client.subscribe([("t/+/predictions", 1), ("t/+/refused", 1)])
        self._client.on_message = self._on_message
        self._client.connect_async("127.0.0.1", port)
        self._client.loop_start()

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        if message.topic.endswith("refused"):
            self.refused.append(message.payload.decode())
            return
        found = json.loads(message.payload)
        for row in found if isinstance(found, list) else [found]:
            self.predictions.setdefault(row["id"], []).append(row)

    def stop(self) -> None:
        """End."""
        self._client.disconnect()
        self._client.loop_stop()


class Work:
    """Broker, bridge and service over one directory, and what was sent."""

    def __init__(self, folder: Path, seed: int) -> None:
        assert MOSQUITTO is not None, "mosquitto is needed: apt-get install mosquitto"
        self.chance, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.port = free_port()
        settings = folder / "mosquitto.conf"
        settings.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            # Begun by root it would otherwise be a user who may not write there.
            f"persistence_location {folder}/\nuser root\nmax_queued_messages 0\n"
        )
        self.broker = Program([MOSQUITTO, "-c", str(settings)], folder / "broker.txt")
        self.service = Server(folder / "live", folder / "cache")
        words = ["bridge", f"mqtt://127.0.0.1:{self.port}/t", self.service.url]
        self.bridge = Program([sys.executable, "-m", "streamgp.app.cli", *words], folder / "bridge.txt")
        self.rows = self.sent = 0
        self.events = Counter[str]()
        self.answers: dict[str, dict[str, Any]] = {}

    def begin(self) -> None:
        """Start all."""
        self.broker.start()
        self.service.start()
        self.service.wait()
        self.client = Client(self.service.url, timeout=PATIENCE)
        self.over_broker, self.over_http = (self.client.create(name, **OPTIONS) for name in ("mqtt", "http"))
        self.listener = Listener(self.port)
        self.start_bridge()

    def start_bridge(self) -> None:
        """Start the bridge, and wait until it is connected."""
        before = self.connections()
        self.bridge.start()
        until(lambda: self.connections() > before, f"the bridge to connect: {self.bridge.said()[-500:]}")

    def connections(self) -> int:
        """Return how often a bridge has connected."""
        return self.bridge.said().count("connected to")

    def stop(self) -> None:
        """End all that was begun."""
        if hasattr(self, "listener"):
            self.listener.stop()
        self.bridge.end()
        self.broker.end()
        self.service.stop()

    def burst(self, event: str | None) -> None:
        """Send rows by messages, one of the programs being killed meanwhile, and by HTTP; wait until all are in."""
        rows = []
        for _ in range(BURST):
            u, v, noise = self.numbers.normal(size=3)
            x, y = {"u": float(u), "v": float(v)}, float(u - v + 0.1 * noise)
            rows.append({"id": f"r{self.rows}", "x": x, "y": y})
            self.rows += 1
        are_late = self.chance.random() < 0.5
        messages = self._late(rows) if are_late else [("step", row) for row in rows]
        sender = self._send(self._some_twice(messages))
        if event is not None:
            time.sleep(self.chance.uniform(0.0, 0.08))
            if event == "broker":
                sender.loop_stop()
            self.kill(event)
            self.events[event] += 1
        if event == "broker":
            sender = self._send(self._some_twice(messages))
        self._over_http(rows, are_late)
        names = [row["id"] for row in rows]
        until(lambda: all(name in self.listener.predictions for name in names), "predictions of all rows")
        until(lambda: self.learnt(self.over_broker) == self.rows, "all rows to be learnt")
        sender.disconnect()
        sender.loop_stop()

    def _late(self, rows: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
        labels = [("learn", {"id": row["id"], "y": row["y"]}) for row in rows]
        self.chance.shuffle(labels)
        return [("predict", {"id": row["id"], "x": row["x"]}) for row in rows] + labels

    def _some_twice(self, messages: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
        """Return messages with some a second time, later."""
        found = list(messages)
        for each in messages:
            if self.chance.random() < 0.3:
                found.insert(self.chance.randint(found.index(each) + 1, len(found)), each)
        return found

    def _send(self, messages: list[tuple[str, dict[str, Any]]]) -> Any:
        sender = paho.Client(CallbackAPIVersion.VERSION2)
        sender.reconnect_delay_set(1, 1)
        sender.connect("127.0.0.1", self.port)
        sender.loop_start()
        for route, row in messages:
            sender.publish(f"t/mqtt/{route}", json.dumps(row), 1)
        self.sent += len(messages)
        return sender

    def kill(self, event: str) -> None:
        """Kill one of the programs, and begin it again."""
        if event == "bridge":
            self.bridge.end()
            self.start_bridge()
        elif event == "service":
            self.service.kill()
            self.service.start()
            self.service.wait()
        else:
            before = self.connections()
            self.broker.end(at_once=event == "broker")
            time.sleep(0.2)
            self.broker.start()
            until(lambda: self.connections() > before, "the bridge to connect again")

    def _over_http(self, rows: list[dict[str, Any]], are_late: bool) -> None:
        ids, x, y = ([row[name] for row in rows] for name in ("id", "x", "y"))
        if are_late:
            answers = self.over_http.predict(x, id=ids)
            self.over_http.learn(ids, y)
        else:
            answers = self.over_http.step(x, y, id=ids)
        self.answers |= {each["id"]: each for each in answers}

    @staticmethod
    def learnt(stream: Stream) -> int:
        """Return how many rows a stream has learnt, if none waits."""
        status = stream.status()
        return status["learned"] if not status["pending"] else -1

    def compare(self) -> list[str]:
        """Return in what the two streams differ, and what was predicted of each row."""
        wrong = [f"refused: {each}" for each in self.listener.refused]
        ahead = [{"u": 0.3 * i, "v": 1.0 - i} for i in range(5)]
        pairs: dict[str, tuple[Any, Any]] = {
            "ahead": tuple([list(numbers(row)) for row in each.predict(ahead, keep=False)] for each in self.streams)
        }
        for name in ("rows", "scored_rows", "nmse", "pll", "coverage"):
            pairs[name] = tuple(numbers_of(each.scores()[name]) for each in self.streams)
        for name, answer in self.answers.items():
            for each in self.listener.predictions[name]:
                pairs[f"{name} {each}"] = (list(numbers(each)), list(numbers(answer)))
        for name, (found, expected) in pairs.items():
            if not np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE):
                wrong.append(f"{name}: {found} over the broker, {expected} over HTTP")
        return wrong

    @property
    def streams(self) -> tuple[Stream, Stream]:
        """Return both streams."""
        return self.over_broker, self.over_http


def numbers(row: dict[str, Any]) -> list[float]:
    """Return what is predicted of a row."""
    return [row["mean"], row["std"], *row["quantiles"].values()]


def numbers_of(score: Any) -> Any:
    """Return a score as numbers."""
    return [np.nan if value is None else value for value in score.values()] if isinstance(score, dict) else score


def campaign(kills: int, minutes: float, seed: int = 0) -> dict[str, Any]:
    """Send bursts until so many kills, or so many minutes; return what happened."""
    began, failures = time.monotonic(), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        work = Work(Path(folder), seed)
        try:
            work.begin()
            for _ in range(3):
                work.burst(None)
            while sum(work.events.values()) < kills and time.monotonic() - began < 60.0 * minutes:
                work.burst(EVENTS[sum(work.events.values()) % len(EVENTS)])
                print(dict(work.events), work.rows, f"{time.monotonic() - began:.0f} s", flush=True)
            failures += work.compare()
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}; {work.bridge.said()[-500:]}")
        finally:
            work.stop()
    every = [row for rows in work.listener.predictions.values() for row in rows]
    return {
        "kills": dict(work.events),
        "rows": work.rows,
        "messages": work.sent,
        "predictions": {
            "all": len(every),
            "again": sum("repeated" in row for row in every),
        },
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "kills", 100, campaign)


if __name__ == "__main__":
    main()
