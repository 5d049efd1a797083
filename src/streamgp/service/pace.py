"""A limit on how often a slow action is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic


class Pace:
    """A pause between two times: a least one, and more if what is done would take too much of the time.

    Parameters
    ----------
    least
        Returns the seconds between the end of one and the beginning of the next.
    share
        Returns the share of the time that may go into it.
    """

    def __init__(self, least: Callable[[], float], share: Callable[[], float]) -> None:
        self._least = least
        self._share = share
        self._ended = monotonic()
        self._took = 0.0

    def is_over(self) -> bool:
        """Return whether the pause is over."""
        return monotonic() - self._ended >= max(self._least(), self._took / self._share())

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Do it, and note how long it took."""
        began = monotonic()
        try:
            yield
        finally:
            self._ended = monotonic()
            self._took = self._ended - began
