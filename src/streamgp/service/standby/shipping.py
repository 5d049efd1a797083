"""Entries on their way from the log of a leader to that of its standby; and whole streams, where these do not do."""

import hashlib
import json
import tarfile
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from time import sleep
from typing import IO, Any
from uuid import uuid4

from streamgp.service.archive import kept_entries
from streamgp.service.backup import copy_stream, sync_tree
from streamgp.service.config import StreamConfig
from streamgp.service.live_stream import LiveStream
from streamgp.service.log import EventLog, Linked
from streamgp.service.log_end import link
from streamgp.service.packing import unpack
from streamgp.service.problems import Problem
from streamgp.service.requests import RETURN, Request, promise, restored
from streamgp.service.streams import Streams

# An answer has so many bytes of entries of a stream, or a little more.
MOST_BYTES = 4 << 20
# So many entries of an archive go in one answer.
MOST_ENTRIES = 1_000
# The seconds between two looks at whether a stream has learnt what came before.
PAUSE = 0.005
# The seconds without an entry after which a standby is answered all the same, and asks again.
WAIT = 1.0


def digest_of(config: StreamConfig) -> str:
    """Return what tells streams apart that are described otherwise."""
    return hashlib.blake2b(config.to_json().encode(), digest_size=16).hexdigest()


# The leader's side


def news_for(streams: Streams, asked: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Linked]]]:
    """Return what a standby should know, and the entries that it has not; wait a little if there are none.

    Parameters
    ----------
    streams
        Of the leader.
    asked
        ``standby``: who asks; ``streams``: of each stream the position, the link of the chain, the digest of the
        config, and the token that the leader gave.

    Raises
    ------
    Problem
        If this service does not lead, or has another standby.
    """
    leadership, theirs = streams.leadership, asked["streams"]
    known, unknown = dict[str, LiveStream](), dict[str, LiveStream]()
    for stream in streams.all():
        if stream.is_ready:
            said = theirs.get(stream.config.name)
            (known if said is not None and said[3] == stream.token else unknown)[stream.config.name] = stream
    entries = {name: _continued(stream, theirs.get(name)) for name, stream in unknown.items()}
    to_copy = [name for name, found in entries.items() if found is None]
    known |= {name: stream for name, stream in unknown.items() if name not in to_copy}
    leadership.news.clear()
    positions = {name: theirs[name][0] for name in known}
    is_in_step = leadership.confirm(asked["standby"], {known[name].token: each for name, each in positions.items()})
    if not to_copy and all(known[name].last_position == position for name, position in positions.items()):
        leadership.news.wait(min(WAIT, leadership.timeout / 5))
    found = {name: entries.get(name) or [] for name in known}
    for name, stream in known.items():
        if not found[name] and stream.last_position > positions[name]:
            more = entries_after(stream, positions[name], bytes.fromhex(theirs[name][1]))
            to_copy += [name] if more is None else []
            found[name] = more or []
    return {
        "timeout": leadership.timeout,
        "in_step": is_in_step,
        "streams": sorted([*(each.config.name for each in streams.all()), *streams.broken]),
        "positions": {name: stream.last_position for name, stream in known.items()},
        "tokens": {name: stream.token for name, stream in known.items()},
        "copy": to_copy,
    }, found


def _continued(stream: LiveStream, said: Any) -> list[Linked] | None:
    """Return the entries that go on from what a standby says it has; None if it has to copy the stream."""
    if said is None or said[2] != digest_of(stream.config):
        return None
    return entries_after(stream, said[0], bytes.fromhex(said[1]))


def entries_after(stream: LiveStream, position: int, chain: bytes) -> list[Linked] | None:
    """Return entries after a position, from the log or the archive; None if these do not go on from it."""
    found: Future[list[Linked] | None] = promise()

    def read(log: EventLog) -> None:
        try:
            found.set_result(log.linked_after(position, chain, MOST_BYTES))
        except Exception as error:
            found.set_exception(error)

    assert stream.sequencer is not None
    stream.sequencer.call(read)
    entries, last = found.result(), stream.last_position
    if entries is not None or position >= last:
        return entries
    try:
        entries = list(kept_entries(stream.directory, position, min(position + MOST_ENTRIES, last)))
    except Problem:
        return None
    return entries if entries and entries[0][4] == link(chain, *entries[0][:4]) else None


def packed(document: dict[str, Any], entries: dict[str, list[Linked]]) -> bytes:
    """Return what `unpacked` reads: a line of JSON, and the bodies of the entries."""
    heads = {
        name: [[position, kind, at, len(body), chain.hex()] for position, kind, at, body, chain in found]
        for name, found in entries.items()
        if found
    }
    bodies = [body for found in entries.values() for *_, body, _ in found]
    return json.dumps(document | {"entries": heads}).encode() + b"\n" + b"".join(bodies)


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, list[Linked]]]:
    """Return a document and the entries of streams."""
    at = data.index(b"\n") + 1
    document, entries = json.loads(data[:at]), dict[str, list[Linked]]()
    for name, heads in document.pop("entries").items():
        found = entries[name] = []
        for position, kind, moment, length, chain in heads:
            found.append((position, kind, moment, data[at : at + length], bytes.fromhex(chain)))
            at += length
    return document, entries


def archived(stream: LiveStream) -> Iterator[bytes]:
    """Yield the bytes of a copy of a stream that is at work, as a tar file."""
    with TemporaryDirectory(prefix=".copy-", dir=stream.directory.parent) as folder:
        copy = Path(folder) / stream.config.name
        with stream.checkpointing.paused():
            position = copy_stream(stream.directory, copy)
        if position is None:
            raise Problem(404, f"{stream.config.name} was deleted meanwhile")
        path = Path(folder) / "tar"
        with tarfile.open(path, "w") as tar:
            tar.add(copy, "stream")
        rmtree(copy)
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                yield part


# The standby's side


def take_copy(streams: Streams, name: str, source: IO[bytes], aside: Path | None) -> None:
    """Put a copy of a leader's stream in the place of that of this name, which goes aside."""
    made = streams.directory / f".{uuid4().hex}"
    try:
        with tarfile.open(fileobj=source, mode="r|") as tar:
            tar.extractall(made, filter="data")
        source.read()  # to the end of the answer: the next one comes by the same connection
        sync_tree(made)
        streams.put(name, made / "stream", aside)
    finally:
        rmtree(made, ignore_errors=True)


def take_entries(stream: LiveStream, entries: list[Linked]) -> "list[Future[None]]":
    """Have a stream write and learn entries of its leader; return what is fulfilled when the disk has them."""
    written: list[Future[None]] = []
    requests: list[Request] = []
    assert stream.sequencer is not None
    for position, kind, at, body, chain in entries:
        request = restored(kind, position, at, unpack(body))
        request.chain, request.packed = chain, body
        if kind == RETURN:
            written += [stream.sequencer.copy(requests)] if requests else []
            requests = []
            # The state that it goes back to is found as the leader found it.
            while stream.knowledge.position < position - 1 and stream.failure is None:
                sleep(PAUSE)
            stream.find_former(request)
        _wait_for_room(stream, request)
        requests.append(request)
    return [*written, stream.sequencer.copy(requests)]


def _wait_for_room(stream: LiveStream, request: Request) -> None:
    while True:
        try:
            stream.backlog.add(request)
            return
        except Problem:
            sleep(PAUSE)
