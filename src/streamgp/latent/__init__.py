"""Latent variable models on a stream: rows of many columns get a few coordinates, by an ensemble of kernels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    # Imported on first use: what the annex adds is asked for by who uses none of it.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
