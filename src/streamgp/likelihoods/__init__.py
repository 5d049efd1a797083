"""Likelihoods of targets that are no measurements with Gaussian noise: labels, counts, grades, outliers."""

from streamgp.likelihoods.base import Likelihood, Step, derivatives, laplace_step
from streamgp.likelihoods.binary import Logistic, Probit
from streamgp.likelihoods.categorical import Categorical
from streamgp.likelihoods.counts import NegativeBinomial, Poisson
from streamgp.likelihoods.ordinal import Ordinal
from streamgp.likelihoods.predictive import AnyPredictive, LatentPredictive
from streamgp.likelihoods.robust import StudentT

__all__ = [
    "AnyPredictive",
    "Categorical",
    "LatentPredictive",
    "Likelihood",
    "Logistic",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Probit",
    "Step",
    "StudentT",
    "derivatives",
    "laplace_step",
]
