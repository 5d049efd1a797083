"""Hilbert-space Gaussian processes: the Laplacian's eigenfunctions on a box, and a spectral density."""

from collections.abc import Mapping
from math import pi
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis, Evaluator, Pullback, input_ranges
from streamgp.bases.kernels import SpectralKernel, SquaredExponential
from streamgp.bases.trigonometry import sine
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import static_field

_SQUARED_EXPONENTIAL = SquaredExponential()


class _Box(Basis):
    """The box prod_d [-L_d, L_d] and its sines, which both Hilbert-space bases share."""

    # At 10 times the range nearly every weight underflows and the fit starts on a plateau: hence 1 at most.
    starts: ClassVar[tuple[float, ...]] = (0.1, 0.3, 1.0)
    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {"lengthscale": "positive"}

    lengthscale: Float[AnyArray, "*stack d"]
    box: Float[AnyArray, "*stack d"]
    edge: Float[AnyArray, "*stack d"]
    terms: int = static_field()
    kernel: SpectralKernel = static_field(default=_SQUARED_EXPONENTIAL)

    @property
    def num_inputs(self) -> int:
        """Return D, one lengthscale for each input."""
        return self.lengthscale.shape[-1]

    def outside(self, X: Float[AnyArray, "n d"]) -> Bool[AnyArray, "*stack n"]:
        """Flag rows with a coordinate beyond its edge."""
        edge = self.edge[..., None, :]
        return namespace(X, edge).any(abs(X) > edge, axis=-1)


@register
class HilbertSpace(_Box):
    """Additive Hilbert-space GP: a one-dimensional approximation for each input, side by side; F = M D.

    phi_{d,k}(x) = sqrt(S(pi k / (2 L_d))) sin(pi k (x_d + L_d) / (2 L_d)) / sqrt(L_d), k = 1..M, with
    columns grouped by input, k fastest (Solin and Sarkka 2020; Riutort-Mayol et al. 2023). phi(x)'phi(x')
    approximates the *sum* over d of the one-dimensional kernels: its variance is D, and inputs do not
    interact.

    How well: it is a truncated series in a box whose walls press the variance to zero. Over the warm-up's
    range, with the box of `from_data`, each squared-exponential kernel is met within 0.03 where
    1.6 L / M <= l <= 0.25 L (M >= 10), and within 0.005 where 2 L / M <= l <= 0.2 L. A shorter lengthscale
    needs more terms, a longer one a wider box. Matern kernels converge only like M^(-2 nu): 3/2 with M = 20
    is within 0.03 at l = 0.2 L.

    Coordinates beyond `edge` are moved to the edge, because nearer to the wall the vanishing variance would
    pass for certainty; `outside` flags such rows.

    Parameters
    ----------
    lengthscale
        l, one for each input, in the units of the inputs.
    box
        L, the half-widths of the box, in the same units.
    edge
        The largest |x_d| at which features are evaluated, below `box`.
    terms
        M, the number of eigenfunctions of each input.
    kernel
        `SquaredExponential` or `Matern`.
    """

    @property
    def num_features(self) -> int:
        """Return M D: the terms of each input side by side."""
        return self.num_inputs * self.terms

    def evaluator(self) -> Evaluator:
        """Return the map with frequencies and weights computed."""
        # The last axis makes every frequency a point of a one-dimensional spectrum.
        frequencies = _frequencies(self.box, self.terms)
        weight = self.kernel.sqrt_spectral_density(frequencies[..., None], self.lengthscale[..., None, None])
        sines, num_features = _sines_of(frequencies, self.box, self.edge), self.num_features

        def evaluate(X: AnyArray) -> AnyArray:
            features = sines(X) * weight[..., None, :, :]
            return features.reshape(*features.shape[:-2], num_features)

        return evaluate

    def features_and_pullback(self, X: Float[AnyArray, "n d"]) -> tuple[Float[AnyArray, "n f"], Pullback]:
        """Return the features, and the product with their Jacobian by the lengthscales."""
        frequencies = _frequencies(self.box, self.terms)
        spectrum = frequencies[:, :, None], self.lengthscale[:, None, None]
        sines = _sines_of(frequencies, self.box, self.edge)(X)

        def pullback(cotangent: np.ndarray) -> dict[str, Any]:
            by_weight = np.sum(cotangent.reshape(sines.shape) * sines, axis=0)
            slope = self.kernel.sqrt_spectral_density_slope(*spectrum)[..., 0]
            return {"lengthscale": np.sum(by_weight * slope, axis=1)}

        return (sines * self.kernel.sqrt_spectral_density(*spectrum)).reshape(len(X), -1), pullback

    @classmethod
    def from_data(
        cls,
        X: Any,
        *,
        num_features: int,
        start: float,
        key: Key,
        y: Any = None,
        kernel: SpectralKernel = _SQUARED_EXPONENTIAL,
    ) -> "HilbertSpace":
        """Take M = max(2, num_features // D) terms for each input, in a box of 1.5 times its largest magnitude.

        Two terms are the fewest that can tell left from right, so many inputs may give more than
        `num_features` features. `key` plays no part; see `Basis.from_data` for the other parameters.

        Parameters
        ----------
        kernel
            The kernel to approximate.
        """
        return cls(*_around(X, start), max(2, num_features // X.shape[1]), kernel)


@register
class HilbertSpaceProduct(_Box):
    """Hilbert-space GP of all inputs jointly, for D <= 3: products of M eigenfunctions per input; F = M^D.

    phi_k(x) = sqrt(S(w_k)) prod_d sin(w_kd (x_d + L_d)) / sqrt(L_d), where w_kd = pi k_d / (2 L_d), with
    the D-dimensional spectral density S, and the last input's k fastest (Solin and Sarkka 2020).
    phi(x)'phi(x') approximates the kernel of all inputs, interactions included; its error is about D times
    that of one input of `HilbertSpace` with the same M, L and l. Parameters and the treatment of rows
    beyond the edge are those of `HilbertSpace`.
    """

    @property
    def num_features(self) -> int:
        """Return M^D: one feature for each combination of terms."""
        return self.terms**self.num_inputs

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Weigh products of eigenfunctions by the joint spectral density."""
        product, grid = self._products(X)
        return product * self.kernel.sqrt_spectral_density(grid, self.lengthscale[..., None, :])[..., None, :]

    def features_and_pullback(self, X: Float[AnyArray, "n d"]) -> tuple[Float[AnyArray, "n f"], Pullback]:
        """Return the features, and the product with their Jacobian by the lengthscales."""
        product, grid = self._products(X)

        def pullback(cotangent: np.ndarray) -> dict[str, Any]:
            by_weight = np.sum(cotangent * product, axis=0)
            return {"lengthscale": by_weight @ self.kernel.sqrt_spectral_density_slope(grid, self.lengthscale[None])}

        return product * self.kernel.sqrt_spectral_density(grid, self.lengthscale[None]), pullback

    def _products(
        self, X: Float[AnyArray, "n d"]
    ) -> tuple[Float[AnyArray, "*stack n f"], Float[AnyArray, "*stack f d"]]:
        """Return the products of eigenfunctions, and their frequencies."""
        frequencies = _frequencies(self.box, self.terms)
        sines = _sines_of(frequencies, self.box, self.edge)(X)
        xp = namespace(sines)
        term = np.indices((self.terms,) * self.num_inputs).reshape(self.num_inputs, -1)
        product = xp.prod(xp.stack([sines[..., d, k] for d, k in enumerate(term)]), axis=0)
        return product, xp.stack([frequencies[..., d, k] for d, k in enumerate(term)], axis=-1)

    @classmethod
    def from_data(
        cls,
        X: Any,
        *,
        num_features: int,
        start: float,
        key: Key,
        y: Any = None,
        kernel: SpectralKernel = _SQUARED_EXPONENTIAL,
    ) -> "HilbertSpaceProduct":
        """Take M = max(2, floor(num_features^(1/D))) terms for each input, in the box of `HilbertSpace.from_data`.

        Raises
        ------
        ValueError
            If there are more than three inputs: the number of features is exponential in them.
        """
        inputs = X.shape[1]
        if inputs > 3:
            raise ValueError(
                f"X: expected at most 3 columns for a product basis, got {inputs}; "
                f"use the additive HilbertSpace instead."
            )
        # The small amount keeps exact powers exact: 1000^(1/3) is 9.999... in floating point.
        terms = int(num_features ** (1.0 / inputs) + 1e-9)
        return cls(*_around(X, start), max(2, terms), kernel)


def _frequencies(box: Float[AnyArray, "*stack d"], terms: int) -> Float[AnyArray, "*stack d m"]:
    """Return square roots of the Laplacian's eigenvalues along each input: pi k / (2 L_d), k = 1..M."""
    return pi * np.arange(1, terms + 1, dtype=box.dtype)[None] / (2.0 * box[..., None])


def _sines_of(
    frequencies: Float[AnyArray, "*stack d m"], box: Float[AnyArray, "*stack d"], edge: Float[AnyArray, "*stack d"]
) -> Evaluator:
    """Return the eigenfunctions along each input: sin(pi k (x + L) / (2 L)) / sqrt(L), of unit norm on [-L, L]."""
    box, edge, frequencies = box[..., None, :], edge[..., None, :], frequencies[..., None, :, :]
    norm, lowest = namespace(box).sqrt(box)[..., None], -edge

    def evaluate(X: AnyArray) -> AnyArray:
        xp = namespace(X, edge)
        within = xp.minimum(xp.maximum(X, lowest), edge)
        return sine((within + box)[..., None] * frequencies) / norm

    return evaluate


def _around(X: Any, start: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lengthscales, box and edge for warm-up rows `X`; a constant column gets a box of at least 1.5."""
    largest = np.abs(X).max(axis=0)
    largest = np.where(np.ptp(X, axis=0) > 0, largest, np.maximum(largest, 1.0))
    lengthscale = start * input_ranges(X)
    return lengthscale, 1.5 * largest, 1.25 * largest
