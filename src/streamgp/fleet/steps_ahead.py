"""Scores of a fleet's forecasts by how many rows ahead they are made: a rolling origin along each key.

What `streamgp.evaluation.steps_ahead` does for single streams, in arrays of all keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.evaluation.step_baselines import LONGEST_SEASON, names_of, rows_between_origins
from streamgp.evaluation.step_scores import LEVELS, StepScores
from streamgp.evaluation.steps_ahead import RowsAhead, check_count
from streamgp.fleet import outputs
from streamgp.fleet.engine import FleetEngine
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.scales import YOUNG
from streamgp.fleet.states import put, take, with_room
from streamgp.fleet.steps import Steps
from streamgp.fleet.warmup import DISCOUNTS, DOF, PooledRows, ranks, rounds
from streamgp.likelihoods import TargetMap
from streamgp.numerics.checkpoint.encoding import register
from streamgp.stream.clock import CYCLES
from streamgp.stream.passed_rows import SHORTEST_SEASON

# Origins are looked for among so many rows at a time.
LOOK_AHEAD = 16_384
KINDS = len(DISCOUNTS)  # of noise, of each expert
NEVER = np.iinfo(np.int64).max


@register
@dataclass(frozen=True)
class KeysAhead:
    """What is known of each key that is forecast; the arrays are written in place.

    Attributes
    ----------
    rows
        How many came.
    first
        After how many of them it is forecast for the first time.
    seen, last
        The time of the last row, and the last target that is not missing.
    change, changes
        The sum of the absolute changes over the shortest season before the first origin, and their number.
    past
        The last targets: that of row i at place i modulo the width.
    persistence
        The last target before the origin.
    log_weights, mean, var, dof
        Of the mixture that was forecast there, of every step; means by expert.
    """

    rows: Int[np.ndarray, " n"]
    first: Int[np.ndarray, " n"]
    seen: Float[np.ndarray, " n"]
    last: Float[np.ndarray, " n"]
    change: Float[np.ndarray, " n"]
    changes: Float[np.ndarray, " n"]
    past: Float[np.ndarray, "n w"]
    persistence: Float[np.ndarray, " n"]
    log_weights: Float[np.ndarray, "n k"]
    mean: Float[np.ndarray, "n h e"]
    var: Float[np.ndarray, "n h k"]
    dof: Float[np.ndarray, "n h k"]

    @classmethod
    def none(cls, keys: int, first: int, width: int, steps: int) -> "KeysAhead":
        """Return what is known of keys before their first row."""
        whole, none, zero = np.zeros(keys, np.int64), np.full(keys, np.nan), np.zeros(keys)
        parts = len(DOF) // KINDS, len(DOF), len(DOF)
        mixture = np.full((keys, len(DOF)), np.nan), *(np.full((keys, steps, each), np.nan) for each in parts)
        past = np.full((keys, width), np.nan)
        return cls(whole, whole + first, none, none.copy(), zero, zero.copy(), past, none.copy(), *mixture)


class FleetStepsAhead:
    """Forecast the next `steps` rows of each key at every so many of its rows after the warm-up, and score each step.

    A key that comes later is forecast once its usual change over the shortest season is known from some rows. Inputs
    of rows to come are taken as not known, and times go on at the usual step. Naive forecasts stand beside it: the
    last target before the origin and, of each season of the fleet, the target one season before. The state is of
    fixed size for each key.

    Parameters
    ----------
    steps
        How many rows, H.
    target
        Its name.

    Raises
    ------
    ValueError
        If `steps` is below 2.
    """

    def __init__(self, steps: int, target: str) -> None:
        check_count(steps)
        # The seasons by their rows, with the name of the cycle of the calendar, if it is one.
        self.steps, self.seasons, self._every = steps, dict[int, str | None](), steps
        self._scores = StepScores(steps, [target], by_key=True)
        self._forecasts = 0
        # The rows of the warm-up, whose seasons are not known yet; None after it.
        self._waiting: list[PooledRows] | None = []
        self._keys = KeysAhead.none(0, 0, 0, steps)
        self._count = 0

    def rows_to_origin(self, key: Int[np.ndarray, " n"], engine: FleetEngine) -> int:
        """Forecast from the last rows of all keys that are due; return how many of these rows may be learnt at once.

        A key is due before its first row here, or before a later one, which is then the first of the next call.
        """
        if self._waiting is not None:
            self._begin(engine)
        key = key[:LOOK_AHEAD]
        self._make_room(key)
        rank = ranks(key)
        since = self._keys.rows[key] + rank - self._keys.first[key]
        is_origin = (since >= 0) & (since % self._every == 0)
        due = np.unique(key[is_origin & (rank == 0)])
        if len(due):
            self._forecast(due, engine)
        later = np.flatnonzero(is_origin & (rank > 0))
        return int(later[0]) if len(later) else len(key)

    def add(self, rows: PooledRows, target: TargetMap) -> RowsAhead:
        """Score rows that were learnt, up to the next origin of each key at most; NaN targets are not scored.

        `target` maps the scale on which they were learnt to that of the targets.
        """
        rows = rows._replace(y=target.inverse(rows.y))
        if self._waiting is not None:
            self._waiting.append(rows)
            return nothing_ahead(len(rows.key))
        found = self._score(rows, target)
        self._take_in(rows)
        return found

    def metrics(self) -> dict[str, Any]:
        """Return the entries of ``metrics.json``, as those of a single stream: ``by_step`` has one for each step."""
        scores = {
            "steps": self.steps,
            "origins_every": self._every,
            "seasons": list(self.seasons),
            "forecasts": self._forecasts,
            "by_key": True,
            "by_step": self._scores.entries(),
        }
        cycles = [{"rows": rows, "cycle": cycle} for rows, cycle in self.seasons.items() if cycle is not None]
        return {"seasons": cycles, "steps_ahead": scores}

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "steps": self.steps,
            "seasons": [[rows, cycle] for rows, cycle in self.seasons.items()],
            "every": self._every,
            "forecasts": self._forecasts,
            "scores": self._scores.to_tree(),
            "waiting": None if self._waiting is None else [tuple(rows) for rows in self._waiting],
            "keys": take(self._keys, np.arange(self._count)),
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "FleetStepsAhead":
        """Restore what `to_tree` returned."""
        found = cls(tree["steps"], "")
        found.seasons = dict(tree["seasons"])
        found._every, found._forecasts = tree["every"], tree["forecasts"]
        found._scores = StepScores.from_tree(tree["scores"])
        found._waiting = None if tree["waiting"] is None else [PooledRows(*rows) for rows in tree["waiting"]]
        found._keys, found._count = tree["keys"], len(tree["keys"].rows)
        return found

    def _begin(self, engine: FleetEngine) -> None:
        """Take in the seasons of a fleet whose warm-up has ended, then the rows of that."""
        assert engine.model is not None and self._waiting is not None
        self.seasons = seasons_of(engine.model.features.lags, engine.steps, engine.dated)
        self._scores.begin(names_of(list(self.seasons)))
        self._every = rows_between_origins(self.steps, list(self.seasons))
        waiting, self._waiting = self._waiting, None
        self._make_room(np.concatenate([np.zeros(0, np.int64), *(rows.key for rows in waiting)]))
        soonest = self._keys.first.copy()
        # All changes of the warm-up count.
        self._keys.first[:] = NEVER
        for rows in waiting:
            self._take_in(rows)
        self._keys.first[:] = np.maximum(soonest, self._keys.rows)

    @property
    def _shortest(self) -> int:
        return min(self.seasons, default=1)

    def _make_room(self, key: Int[np.ndarray, " n"]) -> None:
        """Make room for all keys of rows."""
        count = int(key.max(initial=-1)) + 1
        if count > self._count:
            width = max((*self.seasons, self._shortest + YOUNG)) + self._every
            new = KeysAhead.none(count - self._count, self._shortest + YOUNG, width, self.steps)
            before = self._keys if self._count else None
            self._keys = with_room(before, count, new)
            put(self._keys, slice(self._count, count), new)
            self._count = count

    def _forecast(self, due: Int[np.ndarray, " m"], engine: FleetEngine) -> None:
        """Forecast all steps of these keys from their last rows."""
        assert engine.model is not None
        keys, shape = self._keys, (len(due), self.steps, len(DOF))
        times = engine.steps.after(keys.seen[due], self.steps, engine.zone)
        inputs = np.full((len(due), self.steps, engine.model.features.num_inputs), np.nan)
        mixture = engine.keys.forecast(due, times, inputs)
        keys.log_weights[due] = mixture.log_weights.reshape(shape)[:, 0]
        keys.mean[due] = mixture.mean.reshape(shape)[..., ::KINDS]
        keys.var[due], keys.dof[due] = mixture.var.reshape(shape), mixture.dof.reshape(shape)
        keys.persistence[due] = keys.last[due]
        self._forecasts += len(due)

    def _score(self, rows: PooledRows, target: TargetMap) -> RowsAhead:
        key, found = rows.key, nothing_ahead(len(rows.key))
        row = self._keys.rows[key] + ranks(key)
        step = (row - self._keys.first[key]) % self._every
        at = np.flatnonzero((row >= self._keys.first[key]) & (step < self.steps))
        if not len(at):
            return found
        k, step, y = key[at], step[at], rows.y[at]
        mean = np.repeat(self._keys.mean[k, step], KINDS, axis=1)
        mixture = Mixture(self._keys.log_weights[k], mean, self._keys.var[k, step], self._keys.dof[k, step])
        said, (crps, level) = outputs.predictions(mixture, target), outputs.judge(mixture, y, target)
        inside = np.stack([np.abs(level - 0.5) <= share / 200.0 for share in LEVELS])
        usual = self._keys.change[k] / np.where(self._keys.changes[k] > 0, self._keys.changes[k], np.nan)
        naive = self._naive(k, row[at] - step, step)
        came, center, score = (np.asarray(each)[:, None] for each in (y, said["mean"], crps))
        self._scores.add(step, came, center, score, inside[..., None], naive[..., None], usual[:, None])
        found.step[at] = step + 1
        for name, values in said.items():
            getattr(found, name)[at, 0] = values
        return found

    def _naive(
        self, key: Int[np.ndarray, " m"], origin: Int[np.ndarray, " m"], step: Int[np.ndarray, " m"]
    ) -> Float[np.ndarray, "b m"]:
        """Return what each baseline said, after so many rows of each key, of a row so many steps ahead.

        For a missing target stands that of a season before, as far back as targets are kept, or else the last one.
        """
        past, last = self._keys.past, self._keys.persistence[key]
        found = [last]
        for season in self.seasons:
            values = np.full(len(key), np.nan)
            for back in range(1, past.shape[1] // season + 1):
                row = origin - season * back + step % season
                is_kept = np.isnan(values) & (row >= 0) & (row >= self._keys.rows[key] - past.shape[1])
                values[is_kept] = past[key[is_kept], row[is_kept] % past.shape[1]]
            found.append(np.where(np.isnan(values), last, values))
        return np.stack(found)

    def _take_in(self, rows: PooledRows) -> None:
        """Take in rows: of each key the first, then the second of those that have one, and so on."""
        keys, width, season = self._keys, self._keys.past.shape[1], self._shortest
        for at in rounds(rows.key):
            k, y = rows.key[at], rows.y[at]
            row = keys.rows[k]
            change = np.abs(y - keys.past[k, (row - season) % width])
            counts = (row < keys.first[k]) & ~np.isnan(change)
            keys.change[k[counts]] += change[counts]
            keys.changes[k[counts]] += 1.0
            keys.past[k, row % width] = y
            keys.last[k] = np.where(np.isnan(y), keys.last[k], y)
            keys.seen[k], keys.rows[k] = rows.times[at], row + 1


def seasons_of(lags: Sequence[int], steps: Steps, dated: bool) -> dict[int, str | None]:
    """Return the seasons of a fleet in rows: its longest lag, and cycles of the calendar with so many usual steps."""
    found: dict[int, str | None] = {max(lags, default=0): None}
    if dated and not steps.months:
        found |= {
            rows: name for name, (cycle, least) in CYCLES.items() if (rows := round(cycle / steps.unit)) >= least
        }
    elif steps.months:
        found[12 // steps.months] = "year"
    return {rows: found[rows] for rows in sorted(found) if SHORTEST_SEASON <= rows <= LONGEST_SEASON}


def nothing_ahead(rows: int) -> RowsAhead:
    """Return that of so many rows nothing was forecast."""
    return RowsAhead(np.zeros(rows, np.int64), *(np.full((rows, 1), np.nan) for _ in RowsAhead._fields[1:]))
