"""Bodies of requests and answers: JSON, JSON in lines, or Arrow."""

import json
import math
import re
from collections import Counter
from io import BytesIO
from typing import Any

import numpy as np
import polars as pl
from fastapi import Request, Response

from streamgp.service.payload import Overflown
from streamgp.service.problems import Problem
from streamgp.service.web.access import caller_of

JSON, LINES, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
PROBLEM = "application/problem+json"
# The columns of an Arrow body that are no inputs.
_PLAIN = ("id", "key", "time", "y")


async def read_document(request: Request) -> dict[str, Any]:
    """Return the object in the body; rows in lines or of Arrow as its ``rows``.

    Raises
    ------
    Problem
        If the body is not such a one, or has more rows than its client may send.
    """
    document = await _read(request)
    rows = document.get("rows")
    caller_of(request).check_rows(len(rows) if isinstance(rows, list) else 0)
    return document


async def _read(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    data = await request.body()
    _check_encoding(request.headers.get("content-encoding", ""), request.headers.get("content-type", ""), data)
    if kind == LINES:
        lines = [line for line in data.split(b"\n") if line.strip()]
        return {"rows": [_object(line, f"line {i + 1}") for i, line in enumerate(lines)]}
    if kind == ARROW:
        return {"rows": _rows_of_arrow(data)}
    if kind != JSON:
        raise Problem(415, f"Content-Type: expected {JSON}, {LINES} or {ARROW}, got {kind[:80]!r}")
    return _object(data, "the body")


def _check_encoding(encoding: str, kind: str, data: bytes) -> None:
    """Raise `Problem` if a body is compressed, or is text in anything else than UTF-8."""
    named = encoding.strip().lower()
    if named not in ("", "identity"):
        raise Problem(415, f"Content-Encoding: expected none, got {named[:40]!r}; send the body uncompressed")
    if data.startswith(_COMPRESSED):
        raise Problem(415, "the body: expected it uncompressed, got compressed bytes; send it as it is")
    charset = re.search(r"charset\s*=\s*\"?([^\s;\"]+)", kind, re.IGNORECASE)
    if charset and charset[1].lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise Problem(415, f"Content-Type: expected text in UTF-8, got {charset[1][:40]!r}")


def _object(data: bytes, where: str) -> dict[str, Any]:
    hooks: Any = _WITHIN if _MAY_OVERFLOW.search(data) else {}
    try:
        found = json.loads(data, parse_constant=_no_constant, object_pairs_hook=_once, **hooks)
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"{where}: expected JSON, got something else ({error})") from None
    if not isinstance(found, dict):
        raise Problem(422, f"{where}: expected an object, got {type(found).__name__}")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of a name that is given twice, all but the last would be lost without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"{json.dumps(twice)[:80]} is given twice in an object; send each name once")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON; send null for what is missing")


def _float(text: str) -> float:
    number = float(text)
    return Overflown(text) if math.isinf(number) else number


def _int(text: str) -> float | int:
    return int(text) if len(text) < MAX_DIGITS or math.isfinite(float(text)) else Overflown(text)


# The most digits of a whole number that a double can hold.
MAX_DIGITS = 300
# These parsers are slower, and few bodies need them.
_WITHIN = {"parse_float": _float, "parse_int": _int}
_MAY_OVERFLOW = re.compile(rb"[eE]\+?\d{3}|\d{200}")
# The first bytes of gzip, deflate at each of its levels, zstd, bzip2, xz, zip and lz4; none begins JSON or Arrow.
_COMPRESSED = (
    *(b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x28\xb5\x2f\xfd"),
    *(b"BZh", b"\xfd7zXZ\x00", b"PK\x03\x04", b"\x04\x22\x4d\x18"),
)


def _rows_of_arrow(data: bytes) -> list[dict[str, Any]]:
    try:
        frame = pl.read_ipc_stream(BytesIO(data))
    except Exception as error:
        # Polars raises errors of many classes.
        raise Problem(400, f"the body: expected a stream of Arrow, got something else ({str(error)[:200]})") from None
    plain = [name for name in frame.columns if name in _PLAIN]
    inputs = frame.select(name for name in frame.columns if name not in _PLAIN).to_dicts()
    others = frame.select(plain).to_dicts() if plain else [{} for _ in inputs]
    if not plain and not frame.width:
        return []
    has_inputs = frame.width > len(plain)
    return [
        row | ({"x": x} if has_inputs else {}) for row, x in zip(others, inputs or [{}] * len(others), strict=True)
    ]


def rows_of(document: dict[str, Any], *others: str) -> list[dict[str, Any]]:
    """Return the rows of a request, which may have these other members.

    Raises
    ------
    Problem
        If there are none, or something else is in it.
    """
    rows = document.get("rows")
    unknown = [name for name in document if name not in ("rows", *others)]
    if unknown:
        raise Problem(422, f"expected {', '.join(('rows', *others))}, got {unknown[0][:80]!r} as well")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise Problem(422, "rows: expected a list of objects, one or more")
    known = {"id", "key", "time", "x", "y"}
    for i, row in enumerate(rows):
        if not known.issuperset(row):
            name = next(name for name in row if name not in known)
            raise Problem(
                422, f"row {i}: expected id, key, time, x and y, got {str(name)[:80]!r}; inputs belong in x"
            )
    return rows


def answer(request: Request, document: dict[str, Any], status: int = 200) -> Response:
    """Return an answer in the form that the client accepts; with rows in lines or of Arrow, headers have the rest."""
    accept = request.headers.get("accept", "")
    if isinstance(document.get("rows"), list) and (LINES in accept or ARROW in accept):
        numbers = {name: value for name, value in document.items() if isinstance(value, int | float)}
        headers = {f"Streamgp-{name.title()}": str(value) for name, value in numbers.items()}
        if LINES in accept:
            text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in document["rows"])
            return Response(text, status, headers, LINES)
        out = BytesIO()
        pl.DataFrame([_flat(row) for row in document["rows"]], infer_schema_length=None).write_ipc_stream(out)
        return Response(out.getvalue(), status, headers, ARROW)
    return Response(json.dumps(document, allow_nan=False), status, media_type=JSON)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    quantiles = row.get("quantiles")
    rest = {name: value for name, value in row.items() if name != "quantiles"}
    return rest if quantiles is None else rest | dict(zip(("q05", "q50", "q95"), quantiles.values(), strict=True))


def refusal(problem: Problem) -> Response:
    """Return the answer that says why something was refused."""
    headers = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(json.dumps(problem.document), problem.status, headers, PROBLEM)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers that are not finite are null."""
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
