"""One expert by an array square-root filter: orthogonal transformations of factors, never of covariances.

Kailath, Sayed and Hassibi (2000), section 12.3. A block of rows goes through one QR factorisation, so that a
million rows take seconds; a block of one row is the textbook algorithm.
"""

import numpy as np
from numpy.linalg import cholesky
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dgeqrf


def block_root(
    root: np.ndarray, Phi: np.ndarray, *, prior_var: float, noise_var: float, decay: float, diffusion: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factor of the joint covariance of a block's targets and of the weights at its last row.

    Parameters
    ----------
    root
        S with S S' = Cov(theta) at the last row before the block.

    Returns
    -------
    L, W, root
        Lower factor of the targets' covariance, W = L^-1 Cov(y, theta_B), and S after the block.
    """
    B, F = Phi.shape
    steps = np.arange(1, B + 1)
    a = decay**steps
    variance = steps * diffusion if decay == 1.0 else diffusion * (1.0 - a**2) / (1.0 - decay**2)
    b = prior_var * np.minimum.outer(variance, variance) * decay ** np.abs(np.subtract.outer(steps, steps))
    # What moved within the block: a part that the last row's weights share, and a bridge up to them.
    shared = b[:, -1] / np.sqrt(b[-1, -1]) if diffusion else np.zeros(B)
    bridge = (b - np.outer(shared, shared)) * (Phi @ Phi.T)
    array = np.zeros((B + F, 2 * F + B))
    array[:B, :F] = a[:, None] * (Phi @ root)
    array[:B, F : 2 * F] = shared[:, None] * Phi
    array[:B, 2 * F :] = cholesky(bridge + noise_var * np.eye(B))
    array[B:, :F] = a[-1] * root
    array[B:, F : 2 * F] = np.sqrt(b[-1, -1]) * np.eye(F)
    lower = np.tril(dgeqrf(array.T)[0][: B + F].T)
    return lower[:B, :B], lower[B:, :B].T, lower[B:, B:]


def square_root_filter(
    Phi: np.ndarray,
    y: np.ndarray,
    mean: np.ndarray,
    root: np.ndarray,
    *,
    prior_var: float,
    noise_var: float,
    decay: float = 1.0,
    diffusion: float = 0.0,
    block: int = 1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One-step-ahead means (n,) and variances (n,) of rows one time step apart, and the belief after them."""
    loc, var = np.zeros(len(y)), np.zeros(len(y))
    for at in range(0, len(y), block):
        rows = slice(at, at + block)
        L, W, after = block_root(
            root, Phi[rows], prior_var=prior_var, noise_var=noise_var, decay=decay, diffusion=diffusion
        )
        steps = decay ** np.arange(1, len(L) + 1)
        prior = steps * (Phi[rows] @ mean)
        z = solve_triangular(L, y[rows] - prior, lower=True)
        loc[rows], var[rows] = prior + np.tril(L, -1) @ z, np.diag(L) ** 2
        mean, root = steps[-1] * mean + W.T @ z, after
    return loc, var, mean, root
