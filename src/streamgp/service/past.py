"""The state of a stream at any position that its checkpoints, its archive and its log reach back to."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, runtime_checkable

from streamgp.service.answers import as_iso
from streamgp.service.archive import first_kept, kept_entries, position_at
from streamgp.service.challengers import MOST_BEHIND
from streamgp.service.checkpoints import Checkpoints
from streamgp.service.config import StreamConfig
from streamgp.service.knowledge import Knowledge
from streamgp.service.packing import unpack
from streamgp.service.problems import Problem
from streamgp.service.requests import RETURN, Request, restored
from streamgp.service.restoring import read_former

_SCRATCH = ".past-"
# So many entries are learnt again at a time.
_BATCH = 256


@runtime_checkable
class KeptStream(Protocol):
    """What of a stream at work reaches back to its positions."""

    directory: Path
    config: StreamConfig
    checkpoints: Checkpoints
    knowledge: Knowledge


class Past:
    """What a stream at work knew at positions at which it has no checkpoint."""

    def __init__(self, stream: KeptStream) -> None:
        self._directory = stream.directory
        self._config = stream.config
        self._checkpoints = stream.checkpoints
        self._returns = list(stream.knowledge.returns)
        self._history = stream.knowledge.history

    def add_checkpoint(self, position: int) -> None:
        """Write the checkpoint of a position, from the one before it and the entries since.

        Raises
        ------
        Problem
            If the position was left behind by a return, or what is kept does not reach back to it.
        """
        self._check(position)
        for left in self._directory.glob(f"{_SCRATCH}*"):
            # A process was killed before it had deleted it.
            shutil.rmtree(left, ignore_errors=True)
        with TemporaryDirectory(prefix=_SCRATCH, dir=self._directory) as scratch:
            known, at = self._known_at(position, Path(scratch))
            known.history.take_files(self._history)
            self._checkpoints.add(position, lambda path: known.save(path, at), known.about(at))

    def position_at(self, moment: float) -> int:
        """Return the position of the last entry that had come at a moment.

        Raises
        ------
        Problem
            If no entry is kept that had come by then.
        """
        found = position_at(self._directory, moment)
        if found is None:
            raise Problem(404, f"time: expected none before {self._reach()}, got {as_iso(moment)}")
        return found

    def _check(self, position: int) -> None:
        back = next((each for each in self._returns if each.to < position < each.position), None)
        if back is not None:
            raise Problem(
                404,
                f"position: {position:,} was left behind when the stream returned to {back.to:,}, at "
                f"{back.position:,}; expected one up to {back.to:,}, or from {back.position:,} on",
            )

    def _known_at(self, position: int, scratch: Path) -> tuple[Knowledge, float]:
        """Return what the stream knew, and when the last entry had come that it knew."""
        base = max((each for each in self._checkpoints.offered(self._returns) if each <= position), default=0)
        back = next((each for each in reversed(self._returns) if base < each.position <= position), None)
        at = 0.0
        if back is not None:
            # The last return says from where the stream went on; it is the first entry to be done again.
            known, at = self._known_at(back.to, scratch)
            base = back.position - 1
        elif base:
            with self._checkpoints.holding(base):
                known = Knowledge(
                    self._config, scratch, _silent, read_former(self._config, self._checkpoints, base).loaded
                )
            at = self._checkpoints.about(base)["at"]
        else:
            known = Knowledge(self._config, scratch, _silent)
        first = first_kept(self._directory)
        if base < position and (first is None or first[0] > base + 1):
            raise Problem(404, f"position: expected none before {self._reach()}, got {position:,}")
        batch: list[Request] = []
        for number, kind, came, body, chain in kept_entries(self._directory, base, position):
            at = came
            if kind == RETURN and back is not None:
                known.begin_anew(back, chain)
                continue
            request = restored(kind, number, came, unpack(body))
            request.chain = chain
            batch.append(request)
            if len(batch) == _BATCH or number == position:
                known.apply(batch)
                known.settle()
                known.challengers.catch_up(MOST_BEHIND)
                batch = []
        return known, at

    def earliest(self) -> tuple[int, float] | None:
        """Return the position from which on any can be returned to, and its time; None if there is none."""
        first = first_kept(self._directory)
        if first is None or first[0] == 1:
            return None if first is None else (0, first[1])
        offered = self._checkpoints.offered(self._returns)
        return next(((each, about["at"]) for each, about in offered.items() if each >= first[0] - 1), None)

    def _reach(self) -> str:
        """Return from where on positions can be returned to, in words."""
        earliest = self.earliest()
        return "the last" if earliest is None else f"{earliest[0]:,}, of {as_iso(earliest[1])}"


def _silent(*_: object) -> None:
    """Tell nobody of an alarm that was told of before."""
