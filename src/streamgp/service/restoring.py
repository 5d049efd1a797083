"""What a stream knows when it is opened, and when it returns to a checkpoint."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgp.checkpoint import CheckpointError
from streamgp.service.checkpoints import Checkpoints, Return
from streamgp.service.config import StreamConfig
from streamgp.service.knowledge import Knowledge, Notify
from streamgp.service.log import EventLog
from streamgp.service.packing import unpack
from streamgp.service.problems import Problem
from streamgp.service.requests import RETURN


class Former(NamedTuple):
    """What a checkpoint knows.

    Attributes
    ----------
    loaded
        As `Knowledge` takes it.
    waiting
        Ids of the rows that wait for their labels.
    last_time
        See `last_time_of`.
    """

    loaded: tuple[Any, dict[str, Any]]
    waiting: list[str]
    last_time: float | None


def latest(
    directory: Path, config: StreamConfig, log: EventLog, checkpoints: Checkpoints, notify: Notify
) -> tuple[Knowledge, tuple[int, float | None]]:
    """Return what the latest checkpoint knows, with its position and when it was written; or a beginning.

    If the log has a return to an earlier one since, it is what that one knows: what lies between is not learnt again.

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
    written_at = None if loaded is None else loaded[1]["written_at"]
    back = log.last_of(RETURN, position)
    if back is None:
        return Knowledge(config, directory / "history", notify, loaded), (position, written_at)
    to = unpack(back.body)["number"]
    known = Knowledge(config, directory / "history", notify, read_former(config, checkpoints, to).loaded)
    known.begin_anew(Return(back.position, to, back.at))
    return known, (position, written_at)


def read_former(config: StreamConfig, checkpoints: Checkpoints, position: int) -> Former:
    """Read a checkpoint that is returned to.

    Raises
    ------
    Problem
        If it cannot be read.
    """
    try:
        loaded = Knowledge.read(config, checkpoints.path(position))
    except CheckpointError as error:
        raise Problem(
            500, f"position: the checkpoint of {position:,} cannot be read ({error}); use another"
        ) from error
    model = loaded[0]
    return Former(loaded, list(model.waiting), last_time_of(config, model))


def check_offered(checkpoints: Checkpoints, position: int, returns: list[Return]) -> None:
    """Raise `Problem` if a stream cannot return to a checkpoint."""
    offered = checkpoints.offered(returns)
    if position not in offered:
        shown = ", ".join(map(str, list(offered)[-20:]))
        raise Problem(404, f"position: expected one of the checkpoints ({shown or 'there are none'}), got {position}")


def last_time_of(config: StreamConfig, model: Any) -> float | None:
    """Return the time before which no row may come, where the model's clock is that of the rows; else None."""
    if not config.timed or config.is_keyed:
        return None
    return -np.inf if model.last_time is None else model.last_time
