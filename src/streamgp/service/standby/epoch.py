"""Whether a directory's service leads, stands by or was fenced, and in which epoch: a file beside the streams."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.problems import Problem

NAME = "epoch.json"
LEADER, STANDBY, FENCED = "leader", "standby", "fenced"


@dataclass(frozen=True)
class Epoch:
    """Who writes, as far as a service knows.

    Attributes
    ----------
    service
        What leader and standby have in common; empty: there never was a standby.
    number
        How often a standby has become the leader.
    role
        ``leader``, ``standby``, or ``fenced``: a leader that another one has replaced.
    leader
        Address of the leader, where that is another one.
    standby
        The standby of a leader, by its machine and directory; empty: none.
    alone
        Whether this leader acknowledges what its standby may not have.
    former
        Address of the leader that this one has replaced and that may not know it.
    """

    service: str = ""
    number: int = 0
    role: str = LEADER
    leader: str = ""
    standby: str = ""
    alone: bool = True
    former: str = ""


class EpochFile:
    """The file of an `Epoch`, of which the disk has every change before it counts.

    Parameters
    ----------
    directory
        Of the service.

    Raises
    ------
    Problem
        If it cannot be read: it might say that another service leads.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self.now = Epoch()
        if self._path.exists():
            try:
                found = json.loads(self._path.read_text())
                self.now = Epoch(**found)
                if not all(type(value) is type(found[name]) for name, value in asdict(Epoch()).items()):
                    raise TypeError("a value of another kind")
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise Problem(
                    500,
                    f"{self._path}: expected who leads these streams, found something else ({error}); put back that "
                    f"of a backup, or delete it if no other service has these streams",
                ) from error

    def write(self, **changes: Any) -> None:
        """Change what is known; raise `OSError` if the disk refuses it, and nothing is changed."""
        new = replace(self.now, **changes)
        if new == self.now:
            return
        aside = self._path.with_name(f".{NAME}.part")
        with aside.open("w") as file:
            file.write(json.dumps(asdict(new), indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._path)
        sync_directory(self._path.parent)
        self.now = new
