"""Sparse Gaussian processes on a stream, one of them or local ones that split where the data change.

`LocalGPs` makes `ovfe`, `wgpr`, `solar-gp` and `lgpr` online models; the algebra that they share is in
`streamgp.models.sparse.vfe`.
"""

from streamgp.models.sparse.fitting import EXACT_STEPS, fit_exact_hyperparameters
from streamgp.models.sparse.local import LocalModel, LocalModels, empty_model
from streamgp.models.sparse.model import LocalGPs
from streamgp.models.sparse.splitting import BatchOptimiser, relative_change
from streamgp.models.sparse.vfe import (
    Batch,
    FunctionPosterior,
    KernelHyperparameters,
    SparsePosterior,
    absorb,
    bound,
    empty_posterior,
    function_posterior,
)

__all__ = [
    "EXACT_STEPS",
    "Batch",
    "BatchOptimiser",
    "FunctionPosterior",
    "KernelHyperparameters",
    "LocalGPs",
    "LocalModel",
    "LocalModels",
    "SparsePosterior",
    "absorb",
    "bound",
    "empty_model",
    "empty_posterior",
    "fit_exact_hyperparameters",
    "function_posterior",
    "relative_change",
]
