"""The block filter of `streamgp.filters.kalman` on NumPy arrays: the same algebra, by the fastest routines.

Small experts are stacked: one call of NumPy works through many matrices, so that Python's own time does not count.
Of a large covariance only one triangle is kept up to date between blocks: the product with it (symm) and its
downdate (syrk), in place, need no more.
"""

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Bool, Float

from streamgp.core import AnyArray
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.blas import Matrices, Number, address
from streamgp.filters.guard import BlockGuard
from streamgp.filters.kalman import ExpertVariances, FilterState, ForecastFeatures, Predicted, prior_state
from streamgp.numerics.linalg import mirror_upper, nearest_semidefinite

TOLERATED = 1e-3  # share of the noise by which rounding may make a variance too small
LARGE = 200  # features from which on a block's work outweighs the calls, so that experts go one by one


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
    mean, cov, guard = np.asarray(beliefs.mean), np.asarray(beliefs.cov), beliefs.guard
    (G, m, B, F), R, E = Phi.shape, mean.shape[1], y.shape[2]
    v, s2 = (np.asarray(a)[..., None, None] for a in noise)
    reverts = bool((np.asarray(dynamics.decay) < 1.0).any())
    more = 0 if later is None else B
    blas, large = Matrices(F, B, E + more), F >= LARGE
    work, K = np.empty((G, R, B, F + E + more)), np.empty((G, R, B, B))
    cross, z, V = np.split(work, [F, F + E], axis=-1)  # one triangular solve does them all
    forecast = None if later is None else _Forecast(later, G, R, E, dynamics, noise)
    down = None if large else np.empty_like(cov)
    experts = [(g, r) for g in range(G) for r in range(R)]
    at = [(address(cov[expert]), address(work[expert])) for expert in experts]
    jitter = 1.0 + B * np.finfo(np.float64).eps  # the rule of linalg.cholesky
    loc, var = np.empty((G, R, m, B, E)), np.empty((G, R, m, B))
    is_outlier = None if guard is None else np.zeros((G, R, m, B), bool)
    watch = None if guard is None else BlockGuard(guard)
    last_tau = None
    a, b = np.ones((G, R, B)), np.zeros((G, R, B, B))
    end, grown = np.ones((G, R, 1, 1)), np.zeros((G, R, 1))
    predicted = np.empty((G, R, B, E))
    least = np.sqrt((1.0 - TOLERATED) * s2[..., 0, 0])
    for i in range(m):
        if gram is not None and (last_tau is None or not np.array_equal(tau[i], last_tau)):
            last_tau = tau[i]
            a, b = _of_every(dynamics, lambda d, at=tau[i]: d.block(at))
            b = b * v
            end, grown = a[..., -1:, None], b[..., -1, -1:]
            if forecast is not None:
                forecast.set_times(i, tau[i])
        P = Phi[:, None, i]
        for repaired in (False, True):  # once more if a covariance is broken
            if large:
                for (g, _), (cov_at, work_at) in zip(experts, at, strict=True):
                    blas.symmetric_product(cov_at, address(Phi[g, i]), work_at)
            else:
                np.matmul(P, cov, out=cross)
            np.matmul(cross, P.swapaxes(-1, -2), out=K)
            np.matmul(P, mean, out=predicted)
            if forecast is not None:
                forecast.start(i, mean, cov, cross, a, V)
            if reverts:
                K *= a[..., :, None] * a[..., None, :]
                predicted *= a[..., None]
                cross *= end * a[..., None]
            if gram is not None:
                K += b * gram[:, None, i]
                cross += b[..., -1, :, None] * P
            diagonal = K.reshape(G, R, -1)[..., :: B + 1]
            diagonal += s2[..., 0] if extra is None else s2[..., 0] + extra[i]
            diagonal *= jitter
            L = _cholesky(K)
            scale = L.reshape(G, R, -1)[..., :: B + 1]
            broken = ~(scale.min(-1) >= least)  # NaN included
            if repaired or not broken.any():
                break
            for expert in zip(*np.nonzero(broken), strict=True):
                repair_covariance(cov[expert], one_triangle=large)
        residual = y[i] - predicted
        z[:] = residual
        for number, (_, work_at) in enumerate(at):
            blas.solve(address(L) + number * L.itemsize * B * B, work_at)
        np.square(scale, out=var[:, :, i])
        if watch is not None and is_outlier is not None:
            raised = watch.learn(L, z, residual, np.flatnonzero(mask[i]))
            if raised is not None:
                is_outlier[:, :, i], var[:, :, i][raised.changed] = raised.is_outlier, raised.variance
                raised.apply(cross)
                if more:
                    raised.apply(V)
        if reverts:
            mean *= end
        mean += np.matmul(cross.swapaxes(-1, -2), z)
        if down is None:
            for (cov_at, work_at), shrink in zip(at, np.square(end).ravel(), strict=True):
                blas.downdate(work_at, Number(float(shrink)), cov_at)
        else:
            np.matmul(cross.swapaxes(-1, -2), cross, out=down)
            if reverts:
                cov *= end * end
            cov -= down
        if gram is not None:
            cov.reshape(G, R, -1)[..., :: F + 1] += grown
        if forecast is not None:
            forecast.finish(V, z, loc[:, :, i], var[:, :, i])
        else:
            # prior + (L - diag L) z: row i takes no part of y_i, not even in its rounding.
            scale[:] = 0.0
            np.add(predicted, np.matmul(L, z), out=loc[:, :, i])
        if broken.any() or not np.isfinite(mean).all():
            restart(beliefs, v[..., 0, 0])
            watch = None if guard is None else BlockGuard(guard)
    if large:
        for matrix in cov.reshape(-1, F, F):
            mirror_upper(matrix)  # BLAS' lower triangle
    return Predicted(loc, var, is_outlier)


def restart(beliefs: FilterState, prior_var: Float[np.ndarray, "g r"]) -> None:
    """Let experts with a number that is not finite start again from their prior, in place."""
    sound = np.isfinite(beliefs.mean).all((-2, -1)) & np.isfinite(beliefs.cov).all((-2, -1))
    if sound.all():
        return
    features, outputs = beliefs.mean.shape[-2:]
    prior = prior_state(features, outputs, prior_var, beliefs.guard is not None)
    for ours, theirs in zip(jax.tree.leaves(beliefs), jax.tree.leaves(prior), strict=True):
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


def repair_covariance(cov: Float[np.ndarray, "f f"], one_triangle: bool = False) -> None:
    """Make a covariance positive semidefinite again, in place.

    A prior variance of 1e10 times the noise leaves it few digits: after some thousand rows rounding may have taken
    more from it than was left; variances then fall below that of the noise, and soon K has no factor.
    """
    if one_triangle:
        mirror_upper(cov)
    if np.isfinite(cov).all():
        cov[:] = nearest_semidefinite(cov)


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


def predict_rows(
    mean: Float[np.ndarray, "f e"],
    cov: Float[np.ndarray, "f f"],
    Phi: Float[np.ndarray, "n f"],
    tau: Float[np.ndarray, " n"],
    dynamics: Dynamics,
    noise: ExpertVariances,
) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, " n"]]:
    """Predict mean and variance of the target of each row, each as if it came `tau` after the last row learnt."""
    a, b = dynamics.transition(tau), dynamics.process_variance(tau) * noise.prior_var
    explained = np.einsum("nf,nf->n", Phi @ cov, Phi)
    var = a * a * np.maximum(explained, 0.0) + b * np.einsum("nf,nf->n", Phi, Phi) + noise.noise_var
    return np.asarray(a)[:, None] * (Phi @ mean), np.asarray(var)
