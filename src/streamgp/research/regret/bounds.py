"""Theoretical bounds on regret, in nats; `streamgp.research.regret.losses` measures it.

Lu, Karanikolas and Giannakis (2022, "LKG" below), Lemmas 1 to 3 and Theorems 1 and 2, for any basis (Waxman and
Djuric 2024, Theorem 1) and as their proofs have them: Eq. 32 prints no c, and Eq. 40 no ``S log(M - 1)``, without
which it is false. All of them assume

- static experts (q = 0) that learn by exact Bayes from the prior N(0, v I): nothing is claimed for random walks, for
  adaptive noise, for Laplace steps, or for experts conditioned on a warm-up;
- a loss L(f; y) = -log p(y | f) whose second derivative in f is at most c in size: 1 / s2 for Gaussian noise;
- features with ``||phi(x)||^2 <= 1``, which is so for Fourier features. For a basis with ``||phi(x)||^2 <= p`` on
  the rows of the run, put c p for c.

Nothing is assumed about the targets.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Bound(NamedTuple):
    """A bound in nats that holds with at least this probability; a probability of zero or less claims nothing."""

    value: float
    probability: float


def static_bound(
    rows: int,
    squared_norm: float,
    prior_var: float,
    num_features: int,
    num_experts: int = 1,
    *,
    curvature: float,
) -> float:
    """Bound the regret to one expert with fixed weights theta, whichever they are (LKG, Lemma 1).

    ``||theta||^2 / (2 v) + (F / 2) log(1 + T c v / F) + log M``.

    Assumes what the module docstring lists, and weights by Bayes' rule (`BMA` without shutdown) from a uniform prior.

    Parameters
    ----------
    rows
        T, the rows of the run.
    squared_norm
        ``||theta||^2``; of a `Hindsight`, v times its `squared_norm`.
    prior_var
        v of that expert.
    num_features
        F of that expert.
    num_experts
        M.
    curvature
        c, or c p.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    T, M = _count("rows", rows), _count("num_experts", num_experts)
    v, F = _positive("prior_var", prior_var), _positive("num_features", num_features)
    norm, c = _not_negative("squared_norm", squared_norm), _positive("curvature", curvature)
    return float(norm / (2.0 * v) + 0.5 * F * np.log1p(T * c * v / F) + np.log(M))


def optimal_stay(rows: int, switches: int) -> float:
    """Return q0 = (T - S) / T, the probability of staying with an expert that makes Lemma 2 smallest (LKG, Eq. 75).

    The rule is then ``fixed_share(M, 1 - q0)``.

    Raises
    ------
    ValueError
        If not 0 <= S < T / 2.
    """
    T, S = _switching(rows, switches)
    return (T - S) / T


def sequence_bound(rows: int, num_experts: int, switches: int) -> float:
    """Bound the regret to any sequence of the experts as they ran, with at most S switches (LKG, Lemma 2, corrected).

    ``log M + S log(M - 1) + S log(T / S) + S``. The paper prints it without ``S log(M - 1)``: its proof gives a
    switch the probability q1, but in its assumption 4 each of the M - 1 others gets q1 / (M - 1).

    Assumes the rule ``fixed_share(M, 1 - optimal_stay(T, S))``, uniform to begin with, and nothing else: experts may
    be of any kind, and their losses anything.

    Parameters
    ----------
    rows, num_experts, switches
        T, M and S.

    Raises
    ------
    ValueError
        If not 0 <= S < T / 2, or if a single expert is to switch.
    """
    T, S = _switching(rows, switches)
    M = _count("num_experts", num_experts)
    if S == 0:
        return float(np.log(M))
    if M == 1:
        raise ValueError(f"num_experts: expected at least 2 for {S} switches, got 1; pass switches=0 for one expert")
    return float(np.log(M) + S * (np.log(M - 1) + np.log(T / S) + 1.0))


def slots_bound(
    rows: int, squared_norm: ArrayLike, prior_var: ArrayLike, num_features: ArrayLike, *, curvature: ArrayLike
) -> float:
    """Bound the regret of the experts, each on its own slots, to fixed weights of each (LKG, Lemma 3).

    ``sum_m ||theta_m||^2 / (2 v_m) + (F / 2) log(1 + T max_m(c v) / F)``, where F counts the features of all experts
    together; with n frequencies each this is Eq. 41, F = 2 n M. It follows for unequal experts, too, from the
    concavity of the logarithm.

    Assumes what the module docstring lists, and that **expert m learns from the rows of its own slots only**. SIE-GP
    trains all experts on all rows: for it this is false.

    Parameters
    ----------
    rows
        T, the rows of the run.
    squared_norm, prior_var, num_features
        ``||theta_m||^2``, v and F of every expert, or a number for all; 0 for an expert without slots.
    curvature
        c, or c p, of every expert, or a number for all.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    T = _count("rows", rows)
    norm, v, F, c = _per_expert(squared_norm, prior_var, num_features, curvature)
    return float(np.sum(norm / (2.0 * v)) + 0.5 * F.sum() * np.log1p(T * np.max(c * v) / F.sum()))


def static_kernel_bound(
    rows: int,
    coefficient_sum: float,
    prior_var: float,
    num_frequencies: int,
    num_experts: int = 1,
    *,
    curvature: float,
    slope: float,
    epsilon: float,
    frequency_moment: float,
    num_inputs: int,
    diameter: float = 1.0,
) -> Bound:
    """Bound the static regret of Fourier experts to the best function of a kernel's space (LKG, Theorem 1).

    ``(1 + eps) C^2 / (2 v) + n log(1 + T c v / (2 n)) + log M + eps L T C``, with at least the probability
    ``1 - 2^8 (s diameter / eps)^2 exp(-n eps^2 / (4 d + 8))`` that n independent frequencies approximate the kernel
    to within eps everywhere (Rahimi and Recht 2007, Claim 1). The paper leaves the diameter out. The probability is
    negative for any number of frequencies in common use, and stays so if eps shrinks as log T / T unless n grows as
    T^2: the bound explains, it does not guarantee.

    Assumes what `static_bound` does, experts whose Fourier features have independent frequencies, and a
    shift-invariant kernel of variance v.

    Parameters
    ----------
    rows
        T.
    coefficient_sum
        C = v sum_t |alpha_t| of the best function sum_t alpha_t v k(x_t, .), see `Hindsight.coefficients`.
    prior_var
        v of the expert whose kernel has the best function.
    num_frequencies
        n; F = 2 n.
    num_experts
        M.
    curvature
        c.
    slope
        L, the largest size of the first derivative of the loss between the function and its approximation; for
        Gaussian noise (max_t |y_t - f(x_t)| + eps C) / s2.
    epsilon
        eps, the largest error of the approximated kernel of variance one.
    frequency_moment
        s^2 = E ||w||^2 of the angular frequencies: d / l^2 for a squared-exponential kernel of lengthscale l.
    num_inputs
        d.
    diameter
        Of the region that holds all inputs. One gives the paper's formula.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    T, n = _count("rows", rows), _count("num_frequencies", num_frequencies)
    C, L = _not_negative("coefficient_sum", coefficient_sum), _not_negative("slope", slope)
    eps = _positive("epsilon", epsilon)
    squared_norm = (1.0 + eps) * C * C
    value = static_bound(T, squared_norm, prior_var, 2 * n, num_experts, curvature=curvature) + eps * L * T * C
    return Bound(value, 1.0 - _failure(n, eps, frequency_moment, num_inputs, diameter))


def switching_kernel_bound(
    rows: int,
    switches: int,
    coefficient_sum: float,
    prior_var: ArrayLike,
    num_frequencies: int,
    *,
    curvature: ArrayLike,
    slope: float,
    epsilon: float,
    frequency_moment: ArrayLike,
    num_inputs: int,
    diameter: float = 1.0,
) -> Bound:
    """Bound the switching regret of Fourier experts to functions of the kernels' spaces on slots (LKG, Theorem 2).

    The functions are fitted on the slots of their experts. The bound is the sum of `sequence_bound`, of `slots_bound`
    with (1 + eps) C^2 for every squared norm, and of eps L T C. The probability is that of `static_kernel_bound` for
    all M kernels at once: the probabilities of failure are added up (the paper takes the largest alone).

    Assumes what these three do, hence also that **expert m learns from the rows of its own slots only**: for SIE-GP,
    which trains all experts on all rows, the theorem is false.

    Parameters
    ----------
    rows, switches
        T and S.
    coefficient_sum
        C, the largest over the experts of v_m times the sum of |alpha_t| over the expert's slots.
    prior_var
        v of each of the M experts.
    num_frequencies
        n, of every expert.
    curvature, slope, epsilon, num_inputs, diameter
        As in `static_kernel_bound`, the largest over the experts.
    frequency_moment
        E ||w||^2 of every expert, or a number for all.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    T, n = _count("rows", rows), _count("num_frequencies", num_frequencies)
    C, L = _not_negative("coefficient_sum", coefficient_sum), _not_negative("slope", slope)
    eps = _positive("epsilon", epsilon)
    v = np.atleast_1d(np.asarray(prior_var, dtype=float))
    moments = np.broadcast_to(np.asarray(frequency_moment, dtype=float), v.shape)
    value = sequence_bound(T, len(v), switches) + eps * L * T * C
    value += slots_bound(T, (1.0 + eps) * C * C, v, 2 * n, curvature=curvature)
    failures = sum(_failure(n, eps, float(moment), num_inputs, diameter) for moment in moments)
    return Bound(value, 1.0 - failures)


def _failure(n: int, eps: float, moment: float, num_inputs: int, diameter: float) -> float:
    """Bound the probability that n frequencies miss a kernel by eps somewhere."""
    d, moment = _count("num_inputs", num_inputs), _positive("frequency_moment", moment)
    diameter = _positive("diameter", diameter)
    return float(2.0**8 * moment * (diameter / eps) ** 2 * np.exp(-n * eps * eps / (4.0 * d + 8.0)))


def _switching(rows: int, switches: int) -> tuple[int, int]:
    T = _count("rows", rows)
    if int(switches) != switches or not 0 <= switches < T / 2:
        raise ValueError(
            f"switches: expected a whole number of at least 0 and below half of the {T} rows, got {switches}; "
            f"where experts change more often, the bound says nothing"
        )
    return T, int(switches)


def _per_expert(*values: ArrayLike) -> tuple[np.ndarray, ...]:
    """Check and broadcast ||theta||^2, v, F and c of every expert."""
    arrays = [np.asarray(value, dtype=float) for value in values]
    try:
        norm, v, F, c = np.broadcast_arrays(*map(np.atleast_1d, arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(
            f"slots_bound: expected numbers or one value for each expert, got squared_norm, prior_var, num_features "
            f"and curvature of shapes {shapes}"
        ) from None
    for name, array in (("prior_var", v), ("num_features", F), ("curvature", c)):
        for value in array.ravel():
            _positive(name, value)
    for value in norm.ravel():
        _not_negative("squared_norm", value)
    return norm, v, F, c


def _count(name: str, value: float) -> int:
    if not (np.isfinite(value) and value >= 1 and int(value) == value):
        raise ValueError(f"{name}: expected a whole number of at least 1, got {value}")
    return int(value)


def _positive(name: str, value: float) -> float:
    if not (np.isfinite(value) and value > 0.0):
        raise ValueError(f"{name}: expected a finite number above 0, got {value}")
    return float(value)


def _not_negative(name: str, value: float) -> float:
    if not (np.isfinite(value) and value >= 0.0):
        raise ValueError(f"{name}: expected a finite number of at least 0, got {value}")
    return float(value)
