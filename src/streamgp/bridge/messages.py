"""Messages with rows: what each asks of which stream, and which of them go to the service in one request."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

# What the rows of a message may be for, the last level of its topic.
ROUTES = ("predict", "learn", "step")
# The rows of a request, if they come in several messages.
MOST_ROWS = 1_000

Receipt = TypeVar("Receipt")


@dataclass(frozen=True)
class Message(Generic[Receipt]):
    """Rows that came together.

    Attributes
    ----------
    stream, route
        Which stream they concern, and what is to be done, one of `ROUTES`.
    rows
        As JSON, with commas between them: the service reads and checks what the sender wrote.
    count
        Of the rows.
    ids
        Those that the rows have.
    is_list
        Whether they came as a list; otherwise it is one row by itself.
    receipt
        By which the broker knows the message.
    """

    stream: str
    route: str
    rows: str
    count: int
    ids: frozenset[str]
    is_list: bool
    receipt: Receipt


def read(stream: str, route: str, payload: bytes, receipt: Receipt) -> Message[Receipt]:
    """Return the message with this payload, a row as an object of JSON or a list of rows.

    Raises
    ------
    ValueError
        If it is neither.
    """
    text = payload.decode("utf-8")
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("lists within lists, too many") from None
    rows = found if isinstance(found, list) else [found]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("expected an object, a row, or a list of such")
    ids = frozenset(row["id"] for row in rows if isinstance(row.get("id"), str))
    is_list = isinstance(found, list)
    return Message(stream, route, text.strip()[1:-1] if is_list else text, len(rows), ids, is_list, receipt)


def body(messages: Iterable[Message[Any]]) -> bytes:
    """Return a request with the rows of messages."""
    return f'{{"rows": [{", ".join(each.rows for each in messages)}]}}'.encode()


def first_together(waiting: Iterable[Message[Receipt]]) -> list[Message[Receipt]]:
    """Return the first of the messages that wait, and those right after it that may be in the same request.

    They ask for the same, and none names an id that one before it has: the service takes an id once in a request.
    """
    rest = iter(waiting)
    found = list(islice(rest, 1))
    ids, count = set[str](), 0
    for each in found:
        ids, count = set(each.ids), each.count
    for each in rest:
        count += each.count
        if each.route != found[0].route or count > MOST_ROWS or not ids.isdisjoint(each.ids):
            break
        found.append(each)
        ids |= each.ids
    return found


def parts(messages: Iterable[Message[Any]], rows: list[Any]) -> list[Any]:
    """Return what each message is answered, given the answers to all their rows: one, or a list of them."""
    rest = iter(rows)
    return [list(islice(rest, each.count)) if each.is_list else next(rest) for each in messages]
