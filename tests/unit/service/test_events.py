"""Events and those who listen to them."""

import asyncio
from threading import Thread
from typing import Any

from streamgp.service import events
from streamgp.service.events import Events

Found = list[tuple[str, dict[str, Any]] | None]


async def _some(sent: Events, stream: str | None, number: int, pause: float = 5.0) -> Found:
    found: Found = []
    async for item in sent.listen(stream, pause):
        found.append(item)
        if len(found) == number:
            break
    return found


async def _listening(sent: Events, number: int) -> None:
    while len(sent._listeners) < number:
        await asyncio.sleep(0.001)


def test_who_listens_to_a_stream_hears_of_it_alone_and_in_order():
    async def main() -> tuple[Found, Found]:
        sent = Events()
        power, everything = (asyncio.ensure_future(_some(sent, name, n)) for name, n in (("power", 2), (None, 3)))
        await _listening(sent, 2)
        thread = Thread(
            target=lambda: [sent.tell(name, "alarm", {"i": i}) for i, name in enumerate(("power", "b", "power"))]
        )
        thread.start()
        found = await asyncio.wait_for(asyncio.gather(power, everything), 30.0)
        await asyncio.sleep(0)
        assert not sent._listeners
        return found[0], found[1]

    power, everything = asyncio.run(main())
    assert power == [("alarm", {"stream": "power", "i": 0}), ("alarm", {"stream": "power", "i": 2})]
    assert [item[1]["i"] for item in everything if item] == [0, 1, 2]


def test_a_pause_without_an_event_is_said_and_the_end_ends_it():
    async def main() -> tuple[Found, Found]:
        sent = Events()
        silence = await asyncio.wait_for(_some(sent, None, 2, pause=0.01), 30.0)
        rest = asyncio.ensure_future(_some(sent, None, 9))
        await _listening(sent, 1)
        sent.close()
        return silence, await asyncio.wait_for(rest, 30.0)

    assert asyncio.run(main()) == ([None, None], [])


def test_who_does_not_take_what_is_sent_is_let_go(monkeypatch):
    monkeypatch.setattr(events, "MOST", 3)

    async def main() -> Found:
        sent = Events()
        listener = sent.listen("power")
        first = asyncio.ensure_future(anext(listener))
        await _listening(sent, 1)
        for i in range(6):
            sent.tell("power", "alarm", {"i": i})
        found: Found = [await asyncio.wait_for(first, 30.0)]
        await asyncio.sleep(0.01)
        assert not sent._listeners
        found += [item async for item in listener]
        return found

    # What waited beyond the third was never kept, and after the one that is being read there is no more.
    assert [item[1]["i"] for item in asyncio.run(main()) if item] == [0]


def test_a_listener_whose_loop_has_ended_is_forgotten():
    sent = Events()

    async def begin() -> Any:
        listener = sent.listen(None)
        waiting = asyncio.ensure_future(anext(listener))
        await _listening(sent, 1)
        kept = dict(sent._listeners)
        waiting.cancel()
        return kept

    kept = asyncio.run(begin())
    sent._listeners.update(kept)
    sent.tell("power", "alarm", {})
    assert not sent._listeners
    sent._listeners.update(kept)
    sent.close()
