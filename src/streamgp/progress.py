"""Progress on standard error: a bar on a terminal, elsewhere a line every ten seconds; none for work of a moment.

``STREAMGP_PROGRESS=off`` in the environment, and the command's ``--quiet``, show none at all.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 2.0  # seconds before a bar appears
EVERY = 10.0  # seconds between two lines
_SILENT = ContextVar("silent", default=False)


@contextmanager
def silenced() -> Iterator[None]:
    """Show no progress during the body of a ``with`` statement."""
    token = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(token)


class Bar:
    """How far some work is, and what is left of it."""

    def at(self, done: float, description: str | None = None, rows: int | None = None) -> None:
        """Set how much is done, in the units of the total, and how many rows that is where it counts something else.

        A new description names another stage of the work.
        """

    def fits(self, description: str, done: int, todo: int) -> None:
        """Say which of so many fits comes next, while nothing else goes on."""

    def close(self) -> None:
        """Take away what is left to see."""


class _Drawn(Bar):
    """A bar of rich on a terminal, which appears only once the work has taken longer than `PATIENCE`."""

    def __init__(self, description: str, total: float | None) -> None:
        self._description, self._total, self._done = description, total, 0.0
        self._began = monotonic()
        self._shown: tuple[Progress, TaskID] | None = None

    def at(self, done: float, description: str | None = None, rows: int | None = None) -> None:
        self._description, self._done = self._description if description is None else description, done
        self._draw(self._description)

    def fits(self, description: str, done: int, todo: int) -> None:
        self._draw(f"{description}: {done} of {todo}")

    def _draw(self, description: str) -> None:
        if self._shown is None:
            if monotonic() - self._began <= PATIENCE:
                return
            self._shown = self._start()
        progress, task = self._shown
        progress.update(task, completed=self._done, description=description)

    def _start(self) -> "tuple[Progress, TaskID]":
        from rich.console import Console  # not needed before there is work to show
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%" if self._total else "{task.completed:,.0f}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        progress = Progress(*columns, console=Console(stderr=True), transient=True, get_time=monotonic)
        task = progress.add_task(self._description, total=self._total)
        progress.tasks[0].start_time = self._began
        progress.start()
        return progress, task

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()


class _Lines(Bar):
    """A line every ten seconds, where standard error is no terminal: how much, how fast, and how long it will take.

    Speed is that of the stage, since rows of a warm-up take another time than those after it.
    """

    def __init__(self, description: str, total: float | None, counts_rows: bool) -> None:
        self._stage, self._total, self._counts_rows = description, total, counts_rows
        self._wrote = self._heard = monotonic()
        self._done, self._rows = 0.0, 0
        self._fits_began: float | None = None
        self._begin()

    def _begin(self) -> None:
        """Begin a stage, which took over when the one before it was last heard of."""
        self._began, self._first_done, self._first_rows = self._heard, self._done, self._rows

    def at(self, done: float, description: str | None = None, rows: int | None = None) -> None:
        if description is not None and description != self._stage:
            self._begin()
            self._stage = description
        self._done, self._rows = done, int(done) if rows is None and self._counts_rows else rows or 0
        self._heard, self._fits_began = monotonic(), None
        if self._is_due():
            self._write([self._stage, *self._state(self._heard - self._began)])

    def fits(self, description: str, done: int, todo: int) -> None:
        self._heard = monotonic()
        if self._fits_began is None:
            self._fits_began = self._heard
        if self._is_due():
            spent = self._heard - self._fits_began
            left = [f"{_clock(spent / done * (todo - done))} left"] if done else []
            self._write([f"{description}: {done} of {todo}", *left])

    def _state(self, seconds: float) -> list[str]:
        rows, done = self._rows - self._first_rows, self._done - self._first_done
        counted = bool(self._counts_rows or self._rows)
        whole = f" of {self._total:,.0f}" if self._counts_rows and self._total else ""
        parts = [f"{self._rows:,}{whole} rows"] if counted else []
        if self._total:
            parts.append(f"{min(self._done / self._total, 1.0):.0%}")
        if counted and rows > 0 and seconds > 0.0:
            speed = rows / seconds
            parts.append(f"{speed:,.0f} rows/s" if speed >= 100.0 else f"{speed:.2g} rows/s")
        if self._total and done > 0.0:
            parts.append(f"{_clock(seconds / done * max(self._total - self._done, 0.0))} left")
        return parts

    def _is_due(self) -> bool:
        return self._heard - self._wrote >= EVERY

    def _write(self, parts: list[str]) -> None:
        self._wrote = self._heard
        print(", ".join(parts), file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    """Write a span as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


@contextmanager
def progress_bar(
    description: str, total: float | None, enabled: bool = True, counts_rows: bool = True
) -> Iterator[Bar]:
    """Show progress during the body of a ``with`` statement, but not of parts of it, which may ask for it too.

    `counts_rows` says whether the total is a number of rows.
    """
    bar: Bar
    if not enabled or _SILENT.get() or sys.stderr is None or os.environ.get("STREAMGP_PROGRESS") == "off":
        bar = Bar()
    else:
        bar = _Drawn(description, total) if sys.stderr.isatty() else _Lines(description, total, counts_rows)
    try:
        with silenced():
            yield bar
    finally:
        bar.close()
