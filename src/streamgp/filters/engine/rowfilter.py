"""The filters of a group of experts, a row at a time, with rank-one updates that wait in a buffer.

A row-by-row filter reads and writes every covariance for every row. Here a row only reads it (one product with a
vector), and what was learnt from the row is kept as a vector; a full buffer is folded into the covariance by one
matrix product. The numbers are those of `streamgp.filters.kalman.update_block` with blocks of one.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.blockfilter import TOLERATED, repair_covariance
from streamgp.filters.guard import Guard, bounded, learn
from streamgp.filters.kalman import ExpertVariances, FilterState
from streamgp.numerics.threads import one_blas_thread

PENDING = 32  # rows in the buffer at most; a row costs O(F^2 + PENDING F)
MIN_DECAY = 1e-3  # of weights since the buffer was empty, before it is folded in


class RowPrediction(NamedTuple):
    """Every expert's prediction of the next row, with what learning from the row will need."""

    loc: Float[np.ndarray, "g r e"]
    var: Float[np.ndarray, "g r"]
    gain: Float[np.ndarray, "g r f"]  # P phi
    shrink: Float[np.ndarray, "g r"]
    decay: Float[np.ndarray, "g r"]
    process_variance: Float[np.ndarray, "g r"]


class RowFilter:
    """G x R experts; their covariances are ``decay^2 (cov - pending' pending) + process_variance I``.

    Parameters
    ----------
    beliefs, dynamics, noise
        Of the group, stacked; the beliefs are copied.
    """

    def __init__(self, beliefs: FilterState, dynamics: Dynamics, noise: ExpertVariances) -> None:
        # Each output's mean as a row, so that a product with phi reads it in order.
        self.mean = np.array(np.swapaxes(np.asarray(beliefs.mean), -1, -2), order="C")
        self.cov = np.array(beliefs.cov)
        self.guard = None if beliefs.guard is None else Guard(*(np.array(a) for a in beliefs.guard))
        self.dynamics = Dynamics(np.asarray(dynamics.decay), np.asarray(dynamics.diffusion))
        self.prior_var, self.noise_var = np.asarray(noise.prior_var), np.asarray(noise.noise_var)
        self.restarted = np.zeros(self.cov.shape[:2], bool)  # since the start, by whose belief was beyond repair
        self._least_var = (1.0 - TOLERATED) * self.noise_var
        self.pending = np.empty((*self.cov.shape[:2], PENDING, self.cov.shape[-1]))
        self._empty()
        self._tau = np.nan
        self._per_step = (np.empty(0), np.empty(0))

    def _empty(self) -> None:
        self.count = 0
        self.decay = np.ones(self.cov.shape[:2])
        self.process_variance = np.zeros(self.cov.shape[:2])

    def predict(self, phi: Float[np.ndarray, "*g f"], tau: float, extra: float = 0.0) -> RowPrediction:
        """Predict a row `tau` after the last one learnt; the same features are for all if `phi` is a single row.

        `extra` is variance that the noise of the row has in addition.
        """
        if tau != self._tau:
            time = np.full(self.cov.shape[:2], tau)
            # By the class: a method bound to a module is a module of its own, which takes its time.
            grown = Dynamics.process_variance(self.dynamics, time) * self.prior_var
            self._per_step = np.asarray(Dynamics.transition(self.dynamics, time)), np.asarray(grown)
            self._tau = tau
        shrink, grown = self._per_step
        row = phi[..., None, :]
        column = row[..., None]
        for attempt in range(3):  # again if a covariance is broken
            decay, process_variance = self.decay * shrink, self.process_variance * (shrink * shrink) + grown
            gain = (self.cov @ column)[..., 0]
            if self.count:
                waiting = self.pending[:, :, : self.count]
                gain -= (np.swapaxes(waiting @ column, -1, -2) @ waiting)[:, :, 0]
            gain *= (decay * decay)[..., None]
            gain += process_variance[..., None] * row
            var = np.vecdot(gain, row) + (self.noise_var + extra)
            broken = ~(var >= self._least_var)  # NaN included
            if attempt == 2 or not broken.any():
                break
            self._fold()
            for expert in map(tuple, np.argwhere(broken).tolist()):
                if attempt == 0:
                    repair_covariance(self.cov[expert])
                else:
                    self._restart(expert)
        loc = (self.mean @ column)[..., 0] * shrink[..., None]
        return RowPrediction(loc, var, gain, shrink, decay, process_variance)

    def learn(self, prediction: RowPrediction, y: Float[np.ndarray, " e"]) -> Bool[np.ndarray, "g r"] | None:
        """Learn the target of the row that `prediction` is of; returns which experts take it for an outlier."""
        is_outlier: Any = None
        error, var = y - prediction.loc, prediction.var
        if self.guard is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                self.guard, is_outlier, raised = learn(self.guard, error / np.sqrt(var)[..., None])
            if is_outlier.any():
                used, shortened = bounded(raised)
                error, var = error * shortened[..., None], var * used
        step = (error / var[..., None])[..., None]
        self.mean *= prediction.shrink[..., None, None]
        self.mean += step * prediction.gain[:, :, None, :]
        self.decay, self.process_variance = prediction.decay, prediction.process_variance
        self.pending[:, :, self.count] = prediction.gain / (np.sqrt(var) * prediction.decay)[..., None]
        self.count += 1
        if self.count == PENDING or self.decay.min() < MIN_DECAY:
            self._fold()
        return is_outlier

    def _restart(self, expert: tuple[int, ...]) -> None:
        """Let an expert whose numbers are beyond repair start again from its prior."""
        self.restarted[expert] = True
        self.mean[expert] = 0.0
        self.cov[expert] = self.prior_var[expert] * np.eye(self.cov.shape[-1])
        if self.guard is not None:
            for ours, start in zip(self.guard, Guard.start((), self.mean.shape[2]), strict=True):
                ours[expert] = start

    def _fold(self) -> None:
        """Empty the buffer into the covariances."""
        waiting = self.pending[:, :, : self.count]
        with one_blas_thread():  # two would wait for each other: a hundred times as long on a machine that is busy
            self.cov -= np.swapaxes(waiting, -1, -2) @ waiting
        self.cov *= (self.decay * self.decay)[..., None, None]
        diagonal = self.cov.reshape(*self.cov.shape[:2], -1)[:, :, :: self.cov.shape[-1] + 1]
        diagonal += self.process_variance[..., None]
        self._empty()

    def flush(self) -> FilterState:
        """Fold the buffer into the covariances, and return the beliefs."""
        if self.count:
            self._fold()
        guard = None if self.guard is None else Guard(*(a.copy() for a in self.guard))
        return FilterState(np.array(np.swapaxes(self.mean, -1, -2), order="C"), self.cov.copy(), guard)
