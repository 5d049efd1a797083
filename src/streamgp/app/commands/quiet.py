"""The option of commands that show no progress."""

from typing import Annotated, Any

import typer

from streamgp.progress import silenced


def _silence(context: Any, quiet: bool) -> bool:
    """Show nothing until the command has ended."""
    if quiet:
        context.with_resource(silenced())
    return quiet


Quiet = Annotated[
    bool,
    typer.Option("--quiet", callback=_silence, help="Show no progress on standard error."),
]
