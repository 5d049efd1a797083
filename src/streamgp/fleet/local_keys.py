"""The keys of a fleet in this process: their states, which rows in any order go to, each key's rows in order."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from streamgp.evaluation.steps_ahead import RowsAhead
from streamgp.fleet.forecasts import stepped
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.model import FleetModel
from streamgp.fleet.pooling import BeliefSums, belief_sums
from streamgp.fleet.scores import key_scores
from streamgp.fleet.sleepers import Sleepers
from streamgp.fleet.states import KeyStates, put, take, with_room
from streamgp.fleet.warmup import DOF, rounds
from streamgp.numerics.threads import one_blas_thread

# The covariances of so many keys fit in a cache.
BLOCK = 1_024

Numbers = Int[np.ndarray, " n"]
Values = Float[np.ndarray, " n"]
Inputs = Float[np.ndarray, "n d"]


class Outcome(NamedTuple):
    """What was predicted of rows before they were learnt, and the log density of each target, NaN of none.

    `ahead` is what was forecast of them several rows before, if that was asked for.
    """

    mixture: Mixture
    log_density: Float[np.ndarray, " n"]
    ahead: RowsAhead | None = None

    @classmethod
    def empty(cls, rows: int) -> "Outcome":
        """Return room for so many rows, without log densities yet."""
        return cls(empty_mixture(rows), np.full(rows, np.nan))


@runtime_checkable
class Keys(Protocol):
    """What holds the states of numbered keys, here or elsewhere, once the warm-up has ended."""

    @property
    def sleepers(self) -> Sleepers | None:
        """Those that sleep on disk; None where all keys are awake."""
        ...

    def use(self, model: FleetModel) -> None:
        """Go on with a model, whose newest prior is that of keys born from now on."""
        ...

    def learn(self, key: Numbers, times: Values, X: Inputs, y: Values, prior: Numbers, scored: bool) -> Outcome:
        """Predict rows, then learn them. NaN: no target.

        Keys with numbers above those known are born before, from the prior that their rows say.
        """
        ...

    def predict(self, key: Numbers, times: Values, X: Inputs, prior: Numbers) -> Mixture:
        """Predict rows, each as if it were the next one of its key; a number below 0 is a key yet to be born."""
        ...

    def forecast(self, key: Numbers, times: Float[np.ndarray, "n h"], X: Float[np.ndarray, "n h d"]) -> Mixture:
        """Forecast several rows of each key, those of the first key first."""
        ...

    def sums(self, group: Numbers, groups: int) -> BeliefSums:
        """Return what the priors of new keys are pooled from, by the group of every key."""
        ...

    def renew(self, prior: Numbers) -> None:
        """Let every key go on from the prior that is given for it."""
        ...

    def scores(self) -> dict[str, np.ndarray]:
        """Return the scores of every key."""
        ...

    def take(self, key: Numbers) -> KeyStates:
        """Return the states of keys of one shard."""
        ...

    def put(self, key: Numbers, states: KeyStates) -> None:
        """Take the states of keys of one shard that were saved."""
        ...


class LocalKeys:
    """States of keys by their numbers, in arrays of all keys.

    Parameters
    ----------
    threads
        That share the work; as many as there are cores, if not given.

    Attributes
    ----------
    num_keys
        Keys born.
    states
        Of these, and room for more; None before the first.
    """

    sleepers = None

    def __init__(self, threads: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.threads = cores if threads is None else threads
        self.num_keys = 0
        self.states: KeyStates | None = None
        self._model: FleetModel | None = None

    @property
    def model(self) -> FleetModel:
        """What all keys share."""
        assert self._model is not None
        return self._model

    def use(self, model: FleetModel) -> None:
        """Go on with a model; see `Keys`."""
        self._model = model

    def learn(self, key: Numbers, times: Values, X: Inputs, y: Values, prior: Numbers, scored: bool) -> Outcome:
        """Predict rows, then learn them: of each key the first, then the second of those that have one, and so on."""
        states = self._born(key, prior)
        model, found, unlabelled = self.model, Outcome.empty(len(key)), np.isnan(y)

        def learn(at: np.ndarray) -> None:
            # Keys side by side need no copy.
            k = key[at]
            k = slice(int(k[0]), int(k[-1]) + 1) if k[-1] - k[0] + 1 == len(k) else k
            before = take(states, k)
            ahead = model.predict(before, X[at], times[at])
            write(found.mixture, at, ahead.mixture)
            if not unlabelled[at].any():
                new, found.log_density[at] = model.learn(before, ahead, X[at], y[at], times[at], scored)
                put(states, k, new)
            elif model.features.lags:
                put(states, k, model.pass_over(before, ahead))

        for at in rounds(key):
            at = at[np.argsort(key[at], kind="stable")]
            # Rows without a target apart: they are predicted, and passed over.
            self._in_blocks(learn, [at[~unlabelled[at]], at[unlabelled[at]]])
        return found

    def predict(self, key: Numbers, times: Values, X: Inputs, prior: Numbers) -> Mixture:
        """Predict rows; see `Keys`."""
        mixture = empty_mixture(len(key))

        def predict(at: np.ndarray) -> None:
            new = key[at[0]] < 0
            states = self.model.born(prior[at]) if new else self.take(key[at])
            write(mixture, at, self.model.predict(states, X[at], times[at]).mixture)

        known = key >= 0
        self._in_blocks(predict, [np.flatnonzero(known), np.flatnonzero(~known)])
        return mixture

    def forecast(self, key: Numbers, times: Float[np.ndarray, "n h"], X: Float[np.ndarray, "n h d"]) -> Mixture:
        """Forecast several rows of each key, those of the first key first."""
        h = times.shape[1]
        mixture = empty_mixture(times.size)
        for start in range(0, len(key), BLOCK):
            block = slice(start, start + BLOCK)
            with np.errstate(all="ignore"):
                steps = stepped(self.model, self.take(key[block]), times[block], X[block])
            write(mixture, slice(start * h, start * h + len(steps.mean)), steps)
        return mixture

    def sums(self, group: Numbers, groups: int) -> BeliefSums:
        """Return what the priors of new keys are pooled from; see `Keys`."""
        return belief_sums(self.states, self.model.experts, self.model.priors, group[: self.num_keys], groups)

    def renew(self, prior: Numbers) -> None:
        """Let every key go on from the prior that is given for it."""

        def renew(at: np.ndarray) -> None:
            assert self.states is not None
            block = slice(int(at[0]), int(at[-1]) + 1)
            put(self.states, block, self.model.renewed(take(self.states, block), prior[block]))

        self._in_blocks(renew, [np.arange(self.num_keys)])

    def scores(self) -> dict[str, np.ndarray]:
        """Return the scores of every key."""
        return key_scores(self.model, self._nobody() if self.states is None else self.states, self.num_keys)

    def take(self, key: Numbers) -> KeyStates:
        """Return a copy of the states of keys."""
        assert self.states is not None
        return take(self.states, key)

    def put(self, key: Numbers, states: KeyStates, room: int = 0) -> None:
        """Take the states of keys that were saved; with room for so many keys at least, which will come next."""
        self.num_keys = max(self.num_keys, int(key.max()) + 1)
        self.states = with_room(self.states, max(self.num_keys, room), states)
        put(self.states, key, states)

    def snapshot(self) -> tuple[int, tuple[FleetModel, KeyStates]]:
        """Return the number of keys, and all that `restore` needs."""
        assert self.states is not None
        return self.num_keys, (self.model, take(self.states, slice(0, self.num_keys)))

    def restore(self, snapshot: tuple[FleetModel, KeyStates]) -> None:
        """Go on from what `snapshot` returned."""
        self._model, states = snapshot
        self.put(np.arange(len(states.last)), states)

    def _nobody(self) -> KeyStates:
        return self.model.born(np.empty(0, np.int64))

    def _born(self, key: Numbers, prior: Numbers) -> KeyStates:
        """Let the keys be born that are not yet there; return the states of all."""
        keys = int(key.max()) + 1
        if keys > self.num_keys:
            new = key >= self.num_keys
            which = self.model.prior_of(np.full(keys - self.num_keys, -1))
            which[key[new] - self.num_keys] = prior[new]
            self.states = with_room(self.states, keys, self._nobody())
            for start in range(0, len(which), BLOCK):
                born = self.model.born(which[start : start + BLOCK])
                put(self.states, slice(self.num_keys, self.num_keys + len(born.last)), born)
                self.num_keys += len(born.last)
        assert self.states is not None
        return self.states

    def _in_blocks(self, work: Callable[[np.ndarray], None], groups: list[np.ndarray]) -> None:
        """Do the work on rows of different keys, block by block, on all cores where there are several blocks."""
        blocks = [group[i : i + BLOCK] for group in groups for i in range(0, len(group), BLOCK)]

        def quietly(at: np.ndarray) -> None:
            with np.errstate(all="ignore"):
                work(at)

        if len(blocks) == 1 or self.threads == 1:
            for block in blocks:
                quietly(block)
            return
        with one_blas_thread(), ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(quietly, blocks))


def joined(parts: list[Outcome]) -> Outcome:
    """Return what is known of the rows of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    mixture = Mixture(*map(np.concatenate, zip(*(part.mixture for part in parts), strict=True)))
    ahead = [part.ahead for part in parts if part.ahead is not None]
    log_density = np.concatenate([part.log_density for part in parts])
    return Outcome(mixture, log_density, RowsAhead(*map(np.concatenate, zip(*ahead, strict=True))) if ahead else None)


def empty_mixture(rows: int) -> Mixture:
    """Return room for the predictions of rows."""
    return Mixture(*(np.empty((rows, len(DOF))) for _ in Mixture._fields))


def write(mixture: Mixture, at: np.ndarray | slice, new: Mixture) -> None:
    """Write the predictions of some rows."""
    for ours, theirs in zip(mixture, new, strict=True):
        ours[at] = theirs
