"""The filters of a group of experts, a row at a time, with rank-one updates that wait in a buffer.

A row-by-row filter reads and writes every covariance for every row. Here a row only reads it (one product with a
vector), and what was learnt from the row is kept as a vector; a full buffer is folded into the covariance by one
matrix product. The numbers are those of `streamgp.filters.kalman.update_block` with blocks of one.
"""

import numpy as np
from jaxtyping import Float

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.block_covariances import repair_covariance
from streamgp.filters.engine.blockfilter import TOLERATED
from streamgp.filters.engine.row_covariances import covariances
from streamgp.filters.engine.row_kernel import RowArrays, RowPrediction, row_kernel
from streamgp.filters.guard import Guard
from streamgp.filters.kalman import ExpertVariances, FilterState, predict_row

PENDING = 32  # rows in the buffer at most; a row costs O(F^2 + PENDING F)
# The buffer is folded in once the weights have decayed by this factor since it was empty.
MIN_DECAY = 1e-3


class RowFilter:
    """G x R experts; their covariances are ``decay^2 (cov - pending' pending) + process_variance I``.

    Rows are predicted and learnt by the kernel in C, where it was built (`streamgp.filters.engine.row_kernel`).

    Parameters
    ----------
    beliefs, dynamics, noise
        Of the group, stacked; the beliefs are copied.
    first
        Rows after which the buffer is folded in for the first time: not all groups are to do so at the same row.
    """

    def __init__(
        self, beliefs: FilterState, dynamics: Dynamics, noise: ExpertVariances, first: int = PENDING
    ) -> None:
        # Each output's mean as a row, so that a product with phi reads it in order.
        self.mean = np.array(np.swapaxes(np.asarray(beliefs.mean), -1, -2), order="C")
        G, R, F, _ = beliefs.cov.shape
        self.shape, self.cov = (G, R), covariances(np.asarray(beliefs.cov))
        self.guard = None if beliefs.guard is None else Guard(*(np.array(a, order="C") for a in beliefs.guard))
        self.dynamics = Dynamics(np.asarray(dynamics.decay), np.asarray(dynamics.diffusion))
        self.prior_var = np.ascontiguousarray(noise.prior_var)
        self.noise_var = np.array(noise.noise_var, np.float64, order="C")
        # The filters that were restarted because their numbers were beyond repair.
        self.restarted = np.zeros((G, R), bool)
        self.least_var = (1.0 - TOLERATED) * self.noise_var
        self.reverts, self.moves = bool((self.dynamics.decay < 1.0).any()), bool(self.dynamics.diffusion.any())
        self.pending = np.empty((G, R, PENDING, F))
        self.decay, self.process_variance = np.empty((2, G, R))
        self._empty()
        self._most = first
        self._tau, (self.shrink, self.grown) = np.nan, np.empty((2, G, R))
        kept = self.mean, self.pending, self.decay, self.process_variance, self.shrink, self.grown
        arrays = RowArrays(*kept, self.noise_var, self.least_var)
        self._kernel = row_kernel(self.cov, arrays, self.reverts, self.moves)

    def _empty(self) -> None:
        self.count = 0
        self.decay[...], self.process_variance[...] = 1.0, 0.0

    def predict(self, phi: Float[np.ndarray, "*g f"], tau: float, extra: float = 0.0) -> RowPrediction:
        """Predict a row `tau` after the last one learnt; the same features are for all if `phi` is a single row.

        `extra` is variance that the noise of the row has in addition.
        """
        if tau != self._tau:
            time = np.full(self.shape, tau)
            # By the class: a method bound to a module is a module of its own, which takes its time.
            self.grown[...] = Dynamics.process_variance(self.dynamics, time) * self.prior_var
            self.shrink[...] = Dynamics.transition(self.dynamics, time)
            self._tau = tau
        predict = self._predict_in_numpy if self._kernel is None else self._kernel.predict
        prediction, are_sound = predict(phi, extra, self.count)
        for attempt in range(2):
            if are_sound:
                break
            # The row is predicted again if a covariance is broken. A variance of NaN is not sound either.
            broken = ~(prediction.var >= self.least_var)
            self._fold()
            for expert in map(tuple, np.argwhere(broken).tolist()):
                if attempt == 0:
                    cov = self.cov.get(expert)
                    repair_covariance(cov)
                    self.cov.put(expert, cov)
                else:
                    self._restart(expert)
            prediction, are_sound = predict(phi, extra, self.count)
        return prediction

    def _predict_in_numpy(
        self, phi: Float[np.ndarray, "*g f"], extra: float, count: int
    ) -> tuple[RowPrediction, bool]:
        """Do what `RowKernel.predict` does."""
        row = phi[..., None, :]
        column = row[..., None]
        decay, process_variance = self.decay, self.process_variance
        gain = self.cov.product(phi)
        if count:
            waiting = self.pending[:, :, :count]
            gain -= (np.swapaxes(waiting @ column, -1, -2) @ waiting)[:, :, 0]
        keep, noise = None, self.noise_var + extra
        if self.reverts:
            decay, process_variance = decay * self.shrink, process_variance * (self.shrink * self.shrink)
            keep = decay * decay
        if self.moves:
            process_variance = process_variance + self.grown
        gain, var = predict_row(gain, row, keep, process_variance if self.moves else None, noise)
        loc = (self.mean @ column)[..., 0]
        if self.reverts:
            loc = loc * self.shrink[..., None]
        return RowPrediction(loc, var, gain, decay, process_variance), bool((var >= self.least_var).all())

    def learn(
        self, prediction: RowPrediction, step: Float[np.ndarray, "g r e"], std: Float[np.ndarray, "g r"]
    ) -> None:
        """Learn the target of the row that `prediction` is of, the last one.

        `std` is the standard deviation with which every expert learns it, and `step` its error over the square of
        that. Where an expert takes the row for an outlier neither follows from the prediction: see
        `streamgp.filters.guard`.
        """
        learn = self._learn_in_numpy if self._kernel is None else self._kernel.learn
        learn(prediction, step, std, self.count)
        self.count += 1
        if self.count == self._most or (self.reverts and self.decay.min() < MIN_DECAY):
            self._fold()

    def _learn_in_numpy(self, prediction: RowPrediction, step: np.ndarray, std: np.ndarray, count: int) -> None:
        """Do what `RowKernel.learn` does."""
        if self.reverts:
            self.mean *= self.shrink[..., None, None]
            std = std * prediction.decay
        self.mean += step[..., None] * prediction.gain[:, :, None, :]
        self.decay[...], self.process_variance[...] = prediction.decay, prediction.process_variance
        np.divide(prediction.gain, std[..., None], out=self.pending[:, :, count])

    def _restart(self, expert: tuple[int, ...]) -> None:
        """Let an expert whose numbers are beyond repair start again from its prior."""
        self.restarted[expert] = True
        self.mean[expert] = 0.0
        self.cov.put(expert, self.prior_var[expert] * np.eye(self.mean.shape[-1]))
        if self.guard is not None:
            for ours, start in zip(self.guard, Guard.start((), self.mean.shape[2]), strict=True):
                ours[expert] = start

    def _fold(self) -> None:
        """Empty the buffer into the covariances."""
        waiting = self.pending[:, :, : self.count]
        self.cov.fold(waiting, self.decay if self.reverts else None, self.process_variance if self.moves else None)
        self._empty()
        self._most = PENDING

    def flush(self) -> FilterState:
        """Fold the buffer into the covariances, and return the beliefs."""
        if self.count:
            self._fold()
        guard = None if self.guard is None else Guard(*(a.copy() for a in self.guard))
        return FilterState(np.array(np.swapaxes(self.mean, -1, -2), order="C"), self.cov.all(), guard)
