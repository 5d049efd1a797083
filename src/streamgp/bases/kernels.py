"""Stationary kernels of unit variance and unit lengthscale: value, spectral density, frequency draws.

Lengthscales enter by scaling: k(x, x') = ``value((x - x') / lengthscale)``, and a frequency of that kernel is
a unit-lengthscale frequency divided by the lengthscale.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import exp, lgamma, log, pi
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri, ndtri

from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.sobol import sobol_points

SamplingMethod = Literal["monte-carlo", "orthogonal", "quasi-monte-carlo"]


class Kernel(ABC):
    """A stationary kernel with k(0) = 1, frozen and hashable so that it can be a static field."""

    rotation_invariant: ClassVar[bool]

    @abstractmethod
    def value(self, difference: Float[AnyArray, "*batch d"]) -> Float[AnyArray, "*batch"]:
        """Return k at a difference of inputs that is already divided by the lengthscales."""

    @abstractmethod
    def _frequencies(self, uniform: Float[np.ndarray, "n _"], dim: int) -> Float[np.ndarray, "n {dim}"]:
        """Map points of the open unit cube to the spectral law, coordinate by coordinate."""

    def _num_uniforms(self, dim: int) -> int:
        """Return how many uniform coordinates `_frequencies` reads."""
        return dim

    def sample_frequencies(
        self, rng: np.random.Generator, n: int, dim: int, method: SamplingMethod = "monte-carlo"
    ) -> Float[np.ndarray, "{n} {dim}"]:
        """Draw angular frequencies from the normalised spectral density, E cos(w'r) = k(r).

        Every method gives each frequency the same law; they differ in how frequencies depend on each other.

        Parameters
        ----------
        rng
            Source of randomness.
        n, dim
            Number of frequencies, and of inputs.
        method
            ``"monte-carlo"``: independent draws (Rahimi and Recht 2007). ``"orthogonal"``: blocks of `dim`
            orthogonal directions with independent lengths (Yu et al. 2016). ``"quasi-monte-carlo"``: a
            scrambled Sobol sequence through the inverse distribution functions (Avron et al. 2016).

        Raises
        ------
        ValueError
            If `method` is unknown, or ``"orthogonal"`` for a kernel that changes under rotation.
        """
        coordinates = self._num_uniforms(dim)
        if method == "quasi-monte-carlo":
            return self._frequencies(_inside(sobol_points(rng, n, coordinates)), dim)
        draws = self._frequencies(_inside(rng.random((n, coordinates))), dim)
        if method == "monte-carlo":
            return draws
        if method != "orthogonal":
            raise ValueError(
                f"method: expected 'monte-carlo', 'orthogonal' or 'quasi-monte-carlo', got {method!r}; "
                f"pass one of these."
            )
        if not self.rotation_invariant:
            raise ValueError(
                f"method: expected a rotation-invariant kernel (SquaredExponential or Matern) for orthogonal "
                f"frequencies, got {type(self).__name__}; use 'quasi-monte-carlo' or 'monte-carlo'."
            )
        return np.linalg.norm(draws, axis=1, keepdims=True) * _orthogonal_directions(rng, n, dim)


class SpectralKernel(Kernel):
    """A kernel whose spectral density is known in every dimension, as Hilbert-space features need."""

    @abstractmethod
    def sqrt_spectral_density(
        self, w: Float[AnyArray, "*#batch d"], lengthscale: Float[AnyArray, "*#batch d"]
    ) -> Float[AnyArray, "..."]:
        """Return the square root of S(w) = integral of k(r / lengthscale) exp(-i w'r) over r in R^d.

        Written without a root of an underflowed S, so that gradients stay finite at any frequency.
        """

    @abstractmethod
    def sqrt_spectral_density_slope(
        self, w: Float[AnyArray, "*#batch d"], lengthscale: Float[AnyArray, "*#batch d"]
    ) -> Float[AnyArray, "*batch d"]:
        """Return the derivative of `sqrt_spectral_density` by each lengthscale."""

    @abstractmethod
    def slope(self, difference: Float[AnyArray, "*batch d"]) -> Float[AnyArray, "*batch"]:
        """Return the derivative of `value` by |r|^2: it gives all gradients of a rotation-invariant kernel."""


@register
@dataclass(frozen=True)
class SquaredExponential(SpectralKernel):
    """k(r) = exp(-|r|^2 / 2); frequencies are standard normal."""

    rotation_invariant: ClassVar[bool] = True

    def value(self, difference: Float[AnyArray, "*batch d"]) -> Float[AnyArray, "*batch"]:
        """Return exp(-|r|^2 / 2)."""
        xp = namespace(difference)
        return xp.exp(-0.5 * xp.square(difference).sum(-1))

    def slope(self, difference: Float[AnyArray, "*batch d"]) -> Float[AnyArray, "*batch"]:
        """Return -k / 2."""
        return -0.5 * self.value(difference)

    def sqrt_spectral_density(
        self, w: Float[AnyArray, "*#batch d"], lengthscale: Float[AnyArray, "*#batch d"]
    ) -> Float[AnyArray, "..."]:
        """Return the square root of a Gaussian, as the exponential of half the exponent."""
        xp = namespace(w, lengthscale)
        half_exponent = -0.25 * xp.square(lengthscale * w).sum(-1)
        return xp.exp(half_exponent) * xp.sqrt((2.0 * pi) ** 0.5 * lengthscale).prod(-1)

    def sqrt_spectral_density_slope(
        self, w: Float[AnyArray, "*#batch d"], lengthscale: Float[AnyArray, "*#batch d"]
    ) -> Float[AnyArray, "*batch d"]:
        """Return the root times the slope of its log, 1 / (2 l) - l w^2 / 2."""
        root = self.sqrt_spectral_density(w, lengthscale)[..., None]
        # From left to right, so that a root of zero meets no square that overflows.
        return 0.5 * (root / lengthscale - root * w * (lengthscale * w))

    def _frequencies(self, uniform: Float[np.ndarray, "n _"], dim: int) -> Float[np.ndarray, "n {dim}"]:
        return ndtri(uniform)


@register
@dataclass(frozen=True)
class Matern(SpectralKernel):
    """Isotropic Matern kernel of smoothness `nu`; frequencies are multivariate t of 2 nu degrees of freedom.

    Parameters
    ----------
    nu
        1/2 (exponential in the distance), 3/2 or 5/2 (Rasmussen and Williams 2006, Eq. 4.14 to 4.17).

    Raises
    ------
    ValueError
        If `nu` is none of these.
    """

    nu: float = 1.5

    rotation_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu: expected 0.5, 1.5 or 2.5, got {self.nu}; pass one of these.")

    def value(self, difference: Float[AnyArray, "*batch d"]) -> Float[AnyArray, "*batch"]:
        """Return a polynomial in the scaled distance times its exponential decay."""
        xp = namespace(difference)
        squared = xp.square(difference).sum(-1)
        # The root has no finite slope at zero, so neither branch of `where` may take it there.
        positive = squared > 0
        r = xp.where(positive, xp.sqrt(2.0 * self.nu * xp.where(positive, squared, 1.0)), 0.0)
        polynomial = {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + xp.square(r) / 3.0}[self.nu]
        return polynomial * xp.exp(-r)

    def slope(self, difference: Float[AnyArray, "*batch d"]) -> Float[AnyArray, "*batch"]:
        """Return the derivative by |r|^2; raise ValueError for nu = 1/2, which has none at zero."""
        if self.nu == 0.5:
            raise ValueError("nu: expected 1.5 or 2.5 for a kernel with gradients, got 0.5: it has none at zero.")
        xp = namespace(difference)
        r = xp.sqrt(2.0 * self.nu * xp.square(difference).sum(-1))
        polynomial = {1.5: 1.0, 2.5: (1.0 + r) / 3.0}[self.nu]
        return -self.nu * polynomial * xp.exp(-r)

    def sqrt_spectral_density(
        self, w: Float[AnyArray, "*#batch d"], lengthscale: Float[AnyArray, "*#batch d"]
    ) -> Float[AnyArray, "..."]:
        """Return the square root of a multivariate t's density, up to a factor."""
        # S(w) = S(0) (1 + |l w|^2 / (2 nu))^-(nu + d/2) prod l (Rasmussen and Williams 2006, Eq. 4.15).
        xp, d, nu = namespace(w, lengthscale), w.shape[-1], self.nu
        log_at_zero = 0.5 * d * log(2.0 * pi / nu) + lgamma(nu + 0.5 * d) - lgamma(nu)
        growth = 1.0 + xp.square(lengthscale * w).sum(-1) / (2.0 * nu)
        root = exp(0.5 * log_at_zero) * growth ** (-0.5 * nu - 0.25 * d)
        return root * xp.sqrt(lengthscale).prod(-1)

    def sqrt_spectral_density_slope(
        self, w: Float[AnyArray, "*#batch d"], lengthscale: Float[AnyArray, "*#batch d"]
    ) -> Float[AnyArray, "*batch d"]:
        """Return the root times the slope of its log."""
        xp, d, nu = namespace(w, lengthscale), w.shape[-1], self.nu
        root = self.sqrt_spectral_density(w, lengthscale)[..., None]
        growth = 1.0 + xp.square(lengthscale * w).sum(-1)[..., None] / (2.0 * nu)
        return 0.5 * root / lengthscale - (0.5 + 0.25 * d / nu) * (root * w / growth) * (lengthscale * w)

    def _num_uniforms(self, dim: int) -> int:
        return dim + 1

    def _frequencies(self, uniform: Float[np.ndarray, "n _"], dim: int) -> Float[np.ndarray, "n {dim}"]:
        degrees = 2.0 * self.nu
        # The last coordinate draws the chi-squared variable; `chdtri` inverts its upper tail.
        chi2 = chdtri(degrees, uniform[:, dim:])
        return ndtri(uniform[:, :dim]) * np.sqrt(degrees / chi2)


@register
@dataclass(frozen=True)
class Laplace(Kernel):
    """k(r) = exp(-sum_d |r_d|); frequencies are Cauchy in each coordinate."""

    rotation_invariant: ClassVar[bool] = False

    def value(self, difference: Float[AnyArray, "*batch d"]) -> Float[AnyArray, "*batch"]:
        """Return exp(-sum_d |r_d|)."""
        xp = namespace(difference)
        return xp.exp(-xp.abs(difference).sum(-1))

    def _frequencies(self, uniform: Float[np.ndarray, "n _"], dim: int) -> Float[np.ndarray, "n {dim}"]:
        return np.tan(pi * (uniform - 0.5))


def _inside(uniform: np.ndarray) -> np.ndarray:
    """Move points off the faces of the unit cube, where inverse distribution functions are infinite."""
    return np.clip(uniform, 2.0**-54, 1.0 - 2.0**-53)


def _orthogonal_directions(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    """Draw unit vectors as rows, uniform on the sphere and orthogonal within each block of `dim`."""
    blocks = -(-n // dim)
    q, r = np.linalg.qr(rng.standard_normal((blocks, dim, dim)))
    # With the diagonal of R made positive, Q follows the Haar law (Mezzadri 2007).
    q *= np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    return q.reshape(-1, dim)[:n]
