"""What is known before a row while others wait for their label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from streamgp.likelihoods import AnyPredictive, NumericPredictive, Predictive, SideBySide, mapped
from streamgp.models.contract import Info
from streamgp.numerics.checkpoint.encoding import register
from streamgp.stream.late_weights import LateWeights, Made, made_from_tree, made_of, made_to_tree, weighed
from streamgp.stream.learner import StreamLearner
from streamgp.stream.rows import RawRows


def check_horizon(horizon: int) -> None:
    """Raise ValueError if a model has a horizon, which does not go with labels that come late."""
    if horizon:
        raise ValueError(
            f"late labels: expected a model without a horizon, got one of {horizon} rows; leave the horizon out: a "
            f"row is predicted from its own inputs and the labels that have come by then"
        )


@register
class StandIn(NamedTuple):
    """What was predicted of a row that waits, on the scale that is learnt.

    Attributes
    ----------
    mean
        What stands for its targets (E,) where past ones are inputs: their means, as later rows are to see them.
    made
        What the weights of rows that are predicted late learn from; empty where they do not.
    """

    mean: np.ndarray
    made: tuple[Made, ...] = ()


@dataclass(frozen=True)
class WaitingRow:
    """A row that came: `y` is None while its label has not; NaN where it never will."""

    x: np.ndarray
    time: float
    predicted: StandIn
    y: np.ndarray | None = None

    @property
    def is_labelled(self) -> bool:
        """Whether there is a label to learn."""
        return self.y is not None and not np.isnan(self.y).any()


def as_raw(rows: Sequence[WaitingRow], timed: bool) -> RawRows:
    """Return rows as the learner takes them: those without a label have NaN for each target."""
    times = np.array([row.time for row in rows]) if timed else None
    absent = np.full(len(rows[0].predicted.mean), np.nan)
    y = np.array([absent if row.y is None else row.y for row in rows])
    return RawRows(np.stack([row.x for row in rows]), y, times)


def rows_to_tree(rows: Sequence[WaitingRow], width: int, outputs: int) -> dict[str, Any]:
    """Return what a checkpoint needs of rows of so many inputs."""
    absent = np.full(outputs, np.nan)
    return {
        "X": np.array([row.x for row in rows]).reshape(len(rows), width),
        "times": np.array([row.time for row in rows]),
        "mean": np.array([row.predicted.mean for row in rows]).reshape(len(rows), outputs),
        "made": made_to_tree([row.predicted.made for row in rows]),
        "has_label": np.array([row.y is not None for row in rows], dtype=bool),
        "y": np.array([absent if row.y is None else row.y for row in rows]).reshape(len(rows), outputs),
    }


def rows_from_tree(tree: Mapping[str, Any]) -> list[WaitingRow]:
    """Return what `rows_to_tree` was given."""
    made = made_from_tree(tree["made"], len(tree["X"]))
    columns = zip(tree["X"], tree["times"].tolist(), map(StandIn, tree["mean"], made), tree["y"], strict=True)
    rows = [WaitingRow(x, time, predicted, y) for x, time, predicted, y in columns]
    return [row if known else replace(row, y=None) for row, known in zip(rows, tree["has_label"], strict=True)]


@dataclass(frozen=True)
class Outlook:
    """What is known before a row: a learner, and what stands for the rows after it that wait for their label.

    With a learner of its own it stays as it is while others learn, so that any thread may predict from it.

    Attributes
    ----------
    learner
        Nobody else's, if it is to stay: it learns no further.
    unlearnt
        What was predicted of the rows that wait, (w, E); only how many there are counts where no past target is an
        input.
    weights
        Of the experts in a row that is predicted while others wait.
    """

    learner: StreamLearner
    unlearnt: np.ndarray
    weights: tuple[LateWeights, ...] = ()

    def leading(self, X: np.ndarray, times: np.ndarray | None) -> tuple[Info, list[StandIn]]:
        """Predict as many of these rows, which follow each other, as go together: at least one.

        Return also what stands for each of them while it waits.
        """
        # What is predicted of a row may be a lag of the next one, and the end of the warm-up may be near.
        n = 1 if self.has_lags or not self.learner.is_warmed_up else len(X)
        rows = RawRows(X[:n], np.empty((n, 0)), None if times is None else times[:n])
        info = self.learner.predict_after(rows, self.unlearnt)
        late = len(self.unlearnt) + np.arange(n) > 0
        made = (
            made_of(self.learner.latest_fit, info.predictive, late)
            if self._weighs(info.predictive, late)
            else [()] * n
        )
        predictive = self._weighed(info.predictive, late)
        mean = np.zeros((n, self.learner.settings.num_outputs))
        if self.has_lags:
            mean = self.learner.settings.task.expected_lags(predictive, X[:n])
        info = info._replace(predictive=mapped(predictive, self.learner.settings.target_map))
        return info, list(map(StandIn, mean, made))

    def each(self, X: np.ndarray, times: np.ndarray | None) -> AnyPredictive:
        """Predict each row as if it were the next one."""
        rows = RawRows(X, np.empty((len(X), 0)), times)
        info = self.learner.predict_after(rows, self.unlearnt, following=False)
        predictive = self._weighed(info.predictive, np.full(len(X), len(self.unlearnt) > 0))
        return mapped(predictive, self.learner.settings.target_map)

    def _weighed(self, predictive: AnyPredictive, late: np.ndarray) -> AnyPredictive:
        """Return a prediction with the weights that count in rows before which others wait."""
        return (
            weighed(self.weights, self.learner.latest_fit, predictive, late)
            if self._weighs(predictive, late)
            else predictive
        )

    def _weighs(self, predictive: AnyPredictive, late: np.ndarray) -> TypeGuard[NumericPredictive]:
        """Whether there are rows before which others wait, and these have weights of their own.

        The papers' models keep those in time. So do those of labels, counts and grades, which gain nothing by others.
        """
        numbers = isinstance(predictive, Predictive | SideBySide)
        return bool(late.any()) and numbers and self.learner.settings.spec.robust and self.learner.is_warmed_up

    @property
    def has_lags(self) -> bool:
        """Whether past targets are inputs."""
        return bool(self.learner.latest_fit.inputs.lags)

    def after(self, standing: Sequence[StandIn]) -> "Outlook":
        """Return what is known after rows that wait."""
        means = np.reshape([each.mean for each in standing], (-1, self.learner.settings.num_outputs))
        return replace(self, unlearnt=np.concatenate([self.unlearnt, means]))
