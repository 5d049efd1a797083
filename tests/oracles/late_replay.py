"""Late labels by replay: before each prediction, a fresh learner is given the labelled rows in the order of the rows.

On a stream without times, time stamps count the labels, so that the rows that wait are time that has passed. Where
past targets are inputs, the learner is given the rows without a label among them too, as rows that are passed over.
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

    def learner(self, row: int) -> tuple[StreamLearner, int, int]:
        """Return a learner of what is known before a row comes, how many rows it has learnt, and where it stands."""
        waits = [r for r in range(row) if r not in self.labels and row - r <= self.limit]
        known = [r for r, y in sorted(self.labels.items()) if np.isfinite(y).all()]
        learner = self.make(True)
        open_from = min(waits, default=row)
        if len(known) >= learner.warmup and known[learner.warmup - 1] >= open_from:
            known = known[: learner.warmup - 1]  # the fit waits until no row before waits
        end = max(known, default=-1) + 1
        rows = known
        if learner.settings.spec.lags:
            end = max(end, open_from)
            rows = [r for r in range(end) if r in known or r not in self.labels or np.isnan(self.labels[r]).any()]
        has_label = np.array([r in known for r in rows], bool)
        stamps = np.cumsum(has_label) - has_label * 1.0 if self.times is None else self.times[rows]
        y = np.array([self.labels[r] if r in known else np.full(self.y.shape[1], np.nan) for r in rows])
        for _ in learner.learn(self.X[rows], y.reshape(-1, self.y.shape[1]), stamps):
            pass
        return learner, len(known), end

    def predict(self, row: int) -> Any:
        """Return the prediction of a row when it comes."""
        learner, learnt, end = self.learner(row)
        stand = []
        for r in range(end, row):
            if r in self.labels and np.isfinite(self.labels[r]).all():
                stand.append(self.labels[r])
            elif (r not in self.labels and row - r <= self.limit) or learner.settings.spec.lags:
                stand.append(self.means[r])
        inputs = learner.state.inputs
        lags = inputs.lags.learn(np.array(stand).reshape(-1, self.y.shape[1]))
        learner.state = replace(learner.state, inputs=replace(inputs, lags=lags))
        stamp = float(learnt + len(stand)) if self.times is None else self.times[row]
        predictive = learner.predict(self.X[row : row + 1], np.array([stamp]))
        if not (self.weighs and learner.is_warmed_up and stand):
            return predictive
        own = np.exp(np.asarray(predictive.log_weights)[0]).tolist()
        self._made[row] = predictive, own, float(learner.state.targets.scale[0])
        if self.weights is None:
            return predictive
        return replace(predictive, log_weights=np.log(self.weights.averaged(own))[None])
