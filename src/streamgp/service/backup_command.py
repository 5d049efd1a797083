"""`streamgp backup`: a copy of the directory of a service, while it runs."""

from pathlib import Path
from typing import Annotated

import typer

from streamgp.app.commands.quiet import Quiet
from streamgp.app.console import sentences

EXAMPLES = """
Examples:

- `streamgp backup live /backups/live-monday` — while the service runs, or not

- `streamgp serve /backups/live-monday --port 8766` — the copy goes on where it was made
"""


def backup(
    directory: Annotated[Path, typer.Argument(help="Directory of the service.")],
    target: Annotated[Path, typer.Argument(help="Where the copy goes: a new directory, or an empty one.")],
    quiet: Quiet = False,
) -> None:
    """Copy the streams of a service while it runs: what was acknowledged before the command began is in the copy."""
    with sentences():
        from streamgp.service.backup_run import back_up_directory

        back_up_directory(directory, target)
