"""The way of messages into the service, and of its predictions to the broker; each at least once, in order."""

from collections import defaultdict, deque
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import quote

from streamgp.bridge import messages
from streamgp.bridge.messages import Message
from streamgp.bridge.mqtt import Broker, Received
from streamgp.client import Client, NoAnswer, ServiceError

# What the service may answer later: the token, the disk, a standby or who runs it is to blame, not the message.
LATER = (401, 408, 429, 500, 502, 503, 504, 507)
# The seconds after which a stream that could take nothing is asked again.
PAUSE = 1.0
# So many of the latest rows the service knows with what was predicted of them.
RECENT = 2_000
# So many refused messages are reported one by one.
MOST_SAID = 10
# Members of a row that was predicted before, beside its id and quantiles.
_PREDICTED = ("mean", "std", "label")
_QUANTILES = {"0.05": "q05", "0.5": "q50", "0.95": "q95"}


class Relay:
    """Takes messages of a broker to the service, those of a stream in their order.

    A message is acknowledged when the service has its rows on disk, and the broker has what was predicted of them. So
    whatever is killed in between, it comes again; by the ids of its rows the service then knows what it has. A stream
    that cannot take its messages keeps no other stream waiting.

    Parameters
    ----------
    client
        Of the service.
    broker
        Where messages come from and go to.
    say
        Called with a sentence for whoever runs the bridge.
    """

    def __init__(self, client: Client, broker: Broker, say: Callable[[str], None]) -> None:
        self._client = client
        self._broker = broker
        self._say = say
        self._waiting: defaultdict[str, deque[Message[Received]]] = defaultdict(deque)
        # When a stream that could take nothing is asked again.
        self._again: dict[str, float] = {}
        # Why a stream could take nothing; said once.
        self._reasons: dict[str, str] = {}
        self._refused = 0

    def run(self, stopping: Event) -> None:
        """Work until an event is set; what is half done then comes again from the broker."""
        while not stopping.is_set():
            for received in self._broker.take(0.2):
                self._sort_in(received)
            for stream in list(self._waiting):
                self._advance(stream)

    def _sort_in(self, received: Received) -> None:
        stream, _, route = received.topic.partition("/")
        try:
            message = messages.read(stream, route, received.payload, received)
        except ValueError as error:
            text = received.payload.decode("utf-8", errors="replace")
            self._report(stream, route, text, 400, f"expected a row as JSON, or a list of rows: {error}")
            if self._broker.settle():
                self._broker.acknowledge(received)
        else:
            self._waiting[stream].append(message)

    def _advance(self, stream: str) -> None:
        """Send what waits for a stream, until it can take no more for now."""
        waiting = self._waiting[stream]
        try:
            while waiting and monotonic() >= self._again.get(stream, 0.0):
                if self._broker.holds(waiting[0].receipt):
                    self._send(messages.first_together(waiting))
                else:
                    waiting.popleft()
        except _Later as reason:
            if self._reasons.get(stream) != str(reason):
                self._reasons[stream] = str(reason)
                self._say(f"{stream} waits: {reason}")
            self._again[stream] = monotonic() + PAUSE
        if not waiting:
            del self._waiting[stream]
            self._again.pop(stream, None)

    def _send(self, group: list[Message[Received]]) -> None:
        """Take messages to the service; of those that it refuses together each is sent by itself in the end."""
        stream, route = group[0].stream, group[0].route
        try:
            answer = self._ask("POST", f"{stream}/{route}", messages.body(group))
        except ServiceError as error:
            if len(group) > 1:
                half = len(group) // 2
                self._send(group[:half])
                self._send(group[half:])
            elif error.document.get("learnt"):
                self._publish(group, [{"id": name, "repeated": True} for name in error.document["ids"]])
                self._finish(group)
            else:
                self._report(stream, route, group[0].rows, error.status, str(error))
                self._finish(group)
            return
        if answer.get("kept") is False:
            raise _Later("its disk is full")
        if route != "learn":
            self._publish(group, answer["rows"])
        self._finish(group)

    def _ask(self, method: str, path: str, document: bytes | None = None) -> dict[str, Any]:
        """Return the service's answer; raise `_Later` where it may be given later."""
        stream, _, rest = path.partition("/")
        try:
            return self._client.request(method, f"/v1/streams/{quote(stream, safe='')}/{rest}", document)
        except NoAnswer as error:
            raise _Later(f"the service gives no answer ({str(error) or type(error).__name__})") from error
        except ServiceError as error:
            if error.status in LATER:
                raise _Later(str(error)) from error
            raise

    def _publish(self, group: list[Message[Received]], rows: list[dict[str, Any]]) -> None:
        """Send what was predicted; of rows that were learnt before, what was predicted then, if that is known."""
        stream = group[0].stream
        if any(row.get("repeated") for row in rows):
            found = self._ask("GET", f"{stream}/recent?rows={RECENT}")["rows"]
            known = {row["id"]: row for row in found}
            rows = [row | _predicted(known[row["id"]]) if row["id"] in known else row for row in rows]
        for document in messages.parts(group, rows):
            self._broker.publish(f"{stream}/predictions", document)

    def _finish(self, group: list[Message[Received]]) -> None:
        """Have the broker forget messages, once it has what was said of them; otherwise they come again."""
        is_settled = self._broker.settle()
        self._reasons.pop(group[0].stream, None)
        for message in group:
            if is_settled:
                self._broker.acknowledge(message.receipt)
            self._waiting[message.stream].popleft()

    def _report(self, stream: str, route: str, text: str, status: int, detail: str) -> None:
        """Say that a message is refused, on a topic and, of the first ones, to whoever runs the bridge."""
        refusal = {"route": route, "status": status, "detail": detail, "message": text}
        self._broker.publish(f"{stream}/refused", refusal)
        self._refused += 1
        if self._refused <= MOST_SAID:
            self._say(f"{stream}/{route}: a message was refused: {detail}")
        if self._refused == MOST_SAID:
            self._say("further messages that are refused are on the topics STREAM/refused alone")


class _Later(Exception):
    """A stream can take nothing for now, for this reason."""


def _predicted(row: dict[str, Any]) -> dict[str, Any]:
    """Return what was predicted of a row, in the form in which the service gives it for the first time."""
    quantiles = {name: row[column] for name, column in _QUANTILES.items() if column in row}
    return {name: row[name] for name in _PREDICTED if name in row} | ({"quantiles": quantiles} if quantiles else {})
