"""Empirical Bayes where targets are no Gaussian measurements: Laplace's approximation of the marginal likelihood.

Model: f_i = (phi_i' theta_1, ..., phi_i' theta_C), each theta_c ~ N(0, v I), and p(y_i | f_i) of a `Likelihood`. The
integral over theta is that of a Gaussian at the mode, with the curvature there, in the space of the C F weights,
which costs O(n C^2 F^2 + C^3 F^3). Rasmussen and Williams (2006), Eqs. 3.32, 5.20-5.23 and, for several latent
values, 3.44.

Where a likelihood of one latent value is not log-concave (Student's t), curvature below zero, that of outliers,
counts as zero: the determinant never falls below the prior's. Likelihoods of several must be log-concave.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.bases.base import Basis
from streamgp.likelihoods import Likelihood
from streamgp.models.fitting.hyperparameters import (
    PRIOR_BOUNDS,
    by_coordinates,
    constrain,
    flatten,
    limits,
    search,
    unconstrain,
    unflatten,
)
from streamgp.models.fitting.laplace_mode import (
    by_log_det,
    clipped,
    find_mode,
    newton_factor,
    posterior_precision,
)
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.linalg import cholesky_solve, factor, log_det

# The most steps of L-BFGS-B.
MAX_STEPS = 80
# The largest prior standard deviation of a latent value: on separable data the evidence is all but flat beyond.
MAX_LATENT_STD = 30.0
# A likelihood's own hyperparameters have a Gaussian prior around where they start, in their coordinates, so that one
# that the targets do not determine (the intercept where there is one class, the rate where all counts are zero) does
# not run away. It costs half a nat over all rows to be this far off.
PRIOR_STD = 5.0
_REACH = 6.0 * PRIOR_STD  # no hyperparameter of a likelihood goes farther than this


class LaplaceSlopes(NamedTuple):
    """The gradient of Laplace's evidence by the likelihood's `trainable`, the features, and the log of v."""

    likelihood: dict[str, Float[np.ndarray, "..."]]
    Phi: Float[np.ndarray, "n f"]
    log_prior_var: float


def evidence_and_gradient(
    likelihood: Likelihood,
    Phi: Float[np.ndarray, "n f"],
    y: Float[np.ndarray, " n"],
    prior_var: Any,
    start: Float[np.ndarray, "c f"],
    offset: Float[np.ndarray, " n"] | None = None,
) -> tuple[float, Float[np.ndarray, "c f"], LaplaceSlopes]:
    """Compute Laplace's approximation of log p(y), the mode of theta, and the exact gradient.

    The gradient counts that the mode moves with the hyperparameters (Rasmussen and Williams 2006, 5.5.1).

    Parameters
    ----------
    start
        Where Newton's method for the mode sets out, unless zero is better.
    offset
        Added to all latent values of a row, zero by default: the log exposure of a count.
    """
    # With weights theta / sqrt(v) the prior is N(0, I), and v is a matter of the features.
    scale = np.sqrt(prior_var)
    Phi = scale * Phi
    shift = np.zeros((len(y), 1)) if offset is None else np.asarray(offset)[:, None]
    weights, f, (_, gradient, precision) = find_mode(likelihood, Phi, y, start / scale, shift)
    L = L_newton = factor(posterior_precision(Phi, clipped(precision)))
    if likelihood.num_latents == 1 and (precision < 0.0).any():
        L_newton = newton_factor(Phi, precision)
    value = np.sum(likelihood.log_prob(f, y)) - 0.5 * np.sum(weights * weights) - 0.5 * log_det(L)
    along, by_Phi = by_log_det(L, Phi, clipped(precision))
    if likelihood.num_latents == 1:
        along = np.where(precision < 0.0, 0.0, along)
    # What the value gains by each latent value, and, by way of these, as the mode moves.
    pull = gradient + likelihood.bend(f, y, along)
    moved = cholesky_solve(L_newton, (pull.T @ Phi - weights).reshape(-1, 1)).reshape(weights.shape)
    slope = Phi @ moved.T
    by_f = pull - (precision @ slope[..., None])[..., 0]
    by_Phi = by_Phi + by_f @ weights + gradient @ moved
    by_likelihood = likelihood.by_hyperparameters(f, y, slope, along)
    slopes = LaplaceSlopes(
        {name: each.sum(0) for name, each in by_likelihood.items()},
        scale * by_Phi,
        0.5 * float(np.vdot(by_Phi, Phi)),
    )
    return float(value), scale * weights, slopes


@dataclass(frozen=True)
class LaplaceFit:
    """A basis and a likelihood at an optimum of their evidence on the warm-up rows.

    Attributes
    ----------
    log_evidence
        Laplace's approximation of it.
    gain
        Log evidence per row above that of the likelihood alone (f = 0, its own hyperparameters fitted), in nats.
    """

    basis: Basis
    prior_var: float
    likelihood: Likelihood
    log_evidence: float
    gain: float
    start: float
    steps: int


def fit_likelihood(
    basis: Basis,
    likelihood: Likelihood,
    X: Float[AnyArray, "n d"],
    y: Float[AnyArray, " n"],
    start: float = 1.0,
    trainable: tuple[str, ...] | None = None,
    offset: Float[AnyArray, " n"] | None = None,
) -> LaplaceFit:
    """Maximise the evidence over v and the hyperparameters of the basis and the likelihood, by L-BFGS-B.

    The basis and the likelihood set out from where they stand, and v from latent values of variance 1 in the mean of
    the rows. Their prior standard deviation stays below `MAX_LATENT_STD` (with the features of the start).

    Parameters
    ----------
    y
        Targets as the likelihood takes them: classes, counts, grades, numbers.
    start
        What the fit is to be called by.
    trainable
        The hyperparameters of the basis to move; all of its `trainable` ones by default.
    offset
        Added to all latent values of a row, zero by default: the log exposure of a count.
    """
    X, y = np.asarray(X, float), np.asarray(y, float)
    basis, likelihood = tree.map(np.asarray, (basis, likelihood))
    shift = np.zeros(len(y)) if offset is None else np.asarray(offset, float)
    trainable = tuple(basis.trainable) if trainable is None else trainable
    size = float(np.mean(np.sum(np.square(basis(X)), axis=1)))
    log_size = np.log(max(size, 1e-8))
    problem = _Problem(basis, likelihood, trainable, X, y, shift)
    most = min(2.0 * np.log(MAX_LATENT_STD) - log_size, PRIOR_BOUNDS[1])
    bounds = {
        "basis": limits(basis, trainable),
        "likelihood": _likelihood_limits(likelihood),
        "log_prior_var": np.asarray((PRIOR_BOUNDS[0], most)),
    }
    first = flatten(problem.hyperparameters(-log_size))
    mode = np.zeros((likelihood.num_latents, basis.num_features))

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal mode
        value, gradient, _, found = problem.loss(flat, mode)
        # The next search for the mode starts from here.
        mode = found if np.isfinite(found).all() else mode
        return value, gradient

    found = search(objective, first, _flat_bounds(bounds), MAX_STEPS)
    log_evidence = problem.loss(found.x, mode)[2]
    moved, prior_var, likelihood_moved = problem.at(found.x)
    gain = (log_evidence - _null_log_evidence(likelihood, y, shift)) / len(y)
    return LaplaceFit(moved.precomputed(), prior_var, likelihood_moved, log_evidence, gain, start, int(found.nit))


@dataclass(frozen=True)
class _Problem:
    """Rows to fit, and what the fit sets out from."""

    basis: Basis
    likelihood: Likelihood
    trainable: tuple[str, ...]
    X: np.ndarray
    y: np.ndarray
    offset: np.ndarray

    def hyperparameters(self, log_prior_var: float = 0.0) -> dict[str, Any]:
        """Return the coordinates of the search."""
        return {
            "basis": unconstrain(self.basis, self.trainable),
            "likelihood": unconstrain(self.likelihood, tuple(self.likelihood.trainable)),
            "log_prior_var": np.asarray(log_prior_var),
        }

    def at(self, flat: np.ndarray) -> tuple[Basis, float, Likelihood]:
        """Return the basis, the prior variance and the likelihood at some coordinates."""
        hyper = unflatten(flat, self.hyperparameters())
        likelihood = constrain(self.likelihood, tuple(self.likelihood.trainable), hyper["likelihood"])
        basis = constrain(self.basis, self.trainable, hyper["basis"])
        return basis, float(np.exp(hyper["log_prior_var"])), likelihood

    def loss(self, flat: np.ndarray, start: np.ndarray) -> tuple[float, np.ndarray, float, np.ndarray]:
        """Compute the negative log evidence per row with the likelihood's prior, and its gradient.

        Return also the log evidence and the mode; no number where something overflows.
        """
        with np.errstate(all="ignore"):
            basis, prior_var, likelihood = self.at(flat)
            names = tuple(likelihood.trainable)
            Phi, pullback = basis.features_and_pullback(self.X)
            value, mode, by = evidence_and_gradient(likelihood, Phi, self.y, prior_var, start, self.offset)
            log_prior, by_prior = _log_prior(unconstrain(likelihood, names), self.likelihood)
            of_likelihood = by_coordinates(likelihood, names, by.likelihood)
            gradient = {
                "basis": by_coordinates(basis, self.trainable, pullback(by.Phi)),
                "likelihood": {name: of_likelihood[name] + by_prior[name] for name in names},
                "log_prior_var": by.log_prior_var,
            }
            n = len(self.y)
            return -(value + log_prior) / n, -flatten(gradient) / n, value, mode


def _flat_bounds(bounds: Any) -> Float[np.ndarray, "p 2"]:
    return np.concatenate([b.reshape(-1, 2) for b in tree.leaves(bounds)])


def _likelihood_limits(likelihood: Likelihood) -> dict[str, np.ndarray]:
    """Return the limits of its hyperparameters' kinds, at most `_REACH` around where they start."""
    names = tuple(likelihood.trainable)
    start = unconstrain(likelihood, names)
    around = {name: np.asarray(start[name])[..., None] + np.array([-_REACH, _REACH]) for name in names}
    kinds = limits(likelihood, names)
    return {
        name: np.stack(
            [
                np.maximum(kinds[name][..., 0], around[name][..., 0]),
                np.minimum(kinds[name][..., 1], around[name][..., 1]),
            ],
            axis=-1,
        )
        for name in names
    }


def _log_prior(hyper: dict[str, Any], likelihood: Likelihood) -> tuple[float, dict[str, Any]]:
    """Return the log prior of a likelihood's hyperparameters around where they start, up to a constant; its slope."""
    start = unconstrain(likelihood, tuple(likelihood.trainable))
    away = {name: (hyper[name] - start[name]) / PRIOR_STD for name in start}
    squares = sum(float(np.sum(each * each)) for each in away.values())
    return -0.5 * squares, {name: -each / PRIOR_STD for name, each in away.items()}


def _null_log_evidence(likelihood: Likelihood, y: Float[np.ndarray, " n"], offset: Float[np.ndarray, " n"]) -> float:
    """Compute log p(y) with a function which is zero, the hyperparameters of the likelihood fitted."""
    names = tuple(likelihood.trainable)
    first = unconstrain(likelihood, names)
    C, n = likelihood.num_latents, len(y)
    f = np.broadcast_to(offset[:, None], (n, C))
    nothing = np.zeros((n, C)), np.zeros((n, C, C))

    def evidence(flat: np.ndarray) -> tuple[Likelihood, dict[str, Any], float]:
        hyper = unflatten(flat, first)
        moved = constrain(likelihood, names, hyper)
        return moved, hyper, float(np.sum(moved.log_prob(f, y)))

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(all="ignore"):
            moved, hyper, value = evidence(flat)
            log_prior, by_prior = _log_prior(hyper, likelihood)
            by = {name: each.sum(0) for name, each in moved.by_hyperparameters(f, y, *nothing).items()}
            by = by_coordinates(moved, names, by)
            gradient = flatten({name: by[name] + by_prior[name] for name in names})
            return -(value + log_prior) / n, -gradient / n

    flat = flatten(first)
    if flat.size:
        flat = search(objective, flat, _flat_bounds(_likelihood_limits(likelihood)), MAX_STEPS).x
    return evidence(flat)[2]
