"""Integrals over Gaussian latent values by brute force: very many small pieces, everything in logs."""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def grid(loc: float, var: float, knot: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Distances from `loc`, and log of weight times N(.; 0, var), in 1,800 pieces.

    The pieces are even within 40 deviations of `loc`, and ever finer around `knot`.
    """
    ends = np.sqrt(var) * np.linspace(-40.0, 40.0, 1201)
    fine = np.sinh(np.linspace(-12.0, 12.0, 601)) / 100.0 + knot - loc
    ends = np.unique(np.concatenate([ends, fine[(fine > ends[0]) & (fine < ends[-1])]]))
    half = 0.5 * np.diff(ends)
    d = ((ends[:-1] + half)[:, None] + half[:, None] * _NODES).ravel()
    return d, np.log(half[:, None] * _WEIGHTS).ravel() - 0.5 * (d**2 / var + np.log(2.0 * np.pi * var))


def log_integral(log_g: Callable, loc: float, var: float, knot: float = 0.0) -> float:
    """log of the integral of g(f) N(f; loc, var)."""
    d, log_weights = grid(loc, var, knot)
    return float(logsumexp(log_weights + log_g(loc + d)))


def posterior(log_g: Callable, loc: float, var: float, knot: float = 0.0) -> tuple[float, float]:
    """Mean and variance of the density proportional to g(f) N(f; loc, var)."""
    d, log_weights = grid(loc, var, knot)
    terms = log_weights + log_g(loc + d)
    p = np.exp(terms - logsumexp(terms))
    mean = p @ d
    return float(loc + mean), float(p @ (d - mean) ** 2)


def posterior_of_two(log_g: Callable, loc: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of g(f) N(f; loc, cov), f of two values in the last axis, on an even grid of 801 x 801."""
    z = np.stack(np.meshgrid(*[np.linspace(-10.0, 10.0, 801)] * 2, indexing="ij"), axis=-1)
    f = loc + z @ np.linalg.cholesky(cov).T
    terms = log_g(f) - 0.5 * (z**2).sum(-1)
    p = np.exp(terms - logsumexp(terms))
    mean = np.einsum("ij,ijc->c", p, f)
    off = f - mean
    return mean, np.einsum("ij,ijc,ijd->cd", p, off, off)
