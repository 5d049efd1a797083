"""Posteriors of rows' latent coordinates."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp


class LatentPosterior(NamedTuple):
    """Laplace approximations of the latent coordinates of rows.

    Attributes
    ----------
    coordinates
        The most probable coordinates x (..., d). Where there are experts, they come before the rows, or behind them
        where that is said.
    log_joint
        log p(y, x) there (...).
    precision
        Of the coordinates given the row: the Gauss-Newton curvature (..., d, d).
    """

    coordinates: Any
    log_joint: Any
    precision: Any

    @property
    def log_density(self) -> np.ndarray:
        """Return Laplace's approximation of log p(y)."""
        d = self.coordinates.shape[-1]
        return np.asarray(self.log_joint) + 0.5 * (d * np.log(2 * np.pi) - np.linalg.slogdet(self.precision)[1])


class EmbeddedRows(NamedTuple):
    """Rows under every expert, by what was known before their batch.

    Attributes
    ----------
    posterior
        Of their coordinates under each expert (n, k, d). Rows of the warm-up are embedded together: each has the mean
        of their log joint densities, and NaN for the precision.
    log_weights
        Of the experts (n, k).
    log_volume
        What is to be taken from log densities, which are of rows in standard units, for those of the data (n,).
    glitches
        Cells that are taken to be missing because they are absurd.
    log_glitches
        Their log density at the coordinates of the row (n,).
    """

    posterior: LatentPosterior
    log_weights: Float[np.ndarray, "n k"]
    log_volume: Float[np.ndarray, " n"]
    glitches: Bool[np.ndarray, "n e"]
    log_glitches: Float[np.ndarray, " n"]

    @property
    def log_density(self) -> Float[np.ndarray, " n"]:
        """Return that of rows in the units of the data, mixed over the experts; NaN in the warm-up."""
        with np.errstate(invalid="ignore"):
            mixed = np.asarray(logsumexp(self.posterior.log_density + self.log_weights, axis=1))
            return mixed - self.log_volume + self.log_glitches
