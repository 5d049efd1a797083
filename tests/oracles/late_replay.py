"""Late labels by replay: before each prediction, a fresh learner is given the labelled rows in the order of the rows.

On a stream without times, time stamps count the labels, so that the rows that wait are time that has passed.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.stream.learner import StreamLearner


class LateReplay:
    """Knows the rows that came, and the labels of some of them; a label that is NaN will never come.

    Parameters
    ----------
    make
        Makes a learner, of a stream with times or, by the argument, of one without.
    X, y, times
        All rows of the stream; times may be None.
    limit
        Rows for which a label is waited for.
    """

    def __init__(
        self,
        make: Callable[[bool], StreamLearner],
        X: np.ndarray,
        y: np.ndarray,
        times: np.ndarray | None,
        limit: int,
    ) -> None:
        self.make, self.X, self.y, self.times, self.limit = make, X, y, times, limit
        self.labels: dict[int, np.ndarray] = {}
        self.means: list[np.ndarray] = []

    def learner(self, row: int) -> tuple[StreamLearner, list[int]]:
        """Return a learner of what is known before a row comes, and the rows that it has learnt."""
        waits = [r for r in range(row) if r not in self.labels and row - r <= self.limit]
        learner, learnt = self.make(True), []
        for r in sorted(self.labels):
            if np.isnan(self.labels[r]).any():
                continue
            fits = not learner.is_warmed_up and learner.rows == learner.warmup - 1
            if fits and r >= min(waits, default=row):
                break  # the fit waits until no row before waits
            stamp = float(len(learnt)) if self.times is None else self.times[r]
            for _ in learner.learn(self.X[r : r + 1], self.labels[r][None], np.array([stamp])):
                pass
            learnt.append(r)
        return learner, learnt

    def predict(self, row: int) -> Any:
        """Return the prediction of a row when it comes."""
        learner, learnt = self.learner(row)
        stand = []
        for r in range(max(learnt, default=-1) + 1, row):
            if r in self.labels and np.isfinite(self.labels[r]).all():
                stand.append(self.labels[r])
            elif r not in self.labels and row - r <= self.limit:
                stand.append(self.means[r])
        inputs = learner.state.inputs
        lags = inputs.lags.learn(np.array(stand).reshape(-1, self.y.shape[1]))
        learner.state = replace(learner.state, inputs=replace(inputs, lags=lags))
        stamp = float(len(learnt) + len(stand)) if self.times is None else self.times[row]
        found = copy.deepcopy(learner).predict(self.X[row : row + 1], np.array([stamp]))
        self.means.append(np.asarray(found.mean)[0] if learner.spec.task == "regression" else np.zeros(1))
        return found
