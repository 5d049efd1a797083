"""`streamgp restore`: the streams of a directory as they were at a position or a time."""

from pathlib import Path
from typing import Annotated

import typer

from streamgp.app.commands.quiet import Quiet
from streamgp.app.console import sentences

EXAMPLES = """
Examples:

- `streamgp restore live --at 2026-03-01T06:00:00Z` — all streams as they were then

- `streamgp restore live --at 120000 --stream power` — one stream at a position of its log
"""


def restore(
    directory: Annotated[Path, typer.Argument(help="Directory of the service, which has to be stopped.")],
    at: Annotated[str, typer.Option(help="A position of the log, or a date: what had come by then.")],
    stream: Annotated[str | None, typer.Option(help="Name of a stream. Default: all.")] = None,
    quiet: Quiet = False,
) -> None:
    """Set streams back to what they knew at a position or a time; the service goes on from there."""
    with sentences():
        from streamgp.service.restore_run import restore_directory

        restore_directory(directory, at, stream)
