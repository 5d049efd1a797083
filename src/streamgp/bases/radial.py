"""Gaussian radial basis network: bumps around centres found by k-means."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from streamgp.bases.base import Evaluator, Pullback
from streamgp.bases.centres import OfCentres, bumps_around, slopes_of_bumps
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register


@register
class RadialBasis(OfCentres):
    """phi_j(x) = exp(-sum_d ((x_d - c_jd) / l_d)^2 / 2): a Gaussian bump around each of F centres.

    It is its kernel sum_j phi_j(x) phi_j(x') exactly. Where centres are dense this is near a
    squared-exponential kernel of lengthscale sqrt(2) l times the local density of centres. So its prior
    variance is not constant: away from all centres it sinks to zero, and predictions return to zero with
    misplaced certainty.

    Parameters
    ----------
    centres
        c, one row for each feature, in the units of the inputs.
    lengthscale
        l, the width of the bumps along each input, in the same units.
    """

    # On five data sets of 5 to 18 inputs, starts of 0.1 (bumps touch no other row) and of 10 (features nearly
    # constant) often ended on a plateau or at clearly worse evidence: these are closer to the range.
    starts: ClassVar[tuple[float, ...]] = (0.3, 1.0)

    def evaluator(self) -> Evaluator:
        """Return the map with all that belongs to centres alone computed."""
        return bumps_around(self.centres, self.lengthscale)

    def features_and_pullback(self, X: Float[AnyArray, "n d"]) -> tuple[Float[AnyArray, "n f"], Pullback]:
        """Return the bumps, and the product with their Jacobian by centres and lengthscales."""
        Phi = self(X)

        def pullback(cotangent: np.ndarray) -> dict[str, Any]:
            by_centres, by_lengthscale = slopes_of_bumps(X, self.centres, self.lengthscale, cotangent * Phi)
            slopes = {"centres": by_centres, "lengthscale": by_lengthscale}
            return {name: slopes[name] for name in self.trainable}

        return Phi, pullback


@register
class OptimisedRadialBasis(RadialBasis):
    """A radial basis network whose centres, found by k-means, are then trained by the evidence with the widths.

    The RBF networks of Waxman and Djuric (2024, 5). D times as many hyperparameters as features overfit a short
    warm-up.
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {"centres": "real", "lengthscale": "positive"}
