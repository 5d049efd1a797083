"""Work that a thread does a step at a time, so that what it is there for never waits long."""

from collections import deque
from collections.abc import Generator
from time import monotonic

# The least number of seconds between two steps.
PAUSE = 0.02
# The largest share of the time that steps may take.
SHARE = 0.2


class Upkeep:
    """Chores in the order in which they came; each is a generator, and each of its steps is short."""

    def __init__(self) -> None:
        # Each with its kind; the first one may be under way.
        self._chores: deque[tuple[str, Generator[None]]] = deque()
        self._due = 0.0

    def add(self, kind: str, chore: Generator[None]) -> None:
        """Add a chore after those that wait, or in the place of one of its kind that waits."""
        for i, (other, _) in enumerate(self._chores):
            if i and other == kind:
                self._chores[i] = kind, chore
                return
        self._chores.append((kind, chore))

    @property
    def wait(self) -> float | None:
        """Seconds until the next step is due; None if there is nothing to do."""
        return max(0.0, self._due - monotonic()) if self._chores else None

    def step(self) -> None:
        """Do the next step, if it is due; a chore that raises an error is over, and the error passes."""
        began = monotonic()
        if not self._chores or began < self._due:
            return
        is_over = True
        try:
            next(self._chores[0][1])
            is_over = False
        except StopIteration:
            pass
        finally:
            if is_over:
                self._chores.popleft()
            took = monotonic() - began
            self._due = began + took + max(PAUSE, took / SHARE - took)

    def close(self) -> None:
        """Leave what is not done."""
        for _, chore in self._chores:
            chore.close()
        self._chores.clear()
