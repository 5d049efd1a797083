"""Confidence bounds: beta_t in mean + beta_t std, and what theory says of regret."""

from math import ceil, inf, log, pi, sqrt
from numbers import Real
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Num

from streamgp.numerics.linalg import add_diagonal, cholesky, log_det

Schedule = Literal["theory", "log", "sqrt-log", "srinivas"]


def beta(
    schedule: Schedule | float,
    t: int,
    *,
    log_gain: float = 0.0,
    width: int = 1,
    delta: float = 0.05,
    bound: float = 1.0,
) -> float:
    """Return beta_t, which multiplies the standard deviation.

    Parameters
    ----------
    schedule
        A constant, or one of

        - ``"theory"``: sqrt(2 log(2 |S + K|^1/2 / (delta |S|^1/2))) + B (Mauduit, Berthier and Simonetto, Theorem
          3.1, after Kirschner and Krause 2018), K and S of what is known at the time of the choice;
        - ``"log"``: 0.8 log(4 t), what Bogunovic, Scarlett and Cevher (2016) call beta_t, as the factor of the
          standard deviation itself;
        - ``"sqrt-log"``: its square root, as they use it;
        - ``"srinivas"``: sqrt(2 log(t^(d/2 + 2) pi^2 / (3 delta))) (Srinivas et al. 2010, Theorem 2, in the practical
          form of Brochu, Cora and de Freitas 2010).
    t
        Number of the choice, from 1.
    log_gain
        log |S + K| - log |S|: twice the information gain.
    width
        Parameters, d.
    delta
        The probability with which the bound may fail.
    bound
        B, a bound on the norm of the function in the kernel's own space. It cannot be learnt; the user gives it.

    Raises
    ------
    ValueError
        If the schedule is unknown, or a constant is negative.
    """
    t = max(t, 1)
    match schedule:
        case "theory":
            return sqrt(2.0 * (log(2.0 / delta) + 0.5 * log_gain)) + bound
        case "log":
            return 0.8 * log(4.0 * t)
        case "sqrt-log":
            return sqrt(0.8 * log(4.0 * t))
        case "srinivas":
            return sqrt(2.0 * ((0.5 * width + 2.0) * log(t) + log(pi**2 / (3.0 * delta))))
        case Real() if 0.0 <= schedule < inf:
            return float(schedule)
    raise ValueError(
        f"beta: expected a number of at least zero or one of {', '.join(get_args(Schedule))}, got {schedule!r}"
    )


def information_gain(K: Float[np.ndarray, "n n"], noise_vars: Float[np.ndarray, " n"]) -> float:
    """Return the information that observations with these noise variances give about the function, in nats.

    It is 1/2 log |I + S^-1/2 K S^-1/2|; K is the kernel matrix of their inputs, its variance included (Srinivas et
    al. 2010, Eq. 3).
    """
    root = 1.0 / np.sqrt(noise_vars)
    return 0.5 * float(log_det(cholesky(add_diagonal(root[:, None] * K * root, 1.0))))


def sparq_queries(t: int, factor: float = 6.0) -> int:
    """Return Q_t = factor log t, rounded up: the side queries of step t in the experiments of Mauduit et al."""
    return ceil(factor * log(t)) if t > 1 else 0


def sparq_rate(
    T: Num[np.ndarray, " n"] | int, dim: int = 1, delta: float = 0.05
) -> Float[np.ndarray, " n"] | np.floating:
    """Return the growth of R_T in Theorem 3.1 of Mauduit, Berthier and Simonetto, who give no constants.

    sqrt(T d log^(d+5) T) sqrt(log(1/delta) + d log^(d+3)(d log T)), for a squared-exponential kernel.
    """
    T = np.asarray(T, dtype=float)
    logs = np.log(np.maximum(T, 2.0))
    inner = np.maximum(np.log(np.maximum(dim * logs, 1.0)), 0.0)
    return np.sqrt(T * dim * logs ** (dim + 5)) * np.sqrt(log(1.0 / delta) + dim * inner ** (dim + 3))


def restart_length(eps: float, T: int) -> int:
    """Return R-GP-UCB's block length, min(T, ceil(12 eps^-1/4)), for a squared-exponential kernel.

    Bogunovic, Scarlett and Cevher (2016), Corollary 4.1 and Section 5; `eps` is the rate of their temporal kernel.
    """
    return min(T, ceil(12.0 * eps**-0.25))


def window_length(T: int, gain: float, budget: float) -> int:
    """Return a window for SW- and R-GP-UCB where the variation budget is known: g_T^1/4 (T / B_T)^1/2, at least 1.

    `gain` is the greatest information gain g_T of T observations, `budget` the sum over steps of how far the function
    moves in the kernel's norm (Zhou and Shroff 2021; Deng et al. 2022).
    """
    return max(1, min(T, round(gain**0.25 * sqrt(T / budget))))


def discount(T: int, gain: float, budget: float) -> float:
    """Return W-GP-UCB's gamma where the variation budget is known: 1 - g_T^-1/4 (B_T / T)^1/2, at least 1/2.

    Deng et al. (2022); `gain` and `budget` as in `window_length`.
    """
    return max(0.5, 1.0 - gain**-0.25 * sqrt(budget / T))
