"""Tenants: their names, what each may do on which streams, and how much; as a file of TOML has them."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from streamgp.service.config import NAME

# What one may do on a stream; each role has those before it.
ROLES = ("read", "write", "admin")
_SCOPE = re.compile(rf"({'|'.join(ROLES)}):([A-Za-z0-9_-]*\*?)")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LIMITS = ("max_rate", "max_streams", "max_rows")
A_SCOPE = "ROLE:NAME or ROLE:PREFIX*, a role of read, write, admin"


class TenantError(ValueError):
    """A file of tenants that cannot be used; the message says why."""


@dataclass(frozen=True)
class Scope:
    """A role on the streams of a name, or of names that begin alike.

    Attributes
    ----------
    role
        One of `ROLES`.
    pattern
        A name, or the beginning of names and ``*``.
    """

    role: str
    pattern: str

    @classmethod
    def parse(cls, text: Any) -> "Scope":
        """Read a scope, such as ``write:plant-*``.

        Raises
        ------
        TenantError
            If it is none.
        """
        found = _SCOPE.fullmatch(text) if isinstance(text, str) else None
        if found is None or not found[2]:
            raise TenantError(f"expected scopes of {A_SCOPE}, got {text!r:.80}")
        return cls(found[1], found[2])

    def covers(self, stream: str) -> bool:
        """Return whether the stream has such a name."""
        if self.pattern.endswith("*"):
            return stream.startswith(self.pattern[:-1])
        return stream == self.pattern


@dataclass(frozen=True)
class Tenant:
    """One whose streams are apart from those of others.

    Attributes
    ----------
    name
        Letters, digits, ``-`` and ``_``.
    scopes
        What it may do.
    max_rate
        Requests in a second, on average over ten; None: as the service has it for all.
    max_streams
        Streams that there may be of those it administers; None: any number.
    max_rows
        Rows of a request; None: as many as anybody.
    """

    name: str
    scopes: tuple[Scope, ...] = ()
    max_rate: float | None = None
    max_streams: int | None = None
    max_rows: int | None = None

    def sees(self, stream: str) -> bool:
        """Return whether the tenant may know that there is such a stream."""
        return any(scope.covers(stream) for scope in self.scopes)

    @property
    def sees_all(self) -> bool:
        """Whether the tenant may know of every stream."""
        return any(scope.pattern == "*" for scope in self.scopes)

    @property
    def administers_all(self) -> bool:
        """Whether the tenant may do all with every stream."""
        return any((scope.role, scope.pattern) == (ROLES[-1], "*") for scope in self.scopes)

    def may(self, role: str, stream: str) -> bool:
        """Return whether the tenant has a role, or one above it, on a stream."""
        high = ROLES[ROLES.index(role) :]
        return any(scope.role in high and scope.covers(stream) for scope in self.scopes)

    def patterns(self, role: str) -> str:
        """Return the names of streams on which the tenant has a role, in words."""
        high = ROLES[ROLES.index(role) :]
        return ", ".join(scope.pattern for scope in self.scopes if scope.role in high) or "none"


@dataclass(frozen=True)
class Token:
    """What a client shows: the SHA-256 of it, whose it is, and until when it holds."""

    digest: str = field(repr=False)
    tenant: Tenant
    expires: datetime | None = None


def parse(text: str) -> tuple[list[Tenant], list[Token]]:
    """Return the tenants of a file, and their tokens.

    Raises
    ------
    TenantError
        If something in it is not as expected.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TenantError(f"expected TOML, with a table for each tenant, got something else ({error})") from error
    tenants, tokens = [], []
    for name, table in document.items():
        try:
            tenant = _tenant(name, table)
            tokens += _tokens(tenant, table.get("tokens", []))
        except TenantError as error:
            raise TenantError(f"[{name[:80]}]: {error}") from error
        tenants.append(tenant)
    digests = [token.digest for token in tokens]
    twice = [token.tenant.name for token in tokens if digests.count(token.digest) > 1]
    if twice:
        raise TenantError(f"[{twice[-1]}]: expected tokens that are there once, got one again; remove it")
    return tenants, tokens


def _tenant(name: str, table: Any) -> Tenant:
    if not NAME.fullmatch(name):
        raise TenantError("expected a name of 1 to 64 letters, digits, - and _; name it so")
    if not isinstance(table, dict):
        raise TenantError("expected a table with scopes and tokens, got something else")
    _check_names(table, ("scopes", *_LIMITS, "tokens"))
    scopes = table.get("scopes")
    if not isinstance(scopes, list) or not scopes:
        raise TenantError(f"expected scopes, a list of {A_SCOPE}, got {scopes!r:.80}")
    for limit in _LIMITS:
        value = table.get(limit)
        kinds = int | float if limit == "max_rate" else int
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < 1e12):
            raise TenantError(f"{limit}: expected a number above 0, got {value!r:.80}")
    return Tenant(name, tuple(map(Scope.parse, scopes)), *(table.get(limit) for limit in _LIMITS))


def _tokens(tenant: Tenant, tables: Any) -> list[Token]:
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise TenantError("tokens: expected tables of sha256 and perhaps expires, got something else")
    found = []
    for table in tables:
        _check_names(table, ("sha256", "expires"))
        digest = table.get("sha256")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise TenantError("sha256: expected 64 digits of a hash; --add-token writes them")
        found.append(Token(digest, tenant, _moment(table.get("expires"))))
    return found


def _moment(value: Any) -> datetime | None:
    """Return the moment of a date, at whose beginning (UTC) it is, or of a date and time with its zone."""
    if value is None or (isinstance(value, datetime) and value.tzinfo is not None):
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise TenantError(f"expires: expected a date such as 2027-01-31, or 2027-01-31T12:00:00Z, got {value!s:.40}")


def _check_names(table: dict[str, Any], known: Iterable[str]) -> None:
    unknown = [name for name in table if name not in known]
    if unknown:
        raise TenantError(f"expected {', '.join(known)}, got {unknown[0][:80]!r}; correct or remove it")
