"""Tokens of clients: the file that has their hashes, read again when it changes."""

import hashlib
import hmac
import logging
import os
import secrets
from pathlib import Path

from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.web.changes import version_of
from streamgp.service.web.tenants import Scope, TenantError, Token, parse

LOGGER = logging.getLogger("streamgp.service")


class TokenFile:
    """A file of tenants and the hashes of their tokens, as it is now.

    A file that was changed, and can no longer be used, leaves the tokens as they were; a line of the log says so.

    Parameters
    ----------
    path
        Of the file.

    Raises
    ------
    TenantError
        If it cannot be read, is none, or other users may read it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = version_of(path)
        self._tokens = read(path)

    def find(self, digest: str) -> Token | None:
        """Return the token of a hash, in a time that does not depend on how close others come."""
        self._look()
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def _look(self) -> None:
        """Read the file again if it is another one."""
        version = version_of(self._path)
        if version == self._version:
            return
        self._version = version
        try:
            self._tokens = read(self._path)
        except TenantError as error:
            LOGGER.error("%s; the tokens stay as they were before the file changed", error)


def read(path: Path) -> list[Token]:
    """Read a file of tenants, which its owner alone may read; return the tokens.

    Raises
    ------
    TenantError
        If it cannot be used.
    """
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except OSError as error:
        advice = "make it with --add-token NAME:SCOPES"
        raise TenantError(f"{path}: could not be read ({error.strerror}); {advice}") from error
    except UnicodeDecodeError as error:
        raise TenantError(f"{path}: expected text in UTF-8, got other bytes") from error
    if os.name != "nt" and mode & 0o077:
        raise TenantError(f"{path}: expected a file that its owner alone may read; run chmod 600 {path}")
    try:
        return parse(text)[1]
    except TenantError as error:
        raise TenantError(f"{path}: {error}") from error


def add(path: Path, name: str, scopes: list[str], expires: str | None = None) -> str:
    """Add a token to a file, which is made if need be, and return it; it is kept nowhere.

    Parameters
    ----------
    path
        Of the file.
    name
        Of the tenant; a new one has `scopes`, one that is there has none to name.
    scopes
        As in ``write:plant-*``.
    expires
        A date, or one with time and zone, as in TOML; None: never.

    Raises
    ------
    TenantError
        If a scope is none, or the tenant is in the file with scopes, or the file cannot be used.
    """
    before = ""
    if path.exists():
        read(path)
        before = path.read_text(encoding="utf-8")
    is_known = any(tenant.name == name for tenant in parse(before)[0])
    if is_known == bool(scopes):
        expected = "no scopes, as the file has them" if is_known else "NAME:SCOPES, as the file has no such name"
        raise TenantError(f"--add-token: expected {expected}, got {':'.join((name, *scopes[:1]))!r:.80}")
    secret = secrets.token_urlsafe(32)
    text = f"{before.rstrip()}\n\n" if before.strip() else ""
    if scopes:
        listed = ", ".join(f'"{scope.role}:{scope.pattern}"' for scope in map(Scope.parse, scopes))
        text += f"[{name}]\nscopes = [{listed}]\n\n"
    text += f'[[{name}.tokens]]\nsha256 = "{digest_of(secret)}"\n'
    text += "" if expires is None else f"expires = {expires}\n"
    try:
        parse(text)
    except TenantError as error:
        raise TenantError(f"--add-token: {error}") from error
    _write(path, text)
    return secret


def _write(path: Path, text: str) -> None:
    aside = path.with_name(path.name + ".new")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_directory(path.parent)


def digest_of(secret: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()
