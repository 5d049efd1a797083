"""A session with an MQTT broker that outlives both processes: a message is acknowledged when its rows are on disk."""

import json
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Condition, Event
from typing import Any
from urllib.parse import unquote, urlsplit

try:
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
except ImportError as error:
    raise ImportError("streamgp bridge needs paho-mqtt: pip install 'streamgp[mqtt]'") from error

# At least once, both ways.
QOS = 1
# The seconds after which a broker that is gone is looked for again, at first and at most.
RECONNECT = (1, 30)
# Messages that are on their way to the broker at a time.
ON_THEIR_WAY = 1_000
# The seconds after which one who waits looks whether the process is to end.
LOOKS = 0.2


@dataclass(frozen=True)
class Address:
    """Where a broker is, and below which topic.

    Attributes
    ----------
    host, port
        Of the broker.
    is_secure
        Whether the connection is one of TLS.
    user
        That the broker asks for; None: for none.
    prefix
        The topic below which streams have theirs.
    """

    host: str
    port: int
    is_secure: bool
    user: str | None
    prefix: str

    @classmethod
    def of(cls, url: str) -> "Address":
        """Return the address that a URL such as ``mqtt://broker:1883/plant`` names.

        Raises
        ------
        ValueError
            If it names none.
        """
        parts = urlsplit(url)
        prefix = unquote(parts.path).strip("/")
        fault = parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or parts.query or parts.fragment
        if fault or not prefix or set(prefix) & set("+#\0"):
            raise ValueError(
                f"expected an address such as mqtt://broker:1883/plant, a broker and the topic below which streams "
                f"have theirs, got {url!r}"
            )
        if parts.password is not None:
            raise ValueError("expected no password, which others of this machine could read; see --password")
        is_secure = parts.scheme == "mqtts"
        assert parts.hostname is not None
        port = parts.port or (8883 if is_secure else 1883)
        return cls(
            parts.hostname, port, is_secure, None if parts.username is None else unquote(parts.username), prefix
        )


@dataclass(frozen=True)
class Received:
    """A message as it came: its topic without the prefix, and by what the broker knows it, in which connection."""

    topic: str
    payload: bytes
    number: int
    qos: int
    connection: int


class Broker:
    """A session with a broker, on which messages wait while nobody takes them.

    Parameters
    ----------
    address
        Of the broker.
    password
        Of the user.
    client_id
        By which the broker knows the session again.
    topics
        What is subscribed to, below the prefix.
    stopping
        Set when nothing is to be waited for any more.
    say
        Called with a sentence for whoever runs the bridge.
    """

    def __init__(
        self,
        address: Address,
        password: str | None,
        client_id: str,
        topics: Sequence[str],
        stopping: Event,
        say: Callable[[str], None],
    ) -> None:
        self._address = address
        self._topics = [f"{address.prefix}/{topic}" for topic in topics]
        self._say = say
        self._came: SimpleQueue[Received] = SimpleQueue()
        # Rises when a connection is lost: the broker sends again what was not acknowledged on it.
        self._connection = 0
        self._is_connected = False
        self._stopping = stopping
        self._changed = Condition()
        # Numbers of messages that went out, and of those that the broker has.
        self._sent: set[int] = set()
        self._arrived: set[int] = set()
        self._client = client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=False,
            protocol=MQTTProtocolVersion.MQTTv311,
            manual_ack=True,
        )
        client.max_inflight_messages = ON_THEIR_WAY
        client.reconnect_delay_set(*RECONNECT)
        if address.user is not None:
            client.username_pw_set(address.user, password)
        if address.is_secure:
            client.tls_set_context(ssl.create_default_context())
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish

    def start(self) -> None:
        """Connect, and again whenever the connection is lost."""
        self._client.connect_async(self._address.host, self._address.port)
        self._client.loop_start()

    def stop(self) -> None:
        """End the connection; the broker keeps the session."""
        self._stopping.set()
        self._client.disconnect()
        self._client.loop_stop()

    def take(self, seconds: float) -> list[Received]:
        """Return what came, in order; wait so long if there is nothing."""
        try:
            found = [self._came.get(timeout=seconds)]
        except Empty:
            return []
        while not self._came.empty():
            found.append(self._came.get())
        return found

    def holds(self, received: Received) -> bool:
        """Return whether a message came on the connection of now; others come again."""
        return received.connection == self._connection

    def acknowledge(self, received: Received) -> None:
        """Have the broker forget a message."""
        with self._changed:
            if self.holds(received):
                self._client.ack(received.number, received.qos)

    def publish(self, topic: str, document: Any) -> None:
        """Send a message; where the connection is lost it is sent with the next one."""
        payload = json.dumps(document, ensure_ascii=False, allow_nan=False)
        self._sent.add(self._client.publish(f"{self._address.prefix}/{topic}", payload, QOS).mid)

    def settle(self) -> bool:
        """Wait until the broker has all that was sent; return False if the connection is lost before."""
        with self._changed:
            connection = self._connection
            while not self._sent <= self._arrived:
                if self._stopping.is_set() or self._connection != connection:
                    return False
                self._changed.wait(LOOKS)
            self._arrived -= self._sent
        self._sent.clear()
        return True

    # What paho calls, in its own thread

    def _on_connect(self, _: Any, __: Any, flags: Any, code: Any, ___: Any) -> None:
        if code.is_failure:
            self._say(f"{self._where} refuses the connection ({code}): check user and password; waiting for it")
            return
        self._is_connected = True
        known = "its session is there" if flags.session_present else "a new session: messages from now on are taken"
        self._say(f"connected to {self._where}; {known}")
        self._client.subscribe([(topic, QOS) for topic in self._topics])

    def _on_connect_fail(self, _: Any, __: Any) -> None:
        certificate = ", or its certificate is not known here" if self._address.is_secure else ""
        self._say(f"{self._where} cannot be reached{certificate}; waiting for it")

    def _on_disconnect(self, _: Any, __: Any, ___: Any, code: Any, ____: Any) -> None:
        with self._changed:
            self._connection += 1
            self._changed.notify_all()
        if self._is_connected and not self._stopping.is_set():
            self._say(f"the connection to {self._where} was lost ({code}); waiting for it")

        self._is_connected = False

    def _on_subscribe(self, _: Any, __: Any, ___: Any, codes: Any, ____: Any) -> None:
        refused = [topic for topic, code in zip(self._topics, codes, strict=False) if code.is_failure]
        if refused:
            self._say(f"{self._where} refuses the topics {', '.join(refused)}: have it allow them to this user")

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        topic = message.topic.removeprefix(f"{self._address.prefix}/")
        received = Received(topic, bytes(message.payload), message.mid, message.qos, self._connection)
        if message.retain:
            # A broker sends it at each subscription, whether it was taken before or not.
            self._say(f"{message.topic}: a retained message is left out; send rows without it")
            self._client.ack(message.mid, message.qos)
        else:
            self._came.put(received)

    def _on_publish(self, _: Any, __: Any, number: int, ___: Any, ____: Any) -> None:
        with self._changed:
            self._arrived.add(number)
            self._changed.notify_all()

    @property
    def _where(self) -> str:
        return f"{self._address.host}:{self._address.port}"
