"""Tokens of clients: only their hashes are on disk."""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streamgp.numerics.checkpoint.directory import sync_directory

SCOPES = ("read", "predict", "learn", "admin")


@dataclass(frozen=True)
class Token:
    """A client: its name, the SHA-256 of its token, and what it may do."""

    name: str
    digest: str
    scopes: tuple[str, ...]


class TokenError(ValueError):
    """A file of tokens that cannot be used; the message says why."""


def read(path: Path) -> list[Token]:
    """Read a file of tokens.

    Raises
    ------
    TokenError
        If it cannot be read, is none, or other users may read it.
    """
    try:
        text = path.read_text()
        if os.name != "nt" and path.stat().st_mode & 0o077:
            raise TokenError(f"{path}: expected a file that its owner alone may read; run chmod 600 {path}")
        tokens = [Token(each["name"], each["sha256"], tuple(each["scopes"])) for each in json.loads(text)]
    except OSError as error:
        raise TokenError(
            f"{path}: could not be read ({error.strerror}); make it with --add-token NAME:SCOPES"
        ) from error
    except TokenError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise TokenError(
            f"{path}: expected a list of name, sha256 and scopes, got something else ({error})"
        ) from error
    wrong = [token.name for token in tokens if not set(token.scopes) <= set(SCOPES) or len(token.digest) != 64]
    if wrong:
        raise TokenError(
            f"{path}: expected scopes among {', '.join(SCOPES)} and hashes of 64 digits for {wrong[0]!r}"
        )
    return tokens


def add(path: Path, name: str, scopes: Sequence[str]) -> str:
    """Add a client to a file, which is made if need be, and return its token, which is kept nowhere.

    Raises
    ------
    TokenError
        If a scope is not known, or the file has the name already.
    """
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes or not name:
        raise TokenError(
            f"--add-token: expected NAME:SCOPES, scopes among {','.join(SCOPES)}, got {name}:{','.join(scopes)}"
        )
    known = read(path) if path.exists() else []
    if any(token.name == name for token in known):
        raise TokenError(f"{path}: expected another name than {name!r}, which has a token; remove its entry first")
    secret = secrets.token_urlsafe(32)
    entries = [*known, Token(name, digest_of(secret), tuple(scopes))]
    aside = path.with_name(path.name + ".new")
    text = json.dumps([{"name": t.name, "sha256": t.digest, "scopes": list(t.scopes)} for t in entries], indent=1)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_directory(path.parent)
    return secret


def digest_of(secret: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def find(tokens: Sequence[Token], secret: str) -> Token | None:
    """Return the client of a token, in a time that does not tell which one comes close."""
    digest, found = digest_of(secret), None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            found = token
    return found
