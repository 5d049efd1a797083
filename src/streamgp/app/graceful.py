"""A server that ends in order: SIGTERM and Ctrl-C let it finish, and the process then ends well."""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

WAITING = 2_048  # connections that the system holds until they are accepted


class Server(uvicorn.Server):
    """uvicorn's, which would end its process by the signal once more after it has ended in order.

    Parameters
    ----------
    config
        Of uvicorn.
    leaving
        Called when a signal comes, before the server waits for answers that are still to be given.
    """

    def __init__(self, config: uvicorn.Config, leaving: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._leaving = leaving

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        self._leaving()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen; few connections are accepted in one go, but many may wait for that."""
        await super().startup(sockets)
        for each in sockets or []:
            each.listen(WAITING)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Listen for signals for the body of a ``with`` statement; a second one ends it at once."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
