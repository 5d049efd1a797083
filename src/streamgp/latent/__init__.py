"""Latent variable models on a stream: rows of many columns get a few coordinates, by an ensemble of kernels."""

from typing import TYPE_CHECKING

from streamgp.on_demand import on_demand

if TYPE_CHECKING:
    from streamgp.latent.estimator import StreamingGPLVM
    from streamgp.latent.learner import LatentLearner
    from streamgp.latent.model import LatentEnsemble, LatentInfo, LatentState
    from streamgp.latent.posterior import EmbeddedRows, LatentPosterior
    from streamgp.latent.spec import LatentSpec
    from streamgp.latent.warmup import LENGTHSCALES, fit_coordinates, principal_coordinates

_HOMES = {
    "StreamingGPLVM": "streamgp.latent.estimator",
    "LatentLearner": "streamgp.latent.learner",
    "LatentEnsemble": "streamgp.latent.model",
    "LatentInfo": "streamgp.latent.model",
    "LatentState": "streamgp.latent.model",
    "EmbeddedRows": "streamgp.latent.posterior",
    "LatentPosterior": "streamgp.latent.posterior",
    "LatentSpec": "streamgp.latent.spec",
    "LENGTHSCALES": "streamgp.latent.warmup",
    "fit_coordinates": "streamgp.latent.warmup",
    "principal_coordinates": "streamgp.latent.warmup",
}
__all__ = [
    "LENGTHSCALES",
    "EmbeddedRows",
    "LatentEnsemble",
    "LatentInfo",
    "LatentLearner",
    "LatentPosterior",
    "LatentSpec",
    "LatentState",
    "StreamingGPLVM",
    "fit_coordinates",
    "principal_coordinates",
]

__getattr__ = on_demand(__name__, _HOMES)
