"""A fixed sequence of requests to a stream of the live service, and what must be known at its end."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import sleep
from typing import Any

from streamgp.client import Client

KINDS: dict[str, dict[str, Any]] = {
    "linear": {"model": "linear", "warmup": 30},
    "lags": {"model": "linear", "warmup": 30, "lags": [1, 2]},
    "e-doebe": {"model": "e-doebe", "warmup": 40},
    "fast": {"model": "fast", "warmup": 40},
    "labels": {"model": "linear", "warmup": 30, "task": "classification", "classes": ["low", "mid", "high"]},
    "keys": {"key": "machine", "warmup": 30},
}
LAST = {"name": "last", "model": "fast"}
KEYS = tuple(f"m{i}" for i in range(5))
# The end of the path, and the body: of a restore which request it goes back to, None of what is to be deleted.
Request = tuple[str, dict[str, Any] | None]


@dataclass
class Sequence:
    """Requests in their order, and the counts that they lead to.

    Attributes
    ----------
    stream
        What is created.
    requests
        The path's end and the body of each.
    rows, labels
        How many rows come, and how many of them get a label that is a number or a name.
    pending
        Ids that wait at the end.
    learnt
        Labels acknowledged after each request.
    """

    stream: dict[str, Any]
    requests: list[Request] = field(default_factory=list)
    rows: int = 0
    labels: int = 0
    pending: list[str] = field(default_factory=list)
    learnt: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.requests)


class _Maker:
    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.random = random.Random(seed)
        stream = {"name": kind, "target": "y", "features": ["a", "b"]} | KINDS[kind]
        self.made = Sequence(stream)
        self.next = 0
        self.waiting: dict[str, dict[str, Any]] = {}
        self.counting: list[tuple[str, list[dict[str, Any]]]] = []  # rows that no restore has undone
        self.kept: tuple[int, dict[str, Any]] | None = None  # the last checkpoint's request, and what was then

    def row(self, named: bool = True) -> dict[str, Any]:
        """Return the next row, without its target."""
        a, b = self.random.gauss(0.0, 1.0), self.random.gauss(0.0, 1.0)
        row: dict[str, Any] = {"x": {"a": a, "b": b if self.random.random() > 0.05 else None}}
        if named:
            row["id"] = f"r{self.next}"
        if self.kind == "keys":
            row["key"] = self.random.choice(KEYS)
        self.next += 1
        self.made.rows += 1
        return row

    def label(self, row: dict[str, Any], never: float = 0.05) -> Any:
        """Return the target of a row; None now and then."""
        if self.random.random() < never:
            return None
        self.made.labels += 1
        a, b = row["x"]["a"], row["x"]["b"] or 0.0
        y = a + 0.5 * b * abs(b) + self.random.gauss(0.0, 0.1)
        return y if self.kind != "labels" else "low" if y < -0.5 else "mid" if y < 0.5 else "high"

    def add(self, what: str, rows: list[dict[str, Any]]) -> None:
        self.send(what, {"rows": rows})
        self.counting.append((what, rows))

    def send(self, what: str, body: dict[str, Any] | None) -> None:
        self.made.requests.append((what, body))
        self.made.learnt.append(self.made.labels)

    def checkpoint(self) -> None:
        """Ask for a checkpoint."""
        then = {"next": self.next, "waiting": dict(self.waiting), "counting": list(self.counting)}
        self.kept = len(self.made), then | {"made": (self.made.rows, self.made.labels)}
        self.send("checkpoint", {})

    def restore(self) -> None:
        """Set the stream back to the last checkpoint; the ids since come again, with other rows."""
        if self.kept is None:
            return
        of, then = self.kept
        self.next, self.waiting, self.counting = then["next"], dict(then["waiting"]), list(then["counting"])
        self.made.rows, self.made.labels = then["made"]
        self.send("restore", {"of": of})

    def step(self, n: int, named: bool = True) -> None:
        rows = [self.row(named) for _ in range(n)]
        self.add("step", [row | {"y": self.label(row)} for row in rows])

    def predict(self, n: int) -> None:
        rows = [self.row() for _ in range(n)]
        self.waiting |= {row["id"]: row for row in rows}
        self.add("predict", rows)

    def learn(self, with_inputs: bool) -> None:
        """Learn labels of some rows that wait, in any order, the inputs of some among them; and of new ones."""
        names = self.random.sample(list(self.waiting), min(len(self.waiting), self.random.randint(1, 4)))
        rows = []
        for name in names:
            row = self.waiting.pop(name)
            rows.append((row if with_inputs else {"id": name}) | {"y": self.label(row)})
        if with_inputs or not rows:
            new = self.row()
            rows.append(new | {"y": self.label(new)})
        self.add("learn", rows)

    def again(self) -> None:
        """Send a request once more, as one does whose answer was lost."""
        what, rows = self.random.choice(self.counting)
        if what == "predict" and any(row["id"] not in self.waiting for row in rows):
            return
        if all("id" in row for row in rows):
            self.add(what, rows)


def sequence(kind: str, requests: int, seed: int = 0) -> Sequence:
    """Return so many requests to a stream of a kind: predictions, labels, steps, retries, restores, challengers."""
    maker = _Maker(kind, seed)
    maker.step(25)
    challenges = dict(_challenges(kind, requests))
    while len(maker.made) < requests:
        if len(maker.made) in challenges:
            maker.send(*challenges[len(maker.made)])
            continue
        chance = maker.random.random()
        if chance < 0.25:
            maker.step(1)
        elif chance < 0.35:
            maker.step(maker.random.randint(2, 12))
        elif chance < 0.6:
            maker.predict(maker.random.choice((1, 1, 2, 5)))
        elif chance < 0.76:
            maker.learn(with_inputs=False)
        elif chance < 0.84:
            maker.learn(with_inputs=True)
        elif chance < 0.87:
            maker.checkpoint()
        elif chance < 0.9:
            maker.restore()
        else:
            maker.again()
    maker.made.pending = list(maker.waiting)
    return maker.made


def _challenges(kind: str, requests: int) -> Iterator[tuple[int, Request]]:
    """Yield after how many requests challengers are begun, one is promoted, and one ended."""
    yield 1, ("challengers", {"name": "other", "warmup": 35, "seed": 1})
    yield 2, ("challengers", {"name": "twin", "warmup": 35})
    yield requests * 3 // 5, ("challengers/other/promote", {"force": True})
    yield requests * 7 // 10, ("challengers/twin", None)
    yield requests * 4 // 5, ("challengers", {"name": "last", "seed": 2} if kind == "keys" else LAST)


def probe(kind: str) -> dict[str, Any]:
    """Return a prediction of fixed rows that leaves nothing behind."""
    rows = [{"x": {"a": i / 4 - 1.0, "b": 1.0 - i / 3}} for i in range(8)]
    keyed = [row | {"key": KEYS[i % len(KEYS)]} for i, row in enumerate(rows)]
    return {"rows": keyed if kind == "keys" else rows, "keep": False}


def end_of(client: Client, kind: str) -> dict[str, Any]:
    """Return what a stream knows: counts, scores, predictions of fixed rows, what waits, and the latest rows."""
    path = f"/v1/streams/{kind}"
    status = client.request("GET", path)
    scores = client.request("GET", f"{path}/scores")
    recent = client.request("GET", f"{path}/recent?rows=2000")
    names = ("rows", "learned", "scored_rows", "position", "pending", "state", "warmed_up")
    return {
        "status": {name: status[name] for name in names},
        "scores": {name: value for name, value in scores.items() if name != "position"},
        "pending": [row["id"] for row in client.request("GET", f"{path}/pending?limit=10000")["pending"]],
        "recent": [{k: v for k, v in row.items() if k != "at"} for row in recent["rows"]],
        "probe": client.request("POST", f"{path}/predict", probe(kind))["rows"],
        "challengers": _standing(client, path),
    }


def _standing(client: Client, path: str) -> dict[str, Any]:
    """Return how the challengers stand, once they have learnt all that came."""
    while any(each["behind"] for each in client.request("GET", f"{path}/challengers")["challengers"]):
        sleep(0.05)
    found = client.request("GET", f"{path}/challengers")
    names = ("name", "options", "since", "state", "failure", "scored_rows", "difference", "low", "high", "verdict")
    standing = [{name: each[name] for name in names} for each in found["challengers"]]
    return {"standing": standing, "promotion": found["promotion"]}


def differences(found: Any, expected: Any, where: str = "", relative: float = 1e-9) -> list[str]:
    """Return where two documents differ: numbers by more than a share of their size."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if found.keys() != expected.keys():
            return [f"{where}: expected {', '.join(expected)}, got {', '.join(found)}"]
        return [each for name in expected for each in differences(found[name], expected[name], f"{where}.{name}")]
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return [f"{where}: expected {len(expected)} of them, got {len(found)}"]
        pairs = enumerate(zip(found, expected, strict=True))
        return [each for i, (a, b) in pairs for each in differences(a, b, f"{where}[{i}]")]
    if isinstance(expected, float) and isinstance(found, float):
        near = abs(found - expected) <= relative * max(abs(found), abs(expected), 1e-3)
        return [] if near else [f"{where}: expected {expected!r}, got {found!r}"]
    return [] if found == expected else [f"{where}: expected {expected!r}, got {found!r}"]
