"""The status of a stream: its description, its condition, and its files on disk."""

import os
from typing import Any, Protocol, runtime_checkable

from streamgp.service.answers import as_iso
from streamgp.service.checkpointing import Checkpointing
from streamgp.service.keyed_model import KeyedModel
from streamgp.service.log import EventLog
from streamgp.service.past import KeptStream, Past
from streamgp.service.problems import Problem
from streamgp.service.restart_time import RestartTime


@runtime_checkable
class StreamAtWork(KeptStream, Protocol):
    """What is shown of a stream at work."""

    process: int
    log: EventLog
    checkpointing: Checkpointing
    restart_time: RestartTime
    last_position: int
    replayed: float
    notices: list[str]
    failure: str | None
    is_ready: bool
    is_stopping: bool
    is_full: bool

    @property
    def model(self) -> Any:
        """The model at work."""
        ...


def describe(stream: StreamAtWork) -> dict[str, Any]:
    """Return what the stream is and how it is."""
    c = stream.model.config
    return {
        "name": c.name,
        "kind": "keyed" if c.is_keyed else "single",
        "task": c.task,
        "model": c.model,
        "target": c.target,
        "features": list(c.features),
        "categories": {name: list(levels) for name, levels in c.categories.items()},
        "key": c.key,
        "timed": c.timed,
        "rows": stream.model.next_row,
        "learned": stream.knowledge.learned,
        "scored_rows": stream.model.scores()["scored_rows"],
        "position": stream.last_position,
        "pending": len(stream.model.waiting),
        "last_at": as_iso(stream.knowledge.last_at),
        "stale_after": stream.knowledge.stale_after(),
        "state": "failed" if stream.failure else "ready" if stream.is_ready else "replaying",
        "warmed_up": stream.model.is_warmed_up,
        "warmup": c.warmup,
        "open_alarms": stream.knowledge.open_alarms,
        "keys": len(stream.model.live.fleet.keys_) if isinstance(stream.model, KeyedModel) else None,
        "failure": stream.failure,
    }


def describe_broken(name: str, reason: str) -> dict[str, Any]:
    """Return what `describe` does of a stream that could not be opened, and the reason."""
    unknown = dict.fromkeys(
        ("kind", "task", "model", "target", "key", "timed", "last_at", "stale_after", "warmup", "keys")
    )
    counted = dict.fromkeys(("rows", "learned", "scored_rows", "position", "pending", "open_alarms"), 0)
    known = {"name": name, "features": [], "categories": {}, "state": "failed", "warmed_up": False, "failure": reason}
    return unknown | counted | known


def describe_durability(stream: StreamAtWork) -> dict[str, Any]:
    """Return what is on disk, and how long a restart would take."""
    low, high = stream.restart_time.expected(stream.checkpointing.position)
    back = stream.knowledge.returns[-1] if stream.knowledge.returns else None
    return {
        "position": stream.last_position,
        "applied": stream.knowledge.position,
        "checkpoint_position": stream.checkpointing.position,
        "checkpoint_at": as_iso(stream.checkpointing.at),
        "restored_to": None if back is None else back.to,
        "restored_at": None if back is None else as_iso(back.at),
        "epoch": stream.knowledge.epoch,
        "log_bytes": stream.log.bytes,
        "recovery_seconds": round(high, 1),
        "recovery_seconds_at_best": round(low, 1),
        "replayed": stream.replayed,
        "disk_full": stream.is_full,
        "failure": stream.failure,
        "notices": stream.notices,
    }


def describe_checkpoints(stream: StreamAtWork) -> dict[str, Any]:
    """Return the checkpoints that the stream has, the latest first, and what it returned to so far.

    And the earliest position from which on it may return to any, with its time.
    """
    returns = stream.knowledge.returns
    offered = stream.checkpoints.offered(returns)
    found = [{"position": p} | about | {"at": as_iso(about["at"])} for p, about in reversed(offered.items())]
    past = [{"position": each.position, "restored": each.to, "at": as_iso(each.at)} for each in reversed(returns)]
    earliest = Past(stream).earliest()
    since = None if earliest is None else {"position": earliest[0], "at": as_iso(earliest[1])}
    return {"earliest": since, "checkpoints": found, "restores": past}


def check_ready(stream: StreamAtWork, learning: bool) -> None:
    """Raise `Problem` if the stream cannot predict now, or not learn."""
    name = stream.config.name
    # A forked process does not have the stream's threads.
    if stream.process != os.getpid():
        raise Problem(
            500,
            f"{name} is at work in process {stream.process}, and this one ({os.getpid()}) was forked from it; open "
            f"the directory in one process, started with spawn or forkserver",
        )
    if not stream.is_ready:
        raise Problem(503, f"{name} is being restored, {stream.replayed:.0%} are done; try again soon", retry_after=2)
    if stream.is_stopping:
        raise Problem(503, f"{name} is being stopped; try again soon", retry_after=5)
    if learning and stream.failure is not None:
        raise Problem(500, f"{name} learns no longer: {stream.failure}; it still predicts. Restart the service")
