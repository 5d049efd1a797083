"""Messages with rows: read, put together in requests, and answered apart."""

import json
from typing import Any

import pytest

from streamgp.bridge.messages import MOST_ROWS, Message, body, first_together, parts, read


def message(document: Any, route: str = "step") -> Message[int]:
    return read("power", route, json.dumps(document).encode(), 0)


def rows(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "x": {"a": 1.5}} for name in names]


def test_rows_reach_the_service_as_they_were_written():
    one = read("power", "step", b' {"id": "a", "x": {"u": 1e400, "u": 0.10}} \n', 0)
    many = read("power", "step", b'[{"y": 1}, {"y": "\xc3\xa4"}]', 0)
    text = body([one, many]).decode()
    assert '{"id": "a", "x": {"u": 1e400, "u": 0.10}}' in text
    assert json.loads(text)["rows"][1:] == [{"y": 1}, {"y": "ä"}]
    assert (one.count, one.ids, many.count, many.ids) == (1, {"a"}, 2, set())


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"{", b"7", b"[]", b"[1]", b"null", b'{"id": "a"}]', b'{"a": 1}], "keep": false, "rows": [{"a": 1}'),
        *(b"\xff{}", b"[" * 100_000),
    ],
)
def test_anything_else_is_refused(payload: bytes):
    with pytest.raises(ValueError):
        read("power", "step", payload, 0)


def test_messages_go_together_until_one_asks_for_something_else_or_names_an_id_again():
    a, b, again = message(rows("a")[0]), message(rows("b", "c")), message(rows("c", "d"))
    label = message({"id": "a", "y": 1.0}, "learn")
    assert first_together([a, b, label, again]) == [a, b]
    assert first_together([a, b, again, label]) == [a, b]
    assert first_together([again, a]) == [again, a]
    assert first_together([]) == []
    no_id = [message({"x": {}, "y": 1.0})] * (MOST_ROWS + 5)
    assert len(first_together(no_id)) == MOST_ROWS
    large = message([{"x": {}}] * (MOST_ROWS + 1))
    assert first_together([large, a]) == [large]


def test_each_message_is_answered_in_its_own_form():
    messages = [message(rows("a")[0]), message(rows("b", "c")), message(rows("d"))]
    assert parts(messages, [1, 2, 3, 4]) == [1, [2, 3], [4]]
