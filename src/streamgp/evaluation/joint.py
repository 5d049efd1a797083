"""Scores of several targets at once: their joint log density and the energy score, with their correlation."""

from functools import cache

import numpy as np
import scipy.special
from jaxtyping import Float

from streamgp.evaluation.metrics.distributions import energy_score
from streamgp.likelihoods import NumericPredictive, Predictive, SideBySide, correlation

# The number of draws for the energy score.
DRAWS = 64
# Scores between which a target's quantiles are taken for a line.
_NODES = np.array([-3.0, -1.645, -1.0, -0.5, 0.0, 0.5, 1.0, 1.645, 3.0])


def joint_log_density(
    predictive: Predictive | SideBySide, marginal: Float[np.ndarray, "n e"], pit: Float[np.ndarray, "n e"]
) -> Float[np.ndarray, " n"]:
    """Return the joint log density from that of each target, and from the levels at which they came."""
    if predictive.correlation is None:
        return marginal.sum(1)
    copula = correlation.log_copula(np.asarray(predictive.correlation), correlation.scores_of(pit))
    return marginal.sum(1) + copula


def energy_of(predictive: NumericPredictive, y: Float[np.ndarray, "n e"]) -> Float[np.ndarray, " n"]:
    """Return the energy score of each row, of `DRAWS` targets by the same scores in all rows.

    Those are evenly spread (scrambled Sobol points, made normal), not random, so that the score of a row depends on
    nothing else; quantiles between a few are taken for lines.
    """
    n, _, e = predictive.loc.shape
    z: np.ndarray = np.broadcast_to(_points(e), (n, DRAWS, e))
    if predictive.correlation is not None:
        z = z @ np.swapaxes(np.linalg.cholesky(np.asarray(predictive.correlation)), 1, 2)
    values = np.moveaxis(predictive.at_scores(np.broadcast_to(_NODES[:, None, None], (len(_NODES), n, e))), 0, 1)
    right = np.clip(np.searchsorted(_NODES, z), 1, len(_NODES) - 1)
    low, high = (np.take_along_axis(values, at, axis=1) for at in (right - 1, right))
    share = (z - _NODES[right - 1]) / (_NODES[right] - _NODES[right - 1])
    return energy_score(low + share * (high - low), y)


@cache
def _points(targets: int) -> Float[np.ndarray, "m e"]:
    from scipy.stats import qmc  # half a second

    return scipy.special.ndtri(qmc.Sobol(targets, rng=0).random(DRAWS))
