"""Selection of the most informative points, greedily, by a pivoted Cholesky factorisation."""

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int


class PivotedCholesky(NamedTuple):
    """Points in the order of their choice, and the variance of each given those before it."""

    chosen: Int[np.ndarray, " m"]
    variances: Float[np.ndarray, " m"]


def pivoted_cholesky(
    kernel_column: Callable[[int], Float[np.ndarray, " n"]],
    diagonal: Float[np.ndarray, " n"],
    k: int,
    *,
    tolerance: float,
    rng: np.random.Generator | None = None,
) -> PivotedCholesky:
    """Choose at most `k` points, each of greatest conditional variance (Schur complement) given those before it.

    Pivoted partial Cholesky (Mauduit, Berthier and Simonetto, Algorithm 3; Burt, Rasmussen and van der Wilk 2020) in
    O(n k) memory and O(n k^2) time. The product of the variances is the determinant of the points' kernel matrix.

    Parameters
    ----------
    kernel_column, diagonal
        Column i of the kernel matrix, asked for once for each point; and its diagonal, the variances.
    tolerance
        Stop where no conditional variance is above this multiple of the greatest variance: at the numerical rank.
    rng
        Draws among the variances that equal the greatest to 1e-12 of it; without it the first is taken.

    Raises
    ------
    ValueError
        If `k` is not between 0 and n, `tolerance` or a variance is negative, or the kernel is not finite.
    """
    n = len(diagonal)
    check_range("k", k, n)
    check_range("tolerance", tolerance)
    check_all(np.isfinite(diagonal) & (diagonal >= 0.0), "diagonal", "variances from 0 up", diagonal)
    left, factor = diagonal.astype(np.float64), np.empty((k, n))
    chosen, variances = np.empty(k, np.intp), np.empty(k)
    for m in range(k):
        greatest = left.max()
        if greatest <= tolerance * diagonal.max():
            return PivotedCholesky(chosen[:m], variances[:m])
        ties = np.flatnonzero(left >= (1.0 - 1e-12) * greatest)
        i = int(ties[0] if rng is None else rng.choice(ties))
        column = kernel_column(i)
        check_all(np.isfinite(column), f"kernel_column({i})", "finite numbers", column)
        chosen[m], variances[m] = i, left[i]
        factor[m] = (column - factor[:m, i] @ factor[:m]) / sqrt(left[i])
        left -= np.square(factor[m])
        left[i] = -np.inf  # rounding must not bring it back
    return PivotedCholesky(chosen, variances)


def check_range(name: str, value: float, most: float = np.inf) -> None:
    """Raise ValueError unless `value` is a number from 0 to `most`."""
    if not 0.0 <= value <= most or value == np.inf:
        raise ValueError(f"{name}: expected a number from 0 to {most}, got {value}")


def check_all(fine: Bool[np.ndarray, "*s"], name: str, expected: str, values: Float[np.ndarray, "*s"]) -> None:
    """Raise ValueError that names the first place that is not `fine`."""
    if not fine.all():
        where, value = " and column ".join(map(str, np.argwhere(~fine)[0])), values[~fine][0]
        raise ValueError(f"{name}: expected {expected}, got {value} in row {where}; correct the kernel")
