"""What clients are answered: rows as they were predicted, those learnt before, dates."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from streamgp.service.payload import Rows
from streamgp.service.predictions import Columns, as_rows
from streamgp.service.requests import Request
from streamgp.service.work import Applied, Waiting


def step_answer(
    request: Request, rows: Rows, applied: Applied, where: slice, labels: Sequence[Any]
) -> dict[str, Any]:
    """Return the answer to a request to learn rows, of which `applied` has those in `where`."""
    skipped = [i - where.start for i in applied.skipped if where.start <= i < where.stop]
    known = [each is not None and each == each for each in plain(rows.y)]
    learned = sum(known) - sum(known[i] for i in skipped)
    answer: dict[str, Any] = {"learned": learned, "repeated": len(request.repeated), "position": request.position}
    if skipped:
        answer["skipped"] = len(skipped)
    if request.kind == "step" and applied.shown is not None:
        shown = {name: column[where] for name, column in applied.shown.items()}
        found = as_rows(shown, labels)
        answer["rows"] = [{"id": name} | row for name, row in zip(rows.ids, found, strict=True)]
        if request.places is not None:
            answer["rows"] = with_repeated(answer["rows"], request.places, request.repeated)
    return answer


def with_repeated(rows: list[dict[str, Any]], places: list[int], repeated: list[str]) -> list[dict[str, Any]]:
    """Return the answers for all rows of a request, of which some were learnt before."""
    new, old, own = iter(rows), iter(repeated), set(places)
    return [next(new) if i in own else {"id": next(old), "repeated": True} for i in range(len(rows) + len(repeated))]


def predicted_columns(waiting: Waiting) -> Columns:
    """Return what was predicted of a row that waits."""
    at = slice(waiting.place, waiting.place + 1)
    return {name: column[at] for name, column in waiting.columns.items()}


def waiting_row(name: str, waiting: Waiting) -> dict[str, Any]:
    """Return what is said of a row that waits."""
    time = waiting.time if np.isfinite(waiting.time) else None
    return {"id": name, "row": waiting.row, "key": waiting.key, "time": time, "at": as_iso(waiting.at)}


def as_iso(at: float | None) -> str | None:
    """Return seconds since 1970 as a date."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def plain(y: Any) -> list[Any]:
    """Return targets as a list."""
    return y if isinstance(y, list) else y.tolist()


def stacked(each: Sequence[Rows]) -> Rows:
    """Return the rows of several requests as one."""
    y = [value for rows in each for value in plain(rows.y)]
    return Rows(
        [name for rows in each for name in rows.ids],
        [key for rows in each for key in rows.keys],
        np.concatenate([rows.times for rows in each]),
        np.concatenate([rows.X for rows in each]),
        y if isinstance(each[0].y, list) else np.array(y),
    )
