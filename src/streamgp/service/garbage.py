"""Python's search for reference cycles, at set times: where Python begins it by itself, all requests wait for it.

A search through all objects of a service takes a tenth of a second, and Python would begin one every few seconds.
Most of these objects are there to stay. So what is alive after a search is left out of those that follow, until an
hour later all of it is searched once more.
"""

import gc
from threading import Event, Thread

# Between two searches.
SECONDS = 30.0
# Each so many searches, one goes through all objects.
WHOLE = 120
_NEVER = 1_000_000_000


class Garbage:
    """Searches for cycles in a thread of its own, from `start` to `stop`; the youngest objects are left to Python."""

    def __init__(self) -> None:
        self._stopping = Event()
        self._usual = gc.get_threshold()
        self._thread = Thread(target=self._run, name="streamgp-garbage", daemon=True)

    def start(self) -> None:
        """Begin."""
        gc.set_threshold(*self._usual[:2], _NEVER)
        gc.freeze()
        self._thread.start()

    def stop(self) -> None:
        """End, and leave all to Python again."""
        self._stopping.set()
        self._thread.join()
        gc.set_threshold(*self._usual)
        gc.unfreeze()

    def _run(self) -> None:
        searches = 0
        while not self._stopping.wait(SECONDS):
            searches += 1
            search(whole=searches % WHOLE == 0)


def search(whole: bool) -> None:
    """Free the cycles among the objects made since the last search, or among all."""
    if whole:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
