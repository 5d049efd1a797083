"""Scrambled Sobol points, as `scipy.stats.qmc` draws them: that module takes half a second to import.

The sequence of Joe and Kuo (2008), in the order of Gray's code, with Matousek's linear scramble and a digital shift.
"""

import numpy as np
from jaxtyping import Float

_BITS = 30
# Of each dimension but the first: its primitive polynomial, whose binary digits are the coefficients, and the first
# direction numbers (Joe and Kuo, "new-joe-kuo-6").
_TABLE = """
3 1, 7 1 3, 11 1 3 1, 13 1 1 1, 19 1 1 3 3, 25 1 3 5 13, 37 1 1 5 5 17, 41 1 1 5 5 5, 47 1 1 7 11 19,
55 1 1 5 1 1, 59 1 1 1 3 11, 61 1 3 5 5 31, 67 1 3 3 9 7 49, 91 1 1 1 15 21 21, 97 1 3 1 13 27 49,
103 1 1 1 15 7 5, 109 1 3 1 15 13 25, 115 1 1 5 5 19 61, 131 1 3 7 11 23 15 103, 137 1 3 7 13 13 15 69,
143 1 1 3 13 7 35 63, 145 1 3 5 9 1 25 53, 157 1 3 1 13 9 35 107, 167 1 3 1 5 27 61 31, 171 1 1 5 11 19 41 61,
185 1 3 5 3 3 13 69, 191 1 1 7 13 1 19 1, 193 1 3 7 5 13 19 59, 203 1 1 3 9 25 29 41, 211 1 3 5 13 23 1 55,
213 1 3 7 3 13 59 17, 229 1 3 1 3 5 53 69, 239 1 1 5 5 23 33 13, 241 1 1 7 7 1 61 123, 247 1 1 7 9 13 61 49,
253 1 3 3 5 3 55 33, 285 1 3 1 15 31 13 49 245, 299 1 3 5 15 31 59 63 97, 301 1 3 1 11 11 11 77 249,
333 1 3 1 11 27 43 71 9, 351 1 1 7 15 21 11 81 45, 355 1 3 7 3 25 31 65 79, 357 1 3 1 1 19 11 3 205,
361 1 1 5 9 19 21 29 157, 369 1 3 7 11 1 33 89 185, 391 1 3 3 3 15 9 79 71, 397 1 3 7 11 15 39 119 27,
425 1 1 3 1 11 31 97 225, 451 1 1 1 3 23 43 57 177, 463 1 3 7 7 17 17 37 71, 487 1 3 1 5 27 63 123 213,
501 1 1 3 5 11 43 53 133, 529 1 3 5 5 29 17 47 173 479, 539 1 3 3 11 3 1 109 9 69, 545 1 1 1 5 17 39 23 5 343,
557 1 3 1 5 25 15 31 103 499, 563 1 1 1 11 11 17 63 105 183, 601 1 1 5 11 9 29 97 231 363,
607 1 1 5 15 19 45 41 7 383, 617 1 3 7 7 31 19 83 137 221, 623 1 1 1 3 23 15 111 223 83,
631 1 1 5 13 31 15 55 25 161, 637 1 1 3 13 25 47 39 87 257, 647 1 1 1 11 21 53 125 249 293
"""
_DIRECTIONS = [[int(number) for number in entry.split()] for entry in _TABLE.split(",")]


def sobol_points(rng: np.random.Generator, n: int, dim: int) -> Float[np.ndarray, "{n} {dim}"]:
    """Return the first n points of a sequence in the unit cube, scrambled by draws of `rng`."""
    doublings = (n - 1).bit_length()
    if dim > len(_DIRECTIONS) + 1:
        from scipy.stats import qmc

        return qmc.Sobol(dim, rng=rng).random_base2(doublings)[:n]
    rng = rng.spawn(1)[0]  # as SciPy does
    powers = 2 ** np.arange(_BITS)
    shift = rng.integers(2, size=(dim, _BITS), dtype=np.uint32).astype(int) @ powers
    scramble = np.tril(rng.integers(2, size=(dim, _BITS, _BITS), dtype=np.uint32).astype(int))
    scramble[:, np.arange(_BITS), np.arange(_BITS)] = 1
    # Digits of the direction numbers, the first one the most significant; what is scrambled is their column.
    digits = np.stack([_directions(d) for d in range(dim)])[:, :, None] // powers[::-1] % 2
    directions = (np.einsum("dpk,djk->djp", scramble, digits) % 2) @ powers[::-1]
    index = np.arange(n)
    gray = index ^ (index >> 1)
    points = np.broadcast_to(shift, (n, dim)).copy()
    for bit in range(doublings):
        points ^= np.where((gray >> bit & 1)[:, None], directions[:, bit], 0)
    return points / 2.0**_BITS


def _directions(dimension: int) -> np.ndarray:
    """Return the direction numbers of a dimension, as whole multiples of the last digit."""
    numbers = [1] * _BITS
    if dimension:
        polynomial, *first = _DIRECTIONS[dimension - 1]
        degree = len(first)
        numbers[:degree] = first
        for j in range(degree, _BITS):
            numbers[j] = numbers[j - degree]
            for k in range(degree):
                if polynomial >> (degree - 1 - k) & 1:
                    numbers[j] ^= numbers[j - k - 1] << (k + 1)
    return np.array([number << (_BITS - 1 - j) for j, number in enumerate(numbers)])
