"""The one home of Cholesky factors, triangular solves and log-determinants."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float

from streamgp.core import AnyArray, namespace


def symmetrise(A: Float[AnyArray, "n n"]) -> Float[AnyArray, "n n"]:
    """The symmetric part of `A`: removes the round-off that a long recursion would otherwise pile up."""
    return 0.5 * (A + A.T)


def add_diagonal(A: Float[AnyArray, "n n"], value: Float[AnyArray, ""] | float) -> Float[AnyArray, "n n"]:
    """``A + value * I``."""
    return A + value * jnp.eye(A.shape[0], dtype=A.dtype)


def cholesky(A: Float[AnyArray, "n n"]) -> Float[AnyArray, "n n"]:
    """Lower Cholesky factor of a symmetric matrix, positive definite up to round-off.

    The one jitter rule: each diagonal entry grows by n eps of itself, as much as rounding may have taken from it
    (Higham 2002, Theorem 10.7), so that a matrix that is singular to working precision still has a factor.
    """
    n = A.shape[0]
    jitter = n * jnp.finfo(A.dtype).eps * jnp.diagonal(A)
    return jnp.linalg.cholesky(A + jnp.diag(jitter), symmetrize_input=False)


def solve_lower(L: Float[AnyArray, "n n"], B: Float[AnyArray, "n m"]) -> Float[AnyArray, "n m"]:
    """``L^-1 B`` for lower triangular `L`."""
    return solve_triangular(L, B, lower=True)


def cholesky_solve(L: Float[AnyArray, "n n"], B: Float[AnyArray, "n m"]) -> Float[AnyArray, "n m"]:
    """``(L L')^-1 B``."""
    return solve_triangular(L, solve_triangular(L, B, lower=True), lower=True, trans=1)


def log_det(L: Float[AnyArray, "n n"]) -> Float[AnyArray, ""]:
    """log |L L'| from its Cholesky factor: twice the sum of the log diagonal."""
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(L)))


def nearest_semidefinite(A: Float[AnyArray, "n n"]) -> Float[AnyArray, "n n"]:
    """The closest positive semidefinite matrix to a symmetric one: its negative eigenvalues become zero."""
    xp = namespace(A)
    values, vectors = xp.linalg.eigh(A)
    return symmetrise((vectors * xp.maximum(values, 0.0)[None]) @ vectors.T)


def mirror_upper(A: Float[np.ndarray, "n n"], tile: int = 64) -> None:
    """Copy the upper triangle of a NumPy matrix over its lower one, in place, tile by tile."""
    n = A.shape[0]
    for i in range(0, n, tile):
        corner = A[i : i + tile, i : i + tile]
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
        A[i + tile :, i : i + tile] = A[i : i + tile, i + tile :].T
