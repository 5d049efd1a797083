"""A short way to the routes that take rows, around what a framework does for every request."""

import re

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from streamgp.service.problems import Problem
from streamgp.service.web.bodies import refusal

_OF_STREAM = re.compile(r"/v1/streams/([^/]+)(/[a-z]+)")


class Direct:
    """Calls the endpoints of a router that need the request and the name of a stream, and nothing else.

    FastAPI knows these routes as well, for its description of the service, and answers requests with a query, which
    it checks. To find a route, to solve its dependencies and to set up what an endpoint may need was about a third
    of what a request of a single row costs outside of the model.

    Parameters
    ----------
    app
        What answers other requests.
    router
        Its routes are those of a stream, and are called by POST.
    """

    def __init__(self, app: ASGIApp, router: APIRouter) -> None:
        self._app = app
        self._endpoints = {route.path: route.endpoint for route in router.routes if isinstance(route, APIRoute)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        found = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]:
            found = _OF_STREAM.fullmatch(scope["path"])
        if found is None or found[2] not in self._endpoints:
            await self._app(scope, receive, send)
            return
        try:
            response = await self._endpoints[found[2]](Request(scope, receive), found[1])
        except Problem as problem:
            response = refusal(problem)
        await response(scope, receive, send)
