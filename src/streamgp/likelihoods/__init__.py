"""The laws of targets: their likelihoods, and the predictive distributions that models return.

`predictive` has the mixture that is predicted of numbers; `recalibration`, `noise_by_input` and `correlation` correct
it by the errors so far. `target_map`, `mapped` and `within_reach` are for targets on another scale or within bounds,
`side_by_side` and `conditional` for several targets. The other modules are of targets that are no measurements with
Gaussian noise: labels, counts, grades, outliers; their predictive distribution is in `latent_predictive`.
"""

from streamgp.likelihoods.base import Expansion, Likelihood
from streamgp.likelihoods.binary import Logistic, Probit
from streamgp.likelihoods.categorical import Categorical
from streamgp.likelihoods.counts import NegativeBinomial, Poisson
from streamgp.likelihoods.latent_predictive import AnyPredictive, LatentPredictive
from streamgp.likelihoods.mapped import MappedPredictive
from streamgp.likelihoods.ordinal import Ordinal
from streamgp.likelihoods.predictive import Predictive, trimmed
from streamgp.likelihoods.robust import StudentT
from streamgp.likelihoods.side_by_side import NumericPredictive, SideBySide, mapped, side_by_side, unmapped
from streamgp.likelihoods.step import Step, laplace_step
from streamgp.likelihoods.target_map import TargetMap

__all__ = [
    "AnyPredictive",
    "Categorical",
    "Expansion",
    "LatentPredictive",
    "Likelihood",
    "Logistic",
    "MappedPredictive",
    "NegativeBinomial",
    "NumericPredictive",
    "Ordinal",
    "Poisson",
    "Predictive",
    "Probit",
    "SideBySide",
    "Step",
    "StudentT",
    "TargetMap",
    "laplace_step",
    "mapped",
    "side_by_side",
    "trimmed",
    "unmapped",
]
