"""Routes that predict and learn rows of a stream."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import APIRouter, Depends, Request, Response

from streamgp.service.payload import labels_by_id, rows_with_inputs
from streamgp.service.predictions import as_rows
from streamgp.service.problems import Problem
from streamgp.service.streams import Streams
from streamgp.service.web import schemas
from streamgp.service.web.bodies import answer, plain, read_document, rows_of
from streamgp.service.web.checks import check_labels, known_query
from streamgp.service.web.forecasts import forecast
from streamgp.service.web.schemas import answers, body
from streamgp.service.web.waiting import Waiting

# The number of threads that predict.
_THREADS = 2


def of_rows(streams: Streams) -> APIRouter:
    """Return the routes that predict, learn and forecast."""
    router = APIRouter(tags=["stream"], dependencies=[Depends(known_query)])
    waiting = Waiting()
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="streamgp-predict")

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
            said = await waiting.answer(future)
        except Problem as problem:
            if problem.status != 507:
                raise
            return answer(request, {"rows": found, "position": stream.knowledge.position, "kept": False})
        # The rows were predicted before; the answer gives those predictions.
        if "rows" in said:
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

        return answer(request, await waiting.answer(await asyncio.to_thread(work)))

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
        return answer(request, await waiting.answer(stream.step(rows)))

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

    return router
