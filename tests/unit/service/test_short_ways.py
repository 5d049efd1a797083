"""The short ways of a request of a single row: past the framework, back to the loop, and onto the wire."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from streamgp.service.problems import Problem
from streamgp.service.web.connections import _Transport
from streamgp.service.web.direct import Direct
from streamgp.service.web.waiting import Waiting


async def framework(scope: Any, receive: Any, send: Any) -> None:
    await PlainTextResponse("framework")(scope, receive, send)


def direct() -> TestClient:
    router = APIRouter()

    @router.post("/step")
    async def step(request: Request, name: str) -> Response:
        if name == "none":
            raise Problem(404, "stream: expected another", retry_after=3)
        return PlainTextResponse(f"{name} {(await request.body()).decode()}")

    return TestClient(Direct(framework, router))


def test_rows_come_to_their_endpoint_past_the_framework():
    http = direct()
    assert http.post("/v1/streams/a%20b/step", content=b"rows").text == "a b rows"
    refused = http.post("/v1/streams/none/step")
    assert (refused.status_code, refused.json()["detail"]) == (404, "stream: expected another")
    assert (refused.headers["content-type"], refused.headers["retry-after"]) == ("application/problem+json", "3")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/streams/a/step"),
        ("POST", "/v1/streams/a/step?rows=1"),
        ("POST", "/v1/streams/a/learn"),
        ("POST", "/v1/streams/a/b/step"),
        ("POST", "/v1/streams//step"),
        ("POST", "/v2/v1/streams/a/step"),
    ],
)
def test_other_requests_are_the_frameworks(method: str, path: str):
    assert direct().request(method, path).text == "framework"


def test_answers_that_come_together_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch):
    async def ask() -> tuple[list[Any], int]:
        loop, waiting, woken = asyncio.get_running_loop(), Waiting(), []
        wake = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda work: (woken.append(work), wake(work)))
        futures: list[Future[Any]] = [Future() for _ in range(5)]
        asked = [asyncio.create_task(waiting.answer(future)) for future in futures]
        await asyncio.sleep(0)

        def answer() -> None:
            for i, future in enumerate(futures[:3]):
                future.set_result(i)
            futures[3].set_exception(Problem(409, "id: expected another"))

        with ThreadPoolExecutor(1) as thread:
            thread.submit(answer).result()  # while the loop is busy
        found = await asyncio.gather(*asked[:4], return_exceptions=True)
        futures[4].set_result("later")
        return [*found, await asked[4]], len(woken)

    (*results, problem, later), woken = asyncio.run(ask())
    assert (results, str(problem), later, woken) == ([0, 1, 2], "id: expected another", "later", 2)


def test_an_answer_given_before_it_is_waited_for_is_had_too():
    done: Future[Any] = Future()
    done.set_result(7)
    assert asyncio.run(Waiting().answer(done)) == 7


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.parts.append(data)

    def close(self) -> None:
        self.closed = True


def test_the_head_of_an_answer_goes_out_with_the_first_part_of_its_body():
    wire = Wire()
    transport = _Transport(wire)
    for is_head, part in ((True, b"head "), (False, b"body"), (False, b" rest"), (True, b"next "), (False, b"")):
        transport.is_head = is_head
        transport.write(part)
    assert wire.parts == [b"head body", b" rest", b"next "]
    transport.close()
    assert wire.closed
