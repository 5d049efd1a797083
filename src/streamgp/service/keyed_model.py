"""A stream with a model for each key: its answers, and the effect of each accepted entry."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from streamgp.evaluation.metrics.judgement import PairedLosses
from streamgp.evaluation.regression import COVERAGE_LEVELS, SQUARED
from streamgp.evaluation.running_sums import Moments
from streamgp.fleet import StreamingGPFleet, outputs, targets
from streamgp.fleet.live import LiveFleet
from streamgp.fleet.mixture import Mixture
from streamgp.likelihoods import TargetMap
from streamgp.numerics.checkpoint import load_of, reading
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.coding import level_code
from streamgp.service.config import StreamConfig
from streamgp.service.payload import Rows
from streamgp.service.predictions import Columns, joined
from streamgp.service.scores import worded
from streamgp.service.work import Applied, Prediction, Waiting, shared_predictions
from streamgp.stream.outlook import StandIn
from streamgp.table.calendar import NONE

TIME = "ds"
# So many rows are learnt in one batch, for which predictions wait.
BLOCK = 4_096
_SUMS = ("rows", "scored_rows", "squared", "absolute", "persistence", "naive_rows", "log_density", "crps")


@register
@dataclass(frozen=True)
class HeldMixture:
    """What was predicted of rows that wait, whether by the fitted fleet, and the last targets of their keys."""

    log_weights: np.ndarray
    mean: np.ndarray
    var: np.ndarray
    dof: np.ndarray
    by_experts: bool
    persistence: np.ndarray


# The latest time that is taken for a date, some 3,000 years from 1970.
LATEST = 1e11


@dataclass(frozen=True)
class KeyedView:
    """What predicts: the fleet itself, between two blocks of rows."""

    model: "KeyedModel"

    def predict(self, rows: Rows) -> Prediction:
        """Predict rows, each as if it were the next one of its key."""
        model = self.model
        by_experts = model.live.is_warmed_up
        mixture = model.live.predict(model.frame(rows))
        held = HeldMixture(*mixture, by_experts, model.last(rows.keys))
        return Prediction(held, (), outputs.predictions(mixture, model.target_map))

    def after(self, standing: Sequence[StandIn]) -> "KeyedView":
        """Return it: of rows that wait a fleet knows nothing."""
        return self


class KeyedModel:
    """The fleet of a stream; one thread applies entries, in their order."""

    alarms: tuple[Any, ...] = ()
    alarm_count = 0
    unscored = 0

    def steps_singly(self, rows: Rows) -> bool:
        """Return False: rows are learnt in blocks."""
        return False

    def score_singly(self) -> list[Columns]:
        """Return nothing: all rows are scored when they are learnt."""
        return []

    def __init__(self, config: StreamConfig, sent: StreamConfig, fleet: StreamingGPFleet | None = None) -> None:
        self.config = config
        # The stream whose rows it gets; a fleet makes cycles of the time itself.
        self.sent = sent
        self.live = LiveFleet(self._begin() if fleet is None else fleet)
        self.next_row = 0
        self.waiting: dict[str, Waiting] = {}
        self.sums: dict[str, float] = dict.fromkeys(_SUMS, 0.0)
        self.covered = np.zeros(len(COVERAGE_LEVELS))
        self.targets = Moments()
        self.paired = PairedLosses(("persistence",))
        # The last target of each key.
        self.last_targets: dict[str, float] = {}

    def _begin(self) -> StreamingGPFleet:
        c = self.config
        assert c.key is not None
        return StreamingGPFleet(
            c.key,
            TIME if c.timed else None,
            c.target,
            warmup=c.warmup,
            missing="skip",
            random_state=c.seed,
            calendar=c.calendar or NONE,
            holidays=c.holidays,
            **c.options,
        )

    # What is known

    def view(self) -> KeyedView:
        """Return what predicts."""
        return KeyedView(self)

    @property
    def target_map(self) -> TargetMap:
        """What lies between the targets and the scale on which they are learnt."""
        return self.live.fleet.settings.target_map

    @property
    def rows(self) -> int:
        """Rows learnt."""
        return self.live.fleet.rows_

    @property
    def is_warmed_up(self) -> bool:
        """Whether what all keys share has been fitted."""
        return self.live.is_warmed_up

    def scores(self) -> dict[str, Any]:
        """Return the scores over all rows after the warm-up, of all keys together."""
        s, n = self.sums, int(self.sums["scored_rows"])
        found: dict[str, Any] = {"rows": int(s["rows"]), "scored_rows": n, "keys": len(self.live.fleet.keys_)}
        variance = self.targets.m2 / n if n else 0.0

        def errors(squared: float, rows: float) -> dict[str, float | None]:
            mse = squared / rows if rows else None
            return {
                "nmse": None if mse is None or variance == 0.0 else mse / variance,
                "rmse": None if mse is None else float(np.sqrt(mse)),
            }

        found |= errors(s["squared"], n)
        found |= {
            "mae": s["absolute"] / n if n else None,
            "pll": s["log_density"] / n if n else None,
            "crps": s["crps"] / n if n else None,
            "coverage": {
                str(c): float(held / n) if n else None for c, held in zip(COVERAGE_LEVELS, self.covered, strict=True)
            },
            "baselines": {"persistence": errors(s["persistence"], s["naive_rows"])},
            "judgement": worded(self.paired.judgement(SQUARED), {}),
        }
        return found

    def experts(self) -> list[dict[str, Any]]:
        """Return nothing: each key has its own weights."""
        return []

    def keys(self) -> Columns:
        """Return the scores of every key."""
        return self.live.keys()

    def last(self, keys: Sequence[str | None]) -> np.ndarray:
        """Return the last target of keys; NaN where there is none."""
        return np.array([self.last_targets.get(key or "", np.nan) for key in keys])

    def frame(self, rows: Rows) -> pl.DataFrame:
        """Return rows as the fleet takes them."""
        c = self.config
        columns: dict[str, Any] = {c.key or "": rows.keys}
        if c.timed:
            columns[TIME] = _dates(rows.times) if c.has_dates else rows.times
        columns |= {name: rows.X[:, j] for j, name in enumerate(c.inputs)}
        columns |= {name: _levels(columns[name]) for name in c.open_levels}
        if rows.y is not None:
            columns[c.target] = rows.y
        return pl.DataFrame(columns)

    def forecast(self, key: str, h: int, X_future: pl.DataFrame | None, level: list[float]) -> list[dict[str, Any]]:
        """Forecast the next rows of a key, with times as they are sent."""
        frame = self.live.forecast(key, h, X_future, level).drop(self.config.key)
        if TIME in frame.columns:
            frame = frame.rename({TIME: "time"})
        if self.config.has_dates:
            frame = frame.with_columns(pl.col("time").dt.epoch("us") / 1e6)
        return frame.to_dicts()

    # What comes

    def predicted(self, rows: Rows, at: float, prediction: Prediction) -> None:
        """Take in rows that were predicted by a view, and wait for their labels from now on."""
        for i, name in enumerate(rows.ids):
            assert name is not None
            row = self.next_row + i
            self.waiting[name] = Waiting(
                row,
                row,
                rows.keys[i],
                float(rows.times[i]),
                at,
                prediction.held,
                i,
                prediction.columns,
                rows.X[i],
            )
        self.next_row += len(rows.ids)
        for name in list(islice(self.waiting, max(0, len(self.waiting) - self.config.max_pending))):
            del self.waiting[name]

    def labelled(self, ids: Sequence[str], y: Any) -> Applied:
        """Learn labels of rows that wait, in the order in which they come; those of others come too late."""
        late = [name for name in ids if name not in self.waiting]
        gone = set(late)
        found = [
            (name, self.waiting.pop(name), label) for name, label in zip(ids, y, strict=True) if name not in gone
        ]
        places = [i for i, name in enumerate(ids) if name not in gone]
        places = [place for place, each in zip(places, found, strict=True) if np.isfinite(each[2])]
        found = [each for each in found if np.isfinite(each[2])]
        if not found:
            return Applied(0, late)
        waiting = [w for _, w, _ in found]
        rows = Rows(
            [name for name, *_ in found],
            [w.key for w in waiting],
            np.array([w.time for w in waiting]),
            np.array([w.x for w in waiting]).reshape(len(waiting), -1),
            np.array([label for *_, label in found]),
        )
        mixture = Mixture(*(np.array([getattr(w.held, name)[w.place] for w in waiting]) for name in Mixture._fields))
        by_experts = np.array([w.held.by_experts for w in waiting])
        naive = np.array([w.held.persistence[w.place] for w in waiting])
        good = self._learn(rows)[0]
        scored = self._judged(rows, np.array([w.row for w in waiting]), mixture, by_experts, naive)
        skipped = sorted(set(range(len(found))) - set(good.tolist()))
        return Applied(len(good), late, [scored], None, [places[i] for i in skipped])

    def stepped(self, rows: Rows) -> Applied:
        """Predict, score and learn rows that come with their labels; those not in order of time are skipped."""
        scored, shown, skipped = [], [], []
        for start in range(0, len(rows.X), BLOCK):
            block = rows.part(range(start, min(start + BLOCK, len(rows.X))))
            naive = self._last_of_each(block)
            good, mixture, by_experts = self._learn(block)
            skipped += [start + i for i in sorted(set(range(len(block.X))) - set(good.tolist()))]
            values = outputs.predictions(mixture, self.target_map)
            wide = {name: np.full(len(block.X), np.nan) for name in values}
            for name, column in values.items():
                wide[name][good] = column
            shown.append(wide)
            there = np.isfinite(block.y[good])
            picked = good[there]
            their = block.part(picked.tolist())
            part = Mixture(*(each[there] for each in mixture))
            numbers = self.next_row + start + picked
            scored.append(self._judged(their, numbers, part, by_experts[there], naive[picked]))
        self.next_row += len(rows.X)
        learnt = np.isfinite(rows.y)
        learnt[skipped] = False
        return Applied(int(learnt.sum()), [], scored, joined(shown), skipped)

    def settle(self) -> None:
        """Do nothing: labels are learnt when they come."""

    def _learn(self, rows: Rows) -> tuple[np.ndarray, Mixture, np.ndarray]:
        """Learn rows; return which were good, what was predicted of these, and which by the fitted fleet."""
        _, good, outcome, fitted = self.live.learn(self.frame(rows))
        for i in good.tolist():
            if np.isfinite(rows.y[i]):
                self.last_targets[rows.keys[i] or ""] = float(rows.y[i])
        return good, outcome.mixture, fitted

    def _last_of_each(self, rows: Rows) -> np.ndarray:
        """Return the last target of each row's key before it, those of earlier rows included."""
        last, found = {}, np.empty(len(rows.X))
        for i, key in enumerate(rows.keys):
            found[i] = last.get(key, self.last_targets.get(key or "", np.nan))
            if np.isfinite(rows.y[i]):
                last[key] = float(rows.y[i])
        return found

    def _judged(
        self, rows: Rows, numbers: np.ndarray, mixture: Mixture, by_experts: np.ndarray, naive: np.ndarray
    ) -> Columns:
        target = self.target_map
        values = outputs.predictions(mixture, target)
        crps, pit = outputs.judge(mixture, rows.y, target)
        density = targets.log_density(mixture, target.forward(rows.y), target)
        self.sums["rows"] += len(rows.y)
        with np.errstate(invalid="ignore"):
            error, other = (values["mean"] - rows.y)[by_experts], (naive - rows.y)[by_experts]
        self.paired.add(np.square(np.stack([error, other], axis=1)))
        other = other[np.isfinite(other)]
        for name, value in (
            ("scored_rows", len(error)),
            ("squared", np.sum(error**2)),
            ("absolute", np.sum(np.abs(error))),
            ("persistence", np.sum(other**2)),
            ("naive_rows", len(other)),
            ("log_density", np.sum(density[by_experts])),
            ("crps", np.sum(crps[by_experts])),
        ):
            self.sums[name] += float(value)
        self.covered += [np.sum(np.abs(pit[by_experts] - 0.5) <= c / 200.0) for c in COVERAGE_LEVELS]
        self.targets = self.targets.add(rows.y[by_experts])
        columns = {"row": np.asarray(numbers), "id": rows.ids, "key": rows.keys, "time": rows.times}
        more = {"persistence": naive, "running_mean": np.full(len(naive), np.nan), "warmup": ~by_experts}
        return columns | values | {"y": rows.y, "pit": pit, "log_density": density} | more

    # Keeping

    def save(self, path: Path, more: dict[str, Any]) -> None:
        """Write a checkpoint that the fleet's `load` reads as well."""
        waiting = list(self.waiting.items())
        held, which = shared_predictions(w for _, w in waiting)
        tree = {
            "config": self.config.document(),
            "next_row": self.next_row,
            "sums": self.sums,
            "covered": self.covered,
            "targets": list(self.targets),
            "paired": self.paired.to_tree(),
            "last_keys": list(self.last_targets),
            "last": np.array(list(self.last_targets.values()), dtype=float),
            "held": held,
            "waiting": [
                [name, w.row, w.key, w.time, w.at, i, w.place] for (name, w), i in zip(waiting, which, strict=True)
            ],
            "inputs": np.array([w.x for _, w in waiting], dtype=float),
        }
        self.live.fleet.save_with(path, {"service": tree | more})

    @classmethod
    def load(cls, path: Path, sent: StreamConfig) -> tuple[Self, dict[str, Any]]:
        """Read a checkpoint of what got the rows of a stream; return also what `save` was given as `more`."""
        whole = load_of(path, StreamingGPFleet)
        with reading(path):
            tree = whole["service"]
            model = cls(StreamConfig.from_document(tree["config"]), sent, StreamingGPFleet.load(path))
            model.next_row, model.sums = tree["next_row"], dict(tree["sums"])
            model.covered, model.targets = tree["covered"].copy(), Moments(*tree["targets"])
            model.paired = PairedLosses.from_tree(tree["paired"])
            model.last_targets = dict(zip(tree["last_keys"], tree["last"].tolist(), strict=True))
            for (name, row, key, time, at, which, place), x in zip(tree["waiting"], tree["inputs"], strict=True):
                held, columns = tree["held"][which]
                model.waiting[name] = Waiting(row, row, key, time, at, held, place, columns, x)
        return model, tree


def _dates(times: np.ndarray) -> pl.Series:
    """Return times in seconds since 1970 as dates; those beyond all calendars are none, so that rows are skipped."""
    usable = np.abs(times) < LATEST
    micro = np.where(usable, times, 0.0) * 1e6
    return pl.Series(np.where(usable, micro.round().astype("datetime64[us]"), np.datetime64("NaT", "us")))


def _levels(codes: np.ndarray) -> pl.Series:
    """Return the codes of levels as text, which a fleet takes for levels; nothing for a missing one."""
    missing = level_code("")
    return pl.Series([None if code == missing else repr(code) for code in codes.tolist()], dtype=pl.Categorical)
