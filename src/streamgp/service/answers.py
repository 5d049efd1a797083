"""Answers to clients: rows with their predictions, rows that were learnt before, dates."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from streamgp.service.payload import Rows
from streamgp.service.predictions import Columns, as_rows
from streamgp.service.requests import Request
from streamgp.service.unlearnt import Resent
from streamgp.service.work import Applied, Waiting

# A number between these may be a date, in seconds since 1970.
FIRST_DATE, LAST_DATE = 4e8, 1e10


def step_answer(
    request: Request, rows: Rows, applied: Applied, where: slice, labels: Sequence[Any], resent: Resent
) -> dict[str, Any]:
    """Return the answer to a request to learn rows, of which `applied` has those in `where`; others came before."""
    skipped = [i - where.start for i in applied.skipped if where.start <= i < where.stop]
    known = [each is not None and each == each for each in plain(rows.y)]
    learned = sum(known) - sum(known[i] for i in skipped)
    answer: dict[str, Any] = {"learned": learned, "repeated": len(resent.learnt), "position": request.position}
    if resent.late:
        answer["late"] = resent.late
    if skipped or resent.skipped:
        answer["skipped"] = len(skipped) + len(resent.skipped)
    if request.kind == "step" and applied.shown is not None:
        shown = {name: column[where] for name, column in applied.shown.items()}
        found = as_rows(shown, labels)
        answer["rows"] = [{"id": name} | row for name, row in zip(rows.ids, found, strict=True)]
        if request.places is not None:
            answer["rows"] = with_repeated(answer["rows"], request.places, request.repeated, resent)
    return answer


def with_repeated(
    rows: list[dict[str, Any]], places: list[int], repeated: list[str], resent: Resent
) -> list[dict[str, Any]]:
    """Return the answers for all rows of a request, of which some came before."""
    late, skipped = set(resent.late), set(resent.skipped)
    words = ("late" if name in late else "skipped" if name in skipped else "repeated" for name in repeated)
    new, old, own = iter(rows), zip(repeated, words, strict=True), set(places)
    found = []
    for i in range(len(rows) + len(repeated)):
        if i in own:
            found.append(next(new))
        else:
            name, word = next(old)
            found.append({"id": name, word: True})
    return found


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


def time_as_text(time: float) -> str:
    """Return the time of a row as a number, and as a date where it may well be one."""
    number = repr(float(time))
    return f"{number} ({as_iso(time)} if in seconds)" if FIRST_DATE <= time < LAST_DATE else number


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
