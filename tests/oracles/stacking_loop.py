"""Stacking and forgetting as their papers write them: plain loops over probabilities, one weight vector a row."""

import itertools
from typing import NamedTuple

import numpy as np


def exponentiated_gradient(density: np.ndarray, rate: float, share: float) -> np.ndarray:
    """Weights before each row (n, K) by Helmbold et al. (1998), moved each time by `share` towards equal ones."""
    n, K = density.shape
    w, before = np.full(K, 1.0 / K), np.zeros((n, K))
    for i in range(n):
        before[i] = w
        if w @ density[i] > 0.0:
            w = w * np.exp(rate * density[i] / (w @ density[i]))
            w = w / w.sum()
        w = (1.0 - share) * w + share / K
    return before


def dynamic_averaging(density: np.ndarray, forgetting: float, prior: np.ndarray) -> np.ndarray:
    """Weights before each row, from the whole past at once: every likelihood to the power of its age."""
    n, K = density.shape
    before = np.zeros((n, K))
    for i in range(n):
        ages = i - np.arange(i)
        w = prior ** (forgetting ** (i + 1)) * np.prod(density[:i] ** (forgetting**ages)[:, None], axis=0)
        before[i] = w / w.sum()
    return before


class Newton(NamedTuple):
    """Before each row: the weights (n, K); after it: A (n, K, K). And each row's x (n, K) and beta (n,)."""

    before: np.ndarray
    A: np.ndarray
    x: np.ndarray
    beta: np.ndarray


def newton_step(density: np.ndarray, mixing: float) -> Newton:
    """Follow the regularised leader on the quadratics, each minimum found by trying every set of experts."""
    n, K = density.shape
    A, b, p = np.eye(K), np.full(K, 1.0 / K), np.full(K, 1.0 / K)
    before, As, xs, betas = np.zeros((n, K)), np.zeros((n, K, K)), np.zeros((n, K)), np.zeros(n)
    for i, r in enumerate(density):
        w = (1.0 - mixing) * p + mixing / K
        x = ((1.0 - mixing) * r + mixing * r.mean()) / (w @ r)
        beta = 3.0 / (1.0 + 2.0 * x.max())
        A, b = A + beta * np.outer(x, x), b + (1.0 + beta) * x
        before[i], As[i], xs[i], betas[i] = w, A, x, beta
        p = least_on_simplex(A, b)
    return Newton(before, As, xs, betas)


def least_on_simplex(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where p'A p / 2 - b'p is least on the simplex: the best of the minima that keep to a set of the entries."""
    K = len(b)
    best, least = np.full(K, 1.0 / K), np.inf
    for size in range(1, K + 1):
        for chosen in itertools.combinations(range(K), size):
            edge = np.zeros((size + 1, size + 1))  # with the multiplier of the sum
            edge[:size, :size] = A[np.ix_(chosen, chosen)]
            edge[:size, size] = edge[size, :size] = 1.0
            p = np.zeros(K)
            p[list(chosen)] = np.linalg.solve(edge, np.append(b[list(chosen)], 1.0))[:size]
            value = 0.5 * p @ A @ p - b @ p
            if (p >= 0.0).all() and value < least:
                best, least = p, value
    return best


def best_blend(density: np.ndarray, steps: int = 2_000) -> np.ndarray:
    """The blend that gives all rows the highest density, by the EM of mixture weights (Cover 1984)."""
    u = np.full(density.shape[1], 1.0 / density.shape[1])
    for _ in range(steps):
        u = u * np.mean(density / (density @ u)[:, None], axis=0)
    return u / u.sum()
