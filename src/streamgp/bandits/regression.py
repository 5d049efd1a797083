"""Gaussian-process regression on observations of unequal noise: the posterior, its gradients, and its evidence.

mu(x) = m + k'(K + S)^-1 (y - m), sigma^2(x) = k(x, x) - k'(K + S)^-1 k with S diagonal (Mauduit, Berthier and
Simonetto, Eqs. 11 and 12; Makarova et al. 2021). NumPy throughout: the sets are small, and nothing is compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize

from streamgp.bases.kernels import Matern, SpectralKernel, SquaredExponential
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.linalg import cholesky, cholesky_solve, log_det, solve_lower

# Logs of lengthscale (in shares of a parameter's range), of the variances over that of y: mean and spread of their
# priors, wide enough for a few dozen observations to overrule, and the range of the search.
_LENGTHSCALE_PRIOR, _VARIANCE_PRIOR, _NOISE_PRIOR = (np.log(0.2), 1.0), (0.0, 1.0), (np.log(0.02), 2.0)
_LENGTHSCALE_RANGE, _VARIANCE_RANGE, _NOISE_RANGE = (0.005, 20.0), (1e-3, 1e3), (1e-6, 10.0)
_STARTS = (0.07, 0.2, 0.6)
# So many differences of coordinates are held at a time.
_MAX_DIFFERENCES = 2_000_000


@register
@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of k = `variance` kernel(x / `lengthscales`), around a constant.

    Attributes
    ----------
    lengthscales
        One for each unit coordinate, in shares of the range of its parameter.
    variance, noise_var
        Of the function and of an observation, in squared units of the reward.
    mean
        The constant; None: estimated together with the function (generalised least squares).
    """

    lengthscales: Float[np.ndarray, " d"]
    variance: float
    noise_var: float
    mean: float | None = None

    def check_restored(self) -> None:
        """Raise ValueError if a lengthscale or variance is no positive number."""
        positive = [*np.asarray(self.lengthscales).tolist(), self.variance, self.noise_var]
        if not all(0.0 < value < np.inf for value in positive):
            raise ValueError(f"expected positive lengthscales and variances, got {positive}")


class Posterior:
    """A posterior of the function given observations.

    Parameters
    ----------
    kernel
        Of unit variance.
    hyper
        Its hyperparameters.
    U, y
        Inputs (n, d) in unit coordinates and rewards (n,).
    noise_vars
        Variance of each observation about the function of now.
    decay, now
        A temporal kernel, in logs: the correlation of the observations' times with each other (n, n), and with the
        time of the prediction (n,), as in TV-GP-UCB. None: one function for all times.
    """

    def __init__(
        self,
        kernel: SpectralKernel,
        hyper: Hyperparameters,
        U: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, " n"],
        noise_vars: Float[np.ndarray, " n"],
        decay: Float[np.ndarray, "n n"] | None = None,
        now: Float[np.ndarray, " n"] | None = None,
    ) -> None:
        if decay is None:
            U, y, noise_vars = _merge_repeated(U, y, noise_vars)
        self._kernel, self._hyper, self._U, self._now = kernel, hyper, U, now
        K = gram(kernel, hyper, U, U)
        if decay is not None:
            K = K * decay
        self._L = cholesky(K + np.diag(noise_vars))
        self._noise_vars = noise_vars
        self.mean_level = _level(self._L, y) if hyper.mean is None else hyper.mean
        self._alpha = cholesky_solve(self._L, y - self.mean_level)

    @cached_property
    def log_gain(self) -> float:
        """Return log |S + K| - log |S|: twice the information gain of the observations."""
        return float(log_det(self._L)) - float(np.sum(np.log(self._noise_vars)))

    def _cross(self, U: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n m"]:
        k = gram(self._kernel, self._hyper, self._U, U)
        return k if self._now is None else k * self._now[:, None]

    def at(self, U: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation of the function, without noise."""
        mean, variance = np.empty(len(U)), np.empty(len(U))
        size = max(1, _MAX_DIFFERENCES // max(1, self._U.size))
        for start in range(0, len(U), size):
            part = slice(start, start + size)
            k = self._cross(U[part])
            half = solve_lower(self._L, k)
            mean[part] = self.mean_level + self._alpha @ k
            variance[part] = self._hyper.variance - np.einsum("nm,nm->m", half, half)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def columns(self, U: Float[np.ndarray, "m d"]) -> Callable[[int], Float[np.ndarray, " m"]]:
        """Return a function from the number of a point to the covariances of the function there and at all points."""
        half = solve_lower(self._L, self._cross(U))

        def column(i: int) -> Float[np.ndarray, " m"]:
            return gram(self._kernel, self._hyper, U, U[i : i + 1])[:, 0] - half[:, i] @ half

        return column

    def gradients(
        self, u: Float[np.ndarray, " d"]
    ) -> tuple[float, float, Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Return mean and standard deviation at a point, and their gradients by its coordinates."""
        lengthscales = self._hyper.lengthscales
        difference = (u - self._U) / lengthscales
        weight = self._hyper.variance * (1.0 if self._now is None else self._now)
        k = weight * self._kernel.value(difference)
        by_u = (2.0 * weight * self._kernel.slope(difference))[:, None] * difference / lengthscales
        beta = cholesky_solve(self._L, k)
        variance = self._hyper.variance - float(k @ beta)
        std = np.sqrt(max(variance, 1e-12 * self._hyper.variance))
        return self.mean_level + float(self._alpha @ k), float(std), self._alpha @ by_u, -(beta @ by_u) / std


def _merge_repeated(
    U: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], noise_vars: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Merge observations of one point into one, by their precisions: the posterior of the function is the same."""
    points, of_point = np.unique(U, axis=0, return_inverse=True)
    if len(points) == len(U):
        return U, y, noise_vars
    of_point = of_point.ravel()
    precision = np.bincount(of_point, 1.0 / noise_vars)
    return points, np.bincount(of_point, y / noise_vars) / precision, 1.0 / precision


def gram(
    kernel: SpectralKernel, hyper: Hyperparameters, U: Float[np.ndarray, "n d"], V: Float[np.ndarray, "m d"]
) -> Float[np.ndarray, "n m"]:
    """Return the kernel matrix of two sets of points, its variance included."""
    U, V = U / hyper.lengthscales, V / hyper.lengthscales
    return np.asarray(hyper.variance * kernel.value(U[:, None] - V[None]))


def _level(L: Float[np.ndarray, "n n"], y: Float[np.ndarray, " n"]) -> float:
    """Return the constant of greatest likelihood: 1'(K + S)^-1 y / 1'(K + S)^-1 1."""
    if len(y) == 0:
        return 0.0
    weights = cholesky_solve(L, np.ones(len(y)))
    return float(weights @ y / weights.sum())


def log_evidence(
    kernel: SpectralKernel,
    hyper: Hyperparameters,
    U: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    factors: Float[np.ndarray, " n"],
    decay: Float[np.ndarray, "n n"] | None = None,
    known_vars: Float[np.ndarray, " n"] | float = 0.0,
) -> tuple[float, Float[np.ndarray, " d"], float, float]:
    """Return log N(y; m, v K + s2 diag(factors) + diag(known_vars)) and its derivatives.

    The derivatives are by the logs of lengthscales, v and s2.
    Rasmussen and Williams (2006), Eqs. 5.8 and 5.9. A mean that is not fixed is the most likely one, whose own
    derivative is zero.
    """
    difference = (U[:, None] - U[None]) / hyper.lengthscales
    time = 1.0 if decay is None else decay
    K = hyper.variance * kernel.value(difference) * time
    L = cholesky(K + np.diag(hyper.noise_var * factors + known_vars))
    level = _level(L, y) if hyper.mean is None else hyper.mean
    alpha = cholesky_solve(L, y - level)
    value = -0.5 * float((y - level) @ alpha + log_det(L) + len(y) * np.log(2.0 * np.pi))
    by_K = 0.5 * (np.outer(alpha, alpha) - cholesky_solve(L, np.eye(len(y))))
    # k depends on log l through |r|^2, whose derivative is -2 r^2; sum_nm S_nm (u_n - u_m)^2 = 2 (S 1)'u^2 - 2 u'S u.
    by_square = by_K * hyper.variance * kernel.slope(difference) * time
    scaled = (U - U.mean(axis=0)) / hyper.lengthscales
    by_lengthscale = -4.0 * (
        by_square.sum(axis=1) @ np.square(scaled) - np.sum(scaled * (by_square @ scaled), axis=0)
    )
    by_noise = hyper.noise_var * float(np.diagonal(by_K) @ factors)
    return value, by_lengthscale, float(np.sum(by_K * K)), by_noise


def default_hyperparameters(y: Float[np.ndarray, " n"], groups: Int[np.ndarray, " d"]) -> Hyperparameters:
    """Return what is assumed before there is enough to fit: the modes of the priors, on the scale of the rewards."""
    scale = float(np.var(y)) if len(y) > 1 and np.ptp(y) > 0 else 1.0
    return Hyperparameters(
        np.full(len(groups), np.exp(_LENGTHSCALE_PRIOR[0]) * np.sqrt(groups.max() + 1)),
        scale,
        np.exp(_NOISE_PRIOR[0]) * scale,
    )


def fit(
    kernel: SpectralKernel,
    U: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    factors: Float[np.ndarray, " n"],
    groups: Int[np.ndarray, " d"],
    fixed: dict[str, float | Float[np.ndarray, " d"]],
    decay: Float[np.ndarray, "n n"] | None = None,
    known_vars: Float[np.ndarray, " n"] | float = 0.0,
) -> Hyperparameters:
    """Fit hyperparameters: the greatest evidence under weak log-normal priors (L-BFGS-B from three lengthscales).

    Parameters
    ----------
    factors, known_vars
        The noise variance of an observation is the one to be fitted times its factor, and what is known on top.
    groups
        Of each unit coordinate, the number of its parameter.
    fixed
        Fields of `Hyperparameters` that are given.
    """
    level = float(np.mean(y)) if len(y) else 0.0
    # Rounding gives equal rewards a standard deviation of their last digit.
    scale = float(np.std(y)) if len(y) and np.ptp(y) > 0 else 1.0
    z = (y - level) / scale
    p = int(groups.max()) + 1
    priors = np.array([(_LENGTHSCALE_PRIOR[0] + 0.5 * np.log(p), 1.0)] * p + [_VARIANCE_PRIOR, _NOISE_PRIOR])
    bounds = np.log([_LENGTHSCALE_RANGE] * p + [_VARIANCE_RANGE, _NOISE_RANGE])
    known = np.full(p + 2, np.nan)
    if "lengthscales" in fixed:
        known[groups] = np.log(fixed["lengthscales"])
    for i, name in ((p, "variance"), (p + 1, "noise_var")):
        if name in fixed:
            known[i] = np.log(float(fixed[name]) / scale**2)
    free = np.isnan(known)
    mean = (float(fixed["mean"]) - level) / scale if "mean" in fixed else None

    def hyper_at(logs: Float[np.ndarray, " p"]) -> Hyperparameters:
        lengths, (variance, noise_var) = np.exp(logs[:p]), np.exp(logs[p:])
        return Hyperparameters(lengths[groups], float(variance), float(noise_var), mean)

    def loss(part: Float[np.ndarray, " f"]) -> tuple[float, Float[np.ndarray, " f"]]:
        logs = known.copy()
        logs[free] = part
        value, by_lengths, by_variance, by_noise = log_evidence(
            kernel, hyper_at(logs), U, z, factors, decay, known_vars / scale**2
        )
        away = (logs - priors[:, 0]) / priors[:, 1]
        gradient = np.r_[np.bincount(groups, by_lengths, p), by_variance, by_noise] - away / priors[:, 1]
        return 0.5 * float(away[free] @ away[free]) - value, -gradient[free]

    best = None
    for start in _STARTS if free.any() else ():
        first = np.clip(np.r_[np.full(p, np.log(start * np.sqrt(p))), 0.0, _NOISE_PRIOR[0]], *bounds.T)
        found = minimize(
            loss, first[free], jac=True, method="L-BFGS-B", bounds=bounds[free], options={"maxiter": 100}
        )
        if best is None or found.fun < best.fun:
            best = found
    logs = known.copy()
    if best is not None:
        logs[free] = best.x
    hyper = hyper_at(logs)
    in_units = replace(hyper, variance=hyper.variance * scale**2, noise_var=hyper.noise_var * scale**2)
    return replace(in_units, mean=fixed.get("mean"))


KERNELS: dict[str, SpectralKernel] = {
    "squared-exponential": SquaredExponential(),
    "matern-3/2": Matern(1.5),
    "matern-5/2": Matern(2.5),
}
