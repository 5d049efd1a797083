"""The block filter of `streamgp.filtering` on NumPy arrays: the same algebra, in place, by the fastest BLAS routines.

Of the covariance only one triangle is kept up to date between blocks: the product with it (symm) and its downdate
(syrk) need no more, which halves the arithmetic of the downdate and keeps it symmetric by construction.
"""

import numpy as np
from jaxtyping import Float

from streamgp.dynamics import Dynamics
from streamgp.engine.blas import Matrices, Number, address
from streamgp.filtering import Noise
from streamgp.linalg import mirror_upper


def update_blocks(
    mean: Float[np.ndarray, "r f e"],
    cov: Float[np.ndarray, "r f f"],
    Phi: Float[np.ndarray, "m n f"],
    gram: Float[np.ndarray, "m n n"] | None,
    y: Float[np.ndarray, "m n e"],
    tau: Float[np.ndarray, "m n"],
    dynamics: Dynamics,
    noise: Noise,
) -> tuple[Float[np.ndarray, "r m n e"], Float[np.ndarray, "r m n"]]:
    """Let experts with the same features learn from consecutive blocks; return their predictions of the rows.

    What `streamgp.filtering.update_blocks` does for each expert. Matrix products go expert by expert, the rest for
    all of them at once, since Python's share in a small block would otherwise outweigh them.

    Parameters
    ----------
    mean, cov
        The beliefs in C order, overwritten with the new ones.
    Phi, gram, y
        Features, their Gram matrices (None if all weights are static) and targets, with zeros in the rows left out.
    dynamics, noise
        Of every expert, with NumPy arrays.
    """
    (m, B, F), E, R = Phi.shape, y.shape[2], len(mean)
    v, s2 = (np.asarray(a)[:, None, None] for a in noise)
    reverts = bool((np.asarray(dynamics.decay) < 1.0).any())
    # Stacks of matrices in Fortran order, as BLAS wants them, look transposed from here: mu is (r, e, f).
    mu = np.array(mean.transpose(0, 2, 1), order="C")
    cross, K, z, ahead = np.empty((R, B, F)), np.empty((R, B, B)), np.empty((R, E, B)), np.empty((R, E, B))
    diagonal = K.reshape(R, -1)[:, :: B + 1]
    cov_diagonal = cov.reshape(R, -1)[:, :: F + 1]
    experts = list(zip(*(map(address, stack) for stack in (mu, cov, cross, K, z, ahead)), strict=True))
    Phi_at, block_bytes = address(Phi), B * F * Phi.itemsize
    jitter = 1.0 + B * np.finfo(np.float64).eps  # the rule of linalg.cholesky
    loc, var = np.empty((R, m, B, E)), np.empty((R, m, B))
    blas = Matrices(F, B, E)
    members = [
        Dynamics(np.asarray(d), np.asarray(q)) for d, q in zip(dynamics.decay, dynamics.diffusion, strict=True)
    ]
    last_tau = None
    a, b, end, grown = np.ones((R, B)), np.zeros((R, B, B)), np.ones(R), np.zeros((R, 1))
    shrink = [Number(1.0)] * R
    shrink2 = shrink
    for i in range(m):
        if gram is not None and (last_tau is None or not np.array_equal(tau[i], last_tau)):
            last_tau = tau[i]
            each = [one.block(tau[i]) for one in members]
            a, b = np.stack([pair[0] for pair in each]), v * np.stack([pair[1] for pair in each])
            end, grown = a[:, -1], b[:, -1, -1:]
            shrink, shrink2 = [Number(float(x)) for x in end], [Number(float(x * x)) for x in end]
        P = Phi_at + i * block_bytes
        for mu_at, cov_at, cross_at, K_at, _, ahead_at in experts:
            blas.symmetric_product(cov_at, P, cross_at)
            blas.gram(P, cross_at, K_at)
            blas.project(P, mu_at, ahead_at)
        if reverts:
            K *= a[:, :, None] * a[:, None, :]
            ahead *= a[:, None, :]
            cross *= (end[:, None] * a)[:, :, None]
        if gram is not None:
            K += b * gram[i]
            cross += b[:, -1, :, None] * Phi[i]
        diagonal += s2[:, 0]
        diagonal *= jitter
        np.subtract(y[i].T, ahead, out=z)
        for r, (mu_at, cov_at, cross_at, K_at, z_at, _) in enumerate(experts):
            if not blas.cholesky(K_at):
                K[r] = np.nan
            blas.solve_rows(K_at, z_at)
            blas.solve_columns(K_at, cross_at)
            blas.add_product(cross_at, z_at, shrink[r], mu_at)
            blas.downdate(cross_at, shrink2[r], cov_at)
        if gram is not None:
            cov_diagonal += grown
        np.square(diagonal, out=var[:, i])
        # prior + (L - diag L) z: row i takes no part of y_i, not even in its rounding.
        diagonal.fill(0.0)
        for _, _, _, K_at, z_at, _ in experts:
            blas.multiply_rows(K_at, z_at)
        np.add(ahead.transpose(0, 2, 1), z.transpose(0, 2, 1), out=loc[:, i])
    mean[:] = mu.transpose(0, 2, 1)
    for matrix in cov:
        mirror_upper(matrix)  # the lower triangle in Fortran order is the upper one in C order
    return loc, var


def predict_rows(
    mean: Float[np.ndarray, "f e"],
    cov: Float[np.ndarray, "f f"],
    Phi: Float[np.ndarray, "n f"],
    tau: Float[np.ndarray, " n"],
    dynamics: Dynamics,
    noise: Noise,
) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, " n"]]:
    """Mean and variance of the target of each row, each as if it came `tau` after the last row learnt."""
    a, b = dynamics.shrinkage(tau), dynamics.spread(tau) * noise.prior_var
    spread = np.einsum("nf,nf->n", Phi @ cov, Phi)
    var = a * a * spread + b * np.einsum("nf,nf->n", Phi, Phi) + noise.noise_var
    return np.asarray(a)[:, None] * (Phi @ mean), np.asarray(var)
