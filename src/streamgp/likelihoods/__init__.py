"""Likelihoods of targets that are no measurements with Gaussian noise: labels, counts, grades, outliers."""

from streamgp.likelihoods.base import Likelihood, Step, derivatives, laplace_step
from streamgp.likelihoods.binary import Logistic

__all__ = ["Likelihood", "Logistic", "Step", "derivatives", "laplace_step"]
