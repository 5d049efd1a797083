"""Cholesky factors, triangular solves and log-determinants, of NumPy's arrays and of JAX's."""

import sys
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from streamgp.numerics.arrays import AnyArray, namespace


def symmetrise(A: Float[AnyArray, "n n"]) -> Float[AnyArray, "n n"]:
    """Return the symmetric part of `A`: removes the round-off that a long recursion would otherwise pile up."""
    return 0.5 * (A + A.T)


def add_diagonal(A: Float[AnyArray, "n n"], value: Float[AnyArray, ""] | float) -> Float[AnyArray, "n n"]:
    """Return ``A + value * I``."""
    return A + value * namespace(A).eye(A.shape[0], dtype=A.dtype)


def jittered(A: Float[AnyArray, "n n"]) -> Any:
    """Add the one jitter to `A`: each diagonal entry grows by n eps of itself, as much as rounding may have taken.

    So a matrix that is singular to working precision still has a factor (Higham 2002, Theorem 10.7).
    """
    xp = namespace(A)
    return A + xp.diag(A.shape[0] * np.finfo(A.dtype).eps * xp.diagonal(A))


def cholesky(A: Float[AnyArray, "n n"]) -> Any:
    """Compute the lower Cholesky factor of a symmetric matrix, positive definite up to round-off: see `jittered`."""
    if namespace(A) is np:
        return np.linalg.cholesky(jittered(A))
    return namespace(A).linalg.cholesky(jittered(A), symmetrize_input=False)


def factor(A: Float[AnyArray, "n n"]) -> Any:
    """Return the factor that `cholesky` has; in NumPy not a number, as in JAX, where there is none."""
    try:
        return cholesky(A)
    except np.linalg.LinAlgError:
        return np.full_like(A, np.nan)


def solve_lower(L: Float[AnyArray, "n n"], B: Float[AnyArray, "n m"]) -> Any:
    """Compute ``L^-1 B`` for lower triangular `L`."""
    return _solve_triangular(L, B)


def solve_lower_each(
    L: Float[np.ndarray, "*batch n n"], B: Float[np.ndarray, "*batch n m"]
) -> Float[np.ndarray, "*batch n m"]:
    """Compute ``L^-1 B`` for each of a stack; elimination that ignores the zeros takes two to five times as long."""
    (trtrs,) = scipy.linalg.get_lapack_funcs(("trtrs",), (L, B))
    found = np.empty(B.shape)
    for at in np.ndindex(*L.shape[:-2]):
        found[at] = trtrs(L[at].T, B[at], lower=0, trans=1)[0]
    return found


def cholesky_solve(L: Float[AnyArray, "n n"], B: Float[AnyArray, "n *m"]) -> Any:  # noqa: F821 (dimensions)
    """Compute ``(L L')^-1 B``."""
    return _solve_triangular(L, _solve_triangular(L, B), trans=1)


def _solve_triangular(L: AnyArray, B: AnyArray, trans: int = 0) -> Any:
    if namespace(L, B) is np:
        return scipy.linalg.solve_triangular(L, B, lower=True, trans=trans, check_finite=False)
    return sys.modules["jax"].scipy.linalg.solve_triangular(L, B, lower=True, trans=trans)


def factor_with_inverse(K: Float[AnyArray, "k n n"], smallest: int = 64) -> tuple[Any, Any]:
    """Return lower Cholesky factors of JAX's matrices and their inverses; not a number where there are none.

    By halves: what is factorised and solved one column after the other is no larger than `smallest`, the rest are
    products of matrices.
    """
    xp, n = namespace(K), K.shape[-1]
    if n <= smallest:
        L = xp.linalg.cholesky(K, symmetrize_input=False)
        eye = xp.broadcast_to(xp.eye(n, dtype=K.dtype), K.shape)
        return L, sys.modules["jax"].lax.linalg.triangular_solve(L, eye, left_side=True, lower=True)
    half = n // 2
    first, first_inverse = factor_with_inverse(K[:, :half, :half], smallest)
    below = K[:, half:, :half] @ first_inverse.swapaxes(-1, -2)
    left = K[:, half:, half:] - below @ below.swapaxes(-1, -2)
    second, second_inverse = factor_with_inverse(left, smallest)
    none = xp.zeros((*K.shape[:-2], half, n - half), K.dtype)
    beside = -second_inverse @ (below @ first_inverse)
    L = xp.concatenate([xp.concatenate([first, none], -1), xp.concatenate([below, second], -1)], -2)
    inverse = xp.concatenate(
        [xp.concatenate([first_inverse, none], -1), xp.concatenate([beside, second_inverse], -1)], -2
    )
    return L, inverse


def solve_small(A: Float[AnyArray, "n d d"], b: Float[AnyArray, "n d"]) -> Float[AnyArray, "n d"]:
    """Compute A^-1 b of many small positive definite matrices, written out: no factorisation is called for each."""
    d = b.shape[1]
    L: dict[tuple[int, int], Any] = {}
    z: list[Any] = []
    for i in range(d):
        for j in range(i + 1):
            left = A[:, i, j] - sum(L[i, k] * L[j, k] for k in range(j))
            L[i, j] = left**0.5 if i == j else left / L[j, j]
        z.append((b[:, i] - sum(L[i, k] * z[k] for k in range(i))) / L[i, i])
    x: dict[int, Any] = {}
    for i in reversed(range(d)):
        x[i] = (z[i] - sum(L[k, i] * x[k] for k in range(i + 1, d))) / L[i, i]
    return namespace(b).stack([x[i] for i in range(d)], axis=1)


def inverses(A: Float[np.ndarray, "*batch n n"]) -> Float[np.ndarray, "*batch n n"]:
    """Compute the inverses of many symmetric positive definite matrices; symmetric to the last digit."""
    found = np.linalg.inv(A)
    return 0.5 * (found + np.swapaxes(found, -1, -2))


def less_certain(V: Float[np.ndarray, "*batch n n"], D: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "*batch n n"]:
    """Compute ``(V^-1 + D)^-1`` of covariances and a symmetric matrix, from V itself; NaN where there is none."""
    A = np.eye(len(D)) + V @ D
    try:
        found = np.linalg.solve(A, V)
    except np.linalg.LinAlgError:  # of one singular matrix; the others have their solution
        A[np.linalg.slogdet(A)[0] == 0.0] = np.nan
        found = np.linalg.solve(A, V)
    return 0.5 * (found + np.swapaxes(found, -1, -2))


def log_dets(A: Float[np.ndarray, "*batch n n"]) -> Float[np.ndarray, "*batch"]:
    """Compute the log determinants of many symmetric positive definite matrices."""
    return np.linalg.slogdet(A)[1]


def log_det(L: Float[AnyArray, "n n"]) -> Float[AnyArray, ""] | np.floating:
    """Return log |L L'| from its Cholesky factor: twice the sum of the log diagonal."""
    xp = namespace(L)
    return 2.0 * xp.sum(xp.log(xp.diagonal(L)))


def nearest_semidefinite(A: Float[AnyArray, "n n"]) -> Float[AnyArray, "n n"]:
    """Return the closest positive semidefinite matrix to a symmetric one: negative eigenvalues become zero."""
    xp = namespace(A)
    values, vectors = xp.linalg.eigh(A)
    return symmetrise((vectors * xp.maximum(values, 0.0)[None]) @ vectors.T)


def mirror_upper(A: Float[np.ndarray, "n n"], tile: int = 64) -> None:
    """Copy the upper triangle of a NumPy matrix over its lower one, in place, tile by tile."""
    n, below = A.shape[0], np.tri(tile, k=-1, dtype=bool)
    for i in range(0, n, tile):
        corner = A[i : i + tile, i : i + tile]
        np.copyto(corner, corner.T.copy(), where=below[: len(corner), : len(corner)])
        A[i + tile :, i : i + tile] = A[i : i + tile, i + tile :].T
