"""What a method believes of the function of now: a Gaussian process on the observations that it still uses."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.bandits.history import History
from streamgp.bandits.regression import KERNELS, Hyperparameters, Posterior, default_hyperparameters, fit
from streamgp.bandits.settings import Settings

_FIRST_FITS, _FEWEST = (5, 10, 20), 5
_MOST_FITTED = 300  # observations, the newest ones


class View(NamedTuple):
    """The function of now, as believed.

    Attributes
    ----------
    at
        Mean and standard deviation at points.
    gradients
        Both at one point, with their gradients; None where there are none.
    log_gain
        Twice the information gain of the observations in use.
    level, scale
        Mean and standard deviation far from all observations: what to measure scores in.
    """

    at: Callable[[Float[np.ndarray, "n d"]], tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]]
    gradients: Callable[[Float[np.ndarray, " d"]], tuple[float, float, np.ndarray, np.ndarray]] | None = None
    log_gain: float = 0.0
    level: float = 0.0
    scale: float = 1.0


class GaussianBelief:
    """A Gaussian process whose hyperparameters are fitted on a schedule; observations are in the history.

    Parameters
    ----------
    settings
        Which method, and what is known.
    groups
        Of each unit coordinate, the number of its parameter.
    """

    def __init__(self, settings: Settings, groups: Int[np.ndarray, " d"]) -> None:
        self._settings, self._groups = settings, groups
        self._kernel, self._memory = KERNELS[settings.kernel], settings.make_memory()
        self._hyper: Hyperparameters | None = None
        self._fitted_at = 0

    def hyperparameters(self, history: History) -> Hyperparameters:
        """Those of the last fit or, before any, the modes of their priors; what is known stays."""
        return self._hyper or known_or_default(history, self._settings.fixed, self._groups)

    def learn(self, U: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], time: float) -> None:
        """Nothing to do: the history has it."""

    def refit(self, history: History) -> None:
        """Fit the hyperparameters if that is due and enough observations are in use."""
        every, t = self._settings.refit_every, history.step
        due = max((s for s in (*_FIRST_FITS, t - t % every) if s <= t), default=0)
        hyper = self.hyperparameters(history)
        used = self._used(history, hyper).newest(_MOST_FITTED)
        if due <= self._fitted_at or len(used.y) < _FEWEST:
            return
        known = np.where(used.answer, self._settings.expert_noise_var or 0.0, 0.0)
        factors = self._memory.inflation(used.ages) - (known > 0.0)
        decay = self._memory.correlation(used.times[:, None] - used.times) if self._memory.eps else None
        self._hyper = fit(self._kernel, used.U, used.y, factors, self._groups, self._settings.fixed, decay, known)
        self._fitted_at = t

    def posterior(self, history: History, *, of_now: bool = True) -> Posterior:
        """What the observations in use say, without the answers of this step unless those `of_now` count."""
        hyper = self.hyperparameters(history)
        used = self._used(history, hyper)
        if not of_now:
            used = used.where(~used.answer | (used.steps_back > 0))
        decay = now = None
        if self._memory.eps:
            decay = self._memory.correlation(used.times[:, None] - used.times)
            now = self._memory.correlation(history.next_time - used.times)
        return Posterior(self._kernel, hyper, used.U, used.y, self._noise(hyper, used), decay, now)

    def view(self, history: History) -> View:
        """The posterior as the choice of the next point needs it."""
        posterior = self.posterior(history)
        scale = float(np.sqrt(self.hyperparameters(history).variance))
        return View(posterior.at, posterior.gradients, posterior.log_gain, posterior.mean_level, scale)

    def to_tree(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"hyper": self._hyper, "fitted_at": self._fitted_at}

    def restore(self, tree: dict[str, Any]) -> None:
        """Go on from what `to_tree` gave."""
        self._hyper, self._fitted_at = tree["hyper"], tree["fitted_at"]

    def _used(self, history: History, hyper: Hyperparameters) -> History:
        signal = hyper.variance / hyper.noise_var
        return history.where(
            self._memory.keeps(history.steps_back, history.ages, history.answer, history.step, signal)
        )

    def _noise(self, hyper: Hyperparameters, used: History) -> Float[np.ndarray, " n"]:
        """Variance of every observation about the function of now."""
        answered = self._settings.expert_noise_var or hyper.noise_var
        fresh = np.where(used.answer, answered, hyper.noise_var)
        return fresh + hyper.noise_var * (self._memory.inflation(used.ages) - 1.0)


def known_or_default(history: History, fixed: dict[str, Any], groups: Int[np.ndarray, " d"]) -> Hyperparameters:
    """What is known of the hyperparameters, and the modes of the priors of the others."""
    return Hyperparameters(**(vars(default_hyperparameters(history.y, groups)) | fixed))
