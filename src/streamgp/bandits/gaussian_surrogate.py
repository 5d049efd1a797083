"""A Gaussian process on the observations in use as the surrogate."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.bandits.history import History
from streamgp.bandits.outliers import MIN_ROWS, mark_outliers, predict_one_step_ahead
from streamgp.bandits.regression import KERNELS, Hyperparameters, Posterior, fit, gram
from streamgp.bandits.settings import Settings
from streamgp.bandits.surrogate import Predictor, fixed_or_default
from streamgp.numerics.checkpoint.field_types import check_value

_FIRST_FITS = (5, 10, 20)
# The model is fitted to so many of the newest observations.
_MAX_FITTED = 300


class GaussianSurrogate:
    """A Gaussian process whose hyperparameters are fitted on a schedule; observations are in the history.

    Parameters
    ----------
    settings
        The method, and what is fixed.
    groups
        Of each unit coordinate, the number of its parameter.
    """

    def __init__(self, settings: Settings, groups: Int[np.ndarray, " d"]) -> None:
        self._settings, self._groups = settings, groups
        self._kernel, self._memory = KERNELS[settings.kernel], settings.make_memory()
        self._hyper: Hyperparameters | None = None
        self._fitted_at = 0

    @property
    def weights(self) -> dict[str, float]:
        """Return no weights: there is one model."""
        return {}

    def hyperparameters(self, history: History) -> Hyperparameters:
        """Return those of the last fit or, before any, the modes of their priors; what is fixed stays."""
        return self._hyper or fixed_or_default(
            history, self._settings.fixed, self._groups, robust=self._settings.robust
        )

    def observe(self, history: History) -> History:
        """Return the history as it is: it has the observations, and `screen` marks them."""
        return history

    def screen(self, history: History) -> History:
        """Screen the observations that came since the last time, if that is wanted and there are enough."""
        if not self._settings.robust or len(history.y) < MIN_ROWS or not history.unscreened.any():
            return history
        hyper = self.hyperparameters(history)
        kept = self._keeps(history, hyper)
        rows, used = np.flatnonzero(kept), history.where(kept)
        K = gram(self._kernel, hyper, used.U, used.U)
        if self._memory.eps:
            K = K * self._memory.correlation(used.times[:, None] - used.times)
        noise_vars = self._noise(hyper, used) - used.added_noise
        history = mark_outliers(
            history, rows, lambda added: predict_one_step_ahead(K, noise_vars + added, used.y, hyper.mean)
        )
        # Observations that are not in use need no screening.
        return replace(history, z_scores=np.nan_to_num(history.z_scores))

    def refit(self, history: History) -> History:
        """Fit the hyperparameters if that is due and enough observations are in use, and screen these by them."""
        every, t = self._settings.refit_every, history.step
        due = max((s for s in (*_FIRST_FITS, t - t % every) if s <= t), default=0)
        hyper = self.hyperparameters(history)
        kept = self._keeps(history, hyper)
        used = history.where(kept & ~history.flagged).newest(_MAX_FITTED)
        if due <= self._fitted_at or len(used.y) < MIN_ROWS:
            return history
        known = np.where(used.answer, self._settings.expert_noise_var or 0.0, 0.0)
        factors = self._memory.inflation(used.ages) - (known > 0.0)
        decay = self._memory.correlation(used.times[:, None] - used.times) if self._memory.eps else None
        self._hyper = fit(self._kernel, used.U, used.y, factors, self._groups, self._settings.fixed, decay, known)
        self._fitted_at = t
        return self.screen(history.without_marks(kept)) if self._settings.robust else history

    def posterior(self, history: History, *, with_present_answers: bool = True) -> Posterior:
        """Return the posterior given the observations in use, those answers of this step left out if so wanted."""
        hyper = self.hyperparameters(history)
        used = self._used(history, hyper)
        if not with_present_answers:
            used = used.where(~used.answer | (used.steps_back > 0))
        decay = now = None
        if self._memory.eps:
            decay = self._memory.correlation(used.times[:, None] - used.times)
            now = self._memory.correlation(history.next_time - used.times)
        return Posterior(self._kernel, hyper, used.U, used.y, self._noise(hyper, used), decay, now)

    def predictor(self, history: History, pending: Float[np.ndarray, "k d"] | None = None) -> Predictor:
        """Return the posterior of the next step, as if the `pending` points had come out as expected."""
        posterior = self.posterior(history)
        if pending is not None and len(pending):
            expected = posterior.at(pending)[0]
            posterior = self.posterior(history.append(pending, expected, False, None, keep_locations=False))
        scale = float(np.sqrt(self.hyperparameters(history).variance))
        return Predictor(posterior.at, posterior.gradients, posterior.log_gain, posterior.mean_level, scale)

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the arguments of the constructor."""
        return {"hyper": self._hyper, "fitted_at": self._fitted_at}

    def restore(self, tree: dict[str, Any]) -> None:
        """Take back what `to_tree` returned."""
        check_value("the hyperparameters", tree["hyper"], Hyperparameters | None)
        check_value("the number of the last fit", tree["fitted_at"], int)
        self._hyper, self._fitted_at = tree["hyper"], tree["fitted_at"]

    def _used(self, history: History, hyper: Hyperparameters) -> History:
        return history.where(self._keeps(history, hyper))

    def _keeps(self, history: History, hyper: Hyperparameters) -> Bool[np.ndarray, " n"]:
        signal = hyper.variance / hyper.noise_var
        return self._memory.keeps(history.steps_back, history.ages, history.answer, history.step, signal)

    def _noise(self, hyper: Hyperparameters, used: History) -> Float[np.ndarray, " n"]:
        """Return the variance of every observation about the function of the present."""
        answered = self._settings.expert_noise_var or hyper.noise_var
        fresh = np.where(used.answer, answered, hyper.noise_var)
        return fresh + hyper.noise_var * (self._memory.inflation(used.ages) - 1.0) + used.added_noise
