"""Answers of the streams' threads, brought to the event loop whose clients wait for them."""

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Any

from streamgp.service.problems import Problem

# A request waits so many seconds for its answer.
PATIENCE = 60.0


class Waiting:
    """Waits for answers; those that come together wake the loop once, since to wake it takes a call of the system."""

    def __init__(self) -> None:
        self._come: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_woken = False

    async def answer(self, future: "Future[Any]") -> Any:
        """Wait for an answer, for so long."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()
        future.add_done_callback(lambda done: self._add(loop, waiter, done))
        try:
            return await asyncio.wait_for(waiter, PATIENCE)
        except TimeoutError:
            raise Problem(
                503, "it was written, and is still to be learnt; ask again with the same ids", retry_after=10
            ) from None

    def _add(self, loop: asyncio.AbstractEventLoop, waiter: "asyncio.Future[Any]", done: "Future[Any]") -> None:
        """Note an answer, in the thread that gives it."""
        self._come.append((waiter, done))
        if not (self._is_woken or loop.is_closed()):
            self._is_woken = True
            loop.call_soon_threadsafe(self._give)

    def _give(self) -> None:
        """Give all answers that have come to those who still wait, in the loop's thread."""
        self._is_woken = False  # before they are taken: one that comes now wakes the loop again
        while self._come:
            waiter, done = self._come.popleft()
            if waiter.done():
                continue
            error = done.exception()
            if error is None:
                waiter.set_result(done.result())
            else:
                waiter.set_exception(error)
