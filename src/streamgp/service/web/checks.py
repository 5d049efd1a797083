"""Checks of requests, except for their rows."""

import math
from typing import Any

from fastapi import Request

from streamgp.service.config import StreamConfig, check_texts
from streamgp.service.live_stream import LiveStream
from streamgp.service.past import Past
from streamgp.service.payload import in_seconds
from streamgp.service.problems import Problem
from streamgp.table.cells import A_DATE


def new_config(document: dict[str, Any]) -> StreamConfig:
    """Return the stream that a client describes, with types and texts checked."""
    config = StreamConfig.from_document(document)
    check_texts(config)
    return config


def check_labels(given: list[dict[str, Any]]) -> None:
    """Raise `Problem` if a row has no target."""
    row = next((i for i, row in enumerate(given) if "y" not in row), None)
    if row is not None:
        raise Problem(422, f"row {row}, y: expected the target, or null if it will never come, got nothing")


def restored_to(document: dict[str, Any], stream: LiveStream) -> int:
    """Return the position that a request names, or at whose time."""
    if len(document) != 1 or not document.keys() <= {"position", "time"}:
        got = ", ".join(document)[:80] or "nothing"
        raise Problem(422, f"expected position, or time, and nothing else, got {got}")
    position, moment = document.get("position"), document.get("time")
    if "time" in document:
        seconds = in_seconds(moment) if isinstance(moment, str) else math.nan
        if math.isnan(seconds):
            raise Problem(422, f"time: expected {A_DATE}Z, got {moment!r:.80}")
        return Past(stream).position_at(seconds)
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position <= 2**53:
        raise Problem(422, f"position: expected one of the log, a whole number, got {position!r:.80}")
    return position


async def known_query(request: Request) -> None:
    """Raise `Problem` if a request has parameters of which its route knows nothing; no thread is needed for it."""
    parameters = [each.alias for each in request.scope["route"].dependant.query_params]
    known = [name for name in parameters if name not in request.path_params]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        expected = ", ".join(known) or "no parameters"
        raise Problem(422, f"?{unknown[0][:80]}: expected {expected}, got another; correct or leave it out")


def whole(name: str, text: str, low: int, high: int = 2**53) -> int:
    """Return a whole number of a query, within bounds."""
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise Problem(422, f"{name}: expected a whole number from {low:,} to {high:,}, got {text[:40]!r}")
    return value
