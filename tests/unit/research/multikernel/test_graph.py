"""The similarity of kernels against quadrature, and the graph against brute force."""

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad

from streamgp.bases.kernels import Kernel, Laplace, Matern, SquaredExponential
from streamgp.research.multikernel import (
    KernelDictionary,
    dominating_set,
    neighbours,
    similarity,
    squared_exponentials,
)
from streamgp.research.multikernel.graph import log_overlaps

# Computed by independent code.
GOLDEN = {
    "pairs": [[0.5, 0.7], [1.0, 1.0], [0.1, 10.0], [1.0, 2.0], [0.3, 3.0]],
    "dims": [1, 2, 5],
    "Delta": [
        [0.0872172941461864, 0.24453477952266534, 1.2801018906518764],
        [0.0, 0.0, 0.0],
        [17.400483303622444, 314.0650301444857, 1749341.8309587608],
        [0.8333685795982051, 5.654866776461628, 463.98939864984754],
        [4.3525846948143565, 27.43730162183189, 4250.474044178005],
    ],
}
PAPER = [10 ** ((i - 21) / 20) for i in range(1, 42)]  # lengthscales: bandwidths 10^-2 to 10^2 are their squares


def by_quadrature(one: tuple[Kernel, float], other: tuple[Kernel, float]) -> float:
    def squared(r: float) -> float:
        a, b = (float(kernel.value(np.array([[r / scale]]))[0]) for kernel, scale in (one, other))
        return (a - b) ** 2

    edges = [0.0, 0.01, 0.1, 1.0, 10.0, 100.0, np.inf]
    return 2.0 * sum(quad(squared, *pair, limit=200)[0] for pair in itertools.pairwise(edges))


@pytest.mark.parametrize("kernel", [SquaredExponential(), Laplace(), Matern(0.5), Matern(2.5)])
def test_in_one_dimension_it_is_the_integral(kernel):
    scales = (0.3, 1.0, 4.0)
    delta = similarity(KernelDictionary((kernel,), scales), 1)
    for i, j in itertools.combinations(range(3), 2):
        want = by_quadrature((kernel, scales[i]), (kernel, scales[j]))
        assert_allclose(delta[i, j], want, rtol=1e-7)
        assert delta[i, j] == delta[j, i]
    assert_array_equal(np.diag(delta), 0.0)


def test_kernels_of_different_kinds():
    kinds = (SquaredExponential(), Matern(1.5), Matern(0.5))
    delta = similarity(KernelDictionary(kinds, (1.0, 0.7, 2.0)), 1)
    assert_allclose(delta[0, 1], by_quadrature((kinds[0], 1.0), (kinds[1], 0.7)), rtol=1e-7)
    assert_allclose(delta[1, 2], by_quadrature((kinds[1], 0.7), (kinds[2], 2.0)), rtol=1e-7)
    mixed = KernelDictionary((Matern(1.5), Laplace()), (1.0, 1.0))
    with pytest.raises(ValueError, match="neither in common"):
        similarity(mixed, 2)


def test_squared_exponentials_against_independent_numbers():
    # exp(-|r|^2 / (2 s^2)): Delta over R^d, from radial quadrature.
    pairs = GOLDEN["pairs"]
    for column, dim in enumerate(GOLDEN["dims"]):
        for row, pair in enumerate(pairs):
            found = similarity(squared_exponentials(pair), dim)[0, 1]
            assert_allclose(found, GOLDEN["Delta"][row][column], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_the_quadrature_of_radial_kernels_gives_the_closed_form(dim):
    exact = log_overlaps(squared_exponentials((0.2, 1.0, 3.0)), dim)
    # exp(-|r|^2 / 2) as a function of the distance, through the general path.
    general = log_overlaps(KernelDictionary((_General(),), (0.2, 1.0, 3.0)), dim)
    assert_allclose(general, exact, rtol=1e-10, atol=1e-10)


class _General(Kernel):
    """The squared exponential without its name."""

    rotation_invariant = True

    def value(self, difference):
        return np.exp(-0.5 * np.square(difference).sum(-1))

    def _frequencies(self, uniform, dim):
        raise NotImplementedError


@pytest.mark.parametrize("dim", [1, 5, 8, 15, 100])
@pytest.mark.parametrize("kernel", [SquaredExponential(), Laplace()])
def test_neighbours_are_those_of_exact_arithmetic(kernel, dim):
    """With 400 digits nothing cancels and nothing overflows."""
    with localcontext(prec=400):
        scales = [Decimal(scale) for scale in PAPER]

        def inner(a: Decimal, b: Decimal) -> Decimal:
            """The integral of the product, but for a factor that all have."""
            if isinstance(kernel, Laplace):
                return (2 * a * b / (a + b)) ** dim
            return ((2 * a * a * b * b / (a * a + b * b)) ** dim).sqrt()

        found = neighbours(KernelDictionary((kernel,), tuple(PAPER)), dim, 5)
        for i, a in enumerate(scales):
            delta = [inner(a, a) + inner(b, b) - 2 * inner(a, b) for b in scales]
            assert found[i].tolist() == sorted(range(len(scales)), key=delta.__getitem__)[:5]


def test_what_a_dictionary_must_be():
    with pytest.raises(ValueError, match="positive"):
        squared_exponentials((1.0, 0.0))
    with pytest.raises(ValueError, match="lengthscale for each"):
        KernelDictionary((Laplace(), Laplace()), (1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="between 1 and 3"):
        neighbours(squared_exponentials((1.0, 2.0, 3.0)), 2, 4)


class TestDominatingSet:
    @pytest.mark.parametrize("seed", range(20))
    def test_every_node_is_seen_and_few_are_taken(self, seed):
        rng = np.random.default_rng(seed)
        n, m = 9, 3
        out = np.array([[i, *rng.permutation(np.delete(np.arange(n), i))[: m - 1]] for i in range(n)])
        taken = np.flatnonzero(dominating_set(out))
        assert set(out[taken].ravel()) == set(range(n))
        least = next(
            size
            for size in range(1, n + 1)
            if any(len(set(out[list(some)].ravel())) == n for some in itertools.combinations(range(n), size))
        )
        harmonic = sum(1.0 / k for k in range(1, m + 1))
        assert least <= len(taken) <= harmonic * least  # Chvatal (1979)

    def test_greedy_by_hand(self):
        # Node 0 sees three nodes; then only 4 is left, which 3 and 4 see: the first of them.
        out = np.array([[0, 1, 2], [1, 0, 2], [2, 1, 0], [3, 4, 0], [4, 3, 1]])
        assert np.flatnonzero(dominating_set(out)).tolist() == [0, 3]
