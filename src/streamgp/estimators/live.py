"""A model at work: one thread teaches it, while others predict from what was known last."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.estimators.base import StreamEstimator
from streamgp.estimators.labels import LabelEstimator
from streamgp.evaluation.scored_rows import ScoredRows
from streamgp.likelihoods import AnyPredictive
from streamgp.models.contract import Info
from streamgp.models.options import DEFAULT_WARMUP
from streamgp.numerics import tree
from streamgp.numerics.batching import concatenate
from streamgp.session import Session, SessionOptions
from streamgp.session.by_task import metrics_from_tree
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.outlook import Outlook, StandIn
from streamgp.table import Chunk
from streamgp.table.chunks import cut
from streamgp.table.containers import frame_of
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


class LiveModel:
    """An estimator and what it takes to predict, to teach it late and to judge it, all by one thread.

    Parameters
    ----------
    model
        An estimator that has begun; see `begin`.
    metrics
        Its scores so far, as `Session.to_tree` has them; None: it has none.
    """

    def __init__(self, model: StreamEstimator, metrics: Mapping[str, Any] | None = None) -> None:
        self.model = model
        self._learner = model._learner
        if model._late is None:
            model._late = LateLabels(self._learner)
        self.late = model._late  # the rows that wait for their label
        if not isinstance(model, LabelEstimator):  # labels have no tests for changes
            model._alarms = model._tests_for_alarms(1)
        self.session = Session.begin(self._learner, model._names(), SessionOptions(alarms=model._alarms))
        if metrics is not None:
            self.session.metrics = metrics_from_tree(self._learner.spec.task, metrics)
        self._fork: LateLabels | None = None  # after a refresh that the model has not made

    @classmethod
    def begin(
        cls,
        model: StreamEstimator,
        features: Sequence[str],
        timed: bool,
        labels: Sequence[str] = (),
        texts: Sequence[str] = (),
        **more: Any,
    ) -> "LiveModel":
        """Begin a stream of these features before its first row; `more` names the classes or the grades.

        Rows have a `level_code` for each of the `texts` among the features.
        """
        if not features and not getattr(model, "lags", None):
            raise ValueError("features: expected one or more, or lags, got neither")
        X = frame_of({name: ["level" if name in texts else 0.0] for name in features}, 1)
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
            self.late.refresh()
            return self.late.outlook()
        if self._fork is None:
            self._fork = self.late.fork()
            self._fork.refresh()
        return self._fork.outlook()

    def refresh(self) -> None:
        """Learn all labels that have come, before a row that comes now."""
        if self._fork is not None:
            self.late.adopt(self._fork)
            self._fork = None
        self.late.refresh()

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels or grades known, by code; empty of numbers."""
        return self.model._labels.names if isinstance(self.model, LabelEstimator) else ()

    # Rows that wait

    def append(self, X: np.ndarray, times: np.ndarray | None, standing: Sequence[StandIn]) -> range:
        """Take in rows that an outlook predicted; return their numbers."""
        self.refresh()
        return self.late.append(X, times, standing)

    def score_late(
        self,
        held: Sequence[tuple[HeldPrediction, int]],
        y: np.ndarray,
        rows: np.ndarray,
        times: np.ndarray | None = None,
    ) -> ScoredRows:
        """Score labels (n, E) by the predictions that were made, of which a place is given for each."""
        parts = [tree.map(lambda a, i=i: a[i : i + 1], each.predictive) for each, i in held]
        by_experts = all(each.by_experts for each, _ in held)
        in_time = np.array([each.in_time[i] for each, i in held])
        info = Info(concatenate(parts), np.zeros(len(y), bool))
        return self.session.score(info, without_inputs(y, rows, times), by_experts, in_time=in_time)

    def learn_late(self, numbers: Sequence[int], y: np.ndarray) -> None:
        """Take in labels (n, E) of rows that wait; they are learnt before the next row that comes."""
        self._fork = None
        self.late.learn(numbers, y)

    # Rows that come with their labels

    def step(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None, first: int) -> Iterator[ScoredRows]:
        """Predict, score and learn rows, which follow those that came; `first` is the number of the first of them."""
        rows = Chunk(X, y, times, first + np.arange(len(X)))
        while len(rows.X):
            self.refresh()
            for part in [self._step_one(cut(rows, slice(1)))] if self.late.waiting else self.session.feed(rows):
                yield part
                rows = cut(rows, slice(len(part.scores.y), None))

    def _step_one(self, row: Chunk) -> ScoredRows:
        """Predict and learn one row while others wait."""
        ((numbers, info),) = self.late.predict(row.X, row.times)
        part = self.session.score(info, row, self._learner.is_warmed_up, in_time=np.zeros(1, bool))
        self.late.learn(numbers, row.y)
        return part

    def steps_singly(self, x: np.ndarray, y: np.ndarray) -> bool:
        """Whether a row (D,) with its target (E,) may be given to the learner's `step_one`."""
        self.refresh()
        return (
            self._learner.steps_singly
            and not self.late.waiting
            and bool(np.isfinite(x).all() and np.isfinite(y).all())
        )

    def score(
        self,
        predictive: AnyPredictive,
        X: np.ndarray,
        y: np.ndarray,
        flagged: np.ndarray,
        first: int,
        times: np.ndarray | None = None,
    ) -> ScoredRows:
        """Score rows that the learner's `step_one` predicted one after the other."""
        rows = Chunk(X, y, times, first + np.arange(len(y)))
        return self.session.score(Info(predictive, np.zeros(len(y), bool)), rows, True, flagged=flagged)

    def encode(self, y: Sequence[Any]) -> np.ndarray:
        """Return targets (n, 1) as the learner takes them; of a new label it is known from now on."""
        if isinstance(self.model, LabelEstimator):
            codes = [np.array([np.nan]) if label is None else self.model._target(label) for label in y]
            return np.array(codes, dtype=np.float64).reshape(-1, 1)
        return to_floats("y", y).reshape(-1, 1)


def without_inputs(y: np.ndarray, rows: np.ndarray, times: np.ndarray | None) -> Chunk:
    """Return rows that were predicted before, whose inputs are not needed any more."""
    return Chunk(np.empty((len(y), 0)), y, times, rows)
