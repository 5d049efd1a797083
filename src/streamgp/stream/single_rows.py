"""Rows that come singly after the warm-up: predicted and learnt without touching every covariance each time."""

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.numerics.batching import BATCH_SIZES, concatenate
from streamgp.precision import in_float64
from streamgp.stream.gains import MEASURED_EVERY
from streamgp.stream.renewal import renewal_at
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.tasks import TRIM

READ_EVERY = BATCH_SIZES[1]  # rows after which the imputer learns those that came singly


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
        self._model.load(state.model_state.unsharded(), state.model)
        self._state = state
        self._unread: list[np.ndarray] = []  # rows that the imputer has yet to learn
        self._learnt: list[RawRows] = []  # rows that the reservoir has yet to take in
        self._inputs, self._reservoir = state.inputs, state.reservoir
        self.rows, self._outside, self._flagged = state.rows, 0, 0

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

    @property
    def renews_next(self) -> bool:
        """Whether it is time for new experts."""
        return renewal_at(self._settings, self.rows) is not None

    def predict(self, x: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (E,) of a row without gaps."""
        wide = self._inputs.lags.widen_next(x[None], self._state.targets.mean)
        return self._model.predict(self._inputs.bounds.clip(wide)[0][0], time)

    def learn(self, x: np.ndarray, y: np.ndarray, time: float) -> None:
        """Learn a row without gaps, whose target is there."""
        self._unread.append(x.copy())
        lags = self._inputs.lags
        wide = lags.widen_next(x[None], self._state.targets.mean)
        rows, beyond, inputs = self._inputs.bounded(wide)
        predicted = self._model.predict(rows[0], time)[0] if lags.lags else y
        outside, flagged = self._model.learn(rows[0], y, time)
        self._outside += outside or bool(beyond[0])
        self._flagged += flagged
        self._inputs = replace(inputs, lags=lags.learn((predicted if flagged else y)[None]))
        if self._reservoir is not None and not flagged:
            self._learnt.append(RawRows(wide, y[None], np.array([time]) if self._settings.timed else None))
        self.rows += 1
        if self.rows % READ_EVERY == 0:
            self._read()

    def _read(self) -> None:
        """Let the imputer and the reservoir take in the rows that they have not yet."""
        if self._unread:
            self._inputs = self._inputs.fill_and_learn(np.stack(self._unread))[2]
            self._unread = []
        if self._learnt and self._reservoir is not None:
            self._reservoir = self._reservoir.add(concatenate(self._learnt))
            self._learnt = []

    @in_float64
    def flush(self) -> StreamState:
        """Return the state after all rows learnt here."""
        self._read()
        model_state: Any = self._model.flush()
        return replace(
            self._state,
            reservoir=self._reservoir,
            inputs=self._inputs,
            model_state=model_state,
            rows=self.rows,
            outside_rows=self._state.outside_rows + self._outside,
            flagged_rows=self._state.flagged_rows + self._flagged,
            restarted=self._state.restarted | frozenset(np.flatnonzero(self._model.restarted).tolist()),
        )
