"""The correlation of the errors of several targets: a Gaussian copula, learnt row by row.

The error of a target is its normal score z = Phi^-1(F(y)), by its own predictive distribution F. Whatever these
distributions are, the scores are held to be jointly Gaussian with the correlation matrix R; then the joint density is
the product of the targets' own densities and of

    c(z) = |R|^(-1/2) exp(-z' (R^-1 - I) z / 2)

(Song 2000, Eq. 4). The distribution of each target alone is as it was.

Scores beyond `EDGE` count as `EDGE`: of a glitch it is not known how far out it is. With that, c is a density to
within 1e-4.
"""

from typing import NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Bool, Float

from streamgp.likelihoods.recalibration import EDGE

MEMORY = 0.998  # discount from row to row: the last 500 rows count
# The prior counts as so many rows without correlation, which are forgotten like other rows.
PRIOR_ROWS = 5.0
LEAST_EIGENVALUE = 1e-4


class Comoments(NamedTuple):
    """Discounted sums over the rows in which both targets of a pair were seen; all (E, E).

    Attributes
    ----------
    rows
        The number of these rows.
    squares
        The squared scores of the first target of the pair.
    products
        The products of both scores.
    """

    rows: Float[np.ndarray, "e e"]
    squares: Float[np.ndarray, "e e"]
    products: Float[np.ndarray, "e e"]

    @classmethod
    def none(cls, targets: int) -> "Comoments":
        """Return the sums before any row."""
        rows, squares, products = np.zeros((3, targets, targets))
        return cls(rows, squares + PRIOR_ROWS, products)

    def learn(self, z: Float[np.ndarray, " e"]) -> "Comoments":
        """Learn the scores of a row; a pair with a NaN learns nothing, and forgets nothing."""
        seen = np.isfinite(z)
        both = np.outer(seen, seen)
        z = np.where(seen, z, 0.0)
        keep = np.where(both, MEMORY, 1.0)
        added = both, np.where(both, (z * z)[:, None], 0.0), np.outer(z, z)
        return Comoments(*(keep * total + new for total, new in zip(self, added, strict=True)))

    def learn_rows(self, z: Float[np.ndarray, "n e"]) -> tuple["Comoments", list["Comoments"]]:
        """Learn rows in order; return also what was known before each of them."""
        now, before = self, []
        for row in z:
            before.append(now)
            now = now.learn(row)
        return now, before


def correlation_matrices(known: list[Comoments]) -> Float[np.ndarray, "n e e"]:
    """Return the correlation matrices that some sums speak for, positive definite.

    Each correlation is divided by one plus its relative error variance, (1 - r^2)^2 / (r^2 rows), so that what may be
    chance is next to nothing and what is certain stands. Since every pair has rows of its own, the matrix of all may
    not be positive definite: then eigenvalues below `LEAST_EIGENVALUE` are lifted to it.
    """
    rows, squares, products = (np.stack(each) for each in zip(*known, strict=True))
    r = products / np.sqrt(squares * np.swapaxes(squares, 1, 2))
    chance = np.square(1.0 - r * r) / np.maximum(rows, 1.0)
    shrunk = r * (r * r) / (r * r + chance)
    return positive_definite(np.where(np.eye(r.shape[-1], dtype=bool), 1.0, shrunk))


def positive_definite(matrices: Float[np.ndarray, "n e e"]) -> Float[np.ndarray, "n e e"]:
    """Return symmetric matrices with a unit diagonal, their eigenvalues at least about `LEAST_EIGENVALUE`."""
    values, vectors = np.linalg.eigh(matrices)
    low = values[:, 0] < LEAST_EIGENVALUE
    if not low.any():
        return matrices
    lifted = np.maximum(values[low], LEAST_EIGENVALUE)
    whole = (vectors[low] * lifted[:, None, :]) @ np.swapaxes(vectors[low], 1, 2)
    scale = np.sqrt(np.diagonal(whole, axis1=1, axis2=2))
    whole = whole / (scale[:, :, None] * scale[:, None, :])
    whole[:, np.arange(whole.shape[1]), np.arange(whole.shape[1])] = 1.0
    fixed = matrices.copy()
    fixed[low] = 0.5 * (whole + np.swapaxes(whole, 1, 2))
    return fixed


def scores_of(levels: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "n e"]:
    """Return the normal scores of the levels u = F(y), within `EDGE`; NaN stays NaN."""
    return np.clip(scipy.special.ndtri(levels), -EDGE, EDGE)


def log_copula(r: Float[np.ndarray, "n e e"], z: Float[np.ndarray, "n e"]) -> Float[np.ndarray, " n"]:
    """Return log c(z): what the correlation adds to the sum of the targets' log densities."""
    lower = np.linalg.cholesky(r)
    alone = np.linalg.solve(lower, z[..., None])[..., 0]
    log_root = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
    return -log_root - 0.5 * (np.square(alone).sum(1) - np.square(z).sum(1))


def condition(
    r: Float[np.ndarray, "n e e"], z: Float[np.ndarray, "n e"], known: Bool[np.ndarray, "n e"]
) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e e"]]:
    """Return mean and covariance of scores, given those that are `known`; these have their value and no variance."""
    mean, cov = np.where(known, z, 0.0), np.zeros_like(r)
    for pattern in np.unique(known, axis=0):
        rows = np.flatnonzero((known == pattern).all(1))
        given, free = np.flatnonzero(pattern), np.flatnonzero(~pattern)
        block = r[np.ix_(rows, free, free)]
        if len(given):
            gain = np.linalg.solve(r[np.ix_(rows, given, given)], r[np.ix_(rows, given, free)])
            across = np.swapaxes(gain, 1, 2)
            mean[np.ix_(rows, free)] = (across @ z[np.ix_(rows, given)][..., None])[..., 0]
            block = block - across @ r[np.ix_(rows, given, free)]
        cov[np.ix_(rows, free, free)] = block
    return mean, cov
