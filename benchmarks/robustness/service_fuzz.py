"""Generated requests to the live service: none may end in an error of the server, none that is refused may act.

    python -m benchmarks.robustness.service_fuzz --examples 20000 --out benchmarks/results/service_fuzz.json

The service runs in this process over streams of every task. Requests are odd in every part: methods, paths, queries,
content types, bodies, cells. Where schemathesis is installed (``pip install schemathesis``), requests are also made
from ``/openapi.json``. Then a state machine mixes predictions, labels and retries, and a real server gets bodies that
are too large and connections that end halfway.
"""

import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from starlette.testclient import TestClient

from benchmarks.common import campaigns
from benchmarks.robustness.service_connections import connections
from benchmarks.robustness.service_ids import Ids
from streamgp.service.streams import Streams
from streamgp.service.web import checks
from streamgp.service.web.app import make_app

STREAMS: dict[str, dict[str, Any]] = {
    "numbers": {"features": ["a", "b"]},
    "lagged": {"features": [], "lags": [1, 2]},
    "timed": {"features": ["a", "b"], "timed": True},
    "labels": {"features": ["a", "b"], "task": "classification", "classes": ["u", "v"]},
    "counts": {"features": ["a", "b"], "task": "count"},
    "grades": {"features": ["a", "b"], "task": "ordinal", "classes": ["1", "2", "3"]},
    "keys": {"features": ["a", "b"], "key": "k"},
    "timed-keys": {"features": ["a"], "key": "k", "timed": True},
}
VERBS = ("predict", "learn", "step", "forecast")
LOOKS = ("", "/scores", "/recent", "/pending", "/experts", "/alarms", "/keys", "/checkpoints")
ACCEPTS = ("*/*", "application/x-ndjson", "application/vnd.apache.arrow.stream", "nonsense", "")
TYPES = ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream", "text/plain", "", "é")
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.5, 1e308, -1e308, 1e99, 1e-320, -0.0, 10**30, 10**400, 2**63, -(2**63), 2**31),
    *("", " ", "a", "u", "1", "x" * 300, "\ud800", "\x00", "名前", "é", "nan", "Infinity", "2026-01-31T12:00:00Z"),
    *("9999-12-31", "0001-01-01", "=1+1", "a/b", "\u202e", "🙂", "1e5", "null", "[]"),
    *([], {}, [[]], [{}], {"a": 1}, [None], {"": None}, ["a", 1], [[1.0] * 3]),
)
RAW = (
    *(b"", b" ", b"{", b"[]", b"null", b"1", b'"rows"', b"\xff\xfe", b"\xef\xbb\xbf{}", b"\x00" * 50, b"{}{}"),
    *(b'{"rows": [{"x": {"a": NaN, "b": 1}}]}', b'{"rows": [{"x": {"a": Infinity}, "y": -Infinity}]}'),
    *(
        b"[" * 100_000,
        b'{"rows":' + b"[" * 50_000,
        b'{"a":' * 20_000,
        b'{"h": 1e999}',
        b'{"h": ' + b"9" * 5_000 + b"}",
    ),
    *(b'{"rows": [{"x": {"a": 1, "a": 2, "b": 1}, "y": 1}]}', b'{"rows": []}', b'{"rows": [{}]}', b'{"rows": {}}'),
    *(
        b'{"rows": [{"x": {"a": 1e308, "b": -1e308}, "y": 1e308}]}',
        b'{"rows": [{"x": {"a": 1, "b": 2}, "y": "\xff"}]}',
    ),
    *(b'{"x": {"a": 1, "b": 2}, "y": 1}\n\n{"x": 1}\n', b"ARROW1\x00\x00", b"\xff\xff\xff\xff\x10\x00\x00\x00" * 4),
)
SOMETIMES = st.sampled_from((False, False, False, False, False, True))
POSITIONS = st.integers(0, 60) | st.sampled_from(ODD)
CELLS = st.sampled_from((-1.5, 0.0, 0.25, 2, 40, None, True))


@st.composite
def rows(draw: st.DrawFn, name: str) -> list[Any]:
    """Draw rows for a stream, most of them as they should be."""
    stream = STREAMS.get(name, STREAMS["numbers"])
    targets = {"classification": ("u", "v", "w", None), "ordinal": ("1", "2", 3, None), "count": (0, 1, 40, None)}
    target = st.sampled_from(targets.get(stream.get("task", ""), (0.5, -2.0, 1e3, None)))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        row: dict[str, Any] = {"x": {name: draw(CELLS) for name in stream["features"]}, "y": draw(target)}
        if draw(st.booleans()):
            row["id"] = f"i{draw(st.integers(0, 400))}"
        if "key" in stream:
            row["key"] = draw(st.sampled_from(("p", "q", 7, "名")))
        if "timed" in stream:
            row["time"] = draw(st.sampled_from((1e9, 2e9, 2e9 + 1, "2040-01-01T00:00:00Z")))
        if draw(SOMETIMES):
            row[draw(st.sampled_from(("x", "y", "id", "key", "time", "z")))] = draw(st.sampled_from(ODD))
        if draw(SOMETIMES) and isinstance(row.get("x"), dict):
            row["x"][draw(st.sampled_from(("a", "b", "", "名")))] = draw(st.sampled_from(ODD))
        if draw(SOMETIMES):
            del row[draw(st.sampled_from(sorted(row)))]
        found.append(row)
    return found


@st.composite
def bodies(draw: st.DrawFn, name: str, verb: str) -> bytes:
    """Draw the body of a request to a stream."""
    if draw(SOMETIMES):
        return draw(st.sampled_from(RAW) | st.binary(max_size=60))
    if verb == "forecast":
        stream = STREAMS.get(name, STREAMS["numbers"])
        document: Any = {"h": draw(st.sampled_from((1, 3, 40)))}
        if "key" in stream:
            document["key"] = "p"
        else:
            document["x"] = [dict.fromkeys(stream["features"], 0.5)] * document["h"]
            document |= {"times": [3e9 + i for i in range(document["h"])]} if "timed" in stream else {}
        for each in draw(st.lists(st.sampled_from(("h", "key", "x", "times", "level", "z")), max_size=2)):
            document[each] = draw(st.sampled_from(ODD) | st.just([80]) | st.lists(st.sampled_from(ODD), max_size=3))
    else:
        given_rows = draw(rows(name))
        if verb == "predict" and not draw(SOMETIMES):
            given_rows = [{k: v for k, v in row.items() if k != "y"} for row in given_rows]
        document = {"rows": given_rows}
        if draw(SOMETIMES):
            document[draw(st.sampled_from(("keep", "rows", "more")))] = draw(st.sampled_from(ODD))
    return json.dumps(document).encode()


@st.composite
def creations(draw: st.DrawFn) -> bytes:
    """Draw the body of a new stream."""
    document: dict[str, Any] = {"name": draw(st.sampled_from(("n1", "n2", "a/b", "..", "", "名"))), "target": "y"}
    document |= {"features": ["a"], "model": "linear", "warmup": 30}
    names = ("name", "target", "features", "key", "model", "task", "classes", "timed", "warmup", "lags", "seed")
    values = st.sampled_from(ODD) | st.sampled_from(
        ("a", "y", "ds", "fast", "omkr", "count", "ordinal", "classification", ["a", "b"], ["ds"], [1, 3], 12, "row")
    )
    for each in draw(st.lists(st.sampled_from((*names, "max_pending", "history_rows", "more")), max_size=3)):
        document[each] = draw(values)
    return json.dumps(document).encode()


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, str], bytes]:
    """Draw a method, a path, headers and a body."""
    name = draw(st.sampled_from((*STREAMS, *STREAMS, *STREAMS, "nobody", "a/b", "..", "名", "x" * 300, "%00")))
    kind = draw(st.sampled_from(("verb", "verb", "verb", "verb", "look", "create", "alarm", "restore", "odd")))
    headers = {"accept": draw(st.sampled_from(ACCEPTS)), "content-type": TYPES[0]}
    path, content, method = f"/v1/streams/{quote(name, safe='')}", b"", "POST"
    if kind == "verb":
        verb = draw(st.sampled_from(VERBS))
        path, content = f"{path}/{verb}", draw(bodies(name, verb))
    elif kind == "look":
        method, path = "GET", path + draw(st.sampled_from(LOOKS))
        odd = [quote(str(each)[:300].encode("utf-8", "replace")) for each in ODD if not isinstance(each, list | dict)]
        wanted = ("rows", "after", "key", "limit", "offset", "sort", "search", "z")
        query = [
            f"{draw(st.sampled_from(wanted))}={draw(st.sampled_from(odd))}" for _ in range(draw(st.integers(0, 2)))
        ]
        path += "?" + "&".join(query) if query else ""
    elif kind == "create":
        path, content = "/v1/streams", draw(creations())
    elif kind == "alarm":
        number = draw(st.sampled_from(("0", "-1", "x", "9" * 30, "٣", "%20")))
        path += f"/alarms/{quote(number)}/acknowledge"
    elif kind == "restore":
        path += draw(st.sampled_from(("/restore", "/restore", "/checkpoint")))
        members = draw(st.dictionaries(st.sampled_from(("position", "position", "z")), POSITIONS, max_size=2))
        content = draw(st.just(json.dumps(members).encode()) | st.sampled_from(RAW))
    else:
        method = draw(st.sampled_from(("GET", "PUT", "PATCH", "HEAD", "OPTIONS", "POST", "TRACE")))
        path = draw(
            st.sampled_from(("/", "/v1", "/v1/streams/", "/static/../x", "/static/%2e%2e/x", "/metrics", "//", path))
        )
        content = draw(st.sampled_from(RAW))
    if draw(SOMETIMES):
        headers["content-type"] = draw(st.sampled_from(TYPES))
    if draw(SOMETIMES):
        name, value = draw(st.sampled_from((("content-length", "²"), ("origin", "http://other"), ("host", "other"))))
        headers[name] = value
    return method, path, headers, content


class Fuzzed:
    """A service in this process, and what came of the requests to it."""

    def __init__(self, folder: Path) -> None:
        self.streams = Streams(folder)
        self.http = TestClient(
            make_app(self.streams), base_url="http://127.0.0.1", raise_server_exceptions=False, follow_redirects=False
        )
        self.answers: Counter[str] = Counter()
        # The failures by their common cause.
        self.failures: dict[str, str] = {}

    def __enter__(self) -> "Fuzzed":
        self.http.__enter__()
        for name, options in STREAMS.items():
            self.begin(name, options)
        return self

    def __exit__(self, *_: object) -> None:
        self.http.__exit__(None, None, None)

    def begin(self, name: str, options: dict[str, Any]) -> None:
        """Create a stream and take it past its warm-up."""
        model = {} if "key" in options else {"model": "linear"}
        made = self.http.post("/v1/streams", json={"name": name, "target": "y", "warmup": 14} | model | options)
        assert made.status_code == 201, made.text
        targets = {"classification": ("u", "v"), "ordinal": ("1", "2", "3"), "count": (0, 2, 5)}
        values = targets.get(options.get("task", ""), (0.5, 1.0, -0.25))
        given_rows = []
        for i in range(20):
            x = {each: (i * (j + 3)) % 7 / 3 for j, each in enumerate(options["features"])}
            row: dict[str, Any] = {"x": x, "y": values[i % len(values)]}
            row |= ({"key": "pq"[i % 2]} if "key" in options else {}) | ({"time": i} if "timed" in options else {})
            given_rows.append(row)
        answer = self.http.post(f"/v1/streams/{name}/step", json={"rows": given_rows})
        assert answer.status_code == 200, answer.text

    def known(self) -> list[Any]:
        """Return what a refused request may not change."""
        return [
            (each.config.name, each.last_position, each.model.next_row, each.model.rows, len(each.model.waiting))
            for each in self.streams.all()
        ]

    def check(self, method: str, path: str, headers: dict[str, str], content: bytes) -> str:
        """Send a request; return how it was answered.

        Raises
        ------
        AssertionError
            If that was an error of the server, no sentence, or the refused request has changed something.
        """
        before = self.known()
        encoded = {name: value.encode("latin-1") for name, value in headers.items()}
        answer = self.http.request(method, path, headers=encoded, content=content)
        shown = f"{method} {path} {headers} {content[:300]!r}: {answer.status_code} {answer.text[:300]}"
        self.look(answer, shown, before)
        self.answers[str(answer.status_code)] += 1
        return str(answer.status_code)

    def try_(self, *made: Any) -> None:
        """Send a request, and keep what is wrong with the answer."""
        try:
            self.check(*made)
        except AssertionError as error:
            text = str(error).partition("\nassert")[0]
            self.failures.setdefault(text[-60:], text)
            for each in self.streams.all():
                each.failure = None

    def look(self, answer: Any, shown: str, before: list[Any]) -> None:
        """Check an answer and what the request has left behind."""
        status = answer.status_code
        assert status < 500 or status in (503, 507), shown
        failed = [each.failure for each in self.streams.all() if each.failure]
        assert not failed, f"{shown}; {failed}"
        if status >= 400:
            if answer.request.method != "HEAD":
                assert answer.headers["content-type"] == "application/problem+json", shown
                assert len(answer.json()["detail"].split()) > 2, f"no sentence: {shown}"
            assert self.known() == before, f"it was refused and has changed something: {shown}"
        for name in ("n1", "n2"):
            self.http.delete(f"/v1/streams/{name}")


def documented(work: Fuzzed, examples: int, start: int) -> int:
    """Send requests that schemathesis makes from the description; return how many, 0 if it is not installed."""
    try:
        import schemathesis
    except ImportError:
        return 0
    described = schemathesis.openapi.from_dict(work.http.get("/openapi.json").json())
    operations = [each.ok() for each in described.get_all_operations()]
    operations = [each for each in operations if not each.path.endswith("/events") and each.method != "delete"]
    sent = 0

    @seed(start)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def one(data: st.DataObject) -> None:
        nonlocal sent
        operation = data.draw(st.sampled_from(operations))
        case = data.draw(operation.as_strategy())
        path = operation.path.replace("{number}", "0").replace("{name}", data.draw(st.sampled_from(list(STREAMS))))
        content = b"" if operation.method == "get" else json.dumps(case.body, default=str).encode()
        work.try_(operation.method.upper(), path, {"accept": "*/*", "content-type": "application/json"}, content)
        sent += 1

    one()
    return sent


def campaign(examples: int, minutes: float, start: int = 0) -> dict[str, Any]:
    """Send so many requests, or as many as fit into the minutes; a fiftieth as many runs of the state machine."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    checks.PATIENCE = 600.0  # the machine may be busy
    began = time.monotonic()
    ways = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    with tempfile.TemporaryDirectory() as folder, Fuzzed(Path(folder) / "live") as work:

        @seed(start)
        @ways
        @given(requests())
        def one(made: tuple[str, str, dict[str, str], bytes]) -> None:
            if time.monotonic() - began < 30 * minutes:
                work.try_(*made)

        one()
        from_description = documented(work, max(examples // 10, 10), start)
        answers, failures = dict(sorted(work.answers.items())), list(work.failures.values())
    machines = max(examples // 50, 3)
    run_state_machine_as_test(
        seed(start)(Ids), settings=settings(ways, max_examples=machines, stateful_step_count=30)
    )
    with tempfile.TemporaryDirectory() as folder:
        held = connections(Path(folder))
    return {
        "examples": sum(answers.values()),
        "from_description": from_description,
        "answers": answers,
        "state_machines": machines,
        "connections": held,
        "failures": failures,
        "seed": start,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "examples", 10_000, campaign)


if __name__ == "__main__":
    main()
