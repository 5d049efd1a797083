"""Who may ask for what: one table of all routes, and what each needs of its caller."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import cast

from fastapi import Request
from starlette.routing import compile_path
from starlette.types import Scope as Asked

from streamgp.service.problems import Problem
from streamgp.service.streams import unknown_stream
from streamgp.service.web.tenants import Scope, Tenant
from streamgp.service.web.tokens import TokenFile, digest_of

# Anybody may ask; what is shown of streams is what the caller may see.
OPEN = "open"
# Any tenant may ask, and sees its own streams alone.
ANY = "any"
# Who may do all with all streams may ask.
ALL = "all"
# What each route needs: a role on the stream that its path names, or else on the one that its body names.
# A route that is not here is answered to nobody who shows a token.
ROUTES = {
    "GET /": OPEN,
    "GET /docs": OPEN,
    "GET /livez": OPEN,
    "GET /readyz": OPEN,
    "GET /static/{path:path}": OPEN,
    "HEAD /static/{path:path}": OPEN,
    "GET /openapi.json": ANY,
    "HEAD /openapi.json": ANY,
    "GET /metrics": ANY,
    "GET /v1/streams": ANY,
    "POST /v1/streams": "admin",
    "GET /v1/streams/{name}": "read",
    "GET /v1/streams/{name}/scores": "read",
    "GET /v1/streams/{name}/recent": "read",
    "GET /v1/streams/{name}/pending": "read",
    "GET /v1/streams/{name}/experts": "read",
    "GET /v1/streams/{name}/alarms": "read",
    "GET /v1/streams/{name}/keys": "read",
    "GET /v1/streams/{name}/events": "read",
    "GET /v1/streams/{name}/checkpoints": "read",
    "GET /v1/streams/{name}/challengers": "read",
    "POST /v1/streams/{name}/forecast": "read",
    "POST /v1/streams/{name}/predict": "write",
    "POST /v1/streams/{name}/learn": "write",
    "POST /v1/streams/{name}/step": "write",
    "POST /v1/streams/{name}/alarms/{number}/acknowledge": "write",
    "POST /v1/streams/{name}/checkpoint": "admin",
    "POST /v1/streams/{name}/restore": "admin",
    "POST /v1/streams/{name}/challengers": "admin",
    "POST /v1/streams/{name}/challengers/{challenger}/promote": "admin",
    "DELETE /v1/streams/{name}/challengers/{challenger}": "admin",
    "DELETE /v1/streams/{name}": "admin",
    "GET /v1/standby": ALL,
    "POST /v1/standby/entries": ALL,
    "POST /v1/standby/fence": ALL,
    "POST /v1/standby/promote": ALL,
    "GET /v1/standby/streams/{name}": ALL,
}
_COMPILED = [(route.partition(" ")[0], compile_path(route.partition(" ")[2])[0], route) for route in ROUTES]
# Without tokens any process of this machine may do all, and nobody else anything.
LOCAL = Tenant("local", (Scope("admin", "*"),))
NOBODY = Tenant("nobody")
# Where a request has its caller.
CALLER = "streamgp.caller"


@dataclass
class Caller:
    """Who makes a request, and for what.

    Attributes
    ----------
    tenant
        Whose streams the request may concern.
    route
        As in `ROUTES`; None: there is none such.
    stream
        Named by the path or, once it is read, by the body.
    digest
        Of the token; None: none was asked for.
    """

    tenant: Tenant
    route: str | None
    stream: str | None = None
    digest: str | None = None

    @property
    def is_tenant(self) -> bool:
        """Whether a token said whose the request is."""
        return self.tenant is not LOCAL and self.tenant is not NOBODY

    @property
    def is_standby(self) -> bool:
        """Whether a standby asks for entries, as it does all the time."""
        is_theirs = self.route is not None and ROUTES[self.route] == ALL
        return is_theirs and (self.tenant is LOCAL or self.tenant.administers_all)

    def check_new(self, stream: str) -> None:
        """Raise `Problem` unless the caller may make a stream of this name, whether there is one or not."""
        self.stream = stream
        if not self.tenant.may("admin", stream):
            named = self.tenant.patterns("admin")
            raise Problem(403, f"name: expected one of {named}, which {self.tenant.name!r} may make, got {stream!r}")

    def check_room(self, names: Iterable[str]) -> None:
        """Raise `Problem` if the caller has as many of these streams as it may."""
        most = self.tenant.max_streams
        if most is not None and sum(self.tenant.may("admin", name) for name in names) >= most:
            raise Problem(
                403, f"streams: expected at most {most:,} of {self.tenant.name!r}, got one more; delete one"
            )

    def check_rows(self, count: int) -> None:
        """Raise `Problem` if a request has more rows than the caller may send in one."""
        most = self.tenant.max_rows
        if most is not None and count > most:
            whose = f"of {self.tenant.name!r} in a request"
            raise Problem(403, f"rows: expected at most {most:,} {whose}, got {count:,}; send several requests")


def caller_of(request: Request) -> Caller:
    """Return who makes a request."""
    return cast(Caller, request.scope[CALLER])


@lru_cache(256)  # a path may be as long as a request's head
def route_of(method: str, path: str) -> tuple[str | None, str | None]:
    """Return the route of a request and the stream that its path names; None of what is not there."""
    for its_method, pattern, route in _COMPILED:
        found = pattern.fullmatch(path) if method == its_method else None
        if found:
            return route, found.groupdict().get("name")
    return None, None


class Access:
    """Decides who may ask.

    Parameters
    ----------
    tokens
        Those of the clients; None: whoever asks may do all.
    """

    def __init__(self, tokens: TokenFile | None) -> None:
        self._tokens = tokens

    @property
    def has_tokens(self) -> bool:
        """Whether clients need tokens."""
        return self._tokens is not None

    def caller(self, asked: Asked, authorization: str) -> Caller:
        """Return who makes a request, and note it there."""
        route, stream = route_of(asked["method"], asked["path"])
        caller = asked[CALLER] = Caller(LOCAL if self._tokens is None else NOBODY, route, stream)
        kind, _, secret = authorization.partition(" ")
        if self._tokens is not None and kind.lower() == "bearer":
            caller.digest = digest_of(secret.strip())
            caller.tenant = self._tenant(caller.digest)
        return caller

    def check(self, caller: Caller) -> None:
        """Raise `Problem` unless the caller may make its request.

        Streams that it may not see are answered as if they were not there (404).
        """
        tenant, need = caller.tenant, None if caller.route is None else ROUTES[caller.route]
        if tenant is LOCAL or need == OPEN:
            return
        if tenant is NOBODY:
            raise Problem(401, "Authorization: expected Bearer and a valid token; ask who runs this service for one")
        if need is None:
            raise Problem(404, "expected a path and a method of /openapi.json, got another")
        if need == ANY:
            return
        if need == ALL:
            if not tenant.administers_all:
                raise Problem(403, f"expected the role 'admin' on *, which {tenant.name!r} has not; ask for it")
            return
        if caller.stream is None:
            is_allowed = tenant.patterns(need) != "none"
        elif not tenant.sees(caller.stream):
            raise unknown_stream(caller.stream)
        else:
            is_allowed = tenant.may(need, caller.stream)
        if not is_allowed:
            where = "a stream" if caller.stream is None else repr(caller.stream)
            raise Problem(403, f"expected the role {need!r} on {where}, which {tenant.name!r} has not; ask for it")

    def still_holds(self, caller: Caller) -> bool:
        """Return whether a request that was allowed would be allowed now: tokens end, and files change."""
        if caller.digest is None or not caller.is_tenant:
            return True
        try:
            self.check(Caller(self._tenant(caller.digest), caller.route, caller.stream))
        except Problem:
            return False
        return True

    def _tenant(self, digest: str) -> Tenant:
        token = None if self._tokens is None else self._tokens.find(digest)
        if token is None or (token.expires is not None and token.expires <= datetime.now(UTC)):
            return NOBODY
        return token.tenant
