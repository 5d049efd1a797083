"""Routes that read what is known of a stream, and change nothing."""

import json
from collections.abc import AsyncIterator

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from streamgp.service.keyed_model import KeyedModel
from streamgp.service.problems import Problem
from streamgp.service.streams import Streams
from streamgp.service.web import keys
from streamgp.service.web.bodies import answer, plain
from streamgp.service.web.checks import known_query, whole
from streamgp.service.web.schemas import answers


def of_reading(streams: Streams) -> APIRouter:
    """Return the routes that read."""
    router = APIRouter(tags=["stream"], dependencies=[Depends(known_query)])

    @router.get("", summary="What the stream is and how it is", responses=answers())
    def status(request: Request, name: str) -> Response:
        stream = streams.get(name)
        more = {"durability": stream.durability(), "source": streams.source(name)}
        return answer(request, plain(stream.status() | more))

    @router.get("/scores", summary="How good the predictions were", responses=answers())
    def scores(request: Request, name: str) -> Response:
        return answer(request, plain(streams.get(name).settled().scores()))

    @router.get("/recent", summary="The latest rows with what was predicted of them", responses=answers())
    def recent(request: Request, name: str, rows: str = "500", after: str = "-1", key: str | None = None) -> Response:
        stream = streams.get(name)
        return answer(
            request, plain(stream.settled().recent(whole("rows", rows, 1, 2_000), whole("after", after, -1), key))
        )

    @router.get("/pending", summary="The rows that wait for their labels", responses=answers())
    def pending(request: Request, name: str, limit: str = "100") -> Response:
        return answer(request, plain(streams.get(name).knowledge.pending(whole("limit", limit, 0, 10_000))))

    @router.get("/experts", summary="The experts and their weights", responses=answers())
    def experts(request: Request, name: str) -> Response:
        return answer(request, plain({"experts": streams.get(name).model.experts()}))

    @router.get("/alarms", summary="What has changed, and when", responses=answers())
    def alarms(request: Request, name: str) -> Response:
        return answer(request, plain({"alarms": streams.get(name).settled().alarms()}))

    @router.get("/keys", summary="The keys and their scores", responses=answers())
    def every_key(
        request: Request, name: str, search: str = "", sort: str = "worst", limit: str = "100", offset: str = "0"
    ) -> Response:
        stream = streams.get(name)
        if not isinstance(stream.model, KeyedModel):
            raise Problem(422, f"{name} has one model and no keys; create a stream with key")
        found = keys.page(
            stream.model.keys(), search, sort, whole("limit", limit, 0, 100_000), whole("offset", offset, 0)
        )
        return answer(request, plain(found))

    @router.get("/events", summary="What happens, as server-sent events", responses=answers())
    async def events(name: str) -> Response:
        streams.get(name)

        async def lines() -> AsyncIterator[str]:
            yield ": listening\n\n"
            async for event in streams.events.listen(name):
                if event is None:
                    yield ": still here\n\n"
                else:
                    yield f"event: {event[0]}\ndata: {json.dumps(plain(event[1]))}\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    return router
