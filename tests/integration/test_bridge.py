"""From messages to the service and back, with a broker that is none: what is acknowledged, when, and what is said."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("paho.mqtt")

from typer.testing import CliRunner

from paired_services import Service, services
from streamgp.app.cli import app
from streamgp.bridge import relay
from streamgp.bridge.mqtt import Address, Received
from streamgp.bridge.relay import Relay

pytestmark = pytest.mark.slow


class Broker:
    """Has messages taken one list after the other, notes what happens, and ends the work with the last of them."""

    def __init__(self) -> None:
        self.to_come: list[list[Received]] = []
        self.done: list[Any] = []
        self.stopping = Event()
        self.connection = 0
        self.is_settled = True

    def bring(self, topic: str, document: Any) -> None:
        payload = document if isinstance(document, bytes) else json.dumps(document).encode()
        number = 1 + sum(map(len, self.to_come))
        self.to_come.append([Received(topic, payload, number, 1, self.connection)])

    def take(self, _: float) -> list[Received]:
        if not self.to_come:
            self.stopping.set()
            return []
        return self.to_come.pop(0)

    def together(self) -> None:
        self.to_come = [[each for group in self.to_come for each in group]]

    def holds(self, received: Received) -> bool:
        return received.connection == self.connection

    def acknowledge(self, received: Received) -> None:
        self.done.append(received.number)

    def publish(self, topic: str, document: Any) -> None:
        self.done.append((topic, document))

    def settle(self) -> bool:
        return self.is_settled

    def published(self, topic: str) -> list[Any]:
        return [each[1] for each in self.done if isinstance(each, tuple) and each[0] == topic]

    def acknowledged(self) -> list[int]:
        return [each for each in self.done if isinstance(each, int)]


class Bridge:
    """A service with a stream, and a relay to it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.stream = service.client.create("power", "y", ["a"], model="linear", warmup=20)
        self.said: list[str] = []

    def run(self, broker: Broker) -> Broker:
        Relay(self.service.client, broker, self.said.append).run(broker.stopping)  # pyright: ignore
        return broker


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    with services() as begin:
        yield Bridge(begin(tmp_path))


def row(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "x": {"a": float(ord(name[0]) % 7)}} | more


def test_a_message_is_acknowledged_after_its_predictions(bridge: Bridge):
    broker = Broker()
    broker.bring("power/step", row("a", y=1.0))
    broker.bring("power/predict", [row("b"), row("c")])
    broker.bring("power/learn", [{"id": "c", "y": 2.0}, {"id": "b", "y": 3.0}])
    bridge.run(broker)
    first, ack, second, *rest = broker.done
    assert (first[0], first[1]["id"], ack) == ("power/predictions", "a", 1) and "mean" in first[1]
    assert [each["id"] for each in second[1]] == ["b", "c"] and rest == [2, 3]
    assert bridge.stream.status()["learned"] == 3 and not bridge.said


def test_what_comes_again_is_answered_as_it_was(bridge: Bridge):
    broker = Broker()
    for _ in range(2):
        broker.bring("power/step", row("a", y=1.0))
        broker.bring("power/predict", row("b"))
        broker.bring("power/learn", {"id": "b", "y": 2.0})
    bridge.run(broker)
    a, b, a_again, b_again = broker.published("power/predictions")
    assert a_again == a | {"repeated": True} and b_again == b | {"repeated": True}
    assert broker.acknowledged() == [1, 2, 3, 4, 5, 6] and bridge.stream.status()["learned"] == 2


def test_what_is_refused_is_said_and_keeps_nobody_waiting(bridge: Bridge):
    broker = Broker()
    broker.bring("power/step", row("a", y=1.0))
    broker.bring("power/step", row("b", y="much"))
    broker.bring("power/step", row("c", y=3.0))
    broker.bring("power/step", b"{")
    broker.bring("power/learn", {"id": "none", "y": 3.0})
    broker.bring("../step", row("d", y=3.0))
    broker.together()
    bridge.run(broker)
    assert sorted(broker.acknowledged()) == [1, 2, 3, 4, 5, 6]
    assert [each["id"] for each in broker.published("power/predictions")] == ["a", "c"]
    refused = broker.published("power/refused")
    assert [each["status"] for each in refused] == [400, 422, 404]
    assert json.loads(refused[1]["message"])["id"] == "b" and "a number" in refused[1]["detail"]
    assert broker.published("../refused")[0]["status"] == 404
    assert any("power/step: a message was refused: row 0, y: expected a number" in each for each in bridge.said)


def test_a_stream_that_takes_nothing_keeps_its_messages_and_no_other_stream_waiting(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(relay, "PAUSE", 60.0)
    bridge.service.client.create("other", "y", ["a"], model="linear", warmup=20)
    broker = Broker()
    for name in "abc":
        broker.bring("power/predict", row(name))
        broker.bring("other/step", row(name, y=1.0))
    request = bridge.service.client.request

    def asked(method: str, path: str, document: Any = None) -> Any:
        if "/power/" in path:
            raise relay.ServiceError(500, {"detail": "power learns no longer"})
        return request(method, path, document)

    monkeypatch.setattr(bridge.service.client, "request", asked)
    bridge.run(broker)
    assert broker.acknowledged() == [2, 4, 6]
    assert bridge.said == ["power waits: power learns no longer"]


def test_why_streams_wait_is_said_once_and_again_after_they_went_on(bridge: Bridge, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(relay, "PAUSE", 0.0)
    broker = Broker()
    broker.bring("power/step", row("a", y=1.0))
    broker.bring("other/step", row("a", y=1.0))
    broker.together()
    broker.to_come += [[] for _ in range(4)]
    answers = iter([False] * 5 + [True] + [False] * 20)

    def asked(method: str, path: str, document: Any = None) -> Any:
        if next(answers):
            broker.to_come.insert(0, [Received("other/step", b'{"id": "b"}', 9, 1, 0)])
            return {"rows": [{"id": "a"}], "position": 1}
        raise relay.NoAnswer("gone")

    monkeypatch.setattr(bridge.service.client, "request", asked)
    bridge.run(broker)
    said = [f"{name} waits: the service gives no answer (gone)" for name in ("power", "other")]
    assert len(bridge.said) == 3 and set(bridge.said) == set(said) and broker.acknowledged() == [2]


def test_predictions_that_no_label_will_find_are_not_acknowledged(bridge: Bridge, monkeypatch: pytest.MonkeyPatch):
    """The disk is full: the row would be lost."""
    answer = {"rows": [{"id": "a", "mean": 0.0}], "position": 0, "kept": False}
    monkeypatch.setattr(bridge.service.client, "request", lambda *_: answer)
    broker = Broker()
    broker.bring("power/predict", row("a"))
    assert bridge.run(broker).done == [] and bridge.said == ["power waits: its disk is full"]


def test_what_a_lost_connection_brought_is_left_to_the_next_one(bridge: Bridge):
    broker = Broker()
    broker.bring("power/step", row("a", y=1.0))
    broker.connection = 1
    assert bridge.run(broker).done == [] and bridge.stream.status()["learned"] == 0
    broker = Broker()
    broker.bring("power/step", row("a", y=1.0))
    broker.is_settled = False
    assert bridge.run(broker).acknowledged() == [] and bridge.stream.status()["learned"] == 1


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://broker/plant", Address("broker", 1883, False, None, "plant")),
        ("mqtts://me%40home@10.0.0.1:99/a/b/", Address("10.0.0.1", 99, True, "me@home", "a/b")),
    ],
)
def test_an_address_names_a_broker_and_a_topic(url: str, expected: Address):
    assert Address.of(url) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["http://broker/plant"], "BROKER: expected an address such as mqtt://broker:1883/plant"),
        (["mqtt://broker"], "BROKER: expected an address such as"),
        (["mqtt://broker/a/+"], "BROKER: expected an address such as"),
        (["mqtt://broker:x/a"], "BROKER: "),
        (["mqtt://me:secret@broker/plant"], "BROKER: expected no password"),
        (["mqtt://broker/plant", "localhost:8765"], "SERVICE: expected an address such as http://"),
    ],
)
def test_other_addresses_are_refused_in_a_sentence(words: list[str], said: str):
    result = CliRunner().invoke(app, ["bridge", *words])
    assert result.exit_code == 1 and result.stderr.startswith(f"streamgp: {said}")
    assert "secret" not in result.stderr
