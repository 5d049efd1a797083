"""Forecasts h rows ahead, one at a time: dense Gaussian processes, noise and weights judged when a target arrives."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, t

from oracles.dense import condition


def forecast_loop(
    covariances: list[np.ndarray],
    y: np.ndarray,
    horizon: int,
    *,
    noise_var: float,
    discounts: list[float | None],
    correlations: list[float],
    prior_rows: list[float],
    transition: np.ndarray,
) -> list[tuple[np.ndarray, ...]]:
    """After every row, log weights (K,), means (K, E), variances (K, E) and degrees of freedom (K,) of row i + h.

    A forecast counts as 1 / h of a row for the weights.

    Parameters
    ----------
    covariances
        Of every filter: prior covariance of f over n + h rows, those to forecast included.
    y
        Targets (n, E) of the first n rows.
    discounts, correlations, prior_rows
        Of each kind of noise: the discount (None: constant), the correlation of errors of consecutive rows, of which
        the power h is left after h rows, and how many rows the prior counts as.
    transition
        Q[i, j], the probability that the best expert is i now if it was j before.
    """
    J, E = len(discounts), y.shape[1]
    shape = np.array([0.5 * rows for rows in prior_rows])
    rate = np.tile(shape[None, :, None], (len(covariances), 1, E))
    log_weights = logsumexp(np.full(len(transition), -np.log(len(transition))), b=transition, axis=1)
    left = np.array(correlations) ** horizon
    error = np.zeros((len(covariances), E))
    waiting: dict[int, tuple] = {}
    forecasts = []
    for i in range(len(y)):
        if i in waiting:
            filter_mean, mean, filter_var, var, dof = waiting.pop(i)
            error = y[i] - filter_mean
            densities = np.zeros(len(var))
            for k in range(len(var)):
                for e in range(E):
                    off = y[i, e] - mean[k, e]
                    if np.isinf(dof[k]):
                        densities[k] += norm.logpdf(off, 0.0, np.sqrt(var[k, e]))
                    else:
                        densities[k] += t.logpdf(off, dof[k], 0.0, np.sqrt(var[k, e] * (dof[k] - 2) / dof[k]))
            joint = log_weights + densities / horizon
            log_weights = logsumexp(joint - logsumexp(joint), b=transition, axis=1)
            for j, d in enumerate(discounts):
                if d is not None:
                    shape[j] = d * shape[j] + 0.5
                    rate[:, j] = d * rate[:, j] + 0.5 * (y[i] - mean[j::J]) ** 2 / filter_var[:, None]
        pairs = [condition(K, y, noise_var, i + horizon, i + 1) for K in covariances]
        filter_mean, filter_var = np.stack([m for m, _ in pairs]), np.array([v for _, v in pairs])
        mean = np.repeat(filter_mean, J, axis=0) + np.tile(left, len(pairs))[:, None] * np.repeat(error, J, axis=0)
        var, dof = np.zeros((len(pairs) * J, E)), np.full(len(pairs) * J, np.inf)
        for k in range(len(var)):
            var[k] = filter_var[k // J]
            if discounts[k % J] is not None:
                var[k] *= rate[k // J, k % J] / (shape[k % J] - 1.0)
                dof[k] = 2.0 * shape[k % J]
        waiting[i + horizon] = (filter_mean, mean, filter_var, var, dof)
        forecasts.append((log_weights, mean, var, dof))
    return forecasts
