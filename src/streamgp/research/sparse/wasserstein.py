"""The Bures-Wasserstein distance between Gaussians, with its gradient."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from streamgp.numerics.arrays import AnyArray, namespace


@jax.custom_jvp
def bures_wasserstein(S1: Float[AnyArray, "n n"], S2: Float[AnyArray, "n n"]) -> Any:
    """Compute the squared Wasserstein distance between centred Gaussians of these covariances, maybe singular.

    tr(S1 + S2 - 2 (S1^1/2 S2 S1^1/2)^1/2); the root's trace is the sum of the singular values of F1' F2 with
    S = F F', so that no small eigenvalue is lost under its square. Between Gaussians with means, add |m1 - m2|^2.
    """
    xp = namespace(S1, S2)
    overlap = xp.linalg.svd(_root(S1).T @ _root(S2), compute_uv=False)
    return xp.maximum(xp.trace(S1) + xp.trace(S2) - 2.0 * xp.sum(overlap), 0.0)


@bures_wasserstein.defjvp
def _bures_wasserstein_slope(primals: tuple, tangents: tuple) -> tuple:
    # By S1: I - T, with T the optimal map to the other Gaussian. That of a factorisation has no slope where two
    # eigenvalues are the same.
    (S1, S2), (dS1, dS2) = primals, tangents
    F1, F2 = _root(S1), _root(S2)
    U, overlap, Vt = jnp.linalg.svd(F1.T @ F2)
    least = len(S1) * jnp.finfo(S1.dtype).eps * overlap[0]
    inverse = jnp.where(overlap > least, 1.0 / jnp.maximum(overlap, least), 0.0)
    to_two = F2 @ (Vt.T * inverse[None]) @ Vt @ F2.T
    to_one = F1 @ (U * inverse[None]) @ U.T @ F1.T
    slope = jnp.trace(dS1) - jnp.sum(to_two * dS1) + jnp.trace(dS2) - jnp.sum(to_one * dS2)
    return bures_wasserstein(S1, S2), slope


def _root(S: Float[AnyArray, "n n"]) -> Float[AnyArray, "n n"]:
    """Return F with F F' = S, of a symmetric positive semi-definite matrix."""
    xp = namespace(S)
    values, vectors = xp.linalg.eigh(S)
    return vectors * xp.sqrt(xp.maximum(values, 0.0))[None]
