"""Ctrl-C and SIGTERM: a row is either learnt and written, or as if it had not been read."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_IMPORTS = "<frozen importlib."  # the file name of the frames of an import


def end_imports_at_once() -> None:
    """Let Ctrl-C end the process where modules are being imported, from now on; elsewhere it is as ever.

    Half an import cannot be undone, and some packages report the exception and go on without it.
    """
    signal.signal(signal.SIGINT, _on_signal_while_importing)


def _on_signal_while_importing(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTS):
            os.write(2, b"streamgp: stopped before anything was done\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


class Stop(BaseException):
    """The user asked to stop, and nothing is half done."""


class Interrupt:
    """Remembers a signal until a moment at which nothing is half done; a second one stops at once."""

    def __init__(self) -> None:
        self._requested = False
        self._waiting = False

    def check(self) -> None:
        """Raise `Stop` here, if a stop was requested.

        Raises
        ------
        Stop
            If a signal was received.
        """
        if self._requested:
            raise Stop

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Listen to Ctrl-C and SIGTERM for the body of a ``with`` statement."""
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Allow a body to be left at any moment, such as waiting for the next rows of a live stream."""
        self._waiting = True
        try:
            self.check()
            yield
        finally:
            self._waiting = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
        if self._waiting:
            raise Stop
        print("\nstopping after the current rows; once more to stop at once", file=sys.stderr)
