"""Random Fourier features: sines and cosines at frequencies drawn from a kernel's spectral density."""

from collections.abc import Mapping
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from streamgp.bases.base import Basis, Evaluator, Pullback, input_ranges
from streamgp.bases.kernels import Kernel, SamplingMethod, SquaredExponential
from streamgp.bases.trigonometry import sines_and_cosines
from streamgp.numerics import keys
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key

_SQUARED_EXPONENTIAL = SquaredExponential()


@register
class Fourier(Basis):
    """phi(x) = sqrt(1/m) [sin(w_j'(x / l)), cos(w_j'(x / l))], j = 1..m; F = 2m and ``||phi(x)|| = 1``.

    All sines come first, then all cosines (Rahimi and Recht 2007; Lazaro-Gredilla et al. 2010).

    How well: phi(x)'phi(x') is an unbiased estimate of the kernel whose spectral law gave the frequencies,
    everywhere in R^D. With independent frequencies its standard error at a difference of r lengthscales is
    sqrt((1 + k(2r) - 2 k(r)^2) / (2m)). For the squared-exponential kernel the root mean squared error of
    quasi-Monte-Carlo frequencies, the default, is 0.2 to 0.8 of that for D up to about 20 and m of 50 to 250,
    and no better beyond; orthogonal ones reach about 0.5 for 8 <= D <= m. Frequencies stay fixed while the
    lengthscales are trained.

    Parameters
    ----------
    frequencies
        Angular frequencies w_j of the kernel with unit lengthscale.
    lengthscale
        l, one for each input, in the units of the inputs.
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {"lengthscale": "positive"}
    starts: ClassVar[tuple[float, ...]] = (0.1, 1.0, 10.0)
    default_features: ClassVar[int] = 400

    frequencies: Float[AnyArray, "*stack m d"]
    lengthscale: Float[AnyArray, "*stack d"]

    @property
    def num_features(self) -> int:
        """Return 2m: a sine and a cosine for each frequency."""
        return 2 * self.frequencies.shape[-2]

    @property
    def num_inputs(self) -> int:
        """Return D, the length of each frequency."""
        return self.frequencies.shape[-1]

    def evaluator(self) -> Evaluator:
        """Return the map with frequencies in the units of the inputs."""
        per_unit = (self.frequencies / self.lengthscale[..., None, :]).swapaxes(-1, -2)
        scale = 1.0 / sqrt(self.frequencies.shape[-2])
        return lambda X: sines_and_cosines(X @ per_unit, scale)

    def features_and_pullback(self, X: Float[AnyArray, "n d"]) -> tuple[Float[AnyArray, "n f"], Pullback]:
        """Return the features, and the product with their Jacobian by frequencies and lengthscales."""
        Phi, m = self(X), self.frequencies.shape[0]

        def pullback(cotangent: np.ndarray) -> dict[str, Any]:
            # Either of a pair is the slope of the other.
            by_angle = cotangent[:, :m] * Phi[:, m:]
            by_frequencies = by_angle.T @ X
            by_frequencies -= np.multiply(cotangent[:, m:], Phi[:, :m], out=by_angle).T @ X
            by_frequencies /= self.lengthscale
            by_lengthscale = -np.sum(by_frequencies * self.frequencies, axis=0) / self.lengthscale
            slopes = {"frequencies": by_frequencies, "lengthscale": by_lengthscale}
            return {name: slopes[name] for name in self.trainable}

        return Phi, pullback

    @classmethod
    def from_data(
        cls,
        X: Any,
        *,
        num_features: int,
        start: float,
        key: Key,
        y: Any = None,
        kernel: Kernel = _SQUARED_EXPONENTIAL,
        method: SamplingMethod = "quasi-monte-carlo",
    ) -> "Fourier":
        """Draw max(1, num_features // 2) frequencies; lengthscales are `start` times each input's range.

        See `Basis.from_data` for the other parameters.

        Parameters
        ----------
        kernel
            The kernel to approximate.
        method
            How the frequencies are drawn, see `Kernel.sample_frequencies`.
        """
        pairs = max(1, num_features // 2)
        frequencies = kernel.sample_frequencies(keys.generator(key), pairs, X.shape[1], method)
        return cls(frequencies, start * input_ranges(X))


@register
class OptimisedFourier(Fourier):
    """Fourier features whose frequencies, drawn as those of `Fourier`, are then trained by the evidence.

    The sparse-spectrum GP of Lazaro-Gredilla et al. (2010); "optimised Fourier features" of Waxman and Djuric (2024,
    App. H). Only w_j / l enters a feature, so that the lengthscales say nothing that the frequencies could not. They
    are trained beside them all the same: the fit sets out from lengthscales that are wrong by a factor, and one
    lengthscale moves all frequencies at once. The optimum is then flat along a line for each input, which does no
    harm. D times as many hyperparameters as sines overfit a short warm-up.
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {
        "frequencies": "real",
        "lengthscale": "positive",
    }
    default_features: ClassVar[int] = 100


@register
class TrainedFourier(OptimisedFourier):
    """Fourier features whose frequencies are trained for a few steps of the search, and no more.

    The evidence of a thousand rows goes on rising for hundreds of steps, long after the predictions of the rows that
    follow have become worse: D hyperparameters for each sine fit whatever they can. To stop early is to keep near the
    kernel that the frequencies were drawn from. On more rows a further search sets out from where the last one ended.
    """

    starts: ClassVar[tuple[float, ...]] = (0.3, 1.0)
    default_features: ClassVar[int] = 200

    def search_steps(self, n: int) -> int:
        """Return 60 for 1,000 rows; as its root, for others."""
        return max(1, round(60 * sqrt(n / 1000)))
