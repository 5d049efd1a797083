"""The interface of a surrogate: a model of the moving function, by which the next point is chosen."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

from streamgp.bandits.history import History
from streamgp.bandits.outliers import clip_outliers
from streamgp.bandits.regression import Hyperparameters, default_hyperparameters


class Predictor(NamedTuple):
    """Predictions of the function of the next step.

    Attributes
    ----------
    at
        Mean and standard deviation at points.
    gradients
        Both at one point, with their gradients; None where there are none.
    log_gain
        Twice the information gain of the observations in use.
    level, scale
        Mean and standard deviation far from all observations: the units in which scores are measured.
    """

    at: Callable[[Float[np.ndarray, "n d"]], tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]]
    gradients: Callable[[Float[np.ndarray, " d"]], tuple[float, float, np.ndarray, np.ndarray]] | None = None
    log_gain: float = 0.0
    level: float = 0.0
    scale: float = 1.0


class Surrogate(Protocol):
    """A model that learns from a history; each method that takes one returns it with its marks brought up to date."""

    @property
    def weights(self) -> dict[str, float]:
        """Return the present weight of every expert, by name; empty where there is one model."""
        ...

    def observe(self, history: History) -> History:
        """Learn the observations that came since the last time."""
        ...

    def screen(self, history: History) -> History:
        """Screen the observations that came since the last time for outliers."""
        ...

    def refit(self, history: History) -> History:
        """Fit the hyperparameters if that is due."""
        ...

    def hyperparameters(self, history: History) -> Hyperparameters:
        """Return the hyperparameters in use."""
        ...

    def predictor(self, history: History, pending: Float[np.ndarray, "k d"] | None = None) -> Predictor:
        """Return the predictions of the next step, as if the `pending` points had come out as expected."""
        ...

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the arguments of the constructor."""
        ...

    def restore(self, tree: dict[str, Any]) -> None:
        """Take back what `to_tree` returned."""
        ...


def fixed_or_default(
    history: History, fixed: dict[str, Any], groups: Int[np.ndarray, " d"], *, robust: bool = False
) -> Hyperparameters:
    """Return the hyperparameters that are fixed, and the modes of the priors of the others."""
    y = clip_outliers(history.y) if robust else history.y
    return Hyperparameters(**(vars(default_hyperparameters(y, groups)) | fixed))
