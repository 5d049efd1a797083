"""Routes that keep a stream: delete it, write and restore checkpoints, note that an alarm was seen."""

import asyncio

from fastapi import APIRouter, Depends, Request, Response

from streamgp.service.status import describe_checkpoints
from streamgp.service.streams import Streams
from streamgp.service.web import schemas
from streamgp.service.web.bodies import answer, plain, read_document
from streamgp.service.web.checks import known_query, restored_to, whole
from streamgp.service.web.schemas import answers, body
from streamgp.service.web.waiting import Waiting


def of_state(streams: Streams) -> APIRouter:
    """Return the routes that change what is kept of a stream, not what it has learnt of a row."""
    router = APIRouter(tags=["stream"], dependencies=[Depends(known_query)])
    waiting = Waiting()

    @router.delete("", summary="Delete the stream and all that is known of it", responses=answers())
    async def delete(request: Request, name: str) -> Response:
        await asyncio.to_thread(streams.delete, name)
        return answer(request, {"deleted": name})

    @router.post("/checkpoint", summary="Write a checkpoint now", responses=answers(None, 200, 507))
    async def checkpoint(request: Request, name: str) -> Response:
        return answer(request, await waiting.answer(streams.get(name).write_checkpoint()))

    @router.get("/checkpoints", summary="What the stream may be restored to", responses=answers())
    def checkpoints(request: Request, name: str) -> Response:
        return answer(request, plain(describe_checkpoints(streams.get(name))))

    @router.post(
        "/restore",
        summary="Set the stream back to a position or a time",
        openapi_extra=body(schemas.RESTORE, "restore"),
        responses=answers(schemas.RESTORED, 200, 500, 507),
    )
    async def restore(request: Request, name: str) -> Response:
        stream = streams.get(name)
        document = await read_document(request)
        position = await asyncio.to_thread(restored_to, document, stream)
        return answer(request, await waiting.answer(await asyncio.to_thread(stream.restore, position)))

    @router.post("/alarms/{number}/acknowledge", summary="Note that an alarm was seen", responses=answers())
    async def acknowledge(request: Request, name: str, number: str) -> Response:
        future = streams.get(name).acknowledge(whole("number", number, 0))
        return answer(request, await waiting.answer(future))

    return router
