"""A model at work: one thread teaches it, while others predict from what was known last."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from streamgp.core import Info
from streamgp.estimators.base import StreamEstimator
from streamgp.estimators.forecasts import usual_step
from streamgp.estimators.labels import LabelEstimator
from streamgp.estimators.single import frame_of
from streamgp.evaluation.alarms import Alarm, Alarms
from streamgp.evaluation.description import expert_table
from streamgp.evaluation.prequential import Metrics, ScoredRows, Scores, prequential, results, scored
from streamgp.likelihoods import AnyPredictive
from streamgp.models.options import DEFAULT_WARMUP
from streamgp.numerics.batching import concatenate
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.outlook import Outlook, StandIn
from streamgp.table.given import to_floats


class HeldPrediction(NamedTuple):
    """What was predicted of rows whose labels have not come yet.

    Attributes
    ----------
    predictive
        Of n rows.
    by_experts
        Whether the fitted model made it.
    in_time
        Of each row, whether it was the next one to be learnt: only such errors are independent of each other.
    """

    predictive: AnyPredictive
    by_experts: bool
    in_time: np.ndarray


class ScoredPart(NamedTuple):
    """Scored rows: their scores, the naive baselines' predictions, and whether the fitted model made them."""

    scores: Scores
    persistence: np.ndarray
    running_mean: np.ndarray
    by_experts: bool
    flagged: np.ndarray | None


class LiveModel:
    """An estimator and what it takes to predict, to teach it late and to judge it, all by one thread.

    Parameters
    ----------
    model
        An estimator that has begun; see `begin`.
    metrics
        Its scores so far; None: it has none.
    """

    def __init__(self, model: StreamEstimator, metrics: Metrics | None = None) -> None:
        self.model = model
        self._learner = model._learner
        if model._late is None:
            model._late = LateLabels(self._learner)
        self._late = model._late
        self.metrics: Metrics = model._metrics(self._learner.warmup, 0) if metrics is None else metrics
        self._fork: LateLabels | None = None  # after a refresh that the model has not made
        self._tests = self._begin_tests()

    def _begin_tests(self) -> Alarms | None:
        """Return the tests for changes, which labels have none of."""
        if isinstance(self.model, LabelEstimator):
            return None
        tests = self.model._tests_for_alarms(1)
        self.model._alarms = tests
        return tests

    @classmethod
    def begin(
        cls, model: StreamEstimator, features: Sequence[str], timed: bool, labels: Sequence[str] = (), **more: Any
    ) -> "LiveModel":
        """Begin a stream of these features before its first row; `more` names the classes or the grades."""
        if not features and not getattr(model, "lags", None):
            raise ValueError("features: expected one or more, or lags, got neither")
        X = frame_of(dict.fromkeys(features, 0.0))
        y: Any = [labels[0]] if labels else [0.0]
        rows = model._prepare(X, y, [0.0] if timed else None, True, **more)
        model._start(rows, DEFAULT_WARMUP)
        return cls(model)

    # What is known

    def outlook(self) -> Outlook:
        """Return what is known now of the next row; it stays as it is.

        In the warm-up it depends on when labels are learnt which rows the fit is made from. So they are learnt when a
        row comes, as by `predict_later`, and not because somebody looks: that is done by a fork, which the model
        becomes if nothing else is learnt meanwhile.
        """
        if self._learner.is_warmed_up:
            self._late.refresh()
            return self._late.outlook()
        if self._fork is None:
            self._fork = self._late.fork()
            self._fork.refresh()
        return self._fork.outlook()

    def refresh(self) -> None:
        """Learn all labels that have come, before a row that comes now."""
        if self._fork is not None:
            self._late.adopt(self._fork)
            self._fork = None
        self._late.refresh()

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels or grades known, by code; empty of numbers."""
        return self.model._labels.names if isinstance(self.model, LabelEstimator) else ()

    @property
    def rows(self) -> int:
        """Rows learnt."""
        return self._learner.rows

    @property
    def is_warmed_up(self) -> bool:
        """Whether the fitted model is at work."""
        return self._learner.is_warmed_up

    @property
    def last_time(self) -> float | None:
        """The time of the last row that came."""
        return self._late.last_time

    @property
    def usual_step(self) -> float | None:
        """The median gap of the warm-up's rows, of a timed stream after it."""
        return usual_step(self._learner)

    def waits(self, number: int) -> bool:
        """Return whether a row waits for its label."""
        return self._late.waits(number)

    @property
    def waiting(self) -> int:
        """Count the rows that wait for their label."""
        return self._late.waiting

    @property
    def alarms(self) -> list[Alarm]:
        """The latest alarms."""
        return [] if self._tests is None else list(self._tests.found)

    @property
    def alarm_count(self) -> int:
        """Count all alarms so far."""
        return 0 if self._tests is None else self._tests.count

    # Rows that wait

    def append(self, X: np.ndarray, times: np.ndarray | None, standing: Sequence[StandIn]) -> range:
        """Take in rows that an outlook predicted; return their numbers."""
        self.refresh()
        return self._late.append(X, times, standing)

    def score_late(
        self,
        held: Sequence[tuple[HeldPrediction, int]],
        y: np.ndarray,
        rows: np.ndarray,
        times: np.ndarray | None = None,
    ) -> ScoredPart:
        """Score labels (n, E) by the predictions that were made, of which a place is given for each."""
        parts = [jax.tree.map(lambda a, i=i: a[i : i + 1], each.predictive) for each, i in held]
        predictive = concatenate(parts)
        by_experts = all(each.by_experts for each, _ in held)
        info = Info(predictive, np.zeros(len(y), bool))
        found = scored(self._learner, info, by_experts, 0, np.empty((len(y), 0)), y, self.metrics, None)
        self._test(found, rows, times, np.array([each.in_time[i] for each, i in held]))
        return ScoredPart(found.scores, found.persistence, found.running_mean, by_experts, None)

    def learn_late(self, numbers: Sequence[int], y: np.ndarray) -> None:
        """Take in labels (n, E) of rows that wait; they are learnt before the next row that comes."""
        self._fork = None
        self._late.learn(numbers, y)

    # What is shown

    def results(self) -> dict[str, Any]:
        """Return the scores so far."""
        return results(self.metrics, self._learner)

    def experts(self) -> list[dict[str, Any]]:
        """Return the experts with their weights."""
        return expert_table(self._learner)

    # Rows that come with their labels

    def step(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None, first: int) -> Iterator[ScoredPart]:
        """Predict, score and learn rows, which follow those that came; `first` is the number of the first of them."""
        at = 0
        while at < len(X):
            rest = slice(at, None)
            self.refresh()
            if self._late.waiting:
                parts = [
                    self._step_one(X[at : at + 1], y[at : at + 1], None if times is None else times[at : at + 1])
                ]
                in_time = False
            else:
                chunk = (X[rest], y[rest], None if times is None else times[rest])
                parts, in_time = prequential(self._learner, [chunk], self.metrics), True
            for part in parts:
                n = len(part.scores.y)
                by_experts = part.weights is not None
                now = None if times is None else times[at : at + n]
                self._test(part, first + at + np.arange(n), now, np.full(n, in_time))
                yield ScoredPart(part.scores, part.persistence, part.running_mean, by_experts, part.flagged)
                at += n

    def _step_one(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None) -> Any:
        """Predict and learn one row while others wait."""
        ((numbers, info),) = self._late.predict(X, times)
        part = scored(self._learner, info, self._learner.is_warmed_up, 0, X, y, self.metrics, None)
        self._late.learn(numbers, y)
        return part

    def steps_singly(self, x: np.ndarray, y: np.ndarray) -> bool:
        """Whether a row (D,) with its target (E,) may be given to `step_one`."""
        self.refresh()
        return (
            self._learner.steps_singly
            and not self._late.waiting
            and bool(np.isfinite(x).all() and np.isfinite(y).all())
        )

    def step_one(self, x: np.ndarray, y: np.ndarray, time: float) -> tuple[AnyPredictive, bool]:
        """Predict and learn one row, and leave it to `score` to judge it; return also whether it was an outlier."""
        return self._learner.step_one(x, y, time)

    def score(
        self,
        predictive: AnyPredictive,
        y: np.ndarray,
        flagged: np.ndarray,
        first: int,
        times: np.ndarray | None = None,
    ) -> ScoredPart:
        """Score rows that `step_one` predicted one after the other."""
        n = len(y)
        info = Info(predictive, np.zeros(n, bool))
        found = scored(self._learner, info, True, 0, np.empty((n, 0)), y, self.metrics, None, flagged)
        self._test(found, first + np.arange(n), times, np.ones(n, bool))
        return ScoredPart(found.scores, found.persistence, found.running_mean, True, flagged)

    def encode(self, y: Sequence[Any]) -> np.ndarray:
        """Return targets (n, 1) as the learner takes them; of a new label it is known from now on."""
        if isinstance(self.model, LabelEstimator):
            codes = [np.array([np.nan]) if label is None else self.model._target(label) for label in y]
            return np.array(codes, dtype=np.float64).reshape(-1, 1)
        return to_floats("y", y).reshape(-1, 1)

    def _test(self, part: ScoredRows, rows: np.ndarray, times: np.ndarray | None, in_time: np.ndarray) -> None:
        """Test for changes those rows whose errors are independent of each other."""
        if self._tests is None or not in_time.any():
            return
        scores: Any = part.scores
        experts, times = part.experts, None if times is None else times[in_time]
        if not in_time.all():
            scores = type(scores)(*(np.asarray(a)[in_time] for a in scores))
            experts = None if experts is None else experts.take(in_time)
        self._tests.add(scores, rows[in_time], times, tested=part.weights is not None, experts=experts)
