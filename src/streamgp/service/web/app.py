"""The application: routes, and what each does with a stream."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from streamgp.service.problems import Problem, unforeseen
from streamgp.service.requests import promise
from streamgp.service.standby.standing_by import StandingBy
from streamgp.service.status import describe_broken
from streamgp.service.streams import Streams
from streamgp.service.web import schemas
from streamgp.service.web.access import caller_of
from streamgp.service.web.bodies import answer, plain, read_document, refusal
from streamgp.service.web.challenger_routes import of_challengers
from streamgp.service.web.checks import known_query, new_config
from streamgp.service.web.description import DescribedApp
from streamgp.service.web.direct import Direct
from streamgp.service.web.measures import Measured, Measures
from streamgp.service.web.reading_routes import of_reading
from streamgp.service.web.row_routes import of_rows
from streamgp.service.web.schemas import answers, body
from streamgp.service.web.security import Guard
from streamgp.service.web.standby_routes import of_standby
from streamgp.service.web.state_routes import of_state
from streamgp.service.web.tokens import TokenFile
from streamgp.service.web.waiting import Waiting
from streamgp.version import __version__

MAX_BODY = 32 << 20


@dataclass(frozen=True)
class Limits:
    """What a client may ask for: bytes of a body, and requests in a second."""

    max_body: int = MAX_BODY
    max_rate: float | None = None


def make_app(
    streams: Streams,
    tokens: TokenFile | None = None,
    limits: Limits | None = None,
    standing_by: StandingBy | None = None,
) -> Guard:
    """Return the application of a directory's streams, which are started and stopped with it.

    Parameters
    ----------
    streams
        Not started yet.
    tokens
        Of the clients; None: any process of this machine may ask.
    limits
        On requests.
    standing_by
        At work if this is a standby; started and stopped with the streams.
    """
    limits = Limits() if limits is None else limits

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(streams.start)
        yield
        await asyncio.to_thread(streams.stop)

    app = DescribedApp(
        title="streamgp",
        version=__version__,
        description="Learn from data streams with honest error bars, over HTTP.",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )
    measures = Measures(streams, standing_by)

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return refusal(error)

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        asked = f"{request.method} {request.url.path[:80]}"
        return refusal(Problem(error.status_code, f"expected a path and a method of /openapi.json, got {asked}"))

    async def broken(_: Request, error: Exception) -> Response:
        return refusal(unforeseen(error))

    app.add_exception_handler(Problem, refused)
    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(Exception, broken)

    rows = of_rows(streams)
    app.add_middleware(Direct, router=rows)
    app.add_middleware(Measured, measures=measures)
    app.include_router(_of_service(streams, measures, standing_by))
    app.include_router(_of_streams(streams), prefix="/v1/streams")
    for router in (of_reading(streams), rows, of_state(streams), of_challengers(streams)):
        app.include_router(router, prefix="/v1/streams/{name}")
    app.include_router(of_standby(streams, standing_by), prefix="/v1/standby")
    page = files("streamgp.service") / "page"
    app.mount("/static", StaticFiles(directory=str(page), check_dir=False))

    for path, name in (("/", "index.html"), ("/docs", "docs.html")):
        app.get(path, include_in_schema=False)(partial(_html, page / name))

    return Guard(app, tokens, limits.max_body, limits.max_rate)


async def _html(path: Traversable) -> Response:
    return Response(path.read_bytes(), media_type="text/html; charset=utf-8")


def _of_service(streams: Streams, measures: Measures, standing_by: StandingBy | None) -> APIRouter:
    router = APIRouter(tags=["service"])

    @router.get("/livez", summary="Whether the process lives")
    async def livez() -> dict[str, str]:
        return {"status": "alive"}

    @router.get("/readyz", summary="Whether all streams are restored", responses=answers(None, 200, 500))
    async def readyz(request: Request) -> Response:
        sees = caller_of(request).tenant.sees
        replayed = {each.config.name: round(each.replayed, 3) for each in streams.all() if not each.is_ready}
        failed = [each.config.name for each in streams.all() if each.failure] + list(streams.broken)
        copying = standing_by is not None and not (standing_by.has_copied or streams.leadership.leads)
        found: dict[str, Any] = {
            "status": "replaying" if replayed else "copying" if copying else "ready",
            "role": streams.leadership.now.role,
            "replayed": {name: share for name, share in replayed.items() if sees(name)},
            "failed": [name for name in failed if sees(name)],
        }
        if standing_by is not None and not streams.leadership.leads:
            lag = standing_by.status()
            found |= {name: lag[name] for name in ("lag_positions", "lag_seconds", "may_lead")}
        return answer(request, found, 503 if replayed or copying else 200)

    @router.get("/metrics", summary="Numbers for Prometheus", response_class=PlainTextResponse)
    def metrics(request: Request) -> Response:
        text = measures.text(caller_of(request).tenant)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _of_streams(streams: Streams) -> APIRouter:
    router = APIRouter(tags=["streams"], dependencies=[Depends(known_query)])
    waiting = Waiting()

    @router.post(
        "",
        summary="Create a stream",
        status_code=201,
        openapi_extra=body(schemas.CREATE, "create"),
        responses=answers(None, 201, 409, 507),
    )
    async def create(request: Request) -> Response:
        document = await read_document(request)
        config, caller = new_config(document), caller_of(request)
        caller.check_new(config.name)
        stream, is_new = await asyncio.to_thread(streams.create, config, caller.check_room)
        # The answer waits until the stream takes rows, and until a standby has it too.
        while is_new and not (stream.is_ready or stream.failure):
            await asyncio.sleep(0.005)
        known: Future[Any] = promise()
        streams.leadership.acknowledge(stream.token, 0, lambda problem: known.set_result(problem))
        refused = await waiting.answer(known)
        if refused is not None:
            raise refused
        return answer(
            request, plain(config.document() | {"position": stream.knowledge.position}), 201 if is_new else 200
        )

    @router.get("", summary="List the streams", responses=answers())
    def every(request: Request) -> Response:
        sees = caller_of(request).tenant.sees
        broken = {name: reason for name, reason in streams.broken.items() if sees(name)}
        found = [each.status() for each in streams.all() if sees(each.config.name)]
        found += [describe_broken(name, reason) for name, reason in broken.items()]
        found.sort(key=lambda each: each["name"])
        return answer(request, plain({"streams": found, "broken": broken}))

    return router
