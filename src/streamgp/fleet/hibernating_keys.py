"""The keys of a fleet of which only some are in memory: those without a row for longest are on disk.

Which these are is decided by counts of rows, and what a key predicts depends on its own rows alone: so the numbers
are those of a fleet that keeps all keys awake.
"""

from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import NoReturn
from weakref import finalize

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet.local_keys import Inputs, LocalKeys, Numbers, Outcome, Values, empty_mixture, write
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.model import FleetModel
from streamgp.fleet.pooling import BeliefSums
from streamgp.fleet.sleepers import FILE_KEYS, Sleepers
from streamgp.fleet.states import KeyStates, joined, take

# The name of the folder of files begins with this.
FOLDER = "streamgp-asleep-"
NOWHERE = -1  # the place of a key that is asleep, or yet to be born
# One in so many places is freed at a time.
BATCH = 8


class HibernatingKeys:
    """States of keys by their numbers: of `max_active` in memory, of the others in files.

    Parameters
    ----------
    max_active
        How many are awake at most.
    directory
        In which a folder for the files is made, which is removed with this object; None: where temporary files go.
    """

    def __init__(self, max_active: int, directory: Path | None) -> None:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        folder = mkdtemp(prefix=FOLDER, dir=directory)
        finalize(self, rmtree, folder, ignore_errors=True)
        self.sleepers = Sleepers(Path(folder))
        self._awake = LocalKeys()
        # The place of every key.
        self._place = np.empty(0, np.int32)
        self._holder = np.full(max_active, NOWHERE)  # the key in every place
        # The row count when a key of each place last had a row.
        self._used = np.zeros(max_active, np.int64)
        self._rows = 0

    def use(self, model: FleetModel) -> None:
        """Go on with a model; see `Keys`."""
        self._awake.use(model)

    def learn(self, key: Numbers, times: Values, X: Inputs, y: Values, prior: Numbers, scored: bool) -> Outcome:
        """Predict rows, then learn them, those of as many keys at once as can be awake."""
        found = Outcome.empty(len(key))
        self._grow(int(key.max()) + 1)
        for at in _groups(key, self._place[key] == NOWHERE, len(self._holder)):
            who, first = np.unique(key[at], return_index=True)
            self._wake(who, prior[at[first]])
            place = self._place[key[at]]
            self._used[place] = self._rows + at
            part = self._awake.learn(place, times[at], X[at], y[at], prior[at], scored)
            write(found.mixture, at, part.mixture)
            found.log_density[at] = part.log_density
        self._rows += len(key)
        return found

    def predict(self, key: Numbers, times: Values, X: Inputs, prior: Numbers) -> Mixture:
        """Predict rows; see `Keys`."""
        mixture = empty_mixture(len(key))
        for at in _groups(key, key < 0, FILE_KEYS):
            known, number = np.unique(key[at], return_inverse=True)
            unknown = int(known[0] < 0)
            keys = self._visitors(known[unknown:])
            write(mixture, at, keys.predict(number - unknown, times[at], X[at], prior[at]))
        return mixture

    def forecast(self, key: Numbers, times: Float[np.ndarray, "n h"], X: Float[np.ndarray, "n h d"]) -> Mixture:
        """Forecast several rows of each key, those of the first key first."""
        mixture, h = empty_mixture(times.size), times.shape[1]
        for start in range(0, len(key), FILE_KEYS):
            some = slice(start, start + FILE_KEYS)
            part = self._visitors(key[some]).forecast(np.arange(len(key[some])), times[some], X[some])
            write(mixture, slice(start * h, start * h + len(part.mean)), part)
        return mixture

    def sums(self, group: Numbers, groups: int) -> BeliefSums:
        """Return what the priors of new keys are pooled from; see `Keys`."""
        return reduce(BeliefSums.plus, (keys.sums(group[some], groups) for some, keys in self._all()))

    def renew(self, prior: Numbers) -> None:
        """Let every key go on from the prior that is given for it; those that sleep go on sleeping."""
        for some, keys in self._all():
            keys.renew(prior[some])
            asleep = self._place[some] == NOWHERE
            if not asleep.all():
                self._awake.put(self._place[some[~asleep]], keys.take(np.flatnonzero(~asleep)))
            if asleep.any():
                self.sleepers.wake(some[asleep])
                self.sleepers.put(some[asleep], keys.take(np.flatnonzero(asleep)))

    def scores(self) -> dict[str, np.ndarray]:
        """Return the scores of every key."""
        parts = [keys.scores() for _, keys in self._all()] or [self._visitors(np.empty(0, np.int64)).scores()]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def take(self, key: Numbers) -> KeyStates:
        """Return a copy of the states of keys, awake or asleep."""
        asleep = self._place[key] == NOWHERE
        if not asleep.any():
            return self._awake.take(self._place[key])
        if asleep.all():
            return self.sleepers.take(key)
        order = np.argsort(asleep, kind="stable")
        back = np.empty(len(key), np.int64)
        back[order] = np.arange(len(key))
        awake = self._awake.take(self._place[key[~asleep]])
        return take(joined([awake, self.sleepers.take(key[asleep])]), back)

    def put(self, key: Numbers, states: KeyStates) -> None:
        """Take the states of keys that were saved: they sleep until their next rows."""
        self._grow(int(key.max()) + 1)
        self.sleepers.put(key, states)

    def __deepcopy__(self, _: object) -> NoReturn:
        raise TypeError("a fleet with max_active cannot be copied, as some keys are on disk; save it, and load it")

    def _visitors(self, key: Numbers) -> LocalKeys:
        """Return keys, numbered in this order, that nothing is taught."""
        keys = LocalKeys()
        keys.use(self._awake.model)
        if len(key):
            keys.put(np.arange(len(key)), self.take(key))
        return keys

    def _all(self) -> Iterator[tuple[Numbers, LocalKeys]]:
        for start in range(0, len(self._place), FILE_KEYS):
            some = np.arange(start, min(start + FILE_KEYS, len(self._place)))
            yield some, self._visitors(some)

    def _grow(self, keys: int) -> None:
        more = np.full(max(keys - len(self._place), 0), NOWHERE, np.int32)
        self._place = np.concatenate([self._place, more])

    def _wake(self, key: Numbers, prior: Numbers) -> None:
        """Give all of some keys a place; those that never had a row are born there, from these priors."""
        prior, absent = prior[self._place[key] == NOWHERE], key[self._place[key] == NOWHERE]
        self._make_room(len(absent), self._place[key[self._place[key] != NOWHERE]])
        free = np.flatnonzero(self._holder == NOWHERE)[: len(absent)]
        asleep, room = self.sleepers.holds(absent), int(free.max(initial=-1)) + 1
        for start in range(0, len(absent), FILE_KEYS):
            some = slice(start, start + FILE_KEYS)
            known, place = asleep[some], free[some]
            if known.any():
                self._awake.put(place[known], self.sleepers.take(absent[some][known]), room)
            if not known.all():
                self._awake.put(place[~known], self._awake.model.born(prior[some][~known]), room)
        self.sleepers.wake(absent[asleep])
        self._place[absent], self._holder[free] = free, absent

    def _make_room(self, places: int, needed: Int[np.ndarray, " m"]) -> None:
        """Let the keys fall asleep that have had no row for longest, so that there are so many free places."""
        taken = self._holder != NOWHERE
        if len(taken) - taken.sum() >= places:
            return
        short = places - int(len(taken) - taken.sum())
        taken[needed] = False
        idle = np.flatnonzero(taken)
        idle = idle[np.argsort(self._used[idle], kind="stable")][: max(short, len(self._holder) // BATCH)]
        for start in range(0, len(idle), FILE_KEYS):
            place = idle[start : start + FILE_KEYS]
            self.sleepers.put(self._holder[place], self._awake.take(place))
        self._place[self._holder[idle]] = NOWHERE
        self._holder[idle] = NOWHERE


def _groups(key: Numbers, last: np.ndarray, size: int) -> list[Int[np.ndarray, " m"]]:
    """Cut rows into those of so many keys at most, each key's in their order, some keys after the others."""
    if not len(key):
        return []
    order = np.lexsort((np.arange(len(key)), key, last))
    number = np.cumsum(np.r_[0, np.diff(key[order]) != 0])
    return np.split(order, np.flatnonzero(np.diff(number // size)) + 1)
