"""`streamgp serve`: the live service over one directory."""

from pathlib import Path
from typing import Annotated

import typer

from streamgp.app.commands.cell_options import cell_option
from streamgp.app.console import sentences

# The names of groups of options in the help.
FOLLOW = "A file that grows"
STANDBY = "A standby"

EXAMPLES = """
Examples:

- `streamgp serve live` — then open http://127.0.0.1:8765

- `curl localhost:8765/v1/streams -d '{"name": "power", "target": "load", "features": ["temp"]}' -H 'Content-Type: application/json'`

- `streamgp serve live --follow power.csv --target load` — and learn a file row by row as it is written

- `./meter | streamgp serve live --follow - --target load --stream meter`

- `streamgp serve live --token-file tokens.toml --add-token 'plant:admin:plant-*,read:shared'` — print a new token, and end

- `streamgp serve live --accept-loss power` — go on with a stream whose log is damaged from what is left of it

- `streamgp serve copy --port 8766 --standby-of http://127.0.0.1:8765` — keep a second service that can take over

- `streamgp serve live --host 0.0.0.0 --token-file tokens.toml --certificate cert.pem --key-file key.pem` — for other machines
"""  # noqa: E501


def serve(
    directory: Annotated[Path, typer.Argument(help="Where streams, logs and checkpoints are kept; made if need be.")],
    host: Annotated[str, typer.Option(help="Address to listen on. Others than loopback need tokens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Tenants, and the hashes of their tokens, as TOML. It is read again when it changes."),
    ] = None,
    add_token: Annotated[
        str | None,
        typer.Option(
            help="NAME:SCOPES of a new tenant, a scope being read, write or admin and streams, as in write:plant-*; "
            "or the NAME of one that is there: print a new token, and end."
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(help="With --add-token: the token holds until this date (2027-01-31). Default: for ever."),
    ] = None,
    audit_log: Annotated[
        Path | None,
        typer.Option(help="Write a line of JSON for each request: who, what, which stream, how it ended."),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Encrypt connections (TLS) with this certificate and its chain (PEM), read again when it changes."
        ),
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="The private key of the certificate, as PEM.")] = None,
    max_body: Annotated[int, typer.Option(help="Largest request, in megabytes.", min=1, max=1024)] = 32,
    max_rate: Annotated[
        float | None,
        typer.Option(
            help="Requests of a client in a second, where the token file has none. Default: any number.", min=0.01
        ),
    ] = None,
    accept_loss: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a damaged stream that goes on from what is left of it; what is lost is said, and what "
            "cannot be used is moved to its directory aside. May be given again."
        ),
    ] = None,
    standby_of: Annotated[
        str | None,
        typer.Option(
            help="Address of a service (http://10.0.0.1:8765) whose streams are copied, and then kept as they are "
            "there; streamgp promote has this service take its place.",
            rich_help_panel=STANDBY,
        ),
    ] = None,
    leader_token: Annotated[
        str | None,
        typer.Option(
            help="Token that the other service asks for, with admin:*.",
            envvar="STREAMGP_LEADER_TOKEN",
            rich_help_panel=STANDBY,
        ),
    ] = None,
    standby_timeout: Annotated[
        float,
        typer.Option(
            help="Seconds for which a service waits for its standby before it goes on alone.",
            min=1.0,
            max=3600.0,
            rich_help_panel=STANDBY,
        ),
    ] = 10.0,
    follow: Annotated[
        list[str] | None,
        typer.Option(
            help="A CSV file to learn row by row as it grows, or - for standard input. Each row is learnt once, also "
            "after a restart or a rotation of the file; of standard input nothing is remembered. May be given again: "
            "each file has a stream of its own, and the options below hold for all.",
            rich_help_panel=FOLLOW,
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict.", rich_help_panel=FOLLOW)] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Columns of numbers to predict from, with commas. Default: all others.", rich_help_panel=FOLLOW
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Column of times, numbers or dates (ISO 8601, 20240131); forgetting then runs by time, not by rows.",
            rich_help_panel=FOLLOW,
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column of keys: a small model for each one.", rich_help_panel=FOLLOW)
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Preset of the stream. Default: default.", rich_help_panel=FOLLOW)
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(help="Rows after which hyperparameters are fitted. Default: 1000.", rich_help_panel=FOLLOW),
    ] = None,
    missing_values: Annotated[str | None, cell_option("missing_values", FOLLOW)] = None,
    decimal: Annotated[str | None, cell_option("decimal", FOLLOW)] = None,
    thousands: Annotated[str | None, cell_option("thousands", FOLLOW)] = None,
    stream: Annotated[
        str | None,
        typer.Option(
            help="Name of the stream, which is made if there is none. Default: that of the file.",
            rich_help_panel=FOLLOW,
        ),
    ] = None,
) -> None:
    """Serve streams over HTTP: predict, learn late, forecast; nothing acknowledged is lost. A page is at /."""
    with sentences():
        from streamgp.app.outputs import RunError
        from streamgp.service.serve import Entrance, Pair, add_client, serve_directory, to_follow

        if expires is not None and add_token is None:
            raise RunError("--expires: expected --add-token NAME with it, whose end it is; leave it out")
        if standby_of is not None and follow:
            raise RunError("--follow: expected none with --standby-of, as a standby takes no rows; leave it out")
        if add_token is not None:
            add_client(token_file, add_token, expires)
        else:
            what = to_follow(
                follow or (),
                target,
                features=features,
                time=time,
                key=key,
                model=model,
                warmup=warmup,
                missing_values=missing_values,
                decimal=decimal,
                thousands=thousands,
                stream=stream,
            )
            entrance = Entrance(host, port, token_file, audit_log, certificate, key_file, max_body << 20, max_rate)
            pair = Pair(standby_of, leader_token, standby_timeout)
            serve_directory(directory, entrance, pair, what, accept_loss or ())
