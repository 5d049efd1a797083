"""Late labels by replay: before each prediction, a fresh learner is given the labelled rows in the order of the rows.

On a stream without times, time stamps count the labels, so that the rows that wait are time that has passed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from oracles.late_weights import PlainLateWeights, densities
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
    weighs
        Whether rows predicted while others wait have weights of their own: every row is then to be predicted.
    """

    def __init__(
        self,
        make: Callable[[bool], StreamLearner],
        X: np.ndarray,
        y: np.ndarray,
        times: np.ndarray | None,
        limit: int,
        weighs: bool = False,
    ) -> None:
        self.make, self.X, self.y, self.times, self.limit = make, X, y, times, limit
        self.labels: dict[int, np.ndarray] = {}
        self.means: list[np.ndarray] = []
        self.weighs = weighs
        self.weights: PlainLateWeights | None = None
        self._made: dict[int, tuple[Any, list[float], float]] = {}

    def label(self, row: int, y: np.ndarray) -> None:
        """Take in the label of a row."""
        self.labels[row] = y
        made = self._made.pop(row, None)
        if made is not None and np.isfinite(y).all():
            predictive, own, scale = made
            self.weights = self.weights or PlainLateWeights(len(own))
            self.weights.learn(own, densities(predictive, float(y[0])), scale)

    def learner(self, row: int) -> tuple[StreamLearner, list[int]]:
        """Return a learner of what is known before a row comes, and the rows that it has learnt."""
        waits = [r for r in range(row) if r not in self.labels and row - r <= self.limit]
        known = [r for r, y in sorted(self.labels.items()) if np.isfinite(y).all()]
        learner = self.make(True)
        open_from = min(waits, default=row)
        if len(known) >= learner.warmup and known[learner.warmup - 1] >= open_from:
            known = known[: learner.warmup - 1]  # the fit waits until no row before waits
        stamps = np.arange(float(len(known))) if self.times is None else self.times[known]
        for _ in learner.learn(self.X[known], np.array([self.labels[r] for r in known]), stamps):
            pass
        return learner, known

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
        predictive = learner.predict(self.X[row : row + 1], np.array([stamp]))
        if not (self.weighs and learner.is_warmed_up and stand):
            return predictive
        own = np.exp(np.asarray(predictive.log_weights)[0]).tolist()
        self._made[row] = predictive, own, float(learner.state.targets.scale[0])
        if self.weights is None:
            return predictive
        return replace(predictive, log_weights=np.log(self.weights.averaged(own))[None])
