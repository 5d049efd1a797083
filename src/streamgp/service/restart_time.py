"""An estimate of the time of a restart: to start, to compile, and to learn the rows since the checkpoint."""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from streamgp.numerics.loading import once_jax_is_loaded

# The most time of imports. A process that is older did other work before.
_MOST_SECONDS, _MOST_WORK = 60.0, 10.0


def _since_start() -> float:
    """Return the seconds since this process began, at the end of nearly all imports; of an older one, a guess."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        # The system is not Linux.
        age = math.inf
    return age if 0.0 < age < _MOST_SECONDS else min(time.process_time(), _MOST_WORK)


_imports = _since_start()


class _Compiled:
    """The seconds for which JAX has traced and compiled in this process."""

    seconds = 0.0

    @classmethod
    def note(cls, event: str, duration_secs: float, **_: object) -> None:
        """Add what JAX reports."""
        if event.startswith("/jax/core/compile/"):
            cls.seconds += duration_secs


def _listen() -> None:
    sys.modules["jax"].monitoring.register_event_duration_secs_listener(_Compiled.note)


once_jax_is_loaded(_listen)


class Range(NamedTuple):
    """From how many seconds to how many it would take: what must be compiled again may be found compiled."""

    low: float
    high: float


class RestartTime:
    """What a stream's restart would take, by what its entries took.

    An entry is learnt again alone, and in as many seconds as the first time; what was compiled for the first ones is
    compiled anew.
    """

    def __init__(self) -> None:
        self._began = monotonic()
        self._opening = 0.0
        self._checkpoint = 0
        # The seconds that the entries after that checkpoint took, and how many more they may take one by one.
        self._again, self._more = 0.0, 0.0
        # The mean seconds of the latest entries that were learnt alone.
        self._alone = 0.0

    def opened(self) -> None:
        """Note that the stream is open, and its checkpoint read."""
        self._opening = monotonic() - self._began

    @contextmanager
    def measured(self, checkpoint: int, count: int) -> Iterator[None]:
        """Learn so many entries, and note how long it took; `checkpoint` is the position of the latest."""
        began, compiled = monotonic(), _Compiled.seconds
        yield
        spent = monotonic() - began
        spent -= min(_Compiled.seconds - compiled, 0.9 * spent)
        # A new checkpoint has everything that was learnt before it.
        if checkpoint != self._checkpoint:
            self._checkpoint, self._again, self._more = checkpoint, 0.0, 0.0
        if count == 1:
            self._alone = spent if not self._alone else 0.9 * self._alone + 0.1 * spent
        # Many that came together were learnt together: again they are learnt one by one. Where none was alone yet,
        # one may take as long as many.
        self._again += max(spent, count * self._alone) if count > 1 else spent
        self._more += 0.0 if self._alone else (count - 1) * spent

    def expected(self, checkpoint: int) -> Range:
        """Return what a restart would take; `checkpoint` is the position of the latest."""
        again, more = (self._again, self._more) if checkpoint == self._checkpoint else (0.0, 0.0)
        low = _imports + self._opening + again
        return Range(low, low + more + (_Compiled.seconds if again else 0.0))
