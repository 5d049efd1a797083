"""The fleet on this machine: rows in any order go to their keys, and each key's rows are learnt in order."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet.model import FleetModel, Mixture
from streamgp.fleet.pooling import pooled_prior
from streamgp.fleet.provisional import Provisional
from streamgp.fleet.settings import FleetSettings
from streamgp.fleet.states import KeyStates, put, take, with_room
from streamgp.fleet.warmup import DISCOUNTS, EXPERTS, PooledRows, fit_fleet, median_gap, rounds
from streamgp.numerics import student_t
from streamgp.numerics.mixtures import log_sum
from streamgp.numerics.threads import one_blas_thread

BLOCK = 1_024  # keys at a time, whose covariances stay in a cache
HISTORY = 4  # targets that a key must have shown before its next one counts towards the warm-up
MAX_WARMUP = 512  # times its length: so many rows end the warm-up, whatever they are
NEVER = 1 << 62  # rows
# Degrees of freedom of the parts of every prediction.
DOF = np.tile(1.0 / (1.0 - DISCOUNTS), len(EXPERTS))


class Outcome(NamedTuple):
    """What was predicted of rows before they were learnt, and the log density of each target, NaN of none."""

    mixture: Mixture
    log_density: Float[np.ndarray, " n"]


class FleetEngine:
    """Predicts and learns rows of numbered keys.

    Parameters
    ----------
    settings
        Of the fleet.
    num_inputs
        FleetColumns besides key, time and target.
    dated
        Whether times are seconds since 1970: then there is a calendar.

    Attributes
    ----------
    rows
        Learnt so far, those without a target among them.
    refresh_at
        The number of rows after which the prior of keys yet to be born is found anew.
    fitted_at
        The number of rows of the warm-up, once it has ended.
    num_keys
        Keys known.
    model, states
        None during the warm-up.
    """

    _SHARED = ("rows", "refresh_at", "fitted_at", "counted", "model", "provisional")

    def __init__(self, settings: FleetSettings, num_inputs: int, dated: bool) -> None:
        self.settings, self.num_inputs, self.dated = settings, num_inputs, dated
        self.rows = self.refresh_at = self.num_keys = 0
        self.fitted_at = NEVER
        self.counted = 0  # rows towards the warm-up
        self.model: FleetModel | None = None
        self.states: KeyStates | None = None
        self.provisional = Provisional()
        self.waiting: list[PooledRows] = []
        self.broken = False  # a call ended in its midst
        self.workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def predict(
        self, key: Int[np.ndarray, " n"], times: Float[np.ndarray, " n"], X: Float[np.ndarray, "n d"]
    ) -> Mixture:
        """Predict rows, each as if it were the next one of its key; a key that is not known has a number below 0."""
        if self.model is None:
            return _as_mixture([self.provisional.predict(k) for k in key.tolist()])
        mixture = _empty(len(key))
        model = self.model

        def predict(at: np.ndarray) -> None:
            ahead = model.predict(self.states_of(key[at]), X[at], times[at])
            _write(mixture, at, ahead.mixture)

        known = key >= 0
        self._in_blocks(predict, [np.flatnonzero(known), np.flatnonzero(~known)])
        return mixture

    def learn(
        self,
        key: Int[np.ndarray, " n"],
        times: Float[np.ndarray, " n"],
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, " n"],
    ) -> Outcome:
        """Predict rows, then learn them; new keys are numbered on from those known. NaN targets are not learnt."""
        rows = PooledRows(key, times, X, y)
        mixture, log_density = _empty(len(key)), np.full(len(key), np.nan)
        at = 0
        while at < len(key):
            learn = self._learn_provisionally if self.model is None else self._learn_fitted
            done = learn(PooledRows(*(a[at:] for a in rows)), _from(mixture, at), log_density[at:])
            at += done
        return Outcome(mixture, log_density)

    def shared(self) -> dict[str, Any]:
        """Return what is not any key's own, for `restore`."""
        waiting = [tuple(rows) for rows in self.waiting]
        return {name: getattr(self, name) for name in self._SHARED} | {"waiting": waiting}

    def restore(self, shared: dict[str, Any], frozen: bool) -> None:
        """Go on from what `shared` returned; with `frozen`, as a part of a fleet whose priors come from the whole."""
        for name in self._SHARED:
            setattr(self, name, shared[name])
        self.waiting = [PooledRows(*rows) for rows in shared["waiting"]]
        if frozen:
            if self.model is None:
                raise ValueError(
                    "shards: expected a fleet after its warm-up, got one that is still in it; load it whole"
                )
            self.refresh_at = NEVER

    def _learn_provisionally(self, rows: PooledRows, mixture: Mixture, log_density: np.ndarray) -> int:
        """Learn rows until the warm-up ends, then fit; return how many."""
        predicted, most = [], MAX_WARMUP * self.settings.warmup
        for k, y in zip(rows.key.tolist(), rows.y.tolist(), strict=True):
            predicted.append(self.provisional.predict(k))
            if y == y:
                self.counted += k < len(self.provisional.rows) and self.provisional.rows[k] >= HISTORY
                self.provisional.learn(k, y)
            if self.counted >= self.settings.warmup or self.rows + len(predicted) >= most:
                break
        done = len(predicted)
        _write(mixture, slice(0, done), _as_mixture(predicted))
        log_density[:done] = log_density_of(_from(mixture, 0, done), rows.y[:done])
        self.waiting.append(PooledRows(*(a[:done].copy() for a in rows)))
        self.rows += done
        self.num_keys = max(self.num_keys, int(rows.key[:done].max()) + 1)
        if self.counted >= self.settings.warmup or self.rows >= most:
            self._fit()
        return done

    @property
    def unit(self) -> float:
        """The median time between two rows of a key, in the warm-up."""
        return median_gap(self._waiting_rows(), self.dated) if self.model is None else self.model.unit

    def _waiting_rows(self) -> PooledRows:
        return PooledRows(*(np.concatenate(each) for each in zip(*self.waiting, strict=True)))

    def _fit(self) -> None:
        rows = self._waiting_rows()
        s = self.settings
        self.model = fit_fleet(rows, s.lags, s.season, self.dated, s.random_state)
        self.waiting, self.provisional = [], Provisional()
        self.fitted_at, self.refresh_at = self.rows, 2 * self.rows
        self._make_room(0)
        self._run(rows, _empty(len(rows.key)), np.empty(len(rows.key)), scored=False)

    def _learn_fitted(self, rows: PooledRows, mixture: Mixture, log_density: np.ndarray) -> int:
        """Learn rows until the prior of new keys is due again; return how many."""
        done = min(len(rows.key), self.refresh_at - self.rows)
        rows = PooledRows(*(a[:done] for a in rows))
        before = self.num_keys
        self.num_keys = max(before, int(rows.key.max()) + 1)
        self._make_room(before)
        self._run(rows, mixture, log_density, scored=True)
        self.rows += done
        if self.rows == self.refresh_at:
            assert self.model is not None and self.states is not None
            prior = pooled_prior(self.states, self.num_keys, self.model.priors)
            self.model = replace(self.model, priors=[*self.model.priors, prior])
            self.refresh_at *= 2
        return done

    def _make_room(self, before: int) -> None:
        """Let the keys from `before` on be born."""
        assert self.model is not None
        if self.num_keys > before:
            self.states = with_room(self.states, self.num_keys, self.model.born(0))
            for start in range(before, self.num_keys, BLOCK):
                stop = min(start + BLOCK, self.num_keys)
                put(self.states, slice(start, stop), self.model.born(stop - start))

    def _run(self, rows: PooledRows, mixture: Mixture, log_density: np.ndarray, scored: bool) -> None:
        """Predict and learn rows: of each key the first, then the second of those that have one, and so on."""
        model, states = self.model, self.states
        assert model is not None and states is not None
        unlabelled = np.isnan(rows.y)

        def learn(at: np.ndarray) -> None:
            k, X, y, times = rows.key[at], rows.X[at], rows.y[at], rows.times[at]
            # Keys side by side need no copy.
            k = slice(int(k[0]), int(k[-1]) + 1) if k[-1] - k[0] + 1 == len(k) else k
            before = take(states, k)
            ahead = model.predict(before, X, times)
            _write(mixture, at, ahead.mixture)
            if not unlabelled[at].any():
                new, log_density[at] = model.learn(before, ahead, X, y, times, scored)
                put(states, k, new)

        for at in rounds(rows.key):
            at = at[np.argsort(rows.key[at], kind="stable")]
            # Rows without a target apart: they are only predicted.
            self._in_blocks(learn, [at[~unlabelled[at]], at[unlabelled[at]]])

    def states_of(self, key: Int[np.ndarray, " n"]) -> KeyStates:
        """Return the states of keys, or of keys yet to be born where they are not known."""
        assert self.model is not None
        return self.model.born(len(key)) if self.states is None or (key < 0).any() else take(self.states, key)

    def _in_blocks(self, work: Callable[[np.ndarray], None], groups: list[np.ndarray]) -> None:
        """Do the work on rows of different keys, block by block, on all cores where there are several blocks."""
        blocks = [group[i : i + BLOCK] for group in groups for i in range(0, len(group), BLOCK)]

        def quietly(at: np.ndarray) -> None:
            with np.errstate(all="ignore"):
                work(at)

        if len(blocks) == 1 or self.workers == 1:
            for block in blocks:
                quietly(block)
            return
        with one_blas_thread(), ThreadPoolExecutor(self.workers) as pool:
            list(pool.map(quietly, blocks))


def _empty(rows: int) -> Mixture:
    return Mixture(*(np.empty((rows, len(DOF))) for _ in Mixture._fields))


def _from(mixture: Mixture, start: int, stop: int | None = None) -> Mixture:
    return Mixture(*(a[start:stop] for a in mixture))


def _write(mixture: Mixture, at: np.ndarray | slice, new: Mixture) -> None:
    for ours, theirs in zip(mixture, new, strict=True):
        ours[at] = theirs


def _as_mixture(predicted: list[tuple[float, float]]) -> Mixture:
    """Return mixtures of parts that are all the same, from means and variances."""
    both = np.reshape(np.array(predicted, float), (-1, 2, 1))
    mean, var = (np.repeat(both[:, i], len(DOF), axis=1) for i in range(2))
    return Mixture(np.full(mean.shape, -np.log(len(DOF))), mean, var)


def log_density_of(mixture: Mixture, y: np.ndarray) -> Any:
    """Return the log density of every target, NaN where there is none."""
    return log_sum(mixture.log_weights + student_t.log_density(y[:, None] - mixture.mean, mixture.var, DOF))
