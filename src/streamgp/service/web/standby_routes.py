"""Routes between a leader and its standby, and for who promotes it."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from streamgp.service.problems import Problem
from streamgp.service.standby.leadership import Leadership, describe
from streamgp.service.standby.shipping import archived, news_for, packed
from streamgp.service.standby.standing_by import StandingBy
from streamgp.service.streams import Streams
from streamgp.service.web import schemas
from streamgp.service.web.bodies import answer, plain, read_document
from streamgp.service.web.checks import known_query
from streamgp.service.web.schemas import answers, body

BYTES = "application/octet-stream"


def of_standby(streams: Streams, standing_by: StandingBy | None) -> APIRouter:
    """Return the routes of leader and standby."""
    router = APIRouter(tags=["standby"], dependencies=[Depends(known_query)])
    leadership = streams.leadership
    # A leader has one standby, which waits here for entries.
    pool = ThreadPoolExecutor(1, thread_name_prefix="streamgp-shipping")

    @router.get("", summary="Who leads, and how far the standby is", responses=answers())
    def status(request: Request) -> Response:
        lag = None if standing_by is None or leadership.leads else standing_by.status()
        return answer(request, plain(describe(leadership, lag)))

    @router.post(
        "/promote",
        summary="Have this standby lead",
        openapi_extra=body(schemas.PROMOTE, "promote"),
        responses=answers(None, 200, 409, 507),
    )
    async def promote(request: Request) -> Response:
        document = await read_document(request)
        force = document.get("force", False)
        if not isinstance(force, bool) or document.keys() - {"force"}:
            raise Problem(422, f"expected force, true or false, and nothing else, got {str(document)[:80]}")
        if leadership.leads:
            return answer(request, plain(describe(leadership, None)))
        if standing_by is None:
            leadership.check()
        else:
            await asyncio.to_thread(standing_by.promote, force)
        return answer(request, plain(describe(leadership, None)))

    @router.post("/fence", summary="Have this leader take no more rows", include_in_schema=False)
    async def fence(request: Request) -> Response:
        told = _checked(await read_document(request), {"service": str, "epoch": int, "leader": str})
        await asyncio.to_thread(leadership.replaced, told["service"], told["epoch"], told["leader"])
        return answer(request, plain(describe(leadership, None)))

    @router.post("/entries", summary="Entries that a standby has not", include_in_schema=False)
    async def entries(request: Request) -> Response:
        kinds = {"service": str, "epoch": int, "standby": str, "streams": dict}
        asked = _checked(await read_document(request), kinds)
        _check_same(leadership, asked)
        found, news = await asyncio.get_running_loop().run_in_executor(pool, news_for, streams, asked)
        found |= {"service": leadership.now.service, "epoch": leadership.now.number}
        return Response(await asyncio.to_thread(packed, found, news), media_type=BYTES)

    @router.get("/streams/{name}", summary="A copy of a stream", include_in_schema=False)
    async def copy(name: str) -> Response:
        parts = archived(streams.get(name))
        # A stream that cannot be copied is refused before the answer begins.
        first = await asyncio.to_thread(next, parts)
        return StreamingResponse(_all(first, parts), media_type=BYTES)

    return router


def _all(first: bytes, parts: Iterator[bytes]) -> Iterator[bytes]:
    yield from chain([first], parts)


def _checked(document: dict[str, Any], kinds: dict[str, type]) -> dict[str, Any]:
    if document.keys() != kinds.keys() or not all(type(document[name]) is kind for name, kind in kinds.items()):
        raise Problem(422, f"expected {', '.join(kinds)} of a standby, got {json.dumps(document)[:80]}")
    return document


def _check_same(leadership: Leadership, asked: dict[str, Any]) -> None:
    """Raise `Problem` unless a standby is one of this leader, which gets a name for both if it has none."""
    now = leadership.now
    leadership.check()
    if not now.service and not asked["service"]:
        leadership.file.write(service=uuid4().hex)
    elif asked["service"] and asked["service"] != now.service:
        raise Problem(
            409,
            "service: expected a standby of these streams, got one of others; begin it with an empty directory",
        )
    elif asked["epoch"] > now.number:
        leadership.replaced(now.service, asked["epoch"], "")
        leadership.check()
