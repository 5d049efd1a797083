"""Similarity of kernels, and few of them with edges to all others: the feedback graph of Ghari and Shen (2021).

Kernels are compared by Delta(i, j), the integral of (k_i - k_j)^2 over R^d (their Eq. 7). It grows and shrinks like
the d-th power of the lengthscales, so everything here is done in logarithms and relative to the kernel's own norm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln, logsumexp

from streamgp.bases.kernels import Kernel, Laplace, SquaredExponential

# Nodes of the trapezoidal rule in the logarithm of the distance, which reaches from 1e-12 lengthscales to 1e6.
_NODES = 4001
_LOG_DISTANCE = np.linspace(log(1e-12), log(1e6), _NODES)


@dataclass(frozen=True)
class KernelDictionary:
    """N kernels, each with one lengthscale for all inputs.

    Parameters
    ----------
    kernels
        A kernel for each lengthscale, or a single one for all.
    lengthscales
        Positive, in the units of the inputs.

    Raises
    ------
    ValueError
        If there is no lengthscale, if the numbers differ, or if a lengthscale is not positive.
    """

    kernels: tuple[Kernel, ...]
    lengthscales: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.lengthscales or len(self.kernels) not in (1, len(self.lengthscales)):
            raise ValueError(
                f"KernelDictionary: expected a lengthscale for each kernel, got {len(self.kernels)} kernels and "
                f"{len(self.lengthscales)} lengthscales"
            )
        if not all(np.isfinite(scale) and scale > 0.0 for scale in self.lengthscales):
            raise ValueError(f"lengthscales: expected positive numbers, got {self.lengthscales}")
        if len(self.kernels) == 1:
            object.__setattr__(self, "kernels", self.kernels * len(self.lengthscales))

    def __len__(self) -> int:
        return len(self.lengthscales)


def squared_exponentials(lengthscales: Sequence[float]) -> KernelDictionary:
    """Return a dictionary of squared-exponential kernels exp(-|r|^2 / (2 l^2))."""
    return KernelDictionary((SquaredExponential(),), tuple(float(scale) for scale in lengthscales))


def log_overlaps(dictionary: KernelDictionary, dim: int) -> Float[np.ndarray, "n n"]:
    """Compute the log of the integral of k_i k_j over R^d, for all pairs: the diagonal has the squared norms.

    Closed forms for two squared-exponential kernels, and for two Laplace kernels. Otherwise quadrature, to about
    1e-10: of the distance where both kernels depend on nothing else, of one coordinate where both are products over
    the coordinates.

    Raises
    ------
    ValueError
        If a pair has neither in common (a Matern with a Laplace kernel, say).
    """
    each = list(zip(dictionary.kernels, dictionary.lengthscales, strict=True))
    found = np.empty((len(each), len(each)))
    for i, one in enumerate(each):
        for j, other in enumerate(each[: i + 1]):
            found[i, j] = found[j, i] = _log_overlap(one, other, dim)
    return found


def similarity(dictionary: KernelDictionary, dim: int) -> Float[np.ndarray, "n n"]:
    """Compute Delta(i, j), the integral of (k_i - k_j)^2 over R^d (Ghari and Shen 2021, Eq. 7), for all pairs.

    Overflows to infinity where a double does; `neighbours` does not depend on it.
    """
    overlaps = log_overlaps(dictionary, dim)
    norms = np.diag(overlaps)
    with np.errstate(over="ignore"):
        delta = np.exp(norms[:, None]) + np.exp(norms) - 2.0 * np.exp(overlaps)
    np.fill_diagonal(delta, 0.0)
    return np.maximum(delta, 0.0)


def neighbours(dictionary: KernelDictionary, dim: int, count: int) -> Int[np.ndarray, "n m"]:
    """Find the `count` kernels of smallest Delta(i, .) for each i, itself first.

    They are N_i^out (Ghari and Shen 2021, Eq. 11).

    Ranked by (Delta(i, j) - |k_i|^2) / |k_i|^2 = r (1 - 2 c) with r the ratio of the squared norms and c the overlap
    over that of j, by its sign and then the log of its size: the same order, with no cancellation and no overflow.

    Raises
    ------
    ValueError
        If `count` is not between 1 and the number of kernels.
    """
    if not 1 <= count <= len(dictionary):
        raise ValueError(f"neighbours: expected between 1 and {len(dictionary)}, the number of kernels, got {count}")
    rank = _ranks(log_overlaps(dictionary, dim))
    return np.argsort(rank, axis=1, kind="stable")[:, :count]


def nearest_first(dictionary: KernelDictionary, dim: int) -> Int[np.ndarray, "n n"]:
    """Return, for each kernel, the rank of every other one by Delta: 0 for itself."""
    return _ranks(log_overlaps(dictionary, dim))


def dominating_set(out: Int[np.ndarray, "n m"]) -> Bool[np.ndarray, " n"]:
    """Find nodes of which every node is an out-neighbour, by Chvatal's greedy cover (1979).

    Each step takes the node with edges to most of those not covered yet, the first of equals. The set is at most
    1 + ln(M) times as large as the smallest one.
    """
    n = len(out)
    sees = np.zeros((n, n), bool)
    np.put_along_axis(sees, out, True, axis=1)
    taken, uncovered = np.zeros(n, bool), np.ones(n, bool)
    while uncovered.any():
        best = int(np.argmax((sees & uncovered).sum(1)))
        taken[best] = True
        uncovered &= ~sees[best]
    return taken


def _ranks(overlaps: Float[np.ndarray, "n n"]) -> Int[np.ndarray, "n n"]:
    """Return the rank of j by Delta(i, .)."""
    norms = np.diag(overlaps)
    twice = log(2.0) + overlaps - norms  # log(2 c), c = <k_i, k_j> / |k_j|^2
    sign = np.where(twice < 0.0, 1.0, -1.0)
    with np.errstate(divide="ignore"):
        # log|1 - 2c|, from whichever side does not cancel or overflow.
        size = np.where(twice < 0.0, _log_of_one_less(twice), twice + _log_of_one_less(-np.abs(twice)))
    size = size + norms - norms[:, None]
    np.fill_diagonal(sign, -1.0)
    # Delta(i, i) = 0 must stay below all others, for any rounding.
    np.fill_diagonal(size, np.inf)
    order = np.lexsort((sign * size, sign), axis=1)
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(len(order)), order.shape), axis=1)
    return ranks


def _log_of_one_less(a: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """Compute log(1 - exp(a)) for a <= 0."""
    a = np.minimum(a, 0.0)
    return np.where(a > -log(2.0), np.log(-np.expm1(a)), np.log1p(-np.exp(a)))


def _log_overlap(one: tuple[Kernel, float], other: tuple[Kernel, float], dim: int) -> float:
    (k, a), (m, b) = one, other
    if isinstance(k, SquaredExponential) and isinstance(m, SquaredExponential):
        # (2 pi)^(d/2) (a b)^d / (a^2 + b^2)^(d/2)
        return dim * (0.5 * log(2.0 * pi) + log(a) + log(b) - log(np.hypot(a, b)))
    if isinstance(k, Laplace) and isinstance(m, Laplace):
        return dim * (log(2.0) + log(a) + log(b) - log(a + b))
    if all(kernel.rotation_invariant for kernel in (k, m)):
        surface = log(2.0) + 0.5 * dim * log(pi) - float(gammaln(0.5 * dim))
        return surface + _log_radial(one, other, dim)
    if all(_is_product(kernel) for kernel in (k, m)):
        return dim * (log(2.0) + _log_radial(one, other, 1))
    raise ValueError(
        f"KernelDictionary: expected kernels that are functions of the distance, or products over the inputs, got "
        f"{type(k).__name__} and {type(m).__name__}, which have neither in common; leave one of them out"
    )


def _is_product(kernel: Kernel) -> bool:
    return isinstance(kernel, SquaredExponential) or not kernel.rotation_invariant


def _log_radial(one: tuple[Kernel, float], other: tuple[Kernel, float], dim: int) -> float:
    """Compute the log of the integral of r^(d-1) k_i(r) k_j(r) over r > 0, by the trapezoidal rule in log r."""
    log_r = _LOG_DISTANCE + log(min(one[1], other[1]))
    with np.errstate(divide="ignore", under="ignore"):
        values = [np.log(kernel.value(np.exp(log_r - log(scale))[:, None])) for kernel, scale in (one, other)]
    total: Any = logsumexp(dim * log_r + values[0] + values[1])
    return float(total) + log(_LOG_DISTANCE[1] - _LOG_DISTANCE[0])
