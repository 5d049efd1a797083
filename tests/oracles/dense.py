"""One expert as a Gaussian process: one big covariance matrix over all rows, and conditioning."""

import numpy as np


def dense_covariance(
    Phi: np.ndarray, times: np.ndarray, *, prior_var: float, decay: float = 1.0, diffusion: float = 0.0
) -> np.ndarray:
    """Cov(f_s, f_t) of f_t = phi_t' theta_t, with theta at N(0, v I) at time 0 and `times` counted from there."""
    early = np.minimum(times[:, None], times[None, :])
    gap = np.abs(times[:, None] - times[None, :])
    if decay == 1.0:
        variance = 1.0 + diffusion * early
    else:
        stationary = diffusion / (1.0 - decay**2)
        variance = decay ** (2.0 * early) + stationary * (1.0 - decay ** (2.0 * early))
    return prior_var * decay**gap * variance * (Phi @ Phi.T)


def condition(K: np.ndarray, y: np.ndarray, noise_var: float, row: int, given: int) -> tuple[np.ndarray, float]:
    """Mean (E,) and variance of target `row`, noise included, given the first `given` targets."""
    seen = K[:given, :given] + noise_var * np.eye(given)
    gain = np.linalg.solve(seen, K[:given, row])
    return gain @ y[:given], K[row, row] + noise_var - gain @ K[:given, row]
