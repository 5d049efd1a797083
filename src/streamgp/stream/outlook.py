"""What is known before a row while others wait for their label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamgp.core import Info, mapped, unmapped
from streamgp.likelihoods import AnyPredictive
from streamgp.stream.learn_step import predict_after
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState


def check_horizon(horizon: int) -> None:
    """Raise ValueError if a model has a horizon, which does not go with labels that come late."""
    if horizon:
        raise ValueError(
            f"late labels: expected a model without a horizon, got one of {horizon} rows; leave the horizon out: a "
            f"row is predicted from its own inputs and the labels that have come by then"
        )


@dataclass(frozen=True)
class WaitingRow:
    """A row that came: `y` is None while its label has not; NaN where it never will. `mean` was predicted of it."""

    x: np.ndarray
    time: float
    mean: np.ndarray
    y: np.ndarray | None = None

    @property
    def is_labelled(self) -> bool:
        """Whether there is a label to learn."""
        return self.y is not None and not np.isnan(self.y).any()


def as_raw(rows: Sequence[WaitingRow], timed: bool) -> RawRows:
    """Return rows with labels as the learner takes them."""
    times = np.array([row.time for row in rows]) if timed else None
    return RawRows(np.stack([row.x for row in rows]), np.array([row.y for row in rows]), times)


def rows_to_tree(rows: Sequence[WaitingRow], width: int, outputs: int) -> dict[str, Any]:
    """Return what a checkpoint needs of rows of so many inputs."""
    absent = np.full(outputs, np.nan)
    return {
        "X": np.array([row.x for row in rows]).reshape(len(rows), width),
        "times": np.array([row.time for row in rows]),
        "mean": np.array([row.mean for row in rows]).reshape(len(rows), outputs),
        "has_label": np.array([row.y is not None for row in rows], dtype=bool),
        "y": np.array([absent if row.y is None else row.y for row in rows]).reshape(len(rows), outputs),
    }


def rows_from_tree(tree: Mapping[str, Any]) -> list[WaitingRow]:
    """Return what `rows_to_tree` was given."""
    columns = zip(tree["X"], tree["times"].tolist(), tree["mean"], tree["has_label"], tree["y"], strict=True)
    return [WaitingRow(x, time, mean, y if has_label else None) for x, time, mean, has_label, y in columns]


@dataclass(frozen=True)
class Outlook:
    """What is known before a row: a state, and what stands for the rows after it that wait for their label.

    It stays as it is while the learner learns, so that any thread may predict from it.

    Attributes
    ----------
    settings, state
        Of the learner.
    unlearnt
        What was predicted of the rows that wait, (w, E); only how many there are counts where no past target is an
        input.
    """

    settings: StreamSettings
    state: StreamState
    unlearnt: np.ndarray

    def leading(self, X: np.ndarray, times: np.ndarray | None) -> Info:
        """Predict as many of these rows, which follow each other, as go together: at least one."""
        # What is predicted of a row may be a lag of the next one, and the end of the warm-up may be near.
        n = 1 if self.has_lags or not self.state.is_warmed_up else len(X)
        rows = RawRows(X[:n], np.empty((n, 0)), None if times is None else times[:n])
        info = predict_after(self.settings, self.state, rows, self.unlearnt)
        return info._replace(predictive=mapped(info.predictive, self.settings.target_map))

    def each(self, X: np.ndarray, times: np.ndarray | None) -> AnyPredictive:
        """Predict each row as if it were the next one."""
        rows = RawRows(X, np.empty((len(X), 0)), times)
        info = predict_after(self.settings, self.state, rows, self.unlearnt, following=False)
        return mapped(info.predictive, self.settings.target_map)

    @property
    def has_lags(self) -> bool:
        """Whether past targets are inputs."""
        return bool(self.state.inputs.lags.lags)

    def standing(self, info: Info) -> np.ndarray:
        """Return what stands for the targets (n, E) of rows that were predicted, on the scale that is learnt."""
        if not self.has_lags:
            return np.zeros((len(info.outside), self.settings.num_outputs))
        return np.asarray(unmapped(info.predictive).mean)

    def after(self, standing: np.ndarray) -> "Outlook":
        """Return what is known after rows that wait, of which `standing` stands for the targets."""
        return replace(self, unlearnt=np.concatenate([self.unlearnt, standing]))
