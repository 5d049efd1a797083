"""The application: routes, and what each does with a stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

import streamgp
from streamgp.service.keyed_model import KeyedModel
from streamgp.service.payload import labels_by_id, rows_with_inputs
from streamgp.service.predictions import as_rows
from streamgp.service.problems import Problem, unforeseen
from streamgp.service.status import describe_broken, describe_checkpoints
from streamgp.service.streams import Streams
from streamgp.service.web import keys, schemas
from streamgp.service.web.bodies import answer, plain, read_document, refusal, rows_of
from streamgp.service.web.checks import check_labels, known_query, new_config, position_of, waited, whole
from streamgp.service.web.forecasts import forecast
from streamgp.service.web.measures import Measured, Measures
from streamgp.service.web.schemas import answers, body
from streamgp.service.web.security import Guard
from streamgp.service.web.tokens import Token

MAX_BODY = 32 << 20
_THREADS = 2  # that predict


@dataclass(frozen=True)
class Limits:
    """What a client may ask for: bytes of a body, and requests in a second."""

    max_body: int = MAX_BODY
    max_rate: float | None = None


def make_app(streams: Streams, tokens: list[Token] | None = None, limits: Limits | None = None) -> Any:
    """Return the application of a directory's streams, which are started and stopped with it.

    Parameters
    ----------
    streams
        Not started yet.
    tokens
        Of the clients; None: any process of this machine may ask.
    limits
        On requests.
    """
    limits = Limits() if limits is None else limits

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(streams.start)
        yield
        await asyncio.to_thread(streams.stop)

    app = FastAPI(
        title="streamgp",
        version=streamgp.__version__,
        description="Learn from data streams with honest error bars, over HTTP.",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )
    measures = Measures(streams)

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

    app.add_middleware(Measured, measures=measures)
    app.include_router(_of_service(streams, measures))
    app.include_router(_of_streams(streams), prefix="/v1/streams")
    app.include_router(_of_one(streams), prefix="/v1/streams/{name}")
    page = files("streamgp.service") / "page"
    app.mount("/static", StaticFiles(directory=str(page), check_dir=False))

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return Response((page / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    return Guard(app, tokens, limits.max_body, limits.max_rate)


def _of_service(streams: Streams, measures: Measures) -> APIRouter:
    router = APIRouter(tags=["service"])

    @router.get("/livez", summary="Whether the process lives")
    async def livez() -> dict[str, str]:
        return {"status": "alive"}

    @router.get("/readyz", summary="Whether all streams are restored", responses=answers(None, 200, 500))
    async def readyz(request: Request) -> Response:
        found = {each.config.name: round(each.replayed, 3) for each in streams.all() if not each.is_ready}
        failed = [each.config.name for each in streams.all() if each.failure] + list(streams.broken)
        status = 503 if found else 200
        return answer(
            request, {"status": "replaying" if found else "ready", "replayed": found, "failed": failed}, status
        )

    @router.get("/metrics", summary="Numbers for Prometheus", response_class=PlainTextResponse)
    def metrics() -> Response:
        return Response(measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _of_streams(streams: Streams) -> APIRouter:
    router = APIRouter(tags=["streams"], dependencies=[Depends(known_query)])

    @router.post(
        "",
        summary="Create a stream",
        status_code=201,
        openapi_extra=body(schemas.CREATE, "create"),
        responses=answers(None, 201, 409, 507),
    )
    async def create(request: Request) -> Response:
        document = await read_document(request)
        config = new_config(document)
        stream, is_new = await asyncio.to_thread(streams.create, config)
        while is_new and not (stream.is_ready or stream.failure):  # so that a row may be sent next
            await asyncio.sleep(0.005)
        return answer(
            request, plain(config.document() | {"position": stream.knowledge.position}), 201 if is_new else 200
        )

    @router.get("", summary="List the streams", responses=answers())
    def every(request: Request) -> Response:
        found = [each.status() for each in streams.all()]
        found += [describe_broken(name, reason) for name, reason in streams.broken.items()]
        found.sort(key=lambda each: each["name"])
        return answer(request, plain({"streams": found, "broken": streams.broken}))

    return router


def _of_one(streams: Streams) -> APIRouter:
    router = APIRouter(tags=["stream"], dependencies=[Depends(known_query)])
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="streamgp-predict")

    @router.get("", summary="What the stream is and how it is", responses=answers())
    def status(request: Request, name: str) -> Response:
        stream = streams.get(name)
        more = {"durability": stream.durability(), "source": streams.source(name)}
        return answer(request, plain(stream.status() | more))

    @router.delete("", summary="Delete the stream and all that is known of it", responses=answers())
    async def delete(request: Request, name: str) -> Response:
        await asyncio.to_thread(streams.delete, name)
        return answer(request, {"deleted": name})

    @router.post(
        "/predict",
        summary="Predict rows, which wait for their labels from then on",
        openapi_extra=body(schemas.PREDICT, "predict"),
        responses=answers(schemas.PREDICTED, 200, 409),
    )
    async def predict(request: Request, name: str) -> Response:
        stream = streams.get(name)
        document = await read_document(request)
        given = rows_of(document, "keep")
        keep = document.get("keep", True)
        if not isinstance(keep, bool):
            raise Problem(422, f"keep: expected true or false, got {keep!r:.80}")
        if any("y" in row for row in given):
            raise Problem(422, "y: expected none, as the rows are to be predicted; learn or step takes targets")

        def work() -> Any:
            rows = rows_with_inputs(stream.config, given, with_target=False)
            prediction, future, rows = stream.predict(rows, keep)
            found = as_rows(prediction.columns, stream.knowledge.labels)
            return [{"id": each} | row for each, row in zip(rows.ids, found, strict=True)], future

        found, future = await asyncio.get_running_loop().run_in_executor(pool, work)
        if future is None:
            return answer(request, {"rows": found, "position": stream.knowledge.position, "kept": False})
        try:
            said = await waited(future)
        except Problem as problem:
            if problem.status != 507:
                raise
            return answer(request, {"rows": found, "position": stream.knowledge.position, "kept": False})
        if "rows" in said:  # as it was predicted before
            found = [{"id": each["id"]} | row for each, row in zip(found, said["rows"], strict=True)]
        return answer(request, {"rows": found, "position": said["position"]})

    @router.post(
        "/learn",
        summary="Learn labels, of rows that were predicted or with their inputs",
        openapi_extra=body(schemas.LEARN, "learn"),
        responses=answers(schemas.LEARNED, 200, 409, 507),
    )
    async def learn(request: Request, name: str) -> Response:
        stream = streams.get(name)
        given = rows_of(await read_document(request))
        check_labels(given)
        with_inputs = [row for row in given if row.get("x") is not None]
        by_id = [row for row in given if row.get("x") is None]

        def work() -> Any:
            rows = rows_with_inputs(stream.config, with_inputs, with_target=True) if with_inputs else None
            labels = labels_by_id(stream.config, by_id) if by_id else None
            return stream.learn(rows, labels)

        return answer(request, await waited(await asyncio.to_thread(work)))

    @router.post(
        "/step",
        summary="Predict each row, then learn it",
        openapi_extra=body(schemas.STEP, "step"),
        responses=answers(schemas.PREDICTED, 200, 409, 507),
    )
    async def step(request: Request, name: str) -> Response:
        stream = streams.get(name)
        given = rows_of(await read_document(request))
        check_labels(given)
        if len(given) > 64:
            rows = await asyncio.to_thread(rows_with_inputs, stream.config, given, True)
        else:
            rows = rows_with_inputs(stream.config, given, with_target=True)
        return answer(request, await waited(stream.step(rows)))

    @router.post(
        "/forecast",
        summary="Forecast the next rows, step by step",
        openapi_extra=body(schemas.FORECAST, "forecast"),
        responses=answers(),
    )
    async def ahead(request: Request, name: str) -> Response:
        document = await read_document(request)
        found = await asyncio.get_running_loop().run_in_executor(pool, forecast, streams.get(name), document)
        return answer(request, plain(found))

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

    @router.post("/alarms/{number}/acknowledge", summary="Note that an alarm was seen", responses=answers())
    async def acknowledge(request: Request, name: str, number: str) -> Response:
        future = streams.get(name).acknowledge(whole("number", number, 0))
        return answer(request, await waited(future))

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

    @router.post("/checkpoint", summary="Write a checkpoint now", responses=answers(None, 200, 507))
    async def checkpoint(request: Request, name: str) -> Response:
        return answer(request, await waited(streams.get(name).write_checkpoint()))

    @router.get("/checkpoints", summary="The checkpoints that the stream may be restored to", responses=answers())
    def checkpoints(request: Request, name: str) -> Response:
        return answer(request, plain(describe_checkpoints(streams.get(name))))

    @router.post(
        "/restore",
        summary="Set the stream back to a checkpoint",
        openapi_extra=body(schemas.RESTORE, "restore"),
        responses=answers(schemas.RESTORED, 200, 500, 507),
    )
    async def restore(request: Request, name: str) -> Response:
        stream = streams.get(name)
        position = position_of(await read_document(request))
        return answer(request, await waited(await asyncio.to_thread(stream.restore, position)))

    return router
