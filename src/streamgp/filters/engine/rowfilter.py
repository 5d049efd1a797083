"""The filters of a group of experts, a row at a time, with rank-one updates that wait in a buffer.

A row-by-row filter reads and writes every covariance for every row. Here a row only reads it (one product with a
vector), and what was learnt from the row is kept as a vector; a full buffer is folded into the covariance by one
matrix product. The numbers are those of `streamgp.filters.kalman.update_block` with blocks of one.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.block_covariances import repair_covariance
from streamgp.filters.engine.blockfilter import TOLERATED
from streamgp.filters.engine.row_covariances import covariances
from streamgp.filters.guard import Guard
from streamgp.filters.kalman import ExpertVariances, FilterState, predict_row

PENDING = 32  # rows in the buffer at most; a row costs O(F^2 + PENDING F)
# The buffer is folded in once the weights have decayed by this factor since it was empty.
MIN_DECAY = 1e-3


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
        G, R, F, _ = beliefs.cov.shape
        self._shape, self._cov = (G, R), covariances(np.asarray(beliefs.cov))
        self.guard = None if beliefs.guard is None else Guard(*(np.array(a) for a in beliefs.guard))
        self.dynamics = Dynamics(np.asarray(dynamics.decay), np.asarray(dynamics.diffusion))
        self.prior_var, self.noise_var = np.asarray(noise.prior_var), np.asarray(noise.noise_var)
        # The filters that were restarted because their numbers were beyond repair.
        self.restarted = np.zeros((G, R), bool)
        self._least_var = (1.0 - TOLERATED) * self.noise_var
        self._reverts, self._moves = bool((self.dynamics.decay < 1.0).any()), bool(self.dynamics.diffusion.any())
        self.pending = np.empty((G, R, PENDING, F))
        self._empty()
        self._tau = np.nan
        self._per_step = (np.empty(0), np.empty(0))

    def _empty(self) -> None:
        self.count = 0
        self.decay, self.process_variance = np.ones(self._shape), np.zeros(self._shape)

    def predict(self, phi: Float[np.ndarray, "*g f"], tau: float, extra: float = 0.0) -> RowPrediction:
        """Predict a row `tau` after the last one learnt; the same features are for all if `phi` is a single row.

        `extra` is variance that the noise of the row has in addition.
        """
        if tau != self._tau:
            time = np.full(self._shape, tau)
            # By the class: a method bound to a module is a module of its own, which takes its time.
            grown = Dynamics.process_variance(self.dynamics, time) * self.prior_var
            self._per_step = np.asarray(Dynamics.transition(self.dynamics, time)), np.asarray(grown)
            self._tau = tau
        shrink, grown = self._per_step
        row = phi[..., None, :]
        column = row[..., None]
        # The row is predicted again if a covariance is broken.
        for attempt in range(3):
            decay, process_variance = self.decay, self.process_variance
            gain = self._cov.product(phi)
            if self.count:
                waiting = self.pending[:, :, : self.count]
                gain -= (np.swapaxes(waiting @ column, -1, -2) @ waiting)[:, :, 0]
            keep, noise = None, self.noise_var + extra if extra else self.noise_var
            if self._reverts:
                decay, process_variance = decay * shrink, process_variance * (shrink * shrink)
                keep = decay * decay
            if self._moves:
                process_variance = process_variance + grown
            gain, var = predict_row(gain, row, keep, process_variance if self._moves else None, noise)
            # A variance of NaN is not sound either.
            sound = var >= self._least_var
            if attempt == 2 or sound.all():
                break
            self._fold()
            for expert in map(tuple, np.argwhere(~sound).tolist()):
                if attempt == 0:
                    cov = self._cov.get(expert)
                    repair_covariance(cov)
                    self._cov.put(expert, cov)
                else:
                    self._restart(expert)
        loc = (self.mean @ column)[..., 0]
        if self._reverts:
            loc = loc * shrink[..., None]
        return RowPrediction(loc, var, gain, shrink, decay, process_variance)

    def learn(
        self, prediction: RowPrediction, step: Float[np.ndarray, "g r e"], std: Float[np.ndarray, "g r"]
    ) -> None:
        """Learn the target of the row that `prediction` is of.

        `std` is the standard deviation with which every expert learns it, and `step` its error over the square of
        that. Where an expert takes the row for an outlier neither follows from the prediction: see
        `streamgp.filters.guard`.
        """
        if self._reverts:
            self.mean *= prediction.shrink[..., None, None]
            std = std * prediction.decay
        self.mean += step[..., None] * prediction.gain[:, :, None, :]
        self.decay, self.process_variance = prediction.decay, prediction.process_variance
        np.divide(prediction.gain, std[..., None], out=self.pending[:, :, self.count])
        self.count += 1
        if self.count == PENDING or (self._reverts and self.decay.min() < MIN_DECAY):
            self._fold()

    def _restart(self, expert: tuple[int, ...]) -> None:
        """Let an expert whose numbers are beyond repair start again from its prior."""
        self.restarted[expert] = True
        self.mean[expert] = 0.0
        self._cov.put(expert, self.prior_var[expert] * np.eye(self.mean.shape[-1]))
        if self.guard is not None:
            for ours, start in zip(self.guard, Guard.start((), self.mean.shape[2]), strict=True):
                ours[expert] = start

    def _fold(self) -> None:
        """Empty the buffer into the covariances."""
        waiting = self.pending[:, :, : self.count]
        self._cov.fold(waiting, self.decay if self._reverts else None, self.process_variance if self._moves else None)
        self._empty()

    def flush(self) -> FilterState:
        """Fold the buffer into the covariances, and return the beliefs."""
        if self.count:
            self._fold()
        guard = None if self.guard is None else Guard(*(a.copy() for a in self.guard))
        return FilterState(np.array(np.swapaxes(self.mean, -1, -2), order="C"), self._cov.all(), guard)
