"""The three synthetic checks of Lu, Karanikolas and Giannakis (2022, App. A): bands, static and switching regret.

The paper states neither the variances nor the number of features of these runs. Here every expert has the variances
that made the data (v = 1, and the noise's), and 50 frequencies as in its experiments on regression; the dictionary of
the first two checks is that of these experiments, too.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamgp.bases import Fourier
from streamgp.bases.kernels import SquaredExponential
from streamgp.filters.dynamics import static
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics import keys
from streamgp.numerics.accelerator import jnp
from streamgp.numerics.precision import float64, in_float64
from streamgp.research.regret.bounds import optimal_stay, sequence_bound, slots_bound, static_bound
from streamgp.research.regret.hindsight import Hindsight, best_fit, best_functions, hindsight_kernel
from streamgp.research.regret.losses import run_losses, static_regret, switching_regret
from streamgp.table import sum_of_sines, switching_gaussian_processes
from streamgp.weights import BMA, fixed_share

# The lengthscales of the dictionary; their squares are 10^k.
DICTIONARY = tuple(10.0 ** (k / 2) for k in range(-4, 7))
SWITCHING_LENGTHSCALES = (0.01, 100.0)
FREQUENCIES = 50
DENSE_ROWS = 2_000
PRIOR_VAR = 1.0
SINES_NOISE, SWITCHING_NOISE = 0.1, 1.0  # standard deviations
KERNEL = SquaredExponential()


class Bands(NamedTuple):
    """A regression on few rows, and its mean and standard deviation (noise included) on a grid; all of shape (n,)."""

    x: np.ndarray
    y: np.ndarray
    grid: np.ndarray
    truth: np.ndarray
    mean: np.ndarray
    std: np.ndarray


class StaticPoint(NamedTuple):
    """Static regret after some number of rows.

    Attributes
    ----------
    rows
        T.
    to_basis, to_kernel
        Regret to the best function of the experts' bases, and of their kernels (None: too many rows).
    bound
        Lemma 1 for the best function of the bases.
    """

    rows: int
    to_basis: float
    to_kernel: float | None
    bound: float


class SwitchingPoint(NamedTuple):
    """Switching regret of a stream of some number of rows whose function changes after half of them.

    Attributes
    ----------
    rows
        T.
    to_basis, to_kernel
        Regret of SIE-GP, whose experts learn from all rows, to the best functions on the slots of the experts' bases,
        and of their kernels.
    own_to_basis, own_to_kernel
        The same, were each expert to learn from its own slots alone.
    bound
        Lemmas 2 and 3 together, which hold for `own_to_basis`.
    """

    rows: int
    to_basis: float
    to_kernel: float
    own_to_basis: float
    own_to_kernel: float
    bound: float


@in_float64
def experts(
    lengthscales: Sequence[float], noise: float, rng: np.random.Generator, n: int = FREQUENCIES
) -> list[Expert]:
    """Make static Fourier experts of one input with n independent frequencies each."""
    return [
        Expert(
            Fourier(jnp.asarray(KERNEL.sample_frequencies(rng, n, 1)), jnp.asarray([lengthscale])),
            jnp.asarray(PRIOR_VAR),
            jnp.asarray(noise**2),
            static(),
        )
        for lengthscale in lengthscales
    ]


@in_float64
def bands(seed: int, rows: int = 30) -> Bands:
    """Regress sin 2x + sin 3x on x by IE-GP (Fig. 9)."""
    rng = np.random.default_rng(seed)
    X, y = sum_of_sines(rows, rng, noise=SINES_NOISE)
    grid = np.linspace(-4.0, 4.0, 401)
    model = ensemble(experts(DICTIONARY, SINES_NOISE, rng), BMA())
    state, _ = model.update(model.init(keys.key(0)), jnp.asarray(X), jnp.asarray(y[:, None]))
    predictive = model.predict(state, jnp.asarray(grid[:, None]))
    mean, std = (np.asarray(a)[:, 0] for a in (predictive.mean, predictive.std))
    return Bands(X[:, 0], y, grid, np.sin(2.0 * grid) + np.sin(3.0 * grid), mean, std)


def static_growth(
    seed: int, lengths: Sequence[int], n: int = FREQUENCIES, dense_rows: int = DENSE_ROWS
) -> list[StaticPoint]:
    """Measure the static regret of IE-GP on one stream of sin 2x + sin 3x, x ~ N(0, 100) (Fig. 10).

    Parameters
    ----------
    seed
        Of the stream and of the frequencies.
    lengths
        Numbers of rows after which regret is taken.
    n
        Frequencies of every expert.
    dense_rows
        With more rows than these, the best function of a kernel is left out: its time grows with their cube.
    """
    rng = np.random.default_rng(seed)
    X, y = sum_of_sines(max(lengths), rng, std=10.0, noise=SINES_NOISE)
    with float64():
        model = ensemble(experts(DICTIONARY, SINES_NOISE, rng, n), BMA())
    losses = run_losses(model, X, y)
    points = []
    for T in lengths:
        loss, by_basis = losses.mixture[:T], best_functions(model, X[:T], y[:T])
        to_basis, to_kernel = float(static_regret(loss, by_basis)[-1]), None
        if dense_rows >= T:
            by_kernel = [_fit_kernel(X[:T], y[:T], lengthscale, SINES_NOISE) for lengthscale in DICTIONARY]
            to_kernel = float(static_regret(loss, by_kernel)[-1])
        norm = PRIOR_VAR * by_basis[best_fit(by_basis)].squared_norm
        bound = static_bound(T, norm, PRIOR_VAR, 2 * n, len(by_basis), curvature=SINES_NOISE**-2)
        points.append(StaticPoint(T, to_basis, to_kernel, bound))
    return points


def switching_growth(seed: int, lengths: Sequence[int], n: int = FREQUENCIES) -> list[SwitchingPoint]:
    """Measure the switching regret of SIE-GP on streams of two Gaussian processes, one for each length (Fig. 11).

    Parameters are those of `static_growth`. The time of the functions, and of the comparison with kernels, grows with
    the cube of a length.
    """
    rng = np.random.default_rng(seed)
    scales = SWITCHING_LENGTHSCALES
    points = []
    for T in lengths:
        X, y = switching_gaussian_processes(T, rng, lengthscales=scales, noise=SWITCHING_NOISE)
        # The generator switches in the middle.
        slots = np.repeat([0, 1], [T - T // 2, T // 2])
        with float64():
            rule = fixed_share(2, 1.0 - optimal_stay(T, 1))
            model = ensemble(experts(scales, SWITCHING_NOISE, rng, n), rule)
        by_basis = best_functions(model, X, y, slots)
        by_kernel = [_fit_kernel(X[slots == m], y[slots == m], scales[m], SWITCHING_NOISE) for m in (0, 1)]
        to_basis, to_kernel, own_to_basis, own_to_kernel = (
            float(switching_regret(losses.mixture, fits, slots)[-1])
            for losses in (run_losses(model, X, y), run_losses(model, X, y, slots))
            for fits in (by_basis, by_kernel)
        )
        norms = [PRIOR_VAR * fit.squared_norm for fit in by_basis]
        bound = slots_bound(T, norms, PRIOR_VAR, 2 * n, curvature=SWITCHING_NOISE**-2) + sequence_bound(T, 2, 1)
        points.append(SwitchingPoint(T, to_basis, to_kernel, own_to_basis, own_to_kernel, bound))
    return points


def _fit_kernel(X: np.ndarray, y: np.ndarray, lengthscale: float, noise: float) -> Hindsight:
    K = PRIOR_VAR * KERNEL.value((X[:, None, :] - X[None, :, :]) / lengthscale)
    return hindsight_kernel(K, y, noise**2)
