"""A fleet on disk: a checkpoint for what all keys share, and one for every shard of keys.

``checkpoint.json`` in the fleet's directory names the directories of its shards: a new state of the fleet is there as
soon as that file is renamed into place, and until then the old one is. Shards whose keys have no new row stay as they
are. The states of sleeping keys are in the files that they sleep in, which the directory holds as well (see
`streamgp.fleet.sleepers`). No pickle is written or read.
"""

import secrets
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.fleet.directory import Directory
from streamgp.fleet.engine import FleetEngine
from streamgp.fleet.sleepers import FILE_KEYS, Sleepers, remove_others
from streamgp.numerics import checkpoint
from streamgp.numerics.checkpoint import CheckpointError


class Shards:
    """Which shards of a fleet are on disk, and where; those whose keys have new rows are written again."""

    def __init__(self) -> None:
        self._changed: set[int] = set()
        self._path: Path | None = None
        self._part_of: Path | None = None
        self._names: dict[str, str] = {}

    def touch(self, directory: Directory, keys: np.ndarray) -> None:
        """Note which keys have new rows."""
        self._changed.update(np.unique(directory.shard[keys]).tolist())

    def save(
        self, path: Path, kind: str, directory: Directory, engine: FleetEngine | None, shared: dict[str, Any]
    ) -> None:
        """Write the fleet: the shards that changed, then what all keys share, which names them."""
        path = path.resolve()
        if path == self._part_of:
            raise ValueError(
                f"{path}: expected another directory than that of the whole fleet, of which this is a part"
            )
        same = path == self._path and _names_on_disk(path) == self._names
        there = np.unique(directory.shard).tolist()
        names = dict(self._names) if same else {}
        for shard in there:
            if not same or shard in self._changed or str(shard) not in names:
                name = f"shard-{shard:05d}-{secrets.token_hex(4)}"
                keys = np.flatnonzero(directory.shard == shard)
                checkpoint.save(path / name, _keys_of(keys, directory, engine), {"shard": shard})
                names[str(shard)] = name
        sleepers = None if engine is None else engine.keys.sleepers
        asleep = [] if sleepers is None else sleepers.copy_to(path)
        rows = int(directory.rows.sum())
        meta = {"kind": kind, "rows": rows, "keys": len(directory)}
        checkpoint.save(path, shared | {"shards": names, "asleep": asleep}, meta)
        self._path, self._names, self._changed = path, names, set()
        remove_others(path, asleep)
        for old in path.glob("shard-*"):
            if old.name not in names.values():
                shutil.rmtree(old, ignore_errors=True)

    def load(
        self,
        path: Path,
        names: dict[str, str],
        asleep: list[str],
        directory: Directory,
        engine: FleetEngine,
        only: Collection[int] | None,
    ) -> None:
        """Read the keys of all shards, or of some, awake or in the files of sleeping ones."""
        path = path.resolve()
        sleepers = Sleepers(path, asleep)
        wanted = [name for shard, name in names.items() if only is None or int(shard) in only]
        trees = [checkpoint.load(path / name)[0] for name in wanted]
        numbers = np.concatenate([tree["number"] for tree in trees]) if trees else np.empty(0, np.int64)
        keys = [key for tree in trees for key in tree["keys"]]
        order = np.argsort(numbers)
        place = np.empty(len(numbers), np.int64)
        place[order] = np.arange(len(numbers))
        directory.add([keys[i] for i in order.tolist()])
        at = 0
        while trees:
            tree = trees.pop(0)
            here = place[at : at + len(tree["keys"])]
            directory.restore(here, tree["book"])
            gone = tree["sleeping"]
            if tree["states"] is not None and not gone.all():
                engine.keys.put(here[~gone], tree["states"])
            for some in np.split(np.flatnonzero(gone), range(FILE_KEYS, int(gone.sum()), FILE_KEYS)):
                if len(some):
                    engine.keys.put(here[some], sleepers.take(tree["number"][some]))
            at += len(here)
        if only is not None:
            self._part_of = path
        elif not asleep:
            # With sleeping keys, the assignment of keys to files changes from now on.
            self._path, self._names = path, dict(names)


def _names_on_disk(path: Path) -> dict[str, str] | None:
    """Return which shards the directory holds; None if it is no fleet's."""
    try:
        return checkpoint.load(path)[0]["shards"]
    except (CheckpointError, KeyError, TypeError):
        return None


def _keys_of(at: np.ndarray, directory: Directory, engine: FleetEngine | None) -> dict[str, Any]:
    found = {"number": at, "keys": directory.keys.names(at), "book": directory.book(at), "states": None}
    found["sleeping"] = np.zeros(len(at), bool)
    if engine is None or engine.model is None:
        return found
    if (sleepers := engine.keys.sleepers) is not None:
        found["sleeping"] = sleepers.holds(at)
        at = at[~found["sleeping"]]
    return found | {"states": engine.keys.take(at) if len(at) else None}
