"""What is said of a transformed target by integrals over its reach: mean, variance and CRPS."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import recalibration
from streamgp.likelihoods.predictive import Predictive
from streamgp.likelihoods.target_map import TargetMap
from streamgp.numerics import mixtures
from streamgp.numerics.quantiles import mixture_quantiles

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # at whose quantiles the range that is integrated over is divided
_NODES, _SHARES = np.polynomial.legendre.leggauss(8)  # between each two of them
_CERTAIN = 1e-6  # of the standard deviation on the scale that is learnt: y is not known better
_BATCH_ELEMENTS = 1 << 15  # of an array at a time: so many stay in a core's cache

Rows = Float[np.ndarray, "n e"]


@dataclass(frozen=True)
class WithinReach:
    """The distribution of Y: of y, the `map` of z, with its tails moved to the ends of its reach.

    Parameters
    ----------
    base
        The distribution of z.
    map
        From z to y.
    """

    base: Predictive
    map: TargetMap

    def reach(self, q05: Rows, q50: Rows, q95: Rows) -> tuple[Rows, Rows]:
        """Return how far out, on the scale that is learnt, `base` is believed, which has these quantiles."""
        low, high = self.map.reach(q05, q50, q95)
        if self.base.limits is None:
            return low, high
        least, most = np.asarray(self.base.limits).swapaxes(0, 1)
        return np.maximum(low, np.minimum(least, q50)), np.minimum(high, np.maximum(most, q50))

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of Y: about its median, by integrals of the tails to either side.

        E(Y - c) is the integral of 1 - F above c less that of F below, E(Y - c)^2 that of 2 |y - c| times either.
        """
        edges, centre = self._edges()
        c, first, second = self.map.inverse(centre), np.zeros_like(centre), np.zeros_like(centre)
        for share, z, below in self._nodes(edges):
            off = self.map.inverse(z) - c
            tail = share * np.where(z >= centre, 1.0 - below, -below)
            first = first + tail.sum(0)
            second = second + 2.0 * (off * tail).sum(0)
        # Where all lies at a bound there is still an error to be scored by.
        least = _CERTAIN * np.sqrt(np.asarray(self.base.variance)) * self.map.slope(centre)
        return c + first, np.maximum(second - first * first, np.square(least))

    def crps(self, y: Rows) -> Rows:
        """Return the continuous ranked probability score: the integral of (F - 1[y below])^2."""
        edges, _ = self._edges()
        at = np.clip(self.map.forward(y), edges[0], edges[-1])
        crps = np.abs(y - self.map.inverse(at))
        for share, z, below in self._nodes(np.sort(np.concatenate([edges, at[None]]), axis=0)):
            crps = crps + (share * np.where(z >= at, 1.0 - below, below) ** 2).sum(0)
        return crps

    def _edges(self) -> tuple[Float[np.ndarray, "m n e"], Rows]:
        """Return edges of z between which an integral over y is smooth, the ends of its reach outermost; the median.

        They are quantiles, between which F hardly moves, and where the map bends.
        """
        m, (n, _, e), v = self.base.flat(), self.base.loc.shape, self.base.recalibration
        levels = np.repeat(np.array(_LEVELS), n * e)
        if v is not None:
            levels = recalibration.level(np.tile(v.reshape(n * e, -1), (len(_LEVELS), 1)), levels)
        (z,) = mixture_quantiles(mixtures.repeated(m, len(_LEVELS)), [levels])
        z = np.asarray(z).reshape(-1, n, e)
        low, high = self.reach(z[0], z[len(z) // 2], z[-1])
        bends = np.stack(np.broadcast_arrays(*self.map.bends(high)))
        edges = np.clip(np.concatenate([low[None], z, bends, high[None]]), low, high)
        return np.sort(edges, axis=0), np.clip(z[len(z) // 2], low, high)

    def _nodes(
        self, edges: Float[np.ndarray, "m n e"]
    ) -> Iterator[tuple[Float[np.ndarray, "b n e"], Float[np.ndarray, "b n e"], Float[np.ndarray, "b n e"]]]:
        """Yield the nodes of a quadrature between edges of z: shares of an integral over y, z, and F there."""
        m, v = self.base.flat(), self.base.recalibration
        half = 0.5 * np.diff(edges, axis=0)
        z = (edges[:-1, None] + half[:, None] * (1.0 + _NODES[:, None, None])).reshape(-1, *edges.shape[1:])
        share = (half[:, None] * _SHARES[:, None, None]).reshape(z.shape)
        share = share * self.map.slope(z)
        step = max(1, _BATCH_ELEMENTS // m.loc.size)
        for at in range(0, len(z), step):
            part = z[at : at + step]
            repeated = mixtures.repeated(m, len(part))
            below = mixtures.cdf(repeated, mixtures.evaluate(repeated, part.ravel())).reshape(part.shape)
            yield share[at : at + step], part, np.asarray(below if v is None else recalibration.below(v, below))
