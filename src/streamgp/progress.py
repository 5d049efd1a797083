"""A progress bar on standard error for work of more than two seconds; none without a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 2.0  # seconds


class Bar:
    """One line of progress; it appears only once the work has taken longer than `PATIENCE`."""

    def __init__(self, progress: "Progress | None", description: str, total: float | None) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task(description, total=total)
        self._began = monotonic()

    def at(self, done: float, description: str | None = None) -> None:
        """Set how much is done, in the units of the total."""
        if self._progress is None or self._task is None:
            return
        if not self._progress.live.is_started and monotonic() - self._began > PATIENCE:
            self._progress.start()
        if description is None:
            self._progress.update(self._task, completed=done)
        else:
            self._progress.update(self._task, completed=done, description=description)


@contextmanager
def progress_bar(description: str, total: float | None, enabled: bool = True) -> Iterator[Bar]:
    """Show a bar during the body of a ``with`` statement."""
    from rich.console import Console  # not needed before there is work to show

    console = Console(stderr=True)
    if not enabled or not console.is_terminal:
        yield Bar(None, description, total)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%" if total else "{task.completed:,.0f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=console, transient=True)
    try:
        yield Bar(progress, description, total)
    finally:
        progress.stop()
