"""The process of the live service: access, the directory that it owns, and its end."""

import json
import socket
import ssl
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from streamgp.app.lock import locked
from streamgp.app.outputs import RunError
from streamgp.numerics.compiled_programs import keep_compiled_programs
from streamgp.numerics.threads import one_blas_thread

if TYPE_CHECKING:
    from streamgp.service.following import Following
    from streamgp.service.standby.standing_by import StandingBy
    from streamgp.service.streams import Streams
    from streamgp.service.web.audit import AuditLog
    from streamgp.service.web.tokens import TokenFile

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PACKAGES = "the service needs fastapi, uvicorn and prometheus-client: pip install 'streamgp[serve]'"


@dataclass(frozen=True)
class Entrance:
    """Where the service listens, and whom it lets in.

    Attributes
    ----------
    host, port
        To listen on.
    token_file
        The tenants and the hashes of their tokens; None: any process of this machine may ask.
    audit_log
        Where it is written who asked for what; None: nowhere.
    certificate, key_file
        Of TLS; None: connections are not encrypted.
    max_body, max_rate
        Bytes of a request; requests of a client in a second, None: any number.
    """

    host: str
    port: int
    token_file: Path | None
    audit_log: Path | None
    certificate: Path | None
    key_file: Path | None
    max_body: int
    max_rate: float | None

    def check(self) -> None:
        """Raise `RunError` if the options do not go together, or no certificate is in the files."""
        if self.token_file is None and self.host not in LOOPBACK:
            raise RunError(
                f"--host: expected 127.0.0.1 without tokens, got {self.host}; other machines need --token-file FILE, "
                f"which --add-token NAME:SCOPES makes"
            )
        if self.token_file is None and self.audit_log is not None:
            raise RunError("--audit-log: expected --token-file FILE with it, which says who is who; leave it out")
        if (self.certificate is None) != (self.key_file is None):
            raise RunError("--certificate, --key-file: expected both, or neither, got one; name the other as well")
        if self.certificate is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key_file)
            except OSError as error:
                files = f"{self.certificate} and {self.key_file}"
                raise RunError(f"{files}: expected a certificate and its key as PEM, got none ({error})") from error

    def open(self) -> "tuple[TokenFile | None, AuditLog | None]":
        """Open the file of tokens and the audit log, where there are such; raise `RunError` if one cannot be used."""
        from streamgp.service.web.audit import AuditLog
        from streamgp.service.web.tenants import TenantError
        from streamgp.service.web.tokens import TokenFile

        try:
            tokens = None if self.token_file is None else TokenFile(self.token_file)
            return tokens, None if self.audit_log is None else AuditLog(self.audit_log)
        except TenantError as error:
            raise RunError(str(error)) from error
        except OSError as error:
            raise RunError(f"--audit-log: {self.audit_log} cannot be written ({error.strerror})") from error

    def show_certificate(self, context: ssl.SSLContext | None) -> None:
        """Have a server, whose context of TLS this is, show the certificate as its files have it at the time."""
        from streamgp.service.web.certificates import Certificate

        if context is not None and self.certificate is not None and self.key_file is not None:
            Certificate(self.certificate, self.key_file).show_by(context)


def add_client(token_file: Path | None, client: str, expires: str | None) -> None:
    """Add a token of a tenant, NAME:SCOPES or the name of one that is there, to a file, and print it."""
    from streamgp.service.web import tokens
    from streamgp.service.web.tenants import TenantError

    if token_file is None:
        raise RunError("--add-token: expected --token-file FILE as well, to which the client is added")
    name, _, scopes = client.partition(":")
    try:
        secret = tokens.add(token_file, name, [scope for scope in scopes.split(",") if scope], expires)
    except TenantError as error:
        raise RunError(str(error)) from error
    typer.echo(secret)
    typer.echo(f"This token of {name} is shown once; {token_file} has its hash.", err=True)


def to_follow(follow: Sequence[str], target: str | None, **more: Any) -> "list[Following]":
    """Return what the service follows, from the options of the command, which hold for each file.

    Raises
    ------
    RunError
        If they do not go together, or there can be no such stream.
    """
    given = {"target": target, **more}
    if not follow:
        for name, value in given.items():
            if value is not None:
                raise RunError(f"--{name}: expected --follow FILE with it, which it says more of; leave it out")
        return []
    from streamgp.table.reading import Reading

    if target is None:
        raise RunError("--follow: expected --target COLUMN as well, which is predicted")
    if len(follow) > 1 and more["stream"] is not None:
        raise RunError(
            f"--stream: expected none with {len(follow)} files, whose names their streams have; leave it out"
        )
    try:
        reading = Reading.of(*(more.pop(name) for name in ("decimal", "thousands", "missing_values")))
    except ValueError as error:
        raise RunError(str(error)) from error
    found = [_one_to_follow(each, target, reading=reading, **more) for each in follow]
    twice = [name for name, count in Counter(each.name for each in found).items() if count > 1]
    if twice:
        raise RunError(f"--follow: expected files of different names, got two for the stream {twice[0]}; rename one")
    return found


def _one_to_follow(follow: str, target: str, **more: Any) -> "Following":
    from streamgp.app.console import names
    from streamgp.service.following import Following
    from streamgp.service.problems import Problem

    if follow.lower().endswith((".gz", ".parquet", ".jsonl")) or Path(follow).is_dir():
        raise RunError(
            f"--follow: expected a CSV file that grows, or -, got {follow}; streamgp run reads other files"
        )
    columns = names(more.pop("features"), follow)
    features = None if columns is None else tuple(columns)
    what = Following(None if follow == "-" else Path(follow), target, features, **more)
    try:
        what.config(list(what.features or ()))
    except Problem as problem:
        raise RunError(f"--follow: {problem.detail}") from problem
    return what


@dataclass(frozen=True)
class Pair:
    """What a service is to know of the other one, its leader or its standby.

    Attributes
    ----------
    leader
        Address of the leader that this service stands by; None: it leads.
    token
        That the leader asks for.
    timeout
        The seconds for which a leader waits for its standby.
    """

    leader: str | None
    token: str | None
    timeout: float

    def stand_by(self, streams: "Streams") -> "StandingBy | None":
        """Set up what works beside the streams: a standby, or a leader that may have replaced another one.

        Raises
        ------
        RunError
            If the directory cannot be that of a standby, or is one, and was not to be.
        """
        from streamgp.service.problems import Problem
        from streamgp.service.standby.epoch import STANDBY
        from streamgp.service.standby.link import Link
        from streamgp.service.standby.standing_by import Fencing, StandingBy, begin

        now, fencing = streams.leadership.now, Fencing(streams.leadership, self.token)
        streams.add(fencing)
        if self.leader is None:
            if now.role == STANDBY:
                raise RunError(
                    f"DIR: expected --standby-of {now.leader}, as these streams are its standby's; begin it so, and "
                    f"have it lead by streamgp promote"
                )
            return None
        try:
            standing_by = StandingBy(streams, begin(streams, self.leader), Link(self.leader, self.token), fencing)
        except ValueError as error:
            raise RunError(f"--standby-of: {error}") from error
        except Problem as problem:
            raise RunError(problem.detail) from problem
        streams.add(standing_by)
        return standing_by


def serve_directory(
    directory: Path,
    entrance: Entrance,
    pair: Pair,
    follow: "Sequence[Following]" = (),
    accept_loss: Sequence[str] = (),
) -> None:
    """Serve the streams of a directory until the process is told to end; then write checkpoints.

    Raises
    ------
    RunError
        If a package is missing, another process has the directory, or the address or a file cannot be had.
    """
    try:
        import uvicorn

        from streamgp.app.graceful import WAITING, Server
        from streamgp.service.follow import Follower
        from streamgp.service.web import connections
        from streamgp.service.web.app import Limits, make_app
        from streamgp.service.web.audit import Audited
    except ImportError as error:
        raise RunError(f"{_PACKAGES} ({error.name} is missing)") from error
    entrance.check()
    tokens, audit = entrance.open()
    keep_compiled_programs()
    # The limit on BLAS threads is set once, since setting it for every row takes time.
    with locked(directory, "DIR"), one_blas_thread():
        for name in accept_loss:
            _accept_loss(directory, name)
        streams = _opened(directory, pair.timeout)
        standing_by = pair.stand_by(streams)
        for each in follow:
            streams.follow(Follower(streams, each, lambda text: typer.echo(f"streamgp: {text}", err=True)))
        app: Any = make_app(streams, tokens, Limits(entrance.max_body, entrance.max_rate), standing_by)
        config = uvicorn.Config(
            app if audit is None else Audited(app, audit),
            host=entrance.host,
            port=entrance.port,
            ssl_certfile=entrance.certificate,
            ssl_keyfile=entrance.key_file,
            # Warnings are about what clients send, and clients could fill a disk with them.
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=10,
            lifespan="on",
            http=cast(Any, partial(connections.Connection, connections.Connections(connections.raise_descriptors()))),
            timeout_keep_alive=int(connections.IDLE_SECONDS),
            backlog=connections.BACKLOG,
            ws="none",
        )
        config.load()
        entrance.show_certificate(config.ssl)
        server = Server(config, streams.leadership.leave)
        try:
            listening = _listen(entrance.host, entrance.port, WAITING)
        except OSError as error:
            where = f"{entrance.host}:{entrance.port}"
            raise RunError(
                f"{where} cannot be listened on ({error.strerror}): choose another --host or --port"
            ) from error
        scheme = "http" if entrance.certificate is None else "https"
        host = f"[{entrance.host}]" if ":" in entrance.host else entrance.host
        address = f"{scheme}://{host}:{listening.getsockname()[1]}"
        # Clients are sent here once it leads; an address of all interfaces is none.
        streams.leadership.address = address.replace("//0.0.0.0:", f"//{socket.gethostname()}:").replace(
            "//[::]:", f"//{socket.gethostname()}:"
        )
        typer.echo(f"streamgp serves {directory} at {address}; Ctrl-C ends it", err=True)
        server.run(sockets=[listening])


def _opened(directory: Path, timeout: float) -> "Streams":
    from streamgp.service.garbage import Garbage
    from streamgp.service.problems import Problem
    from streamgp.service.streams import Streams

    try:
        streams = Streams(directory, timeout)
    except Problem as problem:
        raise RunError(problem.detail) from problem
    streams.add(Garbage())
    return streams


def _accept_loss(directory: Path, name: str) -> None:
    """Let a damaged stream go on from what is left of it, and say what that is."""
    from streamgp.service.config import StreamConfig
    from streamgp.service.problems import Problem
    from streamgp.service.salvage import accept_loss
    from streamgp.service.streams import CONFIG

    path = directory / "streams" / name / CONFIG
    try:
        config = StreamConfig.from_document(json.loads(path.read_text()))
        typer.echo(f"streamgp: {accept_loss(path.parent, config)}", err=True)
    except FileNotFoundError as error:
        raise RunError(f"--accept-loss: expected the name of a stream of {directory}, got {name}") from error
    except (Problem, ValueError, TypeError, AttributeError) as error:
        raise RunError(str(error) if isinstance(error, Problem) else f"{path}: cannot be read ({error})") from error


def _listen(host: str, port: int, waiting: int) -> socket.socket:
    """Return a socket that listens; its protocol is named, or asyncio would leave small answers waiting (Nagle)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        # Clients that come before the server is ready wait.
        listening.listen(waiting)
    except OSError:
        listening.close()
        raise
    return listening
