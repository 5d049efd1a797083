"""The covariances of experts that learn whole blocks, and what a block does with them, by the fastest routines.

Small experts are stacked: one call of NumPy works through many matrices, so that Python's own time does not count.
Of a large covariance only one triangle is kept up to date between blocks: the product with it (symm) and its
downdate (syrk), in place, need no more.
"""

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.engine.blas import Matrices, Number
from streamgp.numerics.linalg import mirror_upper, nearest_semidefinite
from streamgp.numerics.native import address

LARGE = 200  # features from which on a block's work outweighs the calls, so that experts go one by one


class BlockCovariances:
    """The covariances of G x R experts over G bases, in place.

    Parameters
    ----------
    cov
        Of every expert; overwritten. Of a large one only one triangle is, until `complete`.
    rows
        How many a block has.
    beside
        How many columns are solved for beside `cross`.

    Attributes
    ----------
    cross
        What `multiply` and `solve` leave: a block's features times the covariance, then L^-1 times that.
    beside
        More that `solve` multiplies by L^-1.
    """

    def __init__(self, cov: Float[np.ndarray, "g r f f"], rows: int, beside: int) -> None:
        G, R, F, _ = cov.shape
        self._cov = cov
        work = np.empty((G, R, rows, F + beside))
        self.cross, self.beside = np.split(work, [F], axis=-1)  # one triangular solve does them all
        self._blas = Matrices(F, rows, beside)
        self._down = None if F >= LARGE else np.empty_like(cov)
        self._experts = list(np.ndindex(G, R))
        self._at = [(address(cov[expert]), address(work[expert])) for expert in self._experts]

    def multiply(self, P: Float[np.ndarray, "g 1 n f"]) -> None:
        """Set `cross` to the product of a block's features and the covariance."""
        if self._down is None:
            for (g, _), (cov_at, work_at) in zip(self._experts, self._at, strict=True):
                self._blas.symmetric_product(cov_at, address(P[g, 0]), work_at)
        else:
            np.matmul(P, self._cov, out=self.cross)

    def solve(self, L: Float[np.ndarray, "g r n n"]) -> None:
        """Multiply `cross` and what is beside it by L^-1."""
        start, size = address(L), L.itemsize * L.shape[-1] ** 2
        for number, (_, work_at) in enumerate(self._at):
            self._blas.solve(start + number * size, work_at)

    def downdate(self, shrink: Float[np.ndarray, "g r 1 1"] | None) -> None:
        """Take from each covariance, times `shrink` if that is not None, what was learnt: cross' cross."""
        if self._down is None:
            factors = [1.0] * len(self._at) if shrink is None else shrink.ravel()
            for (cov_at, work_at), factor in zip(self._at, factors, strict=True):
                self._blas.downdate(work_at, Number(float(factor)), cov_at)
        else:
            np.matmul(self.cross.swapaxes(-1, -2), self.cross, out=self._down)
            if shrink is not None:
                self._cov *= shrink
            self._cov -= self._down

    def widen(self, grown: Float[np.ndarray, "g r 1"]) -> None:
        """Add to the variance of every weight."""
        diagonal = diagonal_of(self._cov)
        diagonal += grown

    def repair(self, broken: Bool[np.ndarray, "g r"]) -> None:
        """Make the covariances of some experts positive semidefinite again."""
        for expert in zip(*np.nonzero(broken), strict=True):
            repair_covariance(self._cov[expert], one_triangle=self._down is None)

    def complete(self) -> None:
        """Make the covariances whole, of which one triangle was kept up to date."""
        if self._down is None:
            for matrix in self._cov.reshape(-1, *self._cov.shape[2:]):
                mirror_upper(matrix)  # BLAS' lower triangle


def diagonal_of(matrices: Float[np.ndarray, "g r n n"]) -> Float[np.ndarray, "g r n"]:
    """Return the diagonals of stacked matrices, as a view of them."""
    G, R, n, _ = matrices.shape
    return matrices.reshape(G, R, -1)[..., :: n + 1]


def repair_covariance(cov: Float[np.ndarray, "f f"], one_triangle: bool = False) -> None:
    """Make a covariance positive semidefinite again, in place.

    A prior variance of 1e10 times the noise leaves it few digits: after some thousand rows rounding may have taken
    more from it than was left; variances then fall below that of the noise, and soon K has no factor.
    """
    if one_triangle:
        mirror_upper(cov)
    if np.isfinite(cov).all():
        cov[:] = nearest_semidefinite(cov)
