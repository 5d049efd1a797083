"""A fleet in service: one thread learns, while others predict."""

from threading import Lock
from typing import Any

import numpy as np

from streamgp.fleet.fleet import StreamingGPFleet
from streamgp.fleet.learner import Learnt
from streamgp.fleet.mixture import Mixture


class LiveFleet:
    """A fleet, the scores of what was predicted by it, and the naive baselines of its keys.

    Predictions wait for the block of rows that is being learnt.

    Parameters
    ----------
    fleet
        New, or already at work.
    """

    def __init__(self, fleet: StreamingGPFleet) -> None:
        self.fleet = fleet
        self._lock = Lock()

    def predict(self, frame: Any) -> Mixture:
        """Predict rows, each as if it were the next one of its key."""
        with self._lock:
            return self.fleet.learner.predict(frame)[1]

    def learn(self, frame: Any) -> Learnt:
        """Predict rows and learn them."""
        with self._lock:
            return self.fleet.learner.learn(frame, "learn")

    @property
    def is_warmed_up(self) -> bool:
        """Whether what all keys share has been fitted."""
        return self.fleet.is_warm_

    def forecast(self, key: str, h: int, X_future: Any, level: list[float]) -> Any:
        """Forecast the next rows of a key, whose times and inputs are in a frame, or are none."""
        with self._lock:
            return self.fleet.forecast(h, X_future, level, keys=[key])

    def keys(self) -> dict[str, Any]:
        """Return the scores of every key, as columns."""
        with self._lock:
            engine = self.fleet.learner.engine
            if engine is None:
                return {"key": []}
            return {"key": self.fleet.keys_} | {name: np.array(column) for name, column in engine.scores().items()}
