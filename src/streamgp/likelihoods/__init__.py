"""Likelihoods of targets that are no measurements with Gaussian noise: labels, counts, grades, outliers."""

from streamgp.likelihoods.base import Expansion, Likelihood
from streamgp.likelihoods.binary import Logistic, Probit
from streamgp.likelihoods.categorical import Categorical
from streamgp.likelihoods.counts import NegativeBinomial, Poisson
from streamgp.likelihoods.ordinal import Ordinal
from streamgp.likelihoods.predictive import AnyPredictive, LatentPredictive
from streamgp.likelihoods.robust import StudentT
from streamgp.likelihoods.step import Step, laplace_step

__all__ = [
    "AnyPredictive",
    "Categorical",
    "Expansion",
    "LatentPredictive",
    "Likelihood",
    "Logistic",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Probit",
    "Step",
    "StudentT",
    "laplace_step",
]
