"""Latent variable models on a stream: rows of many entries become a few coordinates, with an ensemble of kernels."""

from streamgp.latent.model import LatentEnsemble, LatentState, Learnt
from streamgp.latent.warmup import LENGTHSCALES, Placed, fit_places, principal_places

__all__ = ["LENGTHSCALES", "LatentEnsemble", "LatentState", "Learnt", "Placed", "fit_places", "principal_places"]
