"""What `streamgp run` and `streamgp embed` share: a stream is learnt until it ends, however it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

from streamgp.app.interrupt import Interrupt, Stop
from streamgp.numerics.formats import plural
from streamgp.table import DataError

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes
    ----------
    metrics
        The content of ``metrics.json``.
    stopped
        A sentence on why it ended early, if it did.
    interrupted
        Whether the user stopped it.
    report
        A sentence on the report: where it is, or why there is none.
    """

    metrics: dict[str, Any]
    stopped: str | None = None
    interrupted: bool = False
    report: str = ""


@dataclass
class Ending:
    """Why the learning of a stream ended before its end, if it did."""

    stopped: str | None = None
    interrupted: bool = False


@dataclass
class Clock:
    """Seconds spent on reading, on the warm-up and on the stream after it."""

    read: float = 0.0
    warmup: float = 0.0
    stream: float = 0.0
    began: float = field(default_factory=perf_counter)

    def learnt(self, seconds: float, fitted: bool) -> None:
        """Count seconds of learning: of the stream if the fitted model predicted, of the warm-up otherwise."""
        if fitted:
            self.stream += seconds
        else:
            self.warmup += seconds

    def result(self) -> dict[str, float]:
        """Return the seconds of each kind, with the total so far."""
        total = perf_counter() - self.began
        return {"read": self.read, "warmup": self.warmup, "stream": self.stream, "total": total}


def read_next(parts: Iterator[_Part], interrupt: Interrupt, clock: Clock) -> _Part | None:
    """Return the next part of a file, or None at its end; a signal may end the wait for it."""
    began = perf_counter()
    with interrupt.waiting():
        part = next(parts, None)
    clock.read += perf_counter() - began
    return part


@contextmanager
def learning(rows: Callable[[], int], name: str, resumable: bool = False) -> Iterator[Ending]:
    """Let the body of a ``with`` statement learn a stream, which an error in the data, or Ctrl-C, may end early.

    Parameters
    ----------
    rows
        Returns how many have been learnt.
    name
        That of the data, for error messages.
    resumable
        Whether what was learnt is kept, to go on with.

    Raises
    ------
    DataError
        If there is an error in the data before any row is learnt, or there are none.
    KeyboardInterrupt
        If it is stopped before any row is learnt.
    """
    ending = Ending()
    try:
        yield ending
    except Stop:
        if not rows():
            raise KeyboardInterrupt from None
        then = "; go on with --resume" if resumable else ""
        ending.stopped, ending.interrupted = f"interrupted after {plural(rows(), 'row')}{then}", True
    except DataError as error:
        if not rows():
            raise
        ending.stopped = str(error).rstrip(".")
    if not rows():
        raise DataError(f"{name}: no usable row: every one was skipped as bad")
