"""A leader and its standby in one process, over real connections."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import uvicorn

from streamgp.client import Client, ServiceError
from streamgp.service.live_stream import LiveStream
from streamgp.service.serve import Pair
from streamgp.service.streams import Streams
from streamgp.service.web.app import make_app

PATIENCE = 60.0


def until(is_so: Callable[[], Any], what: str) -> None:
    """Wait until something is so."""
    end = monotonic() + PATIENCE
    while not is_so():
        assert monotonic() < end, f"waited in vain: {what}"
        sleep(0.01)


class Service:
    """A service over a directory, which may be stopped and begun again at its address."""

    def __init__(self, directory: Path, leader: "Service | None" = None, timeout: float = 5.0, port: int = 0) -> None:
        self.directory = directory
        self.streams = Streams(directory, timeout)
        self.standing_by = Pair(leader and leader.url, None, timeout).stand_by(self.streams)
        app: Any = make_app(self.streams, standing_by=self.standing_by)
        listening = socket.create_server(("127.0.0.1", port))
        self.port = listening.getsockname()[1]
        self.url = self.streams.leadership.address = f"http://127.0.0.1:{self.port}"
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        )
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [listening]})
        self._thread.start()
        self.client = Client(self.url, timeout=PATIENCE)
        until(lambda: self._server.started or not self._thread.is_alive(), "the service to begin")
        until(lambda: all(stream.is_ready for stream in self.streams.all()), "streams to be restored")

    def stop(self) -> None:
        """End it, as a signal does."""
        self.streams.leadership.leave()
        self.client.close()
        self._server.should_exit = True
        self._thread.join()

    @property
    def power(self) -> LiveStream:
        """The stream of most tests."""
        return self.streams.get("power")

    def status(self) -> dict[str, Any]:
        """Return who leads, and how far the standby is."""
        return self.client.request("GET", "/v1/standby")

    def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        return self.client.request("POST", path, document)

    def refusal(self, path: str, document: dict[str, Any]) -> tuple[int, str]:
        """Return the status and the sentence by which a request is refused."""
        try:
            answer = self.post(path, document)
        except ServiceError as error:
            return error.status, str(error)
        raise AssertionError(f"it was not refused: {answer}")


@contextmanager
def services() -> Iterator[Callable[..., Service]]:
    """Yield what begins services, all of which are stopped in the end."""
    begun: list[Service] = []

    def begin(*args: Any, **options: Any) -> Service:
        begun.append(Service(*args, **options))
        return begun[-1]

    try:
        yield begin
    finally:
        for each in reversed(begun):
            each.stop()


def in_step(leader: Service, standby: Service) -> None:
    """Wait until a standby has all that its leader has, and a lease."""
    assert standby.standing_by is not None
    until(lambda: leader.streams.leadership.is_in_step, "the leader to wait for its standby")
    until(lambda: standby.standing_by and standby.standing_by.may_lead, "the standby to know that it has all")
    until(lambda: positions(standby) == positions(leader), "the standby to have all")
    for stream in standby.streams.all():
        until(lambda stream=stream: not stream._accepted, "what came to be learnt")
        with stream._lock:  # and to be what predictions are made from
            assert stream.knowledge.position == stream.last_position


def positions(service: Service) -> dict[str, int]:
    """Return how far the log of each stream goes."""
    return {stream.config.name: stream.last_position for stream in service.streams.all()}
