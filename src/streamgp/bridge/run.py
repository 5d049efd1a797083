"""The run of `streamgp bridge`: a broker and a service, and the signals that end it."""

import signal
import sys
from collections.abc import Callable
from threading import Event
from typing import Any

from streamgp.app.outputs import RunError


def run_bridge(broker: str, service: str, client_id: str | None, password: str | None, token: str | None) -> None:
    """Take messages to the service until the process is told to end.

    Raises
    ------
    RunError
        If a package is missing, or an address is none.
    """
    try:
        from streamgp.bridge.messages import ROUTES
        from streamgp.bridge.mqtt import Address, Broker
        from streamgp.bridge.relay import Relay
        from streamgp.client import Client
    except ImportError as error:
        raise RunError(str(error)) from error
    try:
        address = Address.of(broker)
    except ValueError as error:
        raise RunError(f"BROKER: {error}") from error
    if not service.startswith(("http://", "https://")):
        raise RunError(f"SERVICE: expected an address such as http://127.0.0.1:8765, got {service!r}")
    stopping = Event()
    topics = [f"+/{route}" for route in ROUTES]
    name = client_id or f"streamgp-{address.prefix.replace('/', '-')}"
    say = _once()
    session = Broker(address, password, name, topics, stopping, say)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with Client(service, token) as client:
        session.start()
        say(f"takes {address.prefix}/STREAM/{'|'.join(ROUTES)} to {service}; Ctrl-C ends it")
        try:
            Relay(client, session, say).run(stopping)
        finally:
            session.stop()


def _once() -> Callable[[str], Any]:
    """Return what says a sentence on standard error, unless it has just said the same."""
    last = ""

    def say(text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            print(f"streamgp: {text}", file=sys.stderr, flush=True)

    return say
