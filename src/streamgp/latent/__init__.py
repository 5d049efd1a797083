"""Latent variable models on a stream: rows of many entries become a few coordinates, with an ensemble of kernels."""

from streamgp.latent.embedding import Found
from streamgp.latent.learner import LatentLearner, LatentSpec, Placed
from streamgp.latent.model import LatentEnsemble, LatentState, Learnt
from streamgp.latent.warmup import LENGTHSCALES, fit_places, principal_places

__all__ = [
    "LENGTHSCALES",
    "Found",
    "LatentEnsemble",
    "LatentLearner",
    "LatentSpec",
    "LatentState",
    "Learnt",
    "Placed",
    "fit_places",
    "principal_places",
]
