"""Alarms that keep their word: what has changed on a stream, since when, and how often that is said for nothing.

Each target is tested for seven kinds of change, of its errors (`error_tests`) and of its coming (`run_tests`). Every
test's evidence is a Shiryaev-Roberts sum (`change_tests`) with an alarm at the number of tests over the rate, so that
of a model that is right at most `rate` false alarms are to be expected in 1,000 rows, all tests and targets taken
together, and whenever one stops. With forecasts h rows ahead errors less than h rows apart depend on each other: then
h sequences of every h-th row are tested, each by itself (Arnold, Henzi and Ziegel 2023), and changes found later.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.alarm_state import AlarmState, TargetTests, begun_again, evidence, interleaved
from streamgp.evaluation.alarm_text import describe
from streamgp.evaluation.counts import CountScores
from streamgp.evaluation.error_tests import BETS, leading
from streamgp.evaluation.regression import RegressionScores
from streamgp.evaluation.run_tests import RunTest

RATE = 1e-3
KINDS = (*BETS, "score", "stuck", "silence")
ROWS_OF_RATE = 1000
MOST_RATE = 10
KEPT = 1000  # of the latest alarms
_BLOCK = 4096  # rows tested in one go
_DRAWS = 1024  # of random numbers, made together


@dataclass(frozen=True)
class Alarm:
    """A change that was found.

    Attributes
    ----------
    kind
        ``level``, ``scale``, ``dependence`` or ``shape`` of the errors, ``score`` against naive forecasts, ``stuck``
        or ``silence``.
    row, time
        The row at which it was found, and its time if rows have one.
    since
        The row at which it probably began: where the evidence is largest.
    evidence
        The sum of bets that the test had come to: under no change its mean is the number of rows since the last
        alarm, or less.
    sentence
        What has changed.
    target
        Which target; None of all together.
    """

    kind: str
    row: int
    time: float | None
    since: int
    evidence: float
    sentence: str
    target: str | None


@dataclass(frozen=True)
class _Rows:
    rows: Float[np.ndarray, " n"]
    y: Float[np.ndarray, "n e"]
    u: Float[np.ndarray, "n e"]
    log_density: Float[np.ndarray, " n"]
    times: Float[np.ndarray, " n"] | None
    tested: bool

    def part(self, where: slice) -> "_Rows":
        """Return some of the rows."""
        times = None if self.times is None else self.times[where]
        return _Rows(self.rows[where], self.y[where], self.u[where], self.log_density[where], times, self.tested)


@dataclass(frozen=True)
class _Hit:
    """Evidence that has reached the limit: at which place of the rows, of which test."""

    place: int
    log_sum: float
    kind: str
    target: int | None
    sequence: int


class Alarms:
    """Tests a stream of numbers or counts for changes, from what was predicted of each row before its target.

    Parameters
    ----------
    targets
        Their names.
    horizon
        How many rows ahead forecasts are made; 0 and 1: the target of the next row.
    rate
        False alarms to be expected in 1,000 rows, at most.

    Raises
    ------
    ValueError
        If `rate` is not a number above 0 and at most 10.
    """

    def __init__(self, targets: list[str], horizon: int = 0, rate: float = RATE) -> None:
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate <= MOST_RATE:
            raise ValueError(
                f"rate: expected the false alarms in 1,000 rows, above 0 and at most {MOST_RATE}, got {rate!r}"
            )
        self.names = list(targets)
        self.rate = float(rate)
        self.found: deque[Alarm] = deque(maxlen=KEPT)
        self.count = 0
        self.next_row = 0
        self._state = AlarmState.start(len(targets), max(horizon, 1))

    @property
    def log_limit(self) -> float:
        """Return the log of the evidence that is an alarm: the number of tests over the rate of a row."""
        tests = (len(KINDS) - 1) * len(self.names) + 1
        return float(np.log(tests * ROWS_OF_RATE / self.rate))

    @property
    def e_value(self) -> float:
        """Return an e-value of there having been no change: the evidence at the first alarm, or now, for each row.

        If nothing has changed its mean after any number of rows is at most 1; of many streams give it to `e_bh`.
        """
        state = self._state
        return (state.first if state.first >= 0.0 else evidence(state)) / max(state.tested, 1)

    def add(
        self,
        scores: RegressionScores | CountScores,
        rows: np.ndarray,
        times: np.ndarray | None = None,
        *,
        tested: bool = True,
    ) -> list[Alarm]:
        """Test rows that were predicted and scored; return the alarms.

        Parameters
        ----------
        scores
            The predictions and targets; NaN where a target is missing.
        rows
            The numbers of the rows.
        times
            Their times, if they have some.
        tested
            Whether the fitted model predicted them. Rows of the warm-up only teach what is usual.
        """
        u = np.asarray(scores.pit, float)
        if isinstance(scores, CountScores):  # uniform between both ends
            u = scores.pit_below + _draws(rows)[:, None] * (u - scores.pit_below)
        given = _Rows(np.asarray(rows, float), scores.y, np.clip(u, 0.0, 1.0), scores.log_density, times, tested)
        before, self.next_row = self.count, int(rows[-1]) + 1 if len(rows) else self.next_row
        while len(given.rows):
            block = given.part(slice(_BLOCK))
            state, hits = self._advance(block)
            stop = len(block.rows)
            if hits:
                stop = 1 + min(hit.place for hit in hits)
                hit = max((hit for hit in hits if hit.place < stop), key=lambda hit: hit.log_sum)
                if stop < len(block.rows):
                    state, _ = self._advance(block.part(slice(stop)))
                self._state = self._raise(state, hit, block)
            else:
                self._state = state
            given = given.part(slice(stop, None))
        return self.since(before)

    def since(self, count: int) -> list[Alarm]:
        """Return the alarms after the first so many; of many only the latest are kept."""
        new = min(self.count - count, len(self.found))
        return list(self.found)[len(self.found) - new :]

    def _advance(self, block: _Rows) -> tuple[AlarmState, list[_Hit]]:
        """Return the state after all rows of a block, and the first hit of every test."""
        state, hits, n = self._state, [], len(block.rows)
        limit = self.log_limit

        def note(log_sums: np.ndarray, places: np.ndarray, kind: str, target: int | None, sequence: int = 0) -> None:
            reached = np.flatnonzero(log_sums >= limit)
            if len(reached):
                hits.append(_Hit(int(places[reached[0]]), float(log_sums[reached[0]]), kind, target, sequence))

        clock, ticks, everywhere = state.clock, None, np.arange(n)
        if block.times is not None:
            clock, ticks = clock.update(block.times)
        targets, any_stuck = [], np.zeros(n, bool)
        for e, tests in enumerate(state.targets):
            y, u, known_stuck = block.y[:, e], block.u[:, e], np.zeros(n, bool)
            silence, log_sums = tests.silence.update(np.isnan(y), block.rows, block.tested, ticks)
            note(log_sums, everywhere, "silence", e)
            there = np.flatnonzero(np.isfinite(y))
            same = y[there] == np.append(tests.last, y[there])[:-1]
            stuck, log_sums = tests.stuck.update(same, block.rows[there], block.tested)
            note(log_sums, there, "stuck", e)
            known_stuck[there[np.isneginf(log_sums)]] = True  # of errors of such targets there is nothing to say
            errors, seen = list(tests.errors), tests.seen
            there_u = np.flatnonzero(np.isfinite(u))
            for j, every in interleaved(there_u, seen, len(errors)) if block.tested else ():
                places = every[~known_stuck[every]]
                if not len(places):
                    continue
                errors[j], paths = errors[j].update(u[places], block.rows[places])
                for kind, path in paths.items():
                    note(path, places, kind, e, j)
            any_stuck |= known_stuck
            last = float(y[there[-1]]) if len(there) else tests.last
            targets.append(TargetTests(tuple(errors), stuck, silence, seen + len(there_u), last))
        scores = list(state.scores)
        full = np.flatnonzero(np.isfinite(block.y).all(axis=1) & np.isfinite(block.u).all(axis=1))
        for j, every in interleaved(full, state.seen, len(scores)):
            places = every[~any_stuck[every]] if block.tested else every
            if not len(places):
                continue
            scores[j], path = scores[j].update(
                block.y[places], block.log_density[places], block.rows[places], block.tested
            )
            note(path, places, "score", None, j)
        tested = state.tested + n * block.tested
        return (
            replace(
                state,
                targets=tuple(targets),
                scores=tuple(scores),
                clock=clock,
                seen=state.seen + len(full),
                tested=tested,
            ),
            hits,
        )

    def _raise(self, state: AlarmState, hit: _Hit, block: _Rows) -> AlarmState:
        """Note an alarm; return the state with the tests that it concerns begun again."""
        row = block.rows[hit.place]
        details = {}
        if hit.target is None:
            since, mean = leading(state.scores[hit.sequence].watch, slice(0, 1))
        elif hit.kind in BETS:
            since, mean = state.targets[hit.target].errors[hit.sequence].leading(hit.kind)
        else:
            test: RunTest = getattr(state.targets[hit.target], hit.kind)
            since, mean = (test.since if test.length else row), np.zeros(0)
            details = {"value": state.targets[hit.target].last, "missing": bool(test.length)}
        since = int(row if np.isnan(since) else since)
        target = None if hit.target is None else self.names[hit.target]
        named = target if len(self.names) > 1 else None
        time = None if block.times is None else float(block.times[hit.place])
        sentence = describe(hit.kind, since, mean, named, **details)
        alarm = Alarm(hit.kind, int(row), time, since, float(np.exp(min(hit.log_sum, 700.0))), sentence, target)
        self.found.append(alarm)
        self.count += 1
        first = state.first if state.first >= 0.0 else evidence(state)
        which = range(len(self.names)) if hit.target is None else [hit.target]
        targets = tuple(
            begun_again(tests, hit.kind) if e in which else tests for e, tests in enumerate(state.targets)
        )
        return replace(state, targets=targets, scores=tuple(s.restart() for s in state.scores), first=first)

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        tree: dict[str, Any] = {"targets": list(self.names), "rate": self.rate, "state": self._state}
        tree |= {"count": self.count, "next_row": self.next_row, "found": [asdict(alarm) for alarm in self.found]}
        return tree

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "Alarms":
        """Restore the alarms that `to_tree` stored."""
        alarms = cls(list(tree["targets"]), rate=tree["rate"])
        alarms.count, alarms.next_row, alarms._state = tree["count"], tree["next_row"], tree["state"]
        alarms.found.extend(Alarm(**each) for each in tree["found"])
        return alarms


def _draws(rows: np.ndarray) -> np.ndarray:
    """Return a uniform random number for each row, the same whenever it is asked for."""
    blocks, places = np.divmod(np.asarray(rows, dtype=np.int64), _DRAWS)
    made = {int(b): np.random.default_rng([0, int(b)]).random(_DRAWS) for b in np.unique(blocks)}
    return np.array([made[int(b)][i] for b, i in zip(blocks, places, strict=True)])
