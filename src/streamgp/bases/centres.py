"""Centres found by k-means, and the Gaussian bump around each: what RBF networks and Nystrom bases share."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Float

from streamgp.bases.base import Basis, Evaluator, input_ranges
from streamgp.numerics import keys
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.keys import Key
from streamgp.numerics.threads import one_openmp_thread


class OfCentres(Basis):
    """A basis with a feature for each of F centres, whose lengthscales are fitted."""

    # The centres stay where k-means put them: moved by the evidence of a thousand rows they overfit, as
    # benchmarks/accuracy/optimised.py measures.
    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {"lengthscale": "positive"}

    centres: Float[AnyArray, "*stack f d"]
    lengthscale: Float[AnyArray, "*stack d"]

    @property
    def num_features(self) -> int:
        """Return F, the number of centres."""
        return self.centres.shape[-2]

    @property
    def num_inputs(self) -> int:
        """Return D, the length of each centre."""
        return self.centres.shape[-1]

    @classmethod
    def from_data(cls, X: Any, *, num_features: int, start: float, key: Key, y: Any = None) -> Self:
        """Find centres by k-means on `X`: `num_features`, or one for each distinct row if those are fewer."""
        return cls(k_means(X, num_features, key), start * input_ranges(X))


def k_means(X: Any, num_centres: int, key: Key) -> Float[np.ndarray, "f d"]:
    """Find `num_centres` centres of the rows `X`, or one for each distinct row if those are fewer."""
    # The import is slow, and only the warm-up of few bases needs it.
    from sklearn.cluster import KMeans

    clusters = min(num_centres, len(np.unique(X, axis=0)))
    seed = int(keys.generator(key).integers(2**32, dtype=np.uint32))
    with one_openmp_thread():
        return np.asarray(KMeans(clusters, random_state=seed).fit(X).cluster_centers_)


def bumps(
    X: Float[AnyArray, "*any n d"], centres: Float[AnyArray, "*stack f d"], lengthscale: Float[AnyArray, "*stack d"]
) -> Float[AnyArray, "*stack n f"]:
    """Compute exp(-sum_d ((x_d - c_jd) / l_d)^2 / 2) for each row x and centre c_j."""
    return bumps_around(centres, lengthscale)(X)


def bumps_around(centres: Float[AnyArray, "*stack f d"], lengthscale: Float[AnyArray, "*stack d"]) -> Evaluator:
    """Return what computes the `bumps` of rows."""
    # Distances by one matrix product; about the mean centre, so that an offset costs no digits.
    middle, lengthscale = centres.mean(-2)[..., None, :], lengthscale[..., None, :]
    c = (centres - middle) / lengthscale
    half_squares, c = 0.5 * namespace(c).square(c).sum(-1)[..., None, :], c.swapaxes(-1, -2)

    def evaluate(X: AnyArray) -> AnyArray:
        x = (X - middle) / lengthscale
        exponent = x @ c
        xp = namespace(exponent)
        exponent -= 0.5 * xp.square(x).sum(-1)[..., :, None]
        exponent -= half_squares
        if xp is np:  # in place: to get new memory would take several times as long
            return np.exp(np.minimum(exponent, 0.0, out=exponent), out=exponent)
        return xp.exp(xp.minimum(exponent, 0.0))

    return evaluate


def slopes_of_bumps(
    X: Float[AnyArray, "n d"],
    centres: Float[AnyArray, "f d"],
    lengthscale: Float[AnyArray, " d"],
    weight: Float[AnyArray, "n f"],
) -> tuple[Float[AnyArray, "f d"], Float[AnyArray, " d"]]:
    """Return the gradient of a number by centres and lengthscales, from that by the logs of the bumps, `weight`."""
    middle = centres.mean(0)
    x, c = (X - middle) / lengthscale, (centres - middle) / lengthscale
    # Each weight meets a coordinate before its square is taken: where a bump is zero, far out, so is the product.
    of_rows, of_centres = weight.sum(1)[:, None] * x, weight.sum(0)[:, None] * c
    across = weight.T @ x
    by_lengthscale = (of_rows * x).sum(0) + ((of_centres - 2.0 * across) * c).sum(0)
    return (across - of_centres) / lengthscale, by_lengthscale / lengthscale
