"""Routes of a stream's challengers: begin one, see how they stand, promote one, end one."""

import asyncio

from fastapi import APIRouter, Depends, Request, Response

from streamgp.service import challenging
from streamgp.service.problems import Problem
from streamgp.service.streams import Streams
from streamgp.service.web import schemas
from streamgp.service.web.bodies import answer, plain, read_document
from streamgp.service.web.checks import known_query
from streamgp.service.web.schemas import answers, body
from streamgp.service.web.waiting import Waiting


def of_challengers(streams: Streams) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["challengers"], dependencies=[Depends(known_query)], prefix="/challengers")
    waiting = Waiting()

    @router.get("", summary="The challengers, beside the stream's own model", responses=answers(schemas.CHALLENGERS))
    def every(request: Request, name: str) -> Response:
        return answer(request, plain(challenging.listed(streams.get(name))))

    @router.post(
        "",
        summary="Begin a challenger: another model that gets the same rows from now on",
        status_code=201,
        openapi_extra=body(schemas.CHALLENGE, "challengers"),
        responses=answers(schemas.BEGUN, 201, 409, 507),
    )
    async def begin(request: Request, name: str) -> Response:
        stream = streams.get(name)
        document = await read_document(request)
        future = await asyncio.to_thread(challenging.begin, stream, document)
        return answer(request, plain(await waiting.answer(future)), 201)

    @router.post(
        "/{challenger}/promote",
        summary="Let a challenger answer in the place of the stream's own model",
        openapi_extra=body(schemas.FORCE, "promote"),
        responses=answers(schemas.PROMOTED, 200, 409, 507),
    )
    async def promote(request: Request, name: str, challenger: str) -> Response:
        stream = streams.get(name)
        document = await read_document(request)
        force = document.get("force", False)
        if not document.keys() <= {"force"} or not isinstance(force, bool):
            raise Problem(422, f"expected force, true or false, and nothing else, got {document!r:.80}")
        future = await asyncio.to_thread(challenging.promote, stream, challenger, force)
        return answer(request, plain(await waiting.answer(future)))

    @router.delete("/{challenger}", summary="End a challenger", responses=answers(None, 200, 507))
    async def end(request: Request, name: str, challenger: str) -> Response:
        return answer(request, await waiting.answer(challenging.end(streams.get(name), challenger)))

    return router
