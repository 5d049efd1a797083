"""Sparse Gaussian processes as their papers print them: dense matrices and literal inverses."""

import numpy as np


def kernel(X, Z, lengthscales, variance):
    """Squared exponential with a lengthscale for each input."""
    difference = (X[:, None] - Z[None]) / lengthscales
    return variance * np.exp(-0.5 * np.square(difference).sum(-1))


def batch_bound(X, y, Z, lengthscales, variance, noise_var, alpha=0.0):
    """Free energy (Titsias 2009, Eq. 9), or the energy of power EP (Bui, Yan and Turner 2017, Eq. 14), by outputs."""
    Kzz, Kxz = kernel(Z, Z, lengthscales, variance), kernel(X, Z, lengthscales, variance)
    Q = Kxz @ np.linalg.solve(Kzz, Kxz.T)
    left = variance - np.diag(Q)
    C = Q + np.diag(noise_var + alpha * left)
    _, log_det = np.linalg.slogdet(2.0 * np.pi * C)
    fit = -0.5 * (y.shape[1] * log_det + np.sum(y * np.linalg.solve(C, y)))
    if alpha == 0.0:
        return fit - y.shape[1] * left.sum() / (2.0 * noise_var)
    return fit - y.shape[1] * (1.0 - alpha) / (2.0 * alpha) * np.log1p(alpha * left / noise_var).sum()


def batch_posterior(X, y, Z, lengthscales, variance, noise_var):
    """Mean and covariance of the function's values at Z (Titsias 2009, Eq. 10)."""
    Kzz, Kzx = kernel(Z, Z, lengthscales, variance), kernel(Z, X, lengthscales, variance)
    S = np.linalg.inv(Kzz + Kzx @ Kzx.T / noise_var)
    return Kzz @ S @ Kzx @ y / noise_var, Kzz @ S @ Kzz


def predicted(X, Z, mean, cov, lengthscales, variance):
    """Mean and covariance of the function at X, from those of its values at Z."""
    weights = np.linalg.solve(kernel(Z, Z, lengthscales, variance), kernel(Z, X, lengthscales, variance))
    prior = kernel(X, X, lengthscales, variance)
    return weights.T @ mean, prior - weights.T @ (kernel(Z, Z, lengthscales, variance) - cov) @ weights


def online_bound(X, y, Z, new, old_Z, mean, cov, old):
    """Streaming free energy as Bui, Nguyen and Turner (2017, Appendix A.1) have it; `new`, `old` are hyperparameters.

    `mean` and `cov` are the posterior at `old_Z`, found under `old`. One output.
    """
    lengthscales, variance, noise_var = new
    prior = kernel(old_Z, old_Z, *old[:2])
    D = np.linalg.inv(np.linalg.inv(cov) - np.linalg.inv(prior))
    pseudo = D @ np.linalg.solve(cov, mean)
    both = np.concatenate([X, old_Z])
    K = kernel(both, both, lengthscales, variance)
    Kbz = kernel(both, Z, lengthscales, variance)
    Q = Kbz @ np.linalg.solve(kernel(Z, Z, lengthscales, variance), Kbz.T)
    n = len(X)
    noise = np.zeros_like(Q)
    noise[:n, :n], noise[n:, n:] = noise_var * np.eye(n), D
    targets = np.concatenate([y, pseudo])
    left = K - Q
    value = -0.5 * (_log_det(2.0 * np.pi * (Q + noise)) + np.sum(targets * np.linalg.solve(Q + noise, targets)))
    value -= 0.5 * np.trace(left[:n, :n]) / noise_var + 0.5 * np.trace(np.linalg.solve(D, left[n:, n:]))
    pull = np.linalg.solve(cov, mean)
    constants = _log_det(2.0 * np.pi * D) + _log_det(prior) - _log_det(cov)
    return value + 0.5 * (constants + np.sum(pull * (D @ pull)) - np.sum(mean * pull))


def _log_det(A):
    return np.linalg.slogdet(A)[1]


def squared_wasserstein(m1, S1, m2, S2):
    """Between Gaussians (Givens and Shortt 1984), with matrix roots."""
    root = _sqrtm(S1)
    return np.square(m1 - m2).sum() + np.trace(S1 + S2 - 2.0 * _sqrtm(root @ S2 @ root))


def _sqrtm(S):
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
