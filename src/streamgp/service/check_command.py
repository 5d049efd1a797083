"""`streamgp check`: a rehearsal of an upgrade, which changes nothing."""

from pathlib import Path
from typing import Annotated

import typer

from streamgp.app.console import sentences

EXAMPLES = """
Examples:

- `streamgp check live` — whether the installed version goes on where the service was, with the same predictions

- `streamgp backup live copy && streamgp check copy` — while the service runs

- `uvx --from 'streamgp[serve]==0.2.0' streamgp check live --with 0.2.0` — by another version, before it is installed
"""


def check(
    directory: Annotated[Path, typer.Argument(help="Directory of the service, or a copy of it.")],
    version: Annotated[
        str | None,
        typer.Option(
            "--with", help="Version that is to be checked. Default: the installed one, which does the work."
        ),
    ] = None,
) -> None:
    """Learn the latest rows of each stream again, in a copy; the predictions are compared with those made."""
    with sentences():
        from streamgp.service.check_run import check_directory

        check_directory(directory, version)
