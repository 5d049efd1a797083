"""Alarms of changes on a stream, with the start of each change and a bound on the rate of false alarms.

Each target is tested for changes of its errors (`error_tests`), for sudden ones that the model may follow at once
(`move_tests`), and for changes of its coming (`run_tests`). Every test's evidence is a Shiryaev-Roberts sum
(`change_tests`) with an alarm at the number of tests over the rate, so that of a model that is right at most `rate`
false alarms are to be expected in 1,000 rows, all tests and targets taken together, and whenever one stops. With
forecasts h rows ahead errors less than h rows apart depend on each other: then h sequences of every h-th row are
tested, each by itself (Arnold, Henzi and Ziegel 2023), changes are found later, and sudden ones are not tested for.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.alarm_rows import Alarm, AlarmRows, Hit, moved_rows
from streamgp.evaluation.alarm_state import AlarmState, TargetTests, begun_again, evidence, interleaved
from streamgp.evaluation.alarm_text import describe, describe_move
from streamgp.evaluation.counts import CountScores
from streamgp.evaluation.error_tests import BETS, leading
from streamgp.evaluation.move_tests import BETS as MOVES
from streamgp.evaluation.move_tests import Found
from streamgp.evaluation.moves import moved
from streamgp.evaluation.references import EarlierWeights, Experts, steady_experts
from streamgp.evaluation.regression_scores import RegressionScores
from streamgp.evaluation.run_tests import RunTest

RATE = 1e-3
KINDS = (*BETS, "slope", "score", "stuck", "silence")
# The number of tests of each target; one more test is shared by all targets.
TESTS = len(BETS) + len(MOVES) + 2
ROWS_OF_RATE = 1000
MOST_RATE = 10
# The number of latest alarms that are kept.
KEPT = 1000
_BLOCK = 4096  # rows tested in one go
# So many random numbers are drawn at once.
_DRAWS = 1024


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
        self._table: tuple[Any, ...] = ()
        self._steady = steady_experts(())

    @property
    def log_limit(self) -> float:
        """Return the log of the evidence that is an alarm: the number of tests over the rate of a row."""
        tests = TESTS * len(self.names) + 1
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
        experts: Experts | None = None,
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
        experts
            What each expert said of them; without, a change that the model follows at once is harder to see.
        """
        u = np.asarray(scores.pit, float)
        # A count's level is drawn uniformly between both ends of its step.
        if isinstance(scores, CountScores):
            u = scores.pit_below + _draws(rows)[:, None] * (u - scores.pit_below)
        if experts is not None and experts.table is not self._table:
            self._table, self._steady = experts.table, steady_experts(experts.table)
        u = np.clip(u, 0.0, 1.0)
        given = AlarmRows(
            np.asarray(rows, float), scores.y, u, scores.log_density, times, tested, np.asarray(scores.mean), experts
        )
        before, self.next_row = self.count, int(rows[-1]) + 1 if len(rows) else self.next_row
        while len(given.rows):
            block = given.part(slice(_BLOCK))
            state, hits = self._advance(block)
            stop = len(block.rows)
            if hits:
                stop = 1 + min(hit.place for hit in hits)
                hit = max((hit for hit in hits if hit.place < stop), key=_telling)
                if stop < len(block.rows):
                    state, _ = self._advance(block.part(slice(stop)))
                self._state = self._noted(state, hit, block)
            else:
                self._state = state
            given = given.part(slice(stop, None))
        return self.since(before)

    def since(self, count: int) -> list[Alarm]:
        """Return the alarms after the first so many; of many only the latest are kept."""
        new = min(self.count - count, len(self.found))
        return list(self.found)[len(self.found) - new :]

    def join(self, count: int, others: list[Alarm]) -> None:
        """Add alarms of other tests to those after the first so many, in the order of their rows."""
        new = sorted([*self.since(count), *others], key=lambda alarm: alarm.row)
        for _ in range(min(self.count - count, len(self.found))):
            self.found.pop()
        self.found.extend(new)
        self.count += len(others)

    def _advance(self, block: AlarmRows) -> tuple[AlarmState, list[Hit]]:
        """Return the state after all rows of a block, and the first hit of every test."""
        state, hits = self._state, _Hits(self.log_limit)
        clock, ticks = state.clock, None
        if block.times is not None:
            clock, ticks = clock.update(block.times)
        weights, earlier = self._weights(state, block)
        targets, any_stuck = [], np.zeros(len(block.rows), bool)
        for e, tests in enumerate(state.targets):
            tests, stuck = self._advance_target(e, tests, block, ticks, earlier, hits)
            any_stuck |= stuck
            targets.append(tests)
        scores = list(state.scores)
        full = np.flatnonzero(np.isfinite(block.y).all(axis=1) & np.isfinite(block.u).all(axis=1))
        for j, every in interleaved(full, state.seen, len(scores)):
            places = every[~any_stuck[every]] if block.tested else every
            if not len(places):
                continue
            scores[j], path = scores[j].update(
                block.y[places], block.log_density[places], block.rows[places], block.tested
            )
            hits.note(path, places, "score", None, j)
        after = replace(
            state,
            targets=tuple(targets),
            scores=tuple(scores),
            clock=clock,
            seen=state.seen + len(full),
            tested=state.tested + len(block.rows) * block.tested,
            weights=weights,
        )
        return after, hits.found

    def _advance_target(
        self,
        e: int,
        tests: TargetTests,
        block: AlarmRows,
        ticks: np.ndarray | None,
        earlier: list[Float[np.ndarray, "n k"]],
        hits: "_Hits",
    ) -> tuple[TargetTests, np.ndarray]:
        """Return the tests of target `e` after all rows of a block, and where it is stuck; note the hits."""
        n, y, u = len(block.rows), block.y[:, e], block.u[:, e]
        silence, log_sums = tests.silence.update(np.isnan(y), block.rows, block.tested, ticks)
        hits.note(log_sums, np.arange(n), "silence", e)
        there = np.flatnonzero(np.isfinite(y))
        same = y[there] == np.append(tests.last, y[there])[:-1]
        stuck, log_sums = tests.stuck.update(same, block.rows[there], block.tested)
        hits.note(log_sums, there, "stuck", e)
        # Where it is known that the target stands still, its errors are not tested.
        known_stuck = np.zeros(n, bool)
        known_stuck[there[np.isneginf(log_sums)]] = True
        errors = list(tests.errors)
        there_u = np.flatnonzero(np.isfinite(u))
        for j, every in interleaved(there_u, tests.seen, len(errors)) if block.tested else ():
            places = every[~known_stuck[every]]
            if not len(places):
                continue
            errors[j], paths = errors[j].update(u[places], block.rows[places])
            for kind, path in paths.items():
                hits.note(path, places, kind, e, j)
        moves = tests.moves
        # Only predictions of the next row are tested for moves: overlapping forecasts have dependent errors.
        if len(errors) == 1:
            repeats = np.zeros(n, bool)
            repeats[there] = same
            at = there_u[~known_stuck[there_u]] if block.tested else there_u
            places, rows = moved_rows(block, e, earlier, self._steady, repeats, at)
            moves, paths = moves.update(rows, block.tested)
            for kind, path in paths.items():
                hits.note(path, places, kind, e, sudden=True)
        last = float(y[there[-1]]) if len(there) else tests.last
        return TargetTests(tuple(errors), stuck, silence, tests.seen + len(there_u), last, moves), known_stuck

    def _weights(
        self, state: AlarmState, block: AlarmRows
    ) -> tuple[tuple[EarlierWeights, ...], list[Float[np.ndarray, "n k"]]]:
        """Return the weights after the rows, of each mixture, and those in force a while before each row."""
        if block.experts is None:
            return state.weights, []
        parts = block.experts.parts
        known = state.weights if len(state.weights) == len(parts) else (EarlierWeights.start(),) * len(parts)
        both = [each.update(np.asarray(part.log_weights)) for each, part in zip(known, parts, strict=True)]
        return tuple(after for after, _ in both), [earlier for _, earlier in both]

    def _noted(self, state: AlarmState, hit: Hit, block: AlarmRows) -> AlarmState:
        """Return the state after a hit, which is an alarm unless it is a sudden change that is told later."""
        first = state.first if state.first >= 0.0 else evidence(state)
        which, found = list(range(len(self.names))) if hit.target is None else [hit.target], None
        if hit.sudden:
            moves = state.targets[which[0]].moves
            found = moves.find(hit.kind, hit.log_sum) if moves.found is None else moves.found
        told = found is None or found.is_due
        if told:
            self._tell(state, hit, block, found)
        targets = tuple(
            begun_again(tests, hit.kind, found, told) if e in which else tests
            for e, tests in enumerate(state.targets)
        )
        return replace(state, targets=targets, scores=tuple(s.restart() for s in state.scores), first=first)

    def _tell(self, state: AlarmState, hit: Hit, block: AlarmRows, found: Found | None) -> None:
        """Add the alarm of a hit; of a sudden change `found` says what is known of it."""
        row = int(block.rows[hit.place])
        time = None if block.times is None else float(block.times[hit.place])
        target = None if hit.target is None else self.names[hit.target]
        named, more = target if len(self.names) > 1 else None, {}
        if hit.target is not None and found is not None:
            move = moved(state.targets[hit.target].moves, found)
            since, sentence = move.since, describe_move(move, row, time, named)
            more = {"since_time": move.time, "size": move.size, "followed": move.followed}
        else:
            since, mean, details = self._began(state, hit, row)
            sentence = describe(hit.kind, since, mean, named, **details)
        worth = float(np.exp(min(hit.log_sum, 700.0)))
        self.found.append(Alarm(hit.kind, row, time, since, worth, sentence, target, **more))
        self.count += 1

    def _began(self, state: AlarmState, hit: Hit, row: int) -> tuple[int, Float[np.ndarray, " m"], dict[str, Any]]:
        """Return since when there is evidence, the averages of what is tested since then, and of a run its value."""
        details: dict[str, Any] = {}
        if hit.target is None:
            since, mean = leading(state.scores[hit.sequence].watch, slice(0, 1))
        elif hit.kind in BETS:
            since, mean = state.targets[hit.target].errors[hit.sequence].leading(hit.kind)
        else:
            test: RunTest = getattr(state.targets[hit.target], hit.kind)
            since, mean = (test.since if test.length else row), np.zeros(0)
            details = {"value": state.targets[hit.target].last, "missing": bool(test.length)}
        return int(row if np.isnan(since) else since), mean, details

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


class _Hits:
    """The first hit of every test."""

    def __init__(self, limit: float) -> None:
        self._limit, self.found = limit, list[Hit]()

    def note(
        self,
        log_sums: np.ndarray,
        places: np.ndarray,
        kind: str,
        target: int | None,
        sequence: int = 0,
        sudden: bool = False,
    ) -> None:
        """Note where the evidence of a test first reaches the limit, if it does."""
        reached = np.flatnonzero(log_sums >= self._limit)
        if len(reached):
            at = reached[0]
            self.found.append(Hit(int(places[at]), float(log_sums[at]), kind, target, sequence, sudden))


def _draws(rows: np.ndarray) -> np.ndarray:
    """Return a uniform random number for each row, the same whenever it is asked for."""
    blocks, places = np.divmod(np.asarray(rows, dtype=np.int64), _DRAWS)
    made = {int(b): np.random.default_rng([0, int(b)]).random(_DRAWS) for b in np.unique(blocks)}
    return np.array([made[int(b)][i] for b, i in zip(blocks, places, strict=True)])


def _telling(hit: Hit) -> tuple[int, float]:
    """Return how much a hit says, beside others of the same row: a sudden change more, and a level most."""
    return (-list(MOVES).index(hit.kind) if hit.sudden else -len(MOVES), hit.log_sum)
