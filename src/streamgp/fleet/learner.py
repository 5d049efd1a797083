"""The learner of a fleet: rows of frames are checked and numbered, then the engine predicts and learns them."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Int

from streamgp.fleet.directory import NEW, Directory, complaint
from streamgp.fleet.engine import FleetEngine, Observer, new_keys
from streamgp.fleet.frames import FleetColumns, Table, name_rows, read
from streamgp.fleet.local_keys import Keys, LocalKeys, Outcome
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.ray_keys import require_ray
from streamgp.fleet.settings import FleetSettings
from streamgp.fleet.shards import Shards
from streamgp.numerics import checkpoint
from streamgp.progress import progress_bar
from streamgp.table import DataError


class Learnt(NamedTuple):
    """A frame that was learnt.

    Attributes
    ----------
    table
        Its n rows.
    good
        The numbers of the m rows that were learnt; the others were left out.
    outcome
        What was predicted of these before.
    fitted
        Which of them the fitted fleet predicted; those of the warm-up it did not.
    """

    table: Table
    good: Int[np.ndarray, " m"]
    outcome: Outcome
    fitted: Bool[np.ndarray, " m"]


class FleetLearner:
    """What a fleet knows: its columns, its keys, and the engine that predicts and learns their rows.

    Parameters
    ----------
    settings
        Of the fleet.
    columns
        Of the frames so far; None before the first.
    seq
        The number of the last step.

    Attributes
    ----------
    first_doubt
        The first row of a frame that was skipped since its time is doubtful, and why; None without one.
    """

    def __init__(self, settings: FleetSettings, columns: FleetColumns | None = None, seq: int = -1) -> None:
        if settings.engine == "ray":
            require_ray()
        self.settings, self.columns, self.seq = settings, columns, seq
        self.directory, self._shards = Directory(settings.shards), Shards()
        self.engine: FleetEngine | None = None
        self.first_doubt: tuple[int, str] | None = None

    @property
    def is_warm(self) -> bool:
        """Whether what all keys share has been fitted."""
        return self.engine is not None and self.engine.model is not None

    @property
    def warmup_rows(self) -> int:
        """How many rows were those of the warm-up, so far."""
        return 0 if self.engine is None else min(self.engine.fitted_at, self.engine.rows)

    def predict(self, frame: Any) -> tuple[Table, Mixture]:
        """Check all rows, then predict them."""
        table = read(frame, self.settings, self.columns, with_target=False)
        no_key = np.fromiter((key is None for key in table.keys), bool, len(table.keys))
        if no_key.any():
            where = name_rows(self.settings, table, no_key)
            raise DataError(f"predict: expected a key in every row, got none in {where}; leave it out.")
        key = self.directory.find(table.keys)
        engine = self.engine or self._new_engine(table.columns, LocalKeys())
        times = self.directory.next_rows(key) if table.times is None else table.times
        return table, engine.predict(key, times, table.X, self.directory.group_numbers(table.groups, len(key)))

    def learn(self, frame: Any, caller: str, observer: Observer | None = None) -> Learnt:
        """Check all rows, then predict and learn the good ones; the `observer` is shown them as they are learnt."""
        self._check_usable()
        table = read(frame, self.settings, self.columns, with_target=True)
        assert table.y is not None
        key, new = self.directory.number(table.keys)
        group = self.directory.group_numbers(table.groups, len(key))
        raises, clocks = self.settings.missing == "raise", self.directory.clocks
        seen, dated = self.directory.seen, table.columns.dated
        doubts = clocks.judge(table.keys, key, table.times, seen, dated, raises)
        bad = self.directory.check(key, table.times, group, doubts.rows)
        is_bad = bad.any
        if is_bad.any():
            if raises:
                clocks.remember(doubts)
                raise DataError(complaint(caller, self.settings, table, bad, doubts))
            if self.first_doubt is None and doubts.first is not None:
                self.first_doubt = doubts.first, doubts.fault
            # A key is new with its first good row.
            key, new = self.directory.number([table.keys[i] for i in np.flatnonzero(~is_bad).tolist()])
        good = np.flatnonzero(~is_bad)
        clocks.learn(doubts)
        if self.engine is None:
            self.engine = self._new_engine(table.columns, new_keys(self.settings, self.directory))
        self.directory.add(new)
        if table.groups is not None:
            self.directory.add_groups(key, [table.groups[i] for i in good.tolist()])
        self.columns = table.columns
        times = self.directory.next_rows(key) if table.times is None else table.times[good]
        y = self.settings.target_map.forward(table.y[good])
        due, before, self.engine.broken = self.engine.refresh_at, self.engine.rows, True
        with progress_bar("fleet", len(y)) as bar:
            outcome = self.engine.learn(key, times, table.X[good], y, bar, observer)
        self.directory.count(key, times, np.isnan(y), table.unusable[good])
        skipped = self.directory.find([table.keys[i] for i in np.flatnonzero(is_bad).tolist()])
        skipped = skipped[skipped != NEW]
        self.directory.count_skipped(skipped)
        # At the end of the warm-up all keys learn what they have shown, and later their priors are renewed.
        changed = np.r_[key, skipped] if due == self.engine.refresh_at else np.arange(len(self.directory))
        self._shards.touch(self.directory, changed)
        self.engine.broken = False
        return Learnt(table, good, outcome, before + np.arange(len(good)) >= self.engine.fitted_at)

    def save(self, path: Path, kind: str, more: dict[str, Any]) -> None:
        """Write it as a checkpoint of this kind, and in the same step what a run knows besides."""
        self._check_usable()
        engine, groups = self.engine, self.directory.groups
        shared = {"settings": self.settings.anywhere(), "columns": self.columns, "seq": self.seq, "groups": groups}
        shared |= {"clocks": self.directory.clocks.to_tree(), "longest": self.directory.longest}
        shared |= more | {"engine": None if engine is None else engine.shared()}
        self._shards.save(path, kind, self.directory, engine, shared)

    @classmethod
    def load(cls, path: Path, tree: dict[str, Any], shards: Collection[int] | None, where: dict[str, Any]) -> Self:
        """Read what `save` wrote, of some shards or all, whose checkpoint holds this tree; `where` it goes on."""
        with checkpoint.reading(path):
            settings = tree["settings"]
            if not isinstance(settings, FleetSettings):
                raise TypeError(f"settings of a fleet expected, got {type(settings).__name__}")
            # Making new settings checks the stored ones.
            settings = replace(settings, engine="local", workers=None, max_active=None, directory=None)
        settings = replace(settings, **where)
        with checkpoint.reading(path):
            found = cls(settings, tree["columns"], tree["seq"])
            found.directory.groups = tree["groups"]
            found.directory.clocks.restore(tree["clocks"])
            found.directory.longest = float(tree["longest"])
            if found.columns is not None:
                found.engine = found._new_engine(found.columns, new_keys(settings, found.directory))
                found.engine.restore(tree["engine"], frozen=shards is not None)
                names, asleep = tree["shards"], tree["asleep"]
                found._shards.load(path, names, asleep, found.directory, found.engine, shards)
        return found

    def _new_engine(self, columns: FleetColumns, keys: Keys) -> FleetEngine:
        return FleetEngine(self.settings, columns, keys, self.directory)

    def _check_usable(self) -> None:
        if self.engine is not None and self.engine.broken:
            raise RuntimeError("the fleet was stopped in the midst of learning; load it from where it was last saved")
