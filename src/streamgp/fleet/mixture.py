"""Mixtures of Student's t, one for each row: what a fleet predicts."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Mixture(NamedTuple):
    """Predictions of rows: mixtures of Student's t, on the scale on which the target is learnt."""

    log_weights: Float[np.ndarray, "n k"]
    mean: Float[np.ndarray, "n k"]
    var: Float[np.ndarray, "n k"]
    dof: Float[np.ndarray, "n k"]

    @property
    def moments(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of every row."""
        weights = np.exp(self.log_weights)
        mean = np.vecdot(weights, self.mean)
        return mean, np.sqrt(np.vecdot(weights, self.var + np.square(self.mean - mean[:, None])))
