"""The block filter of `streamgp.filters.kalman` on NumPy arrays: the same algebra, by the fastest routines."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.blas import Matrices
from streamgp.filters.engine.block_covariances import LARGE, BlockCovariances, diagonal_of
from streamgp.filters.guard import BlockGuard
from streamgp.filters.kalman import ExpertVariances, FilterState, ForecastFeatures, Predicted, prior_state
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.native import address

TOLERATED = 1e-3  # share of the noise by which rounding may make a variance too small


def update_blocks(
    beliefs: FilterState,
    Phi: Float[np.ndarray, "g m n f"],
    gram: Float[np.ndarray, "g m n n"] | None,
    y: Float[np.ndarray, "m n e"],
    mask: Bool[np.ndarray, "m n"],
    tau: Float[np.ndarray, "m n"],
    dynamics: Dynamics,
    noise: ExpertVariances,
    later: ForecastFeatures | None = None,
    extra: Float[np.ndarray, "m n"] | None = None,
) -> Predicted:
    """Let G x R experts over G bases learn from consecutive blocks; return their predictions of the rows.

    What `streamgp.filters.kalman.update_blocks` does for each expert.

    Parameters
    ----------
    beliefs
        Of every expert (G, R), overwritten with the new ones.
    Phi, gram, y
        Features, their Gram matrices (None if all weights are static) and targets, with zeros in the rows left out.
    mask
        False in the rows left out.
    dynamics, noise
        Of every expert (G, R), with NumPy arrays.
    later
        Rows to forecast in place of those: features (G, m, B, F) and so on.
    extra
        Variance that the noise of each row has in addition.
    """
    steps = _Steps(beliefs, _Rows(Phi, gram, y, mask, tau, extra), dynamics, noise, later)
    for i in range(Phi.shape[1]):
        steps.set_times(i)
        L, is_broken = steps.predict(i)
        residual = steps.standardise(i, L)
        steps.raise_outliers(i, L, residual)
        steps.learn()
        steps.tell(i, L)
        steps.restart_if_lost(is_broken)
    return steps.end()


class _Rows(NamedTuple):
    """The rows that experts learn, as `update_blocks` takes them."""

    Phi: Float[np.ndarray, "g m n f"]
    gram: Float[np.ndarray, "g m n n"] | None
    y: Float[np.ndarray, "m n e"]
    mask: Bool[np.ndarray, "m n"]
    tau: Float[np.ndarray, "m n"]
    extra: Float[np.ndarray, "m n"] | None


class _Steps:
    """The steps in which `update_blocks` learns a block, and the memory that they share."""

    def __init__(
        self,
        beliefs: FilterState,
        rows: _Rows,
        dynamics: Dynamics,
        noise: ExpertVariances,
        later: ForecastFeatures | None,
    ) -> None:
        (G, m, B, _), (R, _, E) = rows.Phi.shape, beliefs.mean.shape[1:]
        self._beliefs, self._mean, self._rows = beliefs, np.asarray(beliefs.mean), rows
        self._prior_var, noise_var = (np.asarray(a) for a in noise)
        self._noise_var = noise_var[..., None]
        self._least = np.sqrt((1.0 - TOLERATED) * noise_var)
        self._jitter = 1.0 + B * np.finfo(np.float64).eps  # the rule of linalg.cholesky
        self._drift = _Drift(dynamics, self._prior_var, B)
        self._forecast = None if later is None else _Forecast(later, G, R, E, dynamics, noise)
        self._covariances = BlockCovariances(np.asarray(beliefs.cov), B, E + (0 if later is None else B))
        self._z, self._V = np.split(self._covariances.beside, [E], axis=-1)
        self._K, self._predicted = np.empty((G, R, B, B)), np.empty((G, R, B, E))
        self._loc, self._var = np.empty((G, R, m, B, E)), np.empty((G, R, m, B))
        guard = beliefs.guard
        self._guard = None if guard is None else BlockGuard(guard)
        self._is_outlier = None if guard is None else np.zeros((G, R, m, B), bool)

    def set_times(self, i: int) -> None:
        """Set the times of block i, where weights move and they are not those of the block before."""
        if self._rows.gram is None:
            return
        tau = self._rows.tau[i]
        if self._drift.set_times(tau) and self._forecast is not None:
            self._forecast.set_times(i, tau)

    def predict(self, i: int) -> tuple[Float[np.ndarray, "g r n n"], bool]:
        """Predict block i: return the factor of its targets' covariance, and whether one is broken beyond repair."""
        L, broken = self._factor(i)
        if broken.any():
            self._covariances.repair(broken)
            L, broken = self._factor(i)
        return L, bool(broken.any())

    def _factor(self, i: int) -> tuple[Float[np.ndarray, "g r n n"], Bool[np.ndarray, "g r"]]:
        """Predict block i by the covariances as they are; return also whose are broken."""
        self._covary(self._rows.Phi[:, None, i], i)
        diagonal, extra = diagonal_of(self._K), self._rows.extra
        diagonal += self._noise_var if extra is None else self._noise_var + extra[i]
        diagonal *= self._jitter
        L = _cholesky(self._K)
        return L, ~(diagonal_of(L).min(-1) >= self._least)  # NaN included

    def _covary(self, P: Float[np.ndarray, "g 1 n f"], i: int) -> None:
        """Compute the means of block i, and its covariances: among its rows, with the weights and with forecasts."""
        drift, cross, K, predicted = self._drift, self._covariances.cross, self._K, self._predicted
        self._covariances.multiply(P)
        np.matmul(cross, P.swapaxes(-1, -2), out=K)
        np.matmul(P, self._mean, out=predicted)
        if self._forecast is not None:
            self._forecast.start(i, self._mean, np.asarray(self._beliefs.cov), cross, drift.a, self._V)
        if drift.reverts:
            K *= drift.a[..., :, None] * drift.a[..., None, :]
            predicted *= drift.a[..., None]
            cross *= drift.end * drift.a[..., None]
        if self._rows.gram is not None:
            K += drift.b * self._rows.gram[:, None, i]
            cross += drift.b[..., -1, :, None] * P

    def standardise(self, i: int, L: Float[np.ndarray, "g r n n"]) -> Float[np.ndarray, "g r n e"]:
        """Solve with the factor of block i for its errors and covariances; return the errors as they are."""
        residual = self._rows.y[i] - self._predicted
        self._z[:] = residual
        self._covariances.solve(L)
        np.square(diagonal_of(L), out=self._var[:, :, i])
        return residual

    def raise_outliers(self, i: int, L: Float[np.ndarray, "g r n n"], residual: Float[np.ndarray, "g r n e"]) -> None:
        """Raise the noise of outliers in block i, if experts have a guard."""
        if self._guard is None or self._is_outlier is None:
            return
        raised = self._guard.learn(L, self._z, residual, np.flatnonzero(self._rows.mask[i]))
        if raised is None:
            return
        self._is_outlier[:, :, i], self._var[:, :, i][raised.changed] = raised.is_outlier, raised.variance
        raised.apply(self._covariances.cross)
        if self._forecast is not None:
            raised.apply(self._V)

    def learn(self) -> None:
        """Bring the beliefs from the last row of the block before to that of this one."""
        mean, cross, end = self._mean, self._covariances.cross, self._drift.end
        if self._drift.reverts:
            mean *= end
        mean += np.matmul(cross.swapaxes(-1, -2), self._z)
        self._covariances.downdate(end * end if self._drift.reverts else None)
        if self._rows.gram is not None:
            self._covariances.widen(self._drift.grown)

    def tell(self, i: int, L: Float[np.ndarray, "g r n n"]) -> None:
        """Note what was predicted of the rows of block i, or of the later ones; `L` is overwritten."""
        if self._forecast is not None:
            self._forecast.finish(self._V, self._z, self._loc[:, :, i], self._var[:, :, i])
            return
        # prior + (L - diag L) z: row i takes no part of y_i, not even in its rounding.
        diagonal_of(L)[:] = 0.0
        np.add(self._predicted, np.matmul(L, self._z), out=self._loc[:, :, i])

    def restart_if_lost(self, is_broken: bool) -> None:
        """Let experts start again whose numbers are no longer finite."""
        if is_broken or not np.isfinite(self._mean).all():
            restart(self._beliefs, self._prior_var)
            guard = self._beliefs.guard
            self._guard = None if guard is None else BlockGuard(guard)

    def end(self) -> Predicted:
        """Leave the beliefs whole, and return what was predicted."""
        self._covariances.complete()
        return Predicted(self._loc, self._var, self._is_outlier)


class _Drift:
    """What the dynamics of every expert do to its weights in the course of a block.

    Parameters
    ----------
    dynamics, prior_var
        Of every expert.
    rows
        How many a block has.

    Attributes
    ----------
    reverts
        Whether the weights of any expert shrink.
    a, b
        The factor on the weights at each row, and the variance they have gained at each two.
    end, grown
        The same at the last row.
    """

    def __init__(self, dynamics: Dynamics, prior_var: Float[np.ndarray, "g r"], rows: int) -> None:
        self._dynamics, self._prior_var = dynamics, prior_var[..., None, None]
        self._tau: np.ndarray | None = None
        self.reverts = bool((np.asarray(dynamics.decay) < 1.0).any())
        shape = prior_var.shape
        self.a, self.b = np.ones((*shape, rows)), np.zeros((*shape, rows, rows))
        self.end, self.grown = np.ones((*shape, 1, 1)), np.zeros((*shape, 1))

    def set_times(self, tau: Float[np.ndarray, " n"]) -> bool:
        """Set the times of a block's rows; return whether they are others than before."""
        if self._tau is not None and np.array_equal(tau, self._tau):
            return False
        self._tau = tau
        self.a, b = _of_every(self._dynamics, lambda d: d.block(tau))
        self.b = b * self._prior_var
        self.end, self.grown = self.a[..., -1:, None], self.b[..., -1, -1:]
        return True


def restart(beliefs: FilterState, prior_var: Float[np.ndarray, "g r"]) -> None:
    """Let experts with a number that is not finite start again from their prior, in place."""
    sound = np.isfinite(beliefs.mean).all((-2, -1)) & np.isfinite(beliefs.cov).all((-2, -1))
    if sound.all():
        return
    features, outputs = beliefs.mean.shape[-2:]
    prior = prior_state(features, outputs, prior_var, beliefs.guard is not None)
    for ours, theirs in zip(tree.leaves(beliefs), tree.leaves(prior), strict=True):
        ours[~sound] = theirs[~sound]


class _Forecast:
    """`_forecast` of `streamgp.filters.kalman` for every expert: before and after a block's triangular solve."""

    def __init__(
        self, later: ForecastFeatures, G: int, R: int, E: int, dynamics: Dynamics, noise: ExpertVariances
    ) -> None:
        self._later, self._dynamics = later, dynamics
        self._v, self._s2 = (np.asarray(a)[..., None] for a in noise)
        _, _, B, F = later.Phi.shape
        self._blas = Matrices(F, B, 0) if F >= LARGE else None
        self._cross, self._loc, self._var = np.empty((G, R, B, F)), np.empty((G, R, B, E)), np.empty((G, R, B))
        self._a, self._b, self._grown = np.ones((G, R, B)), np.zeros((G, R, B, B)), np.zeros((G, R, B))

    def set_times(self, i: int, tau: Float[np.ndarray, " n"]) -> None:
        """Set the times of block i, where they are not those of the block before."""
        at = self._later.tau[i]
        self._a, self._b, self._grown = _of_every(
            self._dynamics, lambda d: (d.transition(at), d.process_covariance(tau, at), d.process_variance(at))
        )
        self._b, self._grown = self._b * self._v[..., None], self._grown * self._v

    def start(
        self,
        i: int,
        mean: Float[np.ndarray, "g r f e"],
        cov: Float[np.ndarray, "g r f f"],
        cross: Float[np.ndarray, "g r n f"],
        a: Float[np.ndarray, "g r n"],
        C: Float[np.ndarray, "g r n n"],
    ) -> None:
        """Forecast from the belief before block i; into `C` go the covariances of its targets with the forecasts'."""
        Phi = np.asarray(self._later.Phi)[:, None, i]
        if self._blas is None:
            np.matmul(Phi, cov, out=self._cross)
        else:
            for g, r in np.ndindex(cov.shape[:2]):
                self._blas.symmetric_product(address(cov[g, r]), address(Phi[g, 0]), address(self._cross[g, r]))
        np.matmul(cross, Phi.swapaxes(-1, -2), out=C)
        C *= a[..., :, None] * self._a[..., None, :]
        self._loc = np.matmul(Phi, mean) * self._a[..., None]
        self._var = np.square(self._a) * np.vecdot(self._cross, Phi) + self._s2
        if self._later.gram is not None:
            C += self._b * self._later.gram[:, None, i]
            self._var += self._grown * np.vecdot(Phi, Phi)

    def finish(
        self,
        V: Float[np.ndarray, "g r n n"],
        z: Float[np.ndarray, "g r n e"],
        loc: Float[np.ndarray, "g r n e"],
        var: Float[np.ndarray, "g r n"],
    ) -> None:
        """Add to every forecast what the block's rows say up to its own, and to no other."""
        V = np.triu(V)
        np.add(self._loc, np.matmul(V.swapaxes(-1, -2), z), out=loc)
        np.subtract(self._var, np.square(V).sum(-2), out=var)
        np.maximum(var, self._s2, out=var)  # of inputs far out the difference may be lost in rounding


def _of_every(dynamics: Dynamics, found: Callable[[Dynamics], tuple[AnyArray, ...]]) -> list[np.ndarray]:
    """Apply a function to the dynamics of every single expert, and stack the results."""
    shape = np.shape(dynamics.decay)
    pairs = zip(np.ravel(dynamics.decay), np.ravel(dynamics.diffusion), strict=True)
    each = [found(Dynamics(np.asarray(decay), np.asarray(diffusion))) for decay, diffusion in pairs]
    stacked = [np.stack(part) for part in zip(*each, strict=True)]
    return [part.reshape(*shape, *part.shape[1:]) for part in stacked]


def _cholesky(K: Float[np.ndarray, "g r n n"]) -> Float[np.ndarray, "g r n n"]:
    """Compute the lower factors; NaN for a matrix that has none, as in JAX."""
    try:
        return np.linalg.cholesky(K)
    except np.linalg.LinAlgError:
        if K.shape[:2] == (1, 1):
            return np.full_like(K, np.nan)
        one_by_one = [[_cholesky(K[g : g + 1, r : r + 1])[0, 0] for r in range(K.shape[1])] for g in range(len(K))]
        return np.asarray(one_by_one)
