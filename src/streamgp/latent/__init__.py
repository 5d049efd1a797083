"""Latent variable models on a stream: rows of many columns get a few coordinates, by an ensemble of kernels."""

from streamgp.latent.learner import LatentLearner
from streamgp.latent.model import LatentEnsemble, LatentInfo, LatentState
from streamgp.latent.posterior import EmbeddedRows, LatentPosterior
from streamgp.latent.spec import LatentSpec
from streamgp.latent.warmup import LENGTHSCALES, fit_coordinates, principal_coordinates

__all__ = [
    "LENGTHSCALES",
    "EmbeddedRows",
    "LatentEnsemble",
    "LatentInfo",
    "LatentLearner",
    "LatentPosterior",
    "LatentSpec",
    "LatentState",
    "fit_coordinates",
    "principal_coordinates",
]
