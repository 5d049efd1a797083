"""Nystrom features: the Gaussian process of a kernel, seen through its values at a few centres."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from streamgp.bases.base import Evaluator, Pullback
from streamgp.bases.centres import OfCentres, bumps, bumps_around, slopes_of_bumps
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.linalg import add_diagonal, cholesky, jittered, solve_lower

# Variance of a little independent noise in the centres' values. To factorise, linalg's n eps would do, but then
# features of long lengthscales carry errors of 1e-9: a row alone would differ by that from the same row in a block.
NUGGET = 1e-6
# A row is inside the region if at least this share of the prior variance 1 is left.
MIN_VARIANCE = 0.5


@register
class Nystrom(OfCentres):
    """phi(x) = L^-1 k_z(x), where K_zz = L L' is the kernel between F centres z and k_z(x)_j = k(x, z_j).

    The kernel is the squared exponential k(x, x') = exp(-sum_d ((x_d - x'_d) / l_d)^2 / 2). phi(x)'phi(x') is its
    Nystrom approximation k_z(x)' K_zz^-1 k_z(x'): exact (to within 1e-6) where x or x' is a centre, and nowhere above
    the kernel's own variance 1 (Williams and Seeger 2001; the subset of regressors of Quinonero-Candela and Rasmussen
    2005, Eq. 16). The symmetric root K_zz^-1/2 in place of L^-1 would only rotate the features: the same Gram matrix,
    and so the same predictions. The Cholesky factor costs less and has a derivative without eigenvalues.

    Away from all centres the prior variance phi(x)'phi(x) sinks to zero, and predictions return to zero with
    misplaced certainty: `outside` flags rows where it is below one half.

    Parameters
    ----------
    centres
        z, one row for each feature, in the units of the inputs.
    lengthscale
        l, one for each input, in the same units.
    whitening
        L^-1, which follows from the two; None computes it at each call, as the fit of the lengthscales needs.
    """

    # On five data sets of 6 to 18 inputs, starts of 0.1 to 3 led to optima within .01 nats a row of each other, but
    # for one, where the longest led to the best (by .02 to .05): one start is enough, and fits in a second.
    starts: ClassVar[tuple[float, ...]] = (3.0,)
    default_features: ClassVar[int] = 200

    whitening: Float[AnyArray, "*stack f f"] | None = None

    @property
    def largest_product(self) -> int:
        """Return F^2: the kernel with all centres is multiplied by L^-1."""
        return self.num_features**2

    def evaluator(self) -> Evaluator:
        """Return the map with L^-1 computed."""
        whitening = _whitening(self.centres, self.lengthscale) if self.whitening is None else self.whitening
        kernel, whitening = bumps_around(self.centres, self.lengthscale), whitening.swapaxes(-1, -2)
        return lambda X: kernel(X) @ whitening

    def features_and_pullback(self, X: Float[AnyArray, "n d"]) -> tuple[Float[AnyArray, "n f"], Pullback]:
        """Return the features, and the product with their Jacobian by the lengthscales; a stored L^-1 is constant."""
        whitening = _whitening(self.centres, self.lengthscale) if self.whitening is None else self.whitening
        across = bumps(X, self.centres, self.lengthscale)
        Phi = _times_triangle(across, whitening, transposed=True)

        def pullback(cotangent: np.ndarray) -> dict[str, Any]:
            weight = _times_triangle(cotangent, whitening)
            weight *= across
            _, by_lengthscale = slopes_of_bumps(X, self.centres, self.lengthscale, weight)
            if self.whitening is None:
                # By K_zz it is -L^-T S L^-1, S the symmetric part of the lower triangle of cotangent' Phi
                # (Murray 2016).
                by_factor = _lower_product(cotangent, Phi)
                by_kernel = -0.5 * whitening.T @ (by_factor + by_factor.T - np.diag(np.diag(by_factor))) @ whitening
                kernel = bumps(self.centres, self.centres, self.lengthscale)
                by_lengthscale += slopes_of_bumps(self.centres, self.centres, self.lengthscale, by_kernel * kernel)[1]
            return {"lengthscale": by_lengthscale}

        return Phi, pullback

    def outside(self, X: Float[AnyArray, "n d"]) -> Bool[AnyArray, "*stack n"]:
        """Flag rows so far from all centres that less than half of the prior variance is left."""
        Phi = self(X)
        return namespace(Phi).square(Phi).sum(-1) < MIN_VARIANCE

    def precomputed(self) -> "Nystrom":
        """Return the same with L^-1 stored: a call then costs one product with it instead of a factorisation."""
        return replace(self, whitening=_whitening(self.centres, self.lengthscale))


def _whitening(
    centres: Float[AnyArray, "*stack f d"], lengthscale: Float[AnyArray, "*stack d"]
) -> Float[AnyArray, "*stack f f"]:
    """Return L^-1, the inverse of K_zz's Cholesky factor; not a number where there is none."""
    if centres.ndim > 2:
        pairs = zip(centres, lengthscale, strict=True)
        return namespace(centres, lengthscale).stack([_whitening(*pair) for pair in pairs])
    kernel = add_diagonal(bumps(centres, centres, lengthscale), NUGGET)
    if (xp := namespace(kernel)) is not np:
        return solve_lower(cholesky(kernel), xp.eye(len(kernel), dtype=kernel.dtype))
    potrf, trtri = get_lapack_funcs(("potrf", "trtri"), (kernel,))
    factor, failed = potrf(jittered(kernel), lower=True)
    return np.full_like(kernel, np.nan) if failed else trtri(factor, lower=True)[0]


def _times_triangle(
    A: Float[np.ndarray, "n f"], triangle: Float[np.ndarray, "f f"], transposed: bool = False
) -> Float[np.ndarray, "n f"]:
    """Return the product with a lower triangle, or with its transpose, at half the cost of a full one."""
    (trmm,) = get_blas_funcs(("trmm",), (A, triangle))
    return trmm(1.0, triangle, np.ascontiguousarray(A).T, lower=True, trans_a=not transposed).T


def _lower_product(
    A: Float[np.ndarray, "n f"], B: Float[np.ndarray, "n f"], block: int = 50
) -> Float[np.ndarray, "f f"]:
    """Return the lower triangle of A' B, a few columns at a time."""
    found = np.zeros((A.shape[1], B.shape[1]))
    for at in range(0, len(found), block):
        found[at:, at : at + block] = A[:, at:].T @ B[:, at : at + block]
        corner = found[at : at + block, at : at + block]
        corner[:] = np.tril(corner)
    return found
