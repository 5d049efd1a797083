"""What a stream knows when it is opened: the latest checkpoint that its log goes on from."""

from functools import partial
from pathlib import Path

from streamgp.service.checkpoints import Checkpoints
from streamgp.service.config import StreamConfig
from streamgp.service.knowledge import Knowledge, Notify
from streamgp.service.log import EventLog
from streamgp.service.problems import Problem


def latest(
    directory: Path, config: StreamConfig, log: EventLog, checkpoints: Checkpoints, notify: Notify
) -> tuple[Knowledge, int, float | None]:
    """Return what the latest checkpoint knows, its position, and when it was written; or a beginning.

    Raises
    ------
    Problem
        If there is none from which the log goes on.
    """
    found = checkpoints.load(log.position, partial(Knowledge.read, config))
    position, loaded = (0, None) if found is None else found
    if log.first > position + 1:
        raise Problem(
            500,
            f"{directory}: expected the log from {position + 1:,} on, got it from {log.first:,}; use a copy of the "
            f"directory",
        )
    known = Knowledge(config, directory / "history", notify, loaded)
    return known, position, None if loaded is None else loaded[1]["written_at"]
