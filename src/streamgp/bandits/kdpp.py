"""Diverse subsets of points: determinantal point processes of fixed size, or k-DPPs.

A k-DPP draws k of n points with P(S) proportional to det K_S (Kulesza and Taskar 2011). As inducing points they leave
little of a Gaussian process unexplained (Burt, Rasmussen and van der Wilk 2020).
"""

from itertools import combinations
from math import comb, sqrt

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular

from streamgp.numerics.pivoted_cholesky import check_all, check_range, pivoted_cholesky


class SwapChain:
    """A set S of `chosen` points, one of which is swapped for another in O(k^2).

    `K` is a positive semidefinite kernel matrix. Its diagonal entries grow by `jitter` times themselves, so that no
    determinant vanishes. The chain keeps a W with W K_S W' = I, at first the inverse of the Cholesky factor: the
    inverse of K_S, which is W'W, loses twice as many digits. W is computed afresh after every k swaps, so that
    rounding does not pile up.

    Raises
    ------
    ValueError
        If `K` is not square, symmetric and finite, two points are the same, or det K_S is not positive.
    """

    def __init__(self, K: Float[np.ndarray, "n m"], chosen: Int[np.ndarray, " k"], jitter: float) -> None:
        _check_kernel(K)
        check_range("jitter", jitter)
        if len(set(chosen.tolist()) & set(range(len(K)))) < len(chosen):
            raise ValueError(f"chosen: expected different numbers from 0 to {len(K) - 1}, got {chosen.tolist()}")
        self.chosen, self._swaps = chosen.copy(), 0
        self._K = K.astype(np.float64) + np.diag(jitter * np.diagonal(K))
        self._factorise()

    def ratio(self, i_position: int, j: int) -> float:
        """Return det K_(S - i + j) / det K_S, i at `i_position`.

        It is B_ii (K_jj - c'B c) + (B c)_i^2, with B = K_S^-1 and c = K_Sj.
        """
        e, u = self._W[:, i_position], self._W @ self._K[j, self.chosen]
        return float(e @ e * max(self._K[j, j] - u @ u, 0.0) + (e @ u) ** 2)

    def swap(self, i_position: int, j: int) -> None:
        """Replace the point at `i_position` by `j`: W grows by a matrix of rank one."""
        e, u = self._W[:, i_position], self._W @ self._K[j, self.chosen]
        e = e / sqrt(e @ e)
        # Without the part along e, u gives the prediction of j from the other points.
        u -= e * (e @ u)
        left = self._K[j, j] - u @ u
        self.chosen[i_position] = j
        self._swaps += 1
        row = -(u @ self._W)
        row[i_position] = 1.0
        if left > 0.0 and self._swaps % len(self.chosen):
            self._W += np.outer(e, row / sqrt(left) - e @ self._W)
        else:
            self._factorise()

    def _factorise(self) -> None:
        try:
            factor = np.linalg.cholesky(self._K[np.ix_(self.chosen, self.chosen)])
        except np.linalg.LinAlgError:
            S = self.chosen.tolist()
            raise ValueError(f"K: expected det K_S > 0, got none for S = {S}; raise the jitter") from None
        self._W = solve_triangular(factor, np.eye(len(factor)), lower=True)


def sample(
    K: Float[np.ndarray, "n m"], k: int, *, steps: int, rng: np.random.Generator, jitter: float = 1e-6
) -> Int[np.ndarray, " s"]:
    """Draw from the k-DPP, in rising order: `steps` steps of O(k^2) from the greedy points.

    Each draws a point of S and one outside, and swaps them with probability min(1, det K_new / det K_S) / 2 (Mauduit,
    Berthier and Simonetto, Algorithm 2; Anari, Oveis Gharan and Rezaei 2016). The law is that of `K` with the jitter
    of `SwapChain`, for up to a thousand points or so, duplicates left out (`distinct`). S has fewer than `k` points
    where the greedy ones end before, with no conditional variance above `jitter` (or n eps) times the greatest.

    Raises
    ------
    ValueError
        If `k` is not between 0 and n, `steps` or `jitter` is negative, `K` is not square, symmetric and finite, or
        the jitter is too small for it.
    """
    _check_kernel(K)
    check_range("steps", steps)
    check_range("jitter", jitter)
    tolerance = max(jitter, len(K) * float(np.finfo(np.float64).eps))
    start = pivoted_cholesky(lambda i: K[:, i], np.diagonal(K), k, tolerance=tolerance, rng=rng).chosen
    outside = np.setdiff1d(np.arange(len(K)), start).tolist()
    if not len(start) or not outside:
        return np.sort(start)
    chain = SwapChain(K, start, jitter)
    levels = 2.0 * rng.random(steps)
    # Steps with a level of 1 or more change nothing, whatever the ratio.
    levels = levels[levels < 1.0]
    leaving, coming = (rng.integers(size, size=len(levels)).tolist() for size in (len(start), len(outside)))
    for level, i, o in zip(levels.tolist(), leaving, coming, strict=True):
        if level < chain.ratio(i, outside[o]):
            j, outside[o] = outside[o], int(chain.chosen[i])
            chain.swap(i, j)
    return np.sort(chain.chosen)


def probabilities(K: Float[np.ndarray, "n m"], k: int) -> dict[tuple[int, ...], float]:
    """Return the probability of each subset of `k` points, in rising order, by enumeration.

    Raises
    ------
    ValueError
        If there are more than 200,000, no determinant is positive, or `k` and `K` are not as in `sample`.
    """
    _check_kernel(K)
    check_range("k", k, len(K))
    if (count := comb(len(K), k)) > 200_000:
        raise ValueError(f"probabilities: expected at most 200,000 subsets, got {count}; call sample instead")
    subsets = list(combinations(range(len(K)), k))
    signs, logs = np.array([np.linalg.slogdet(K[np.ix_(S, S)]) for S in subsets]).T
    if not np.any(signs > 0.0):
        raise ValueError(f"K: expected a positive determinant, got none of {k} points; lower k or raise the diagonal")
    weights = np.exp(np.where(signs > 0.0, logs - logs[signs > 0.0].max(), -np.inf))
    return dict(zip(subsets, (weights / weights.sum()).tolist(), strict=True))


def distinct(X: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "m d"], Int[np.ndarray, " m"]]:
    """Return the different rows, as they first occur, and where they do; a difference by rounding counts."""
    first = np.sort(np.unique(X, axis=0, return_index=True)[1])
    return X[first], first


def _check_kernel(K: Float[np.ndarray, "n m"]) -> None:
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"K: expected a square kernel matrix, got {K.shape[0]} rows and {K.shape[1]} columns")
    check_all(np.isfinite(K), "K", "finite numbers", K)
    check_all(np.abs(K - K.T) <= 1e-8 * np.abs(K).max(initial=0.0), "K", "a symmetric matrix", K)
