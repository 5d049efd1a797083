"""Listeners to a stream's events, and their queues."""

import asyncio
from collections.abc import AsyncIterator
from threading import Lock
from typing import Any

# So many events wait for a listener. With more, it is disconnected.
MOST = 1_000


class Events:
    """Passes events of all streams on to listeners; any thread may tell, and nobody waits."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._listeners: dict[int, tuple[str | None, asyncio.AbstractEventLoop, asyncio.Queue[Any]]] = {}
        self._next = 0
        self._closed = False

    def tell(self, stream: str, event: str, what: dict[str, Any]) -> None:
        """Tell all who listen to a stream, or to all of them."""
        with self._lock:
            listeners = list(self._listeners.items())
        for number, (name, loop, queue) in listeners:
            if name in (None, stream):
                try:
                    loop.call_soon_threadsafe(self._put, number, queue, (event, {"stream": stream} | what))
                except RuntimeError:  # the loop has ended
                    self._drop(number)

    def _put(self, number: int, queue: "asyncio.Queue[Any]", item: Any) -> None:
        try:
            queue.put_nowait(item)
        except asyncio.QueueFull:
            self._drop(number)

    def _drop(self, number: int) -> None:
        with self._lock:
            self._listeners.pop(number, None)

    def close(self) -> None:
        """Let all listeners go."""
        self._closed = True
        with self._lock:
            listeners = list(self._listeners.values())
        for _, loop, queue in listeners:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, None)
            except RuntimeError:
                continue

    async def listen(
        self, stream: str | None, pause: float = 15.0
    ) -> AsyncIterator[tuple[str, dict[str, Any]] | None]:
        """Yield events as they come, and None after every pause without one."""
        queue: asyncio.Queue[Any] = asyncio.Queue(MOST)
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._listeners[number] = (stream, asyncio.get_running_loop(), queue)
        try:
            while number in self._listeners and not self._closed:
                try:
                    item = await asyncio.wait_for(queue.get(), pause)
                except TimeoutError:
                    item = None
                    yield item
                    continue
                if item is None:
                    return
                yield item
        finally:
            self._drop(number)
