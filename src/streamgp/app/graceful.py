"""A server that ends in order: SIGTERM and Ctrl-C let it finish, and the process then ends well."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn


class Server(uvicorn.Server):
    """uvicorn's, which would end its process by the signal once more after it has ended in order."""

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
