"""Basis expansions phi(x), in whose features an expert is linear."""

from streamgp.bases.active_dims import ActiveDims
from streamgp.bases.base import Basis
from streamgp.bases.boosted import Boosted
from streamgp.bases.concatenation import Concatenation
from streamgp.bases.explicit import Linear, Polynomial, UserFunction
from streamgp.bases.fourier import Fourier, OptimisedFourier, TrainedFourier
from streamgp.bases.hilbert import HilbertSpace, HilbertSpaceProduct
from streamgp.bases.intercept import Intercept
from streamgp.bases.learners import Learner
from streamgp.bases.nystrom import Nystrom
from streamgp.bases.radial import OptimisedRadialBasis, RadialBasis
from streamgp.bases.spline import Spline
from streamgp.bases.trees import Trees

BASES: dict[str, type[Basis]] = {
    "linear": Linear,
    "fourier": Fourier,
    "hilbert": HilbertSpace,
    "hilbert-product": HilbertSpaceProduct,
    "nystrom": Nystrom,
    "rbf": RadialBasis,
    "polynomial": Polynomial,
    "spline": Spline,
    "trees": Trees,
    "boosted": Boosted,
    "concatenation": Concatenation,
    "fourier-trained": TrainedFourier,
    "fourier-optimised": OptimisedFourier,
    "rbf-optimised": OptimisedRadialBasis,
}
"""The bases that can be built from warm-up rows alone, by the names that users type."""

__all__ = [
    "BASES",
    "ActiveDims",
    "Basis",
    "Boosted",
    "Concatenation",
    "Fourier",
    "HilbertSpace",
    "HilbertSpaceProduct",
    "Intercept",
    "Learner",
    "Linear",
    "Nystrom",
    "OptimisedFourier",
    "OptimisedRadialBasis",
    "Polynomial",
    "RadialBasis",
    "Spline",
    "TrainedFourier",
    "Trees",
    "UserFunction",
]
