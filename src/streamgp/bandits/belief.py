"""What a method believes of the function of now: a Gaussian process on the observations that it still uses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.bandits.history import History
from streamgp.bandits.regression import KERNELS, Hyperparameters, Posterior, default_hyperparameters, fit, gram
from streamgp.bandits.settings import Settings
from streamgp.bandits.trust import FEWEST, drawn_in, judge, one_step_ahead

_FIRST_FITS = (5, 10, 20)
_MOST_FITTED = 300  # observations, the newest ones
_MOST = 10**9  # what is pending takes no observation's place


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
        return self._hyper or known_or_default(
            history, self._settings.fixed, self._groups, robust=self._settings.robust
        )

    def take(self, history: History) -> History:
        """Nothing to do: the history has it, and `settle` says what is believed of it."""
        return history

    def settle(self, history: History) -> History:
        """Judge the observations that came since the last time, if that is wanted and enough are known."""
        if not self._settings.robust or len(history.y) < FEWEST or not history.unjudged.any():
            return history
        hyper = self.hyperparameters(history)
        rows = np.flatnonzero(self._keeps(history, hyper))
        used = history.where(self._keeps(history, hyper))
        K = gram(self._kernel, hyper, used.U, used.U)
        if self._memory.eps:
            K = K * self._memory.correlation(used.times[:, None] - used.times)
        noise_vars = self._noise(hyper, used) - used.doubt
        history = judge(history, rows, lambda doubt: one_step_ahead(K, noise_vars + doubt, used.y, hyper.mean))
        return replace(history, surprise=np.nan_to_num(history.surprise))  # what is not in use needs no judgement

    def refit(self, history: History) -> History:
        """Fit the hyperparameters if that is due and enough observations are in use, and judge these by them."""
        every, t = self._settings.refit_every, history.step
        due = max((s for s in (*_FIRST_FITS, t - t % every) if s <= t), default=0)
        hyper = self.hyperparameters(history)
        kept = self._keeps(history, hyper)
        used = history.where(kept & ~history.flagged).newest(_MOST_FITTED)
        if due <= self._fitted_at or len(used.y) < FEWEST:
            return history
        known = np.where(used.answer, self._settings.expert_noise_var or 0.0, 0.0)
        factors = self._memory.inflation(used.ages) - (known > 0.0)
        decay = self._memory.correlation(used.times[:, None] - used.times) if self._memory.eps else None
        self._hyper = fit(self._kernel, used.U, used.y, factors, self._groups, self._settings.fixed, decay, known)
        self._fitted_at = t
        return self.settle(history.unmarked(kept)) if self._settings.robust else history

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

    def view(self, history: History, pending: Float[np.ndarray, "k d"] | None = None) -> View:
        """The posterior as the choice of the next point needs it; what is `pending` is taken to come as expected."""
        posterior = self.posterior(history)
        if pending is not None and len(pending):
            expected = posterior.at(pending)[0]
            posterior = self.posterior(history.with_rows(pending, expected, False, _MOST, False))
        scale = float(np.sqrt(self.hyperparameters(history).variance))
        return View(posterior.at, posterior.gradients, posterior.log_gain, posterior.mean_level, scale)

    def to_tree(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"hyper": self._hyper, "fitted_at": self._fitted_at}

    def restore(self, tree: dict[str, Any]) -> None:
        """Go on from what `to_tree` gave."""
        self._hyper, self._fitted_at = tree["hyper"], tree["fitted_at"]

    def _used(self, history: History, hyper: Hyperparameters) -> History:
        return history.where(self._keeps(history, hyper))

    def _keeps(self, history: History, hyper: Hyperparameters) -> Bool[np.ndarray, " n"]:
        signal = hyper.variance / hyper.noise_var
        return self._memory.keeps(history.steps_back, history.ages, history.answer, history.step, signal)

    def _noise(self, hyper: Hyperparameters, used: History) -> Float[np.ndarray, " n"]:
        """Variance of every observation about the function of now."""
        answered = self._settings.expert_noise_var or hyper.noise_var
        fresh = np.where(used.answer, answered, hyper.noise_var)
        return fresh + hyper.noise_var * (self._memory.inflation(used.ages) - 1.0) + used.doubt


def known_or_default(
    history: History, fixed: dict[str, Any], groups: Int[np.ndarray, " d"], *, robust: bool = False
) -> Hyperparameters:
    """What is known of the hyperparameters, and the modes of the priors of the others."""
    y = drawn_in(history.y) if robust else history.y
    return Hyperparameters(**(vars(default_hyperparameters(y, groups)) | fixed))
