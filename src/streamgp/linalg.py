"""The one home of Cholesky factors, triangular solves and log-determinants, of NumPy's arrays and of JAX's."""

from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import scipy.linalg
from jaxtyping import Float

from streamgp.core import AnyArray, namespace


def symmetrise(A: Float[AnyArray, "n n"]) -> Float[AnyArray, "n n"]:
    """The symmetric part of `A`: removes the round-off that a long recursion would otherwise pile up."""
    return 0.5 * (A + A.T)


def add_diagonal(A: Float[AnyArray, "n n"], value: Float[AnyArray, ""] | float) -> Float[AnyArray, "n n"]:
    """``A + value * I``."""
    return A + value * namespace(A).eye(A.shape[0], dtype=A.dtype)


def cholesky(A: Float[AnyArray, "n n"]) -> Any:
    """Lower Cholesky factor of a symmetric matrix, positive definite up to round-off.

    The one jitter rule: each diagonal entry grows by n eps of itself, as much as rounding may have taken from it
    (Higham 2002, Theorem 10.7), so that a matrix that is singular to working precision still has a factor.
    """
    n, xp = A.shape[0], namespace(A)
    jitter = n * jnp.finfo(A.dtype).eps * xp.diagonal(A)
    if xp is np:
        return np.linalg.cholesky(A + np.diag(jitter))
    return jnp.linalg.cholesky(A + jnp.diag(jitter), symmetrize_input=False)


def solve_lower(L: Float[AnyArray, "n n"], B: Float[AnyArray, "n m"]) -> Any:
    """``L^-1 B`` for lower triangular `L`."""
    return _solve_triangular(L, B)


def cholesky_solve(L: Float[AnyArray, "n n"], B: Float[AnyArray, "n *m"]) -> Any:
    """``(L L')^-1 B``."""
    return _solve_triangular(L, _solve_triangular(L, B), trans=1)


def _solve_triangular(L: AnyArray, B: AnyArray, trans: int = 0) -> Any:
    if namespace(L, B) is np:
        return scipy.linalg.solve_triangular(L, B, lower=True, trans=trans, check_finite=False)
    return jax.scipy.linalg.solve_triangular(L, B, lower=True, trans=trans)


def log_det(L: Float[AnyArray, "n n"]) -> Float[AnyArray, ""] | np.floating:
    """log |L L'| from its Cholesky factor: twice the sum of the log diagonal."""
    xp = namespace(L)
    return 2.0 * xp.sum(xp.log(xp.diagonal(L)))


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
