"""All that the alarms of a stream know, as one value of fixed size."""

from dataclasses import dataclass, field, replace

import numpy as np

from streamgp.evaluation.error_tests import BETS, ErrorTests, ScoreTest
from streamgp.evaluation.move_tests import BETS as MOVES
from streamgp.evaluation.move_tests import Found, MoveTests
from streamgp.evaluation.references import EarlierWeights
from streamgp.evaluation.run_tests import GapClock, RunTest
from streamgp.numerics.checkpoint.encoding import register


@register
@dataclass(frozen=True)
class TargetTests:
    """The tests of one target; errors have h interleaved sequences.

    Attributes
    ----------
    errors, seen
        The sequences, and how many errors there were.
    stuck, last
        Of equal targets, and the last target.
    silence
        Of targets that are missing.
    moves
        Of sudden changes.
    """

    errors: tuple[ErrorTests, ...]
    stuck: RunTest
    silence: RunTest
    seen: int = 0
    last: float = np.nan
    moves: MoveTests = field(default_factory=MoveTests.start)


@register
@dataclass(frozen=True)
class AlarmState:
    """All that is known of a stream; no method changes it.

    Attributes
    ----------
    targets
        The tests of each target.
    scores, seen
        Those of the score, of h sequences, and how many rows had all targets.
    clock
        The time.
    tested
        How many rows have been tested.
    first
        The e-value's numerator at the first alarm; negative before it.
    weights
        The latest weights of the experts: of each mixture.
    """

    targets: tuple[TargetTests, ...]
    scores: tuple[ScoreTest, ...]
    clock: GapClock
    seen: int = 0
    tested: int = 0
    first: float = -1.0
    weights: tuple[EarlierWeights, ...] = ()

    @classmethod
    def start(cls, targets: int, sequences: int) -> "AlarmState":
        """Return the state before the first row."""
        run = RunTest.start()
        each = TargetTests((ErrorTests.start(),) * sequences, run, run)
        return cls((each,) * targets, (ScoreTest.start(targets),) * sequences, GapClock.start())


def begun_again(tests: TargetTests, kind: str, found: Found | None, told: bool) -> TargetTests:
    """Return the tests of a target after an alarm of some kind: those of errors, and that of a run if it was one.

    A sudden change may follow on what other tests have found, but for what is the same in other words. `found` is a
    sudden change, which is told by now or is not.
    """
    tests = replace(tests, errors=tuple(errors.restart() for errors in tests.errors))
    if found is not None and tests.moves.found is not None:
        return replace(tests, moves=tests.moves.told())
    if found is not None or kind in MOVES:
        tests = replace(tests, moves=tests.moves.restart(found, told))
    return replace(tests, **{kind: getattr(tests, kind).restart()}) if kind in ("stuck", "silence") else tests


def interleaved(places: np.ndarray, seen: int, sequences: int) -> list[tuple[int, np.ndarray]]:
    """Return the places that go to each sequence, where so many went before."""
    each = [(j, places[(j - seen) % sequences :: sequences]) for j in range(sequences)]
    return [(j, found) for j, found in each if len(found)]


def evidence(state: AlarmState) -> float:
    """Return the mean over all tests of the sums of bets, those of interleaved sequences added up."""
    sums = [0.0]
    for tests in state.targets:
        for where in BETS.values():
            sums.append(sum(_mean(errors.watch.detector.log_sums[where]) for errors in tests.errors))
        sums += [_mean(tests.moves.detector.log_sums[where]) for where in MOVES.values()]
        sums += [_mean(tests.stuck.detector.log_sums), _mean(tests.silence.detector.log_sums)]
    sums.append(sum(_mean(score.watch.detector.log_sums) for score in state.scores))
    return float(np.sum(sums) / (len(sums) - 1))


def _mean(log_sums: np.ndarray) -> float:
    return float(np.mean(np.exp(np.minimum(log_sums, 700.0))))
