"""`streamgp serve`: the live service over one directory."""

from pathlib import Path
from typing import Annotated

import typer

from streamgp.app.console import sentences

EXAMPLES = """
Examples:

- `streamgp serve live` — then open http://127.0.0.1:8765

- `curl localhost:8765/v1/streams -d '{"name": "power", "target": "load", "features": ["temp"]}' -H 'Content-Type: application/json'`

- `streamgp serve live --token-file tokens.json --add-token plant:predict,learn` — print a new token, and end

- `streamgp serve live --host 0.0.0.0 --token-file tokens.json` — for other machines, behind a proxy that encrypts
"""  # noqa: E501


def serve(
    directory: Annotated[Path, typer.Argument(help="Where streams, logs and checkpoints are kept; made if need be.")],
    host: Annotated[str, typer.Option(help="Address to listen on. Others than loopback need tokens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8765,
    token_file: Annotated[Path | None, typer.Option(help="Clients and the hashes of their tokens.")] = None,
    add_token: Annotated[
        str | None,
        typer.Option(help="NAME:SCOPES, scopes among read, predict, learn, admin: print a new token, and end."),
    ] = None,
    max_body: Annotated[int, typer.Option(help="Largest request, in megabytes.", min=1, max=1024)] = 32,
    max_rate: Annotated[
        float | None, typer.Option(help="Requests of a client in a second. Default: any number.", min=0.01)
    ] = None,
) -> None:
    """Serve streams over HTTP: predict, learn late, forecast; nothing acknowledged is lost. A page is at /."""
    with sentences():
        from streamgp.app.serve import add_client, serve_directory

        if add_token is not None:
            add_client(token_file, add_token)
        else:
            serve_directory(directory, host, port, token_file, max_body << 20, max_rate)
