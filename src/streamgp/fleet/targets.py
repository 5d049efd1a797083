"""What a mixture on the scale that a fleet learns says of the target itself, where that is mapped or has bounds."""

import numpy as np
from jaxtyping import Float

from streamgp.fleet.mixture import Mixture
from streamgp.likelihoods import MappedPredictive, Predictive, TargetMap
from streamgp.numerics import student_t
from streamgp.numerics.mixtures import log_sum

Values = Float[np.ndarray, " n"]


def moments(mixture: Mixture, target: TargetMap) -> tuple[Values, Values]:
    """Return mean and standard deviation of every row's target."""
    if target.changes_nothing:
        return mixture.moments
    mean, variance = mapped(mixture, target).moments
    return mean[:, 0], np.sqrt(variance[:, 0])


def mapped(mixture: Mixture, target: TargetMap) -> MappedPredictive:
    """Return the distributions of the targets."""
    loc, var = mixture.mean[..., None], mixture.var[..., None]
    return MappedPredictive(Predictive(mixture.log_weights, loc, var, mixture.dof), target)


def levels(mixture: Mixture, y: Values, target: TargetMap) -> Values:
    """Return the level of the distribution of every row at which its target came."""
    if not target.changes_nothing:
        return mapped(mixture, target).pit(y[:, None])[:, 0]
    t = (y[:, None] - mixture.mean) / np.sqrt(student_t.squared_scale(mixture.var, mixture.dof))
    return np.vecdot(np.exp(mixture.log_weights), student_t.cdf(t, mixture.dof))


def log_density(mixture: Mixture, z: Values, target: TargetMap) -> Values:
    """Return the log density of every target, of which z is the value that is learnt; NaN where there is none."""
    found = log_sum(mixture.log_weights + student_t.log_density(z[:, None] - mixture.mean, mixture.var, mixture.dof))
    return found + target.log_slope(target.inverse(z))
