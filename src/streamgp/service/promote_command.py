"""`streamgp promote`: a standby takes the place of its leader."""

from typing import Annotated

import typer

from streamgp.app.console import sentences

EXAMPLES = """
Examples:

- `streamgp promote http://10.0.0.2:8765` — the standby there leads from now on

- `streamgp promote http://10.0.0.2:8765 --force` — also if rows may be lost that only its leader has
"""


def promote(
    url: Annotated[str, typer.Argument(help="Address of the standby.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also if the standby may not have all that was acknowledged.")
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(help="Token that the standby asks for, with admin:*.", envvar="STREAMGP_TOKEN"),
    ] = None,
) -> None:
    """Have a standby lead: it takes rows from now on, and the service before it no more."""
    with sentences():
        from streamgp.service.promote_run import promote_standby

        promote_standby(url, force, token)
