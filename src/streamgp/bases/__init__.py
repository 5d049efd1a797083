"""Basis expansions phi(x): what an expert can be linear in."""

from streamgp.bases.base import Basis
from streamgp.bases.explicit import Linear, Polynomial, UserFunction
from streamgp.bases.fourier import Fourier
from streamgp.bases.hilbert import HilbertSpace, HilbertSpaceProduct
from streamgp.bases.radial import RadialBasis
from streamgp.bases.spline import Spline

FAMILIES: dict[str, type[Basis]] = {
    "linear": Linear,
    "fourier": Fourier,
    "hilbert": HilbertSpace,
    "hilbert-product": HilbertSpaceProduct,
    "rbf": RadialBasis,
    "polynomial": Polynomial,
    "spline": Spline,
}
"""The bases that can be built from warm-up rows alone, by the names that users type."""

__all__ = [
    "FAMILIES",
    "Basis",
    "Fourier",
    "HilbertSpace",
    "HilbertSpaceProduct",
    "Linear",
    "Polynomial",
    "RadialBasis",
    "Spline",
    "UserFunction",
]
