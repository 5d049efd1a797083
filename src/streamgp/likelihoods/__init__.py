"""Likelihoods of targets that are no measurements with Gaussian noise: labels, counts, grades, outliers."""

from streamgp.likelihoods.base import Likelihood, Step, derivatives, laplace_step
from streamgp.likelihoods.binary import Logistic, Probit
from streamgp.likelihoods.categorical import Categorical
from streamgp.likelihoods.predictive import AnyPredictive, LatentPredictive

__all__ = [
    "AnyPredictive",
    "Categorical",
    "LatentPredictive",
    "Likelihood",
    "Logistic",
    "Probit",
    "Step",
    "derivatives",
    "laplace_step",
]
