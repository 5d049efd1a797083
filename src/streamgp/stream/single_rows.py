"""Rows that come singly after the warm-up: predicted and learnt without touching every covariance each time."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from streamgp.core import Predictive
from streamgp.likelihoods import AnyPredictive
from streamgp.numerics.batching import BATCH_SIZES
from streamgp.numerics.precision import in_float64
from streamgp.stream.apart import with_scarce
from streamgp.stream.correlation import learn_singly
from streamgp.stream.gains import MEASURED_EVERY
from streamgp.stream.inputs import StreamInputs
from streamgp.stream.renewal import next_renewal, with_rows
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.tasks import TRIM

READ_EVERY = BATCH_SIZES[1]  # rows after which the imputer learns those that came singly


class _Row(NamedTuple):
    """A row as it came, by what was known of the inputs; with lags (1, W); as the model is given it.

    And whether one of its own values is cut off, and one of its lags.
    """

    x: np.ndarray
    inputs: StreamInputs
    wide: np.ndarray
    bounded: np.ndarray
    is_beyond: bool
    lag_is_beyond: bool


class SingleRows:
    """Learns rows one by one from a state on; what it learns is its own until `flush` gives the state after them.

    Parameters
    ----------
    settings
        Those of the learner; no horizon.
    state
        That of a fitted model with rows of its own kind (`StreamModel.has_single_row`).
    """

    @in_float64
    def __init__(self, settings: StreamSettings, state: StreamState) -> None:
        trim = TRIM if settings.spec.robust else 0.0
        self._settings = settings
        self._model = state.model.single_row(state.inputs.scaling, state.targets, trim)
        self.load(state)

    @in_float64
    def load(self, state: StreamState) -> None:
        """Go on from a state with the same model and scaling."""
        self._model.load(state.model_state, state.model)
        self._state = state
        self._unread: list[np.ndarray] = []  # rows that the imputer has yet to learn
        # Rows that the sample and the reservoir have yet to take in, with their predictions, and whether they were
        # outliers.
        self._learnt: list[tuple[np.ndarray, np.ndarray, float, np.ndarray, bool]] = []
        # Predictions and targets from which the correlation of their errors has yet to be learnt.
        self._unrelated: list[tuple[AnyPredictive, np.ndarray]] = []
        self._inputs, self._range = state.inputs, state.target_range
        self._row: _Row | None = None  # the last one predicted or learnt
        self._renews_at = next_renewal(self._settings, state)
        self.rows, self._outside, self._flagged, self._loaded_at = state.rows, 0, 0, state.rows
        self.renews_next = False  # whether it is time for new experts
        self._rests, self._scores = state.model.period is not None, []
        self.rests_next = False  # whether it is time for parts of the model to rest or to wake

    @property
    def last_time(self) -> float | None:
        """The time stamp of the last row learnt."""
        return None if np.isnan(self._model.last_time) else self._model.last_time

    @property
    def weights(self) -> np.ndarray:
        """The experts' weights for the next row."""
        return np.exp(self._model.log_weights)

    @property
    def measures_next(self) -> bool:
        """Whether it is time to measure again what each column matters."""
        return self._inputs.gains is not None and self.rows % MEASURED_EVERY == 0

    def predict(self, x: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (E,) of a row without gaps."""
        return self._model.predict(self._seen(x).bounded, time)

    def predictive(self, x: np.ndarray, time: float) -> AnyPredictive:
        """Return the whole distribution of a row without gaps."""
        predictive = self._predicted(self._seen(x), time)
        if self._state.correlation is None:
            return predictive
        self._relate()
        return self._state.correlation.of(predictive)

    def _predicted(self, row: _Row, time: float) -> Predictive:
        """Return the distribution of a row, of a transformed target as far as it is believed."""
        predictive = self._model.predictive(row.bounded, time)
        return predictive if self._range is None else self._range.limit(predictive)

    def _mean(self, row: _Row, time: float) -> np.ndarray:
        """Return the mean (E,) of the same distribution."""
        if self._range is None:
            return self._model.predict(row.bounded, time)[0]
        return np.asarray(self._predicted(row, time).mean[0])

    def is_beyond(self, x: np.ndarray) -> bool:
        """Return whether a row without gaps has a value beyond the bounds, so that it cannot be taken here."""
        return self._seen(x).is_beyond

    def _seen(self, x: np.ndarray) -> _Row:
        """Return the next row, without gaps, with its lags and within the bounds."""
        last, inputs = self._row, self._inputs
        if last is not None and last.inputs is inputs and (last.x == x).all():
            return last
        x = x.copy()
        wide = inputs.lags.widen_next(inputs.categories(x[None]), self._state.targets.mean)
        (bounded,), (beyond,) = inputs.clip(wide)
        own = inputs.imputer.width
        self._row = _Row(x, inputs, wide, bounded, bool(beyond[:own].any()), bool(beyond[own:].any()))
        return self._row

    @property
    def flagged_rows(self) -> int:
        """Rows that were outliers, of all that were learnt."""
        return self._state.flagged_rows + self._flagged

    def learn(self, x: np.ndarray, y: np.ndarray, time: float) -> None:
        """Learn a row without gaps, whose target is there."""
        row, inputs, lags = self._seen(x), self._inputs, self._inputs.lags
        renews = self._state.reservoir is not None
        predicted = self._mean(row, time) if lags.lags or renews else y
        related = None if self._state.correlation is None else self._predicted(row, time)
        outside, flagged = self._model.learn(row.bounded, y, time)  # fails, as a user's basis may, before it changes
        if inputs.bounds.counts:
            own = row.wide[:, : inputs.imputer.width]
            inputs = replace(inputs, bounds=inputs.bounds.learn(own)[0])
        if row.lag_is_beyond or inputs.rest_bounds.counts:
            inputs = inputs.bounded(row.wide)[2]
        if related is not None:
            self._unrelated.append((related, y.copy()))
        self._unread.append(row.x)
        self._outside += outside or row.lag_is_beyond
        self._flagged += flagged
        if lags.lags:
            past, outliers = lags.standing_in(y[None], predicted[None], np.array([flagged]))
            inputs = replace(inputs, lags=lags.learn(past, outliers))
        self._inputs = inputs
        if self._range is not None:
            self._range, _ = self._range.learn(y[None], np.array([flagged]))
        self._learnt.append((row.wide[0], y.copy(), time, predicted, flagged))
        self.rows += 1
        self.renews_next = self.rows == self._renews_at
        if self._rests:
            self._scores.append(self._model.score)
            self.rests_next = self._model.rest_is_due(self._scores, self.rows)
        if self.rows % READ_EVERY == 0:
            self._read()

    def _read(self) -> None:
        """Let the imputer, the sample, the reservoir and the correlation take in the rows that they have not yet."""
        self._relate()
        if self._unread:
            self._inputs = self._inputs.with_read(np.stack(self._unread))
            self._unread = []
        if self._learnt:
            X, y, times, predicted, flagged = (np.array(each) for each in zip(*self._learnt, strict=True))
            rows = RawRows(X, y, times if self._settings.timed else None)
            before = replace(self._state, rows=self.rows - len(X))
            if before.sample is not None:
                before = replace(before, sample=before.sample.offer(rows, flagged))
            if before.reservoir is not None:
                before = with_rows(self._settings, before, rows, predicted, flagged)
            self._state, self._learnt = before, []
        self._renews_at = next_renewal(self._settings, replace(self._state, rows=self.rows))

    def _relate(self) -> None:
        """Learn the correlation of the errors of rows from which it is not learnt yet."""
        if self._unrelated and self._state.correlation is not None:
            correlation = learn_singly(self._state.correlation, *zip(*self._unrelated, strict=True))
            self._state, self._unrelated = replace(self._state, correlation=correlation), []

    @in_float64
    def flush(self) -> StreamState:
        """Return the state after all rows learnt here."""
        self._read()
        model_state, _ = self._state.model.rested(self._model.flush(), np.asarray(self._scores), self.rows)
        return replace(
            with_scarce(self._state, whole=self.rows - self._loaded_at),
            inputs=self._inputs,
            target_range=self._range,
            model_state=model_state,
            rows=self.rows,
            outside_rows=self._state.outside_rows + self._outside,
            flagged_rows=self.flagged_rows,
            restarted=self._state.restarted | frozenset(np.flatnonzero(self._model.restarted).tolist()),
        )
