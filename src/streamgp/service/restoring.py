"""The state of a stream when it is opened, and when it returns to a checkpoint."""

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgp.numerics.checkpoint import CheckpointError
from streamgp.service.checkpoints import Checkpoints, Return
from streamgp.service.config import StreamConfig
from streamgp.service.knowledge import Knowledge, Notify
from streamgp.service.log import EventLog
from streamgp.service.log_check import Damage
from streamgp.service.packing import unpack
from streamgp.service.problems import Problem
from streamgp.service.requests import RETURN
from streamgp.table.clock import Pace


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


def check_same(directory: Path, config: StreamConfig, log: EventLog) -> None:
    """Raise `Problem` if a log is not that of a stream as it is described now."""
    noted = StreamConfig.from_document(json.loads(log.stream_of(config.to_json())))
    was, now = noted.document(), config.document()
    if was != now:
        names = [name for name in now | was if now.get(name) != was.get(name)]
        other = [f"{name} {now.get(name)!r} where it was {was.get(name)!r}" for name in names]
        raise Problem(
            500,
            f"{directory}: stream.json has {', '.join(other)}: it was edited or is damaged, and what was learnt is "
            f"of the stream as it was; put that back",
        )


def latest(
    directory: Path, config: StreamConfig, log: EventLog, checkpoints: Checkpoints, notify: Notify
) -> tuple[Knowledge, tuple[int, float | None], list[str]]:
    """Return what the latest checkpoint knows, with its position and when it was written; or a beginning.

    Returned are also sentences on checkpoints that cannot be used, which are moved out of the way.

    If the log has a return to an earlier one since, it is what that one knows: what lies between is not learnt again.

    Raises
    ------
    Problem
        If there is none from which the log goes on, or one is of a later time than the log.
    """
    positions, notices = checkpoints.positions(), list[str]()
    if positions and positions[-1] > log.position:
        raise Damage(
            log.position,
            f"{directory}: the log ends at {log.position:,}, and there is a checkpoint of {positions[-1]:,}: entries "
            f"{log.position + 1:,} to {positions[-1]:,} at least are missing. It is damaged, or a copy that was not "
            f"made with streamgp backup",
        ).problem
    try:
        found = checkpoints.load(log.position, partial(read_own, config, log), notices)
    except Problem as problem:
        if log.first > 1:
            raise
        # The log is complete from the beginning on.
        found = None
        notices.append(f"{problem.detail.partition('; use')[0]}; all was learnt again from the log")
        notices += [f"the checkpoint of {each:,} is in {checkpoints.set_aside(each)}" for each in positions]
    position, loaded = (0, None) if found is None else found
    for each in [each for each in checkpoints.positions() if each < position]:
        chain, own = checkpoints.about(each).get("chain"), log.chain_at(each)
        if chain and own and chain != own.hex():
            aside = checkpoints.set_aside(each)
            notices.append(
                f"the checkpoint of {each:,} is not of this log, or what it notes is damaged; it is in {aside}"
            )
    if log.first > position + 1:
        raise Problem(
            500,
            f"{directory}: expected the log from {position + 1:,} on, got it from {log.first:,}; use a copy of the "
            f"directory",
        )
    written_at = None if loaded is None else loaded[1]["written_at"]
    back = log.last_of(RETURN, position)
    if back is None:
        return Knowledge(config, directory / "history", notify, loaded), (position, written_at), notices
    to = unpack(back.body)["number"]
    known = Knowledge(config, directory / "history", notify, read_former(config, checkpoints, to).loaded)
    known.begin_anew(Return(back.position, to, back.at), log.chain_at(back.position) or b"")
    return known, (position, written_at), notices


def read_own(config: StreamConfig, log: EventLog, path: Path) -> tuple[Any, dict[str, Any]]:
    """Read a checkpoint of a log.

    Raises
    ------
    CheckpointError
        If it cannot be read, or is not of this log.
    """
    loaded = Knowledge.read(config, path)
    tree = loaded[1]
    chain, own = tree["chain"], log.chain_at(tree["position"])
    if tree["position"] != int(path.name) or (chain and own and chain != own.hex()):
        raise CheckpointError(
            f"{path}: is of {tree['position']:,} in another log: the two come from copies that went their own ways"
        )
    return loaded


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


def last_time_of(config: StreamConfig, model: Any) -> float | None:
    """Return the time before which no row may come, where the model's clock is that of the rows; else None."""
    if not config.timed or config.is_keyed:
        return None
    return -np.inf if model.last_time is None else model.last_time


def pace_of(model: Any) -> Pace:
    """Return how far apart the rows usually are of a stream that begins or goes on."""
    step = getattr(model, "usual_step", None)
    return Pace() if step is None else Pace(step, settled=True)
