"""Sparse Gaussian processes on a stream, one of them or local ones that split where the data change.

`LocalGPs` makes `ovfe`, `wgpr`, `solar-gp` and `lgpr` online models; the algebra that they share is in
`streamgp.research.sparse.vfe`.
"""

from streamgp.research.sparse.fitting import EXACT_STEPS, fit_exact_hyperparameters
from streamgp.research.sparse.local import LocalModel, LocalModels, empty_model
from streamgp.research.sparse.model import LocalGPs
from streamgp.research.sparse.splitting import BatchOptimiser, relative_change
from streamgp.research.sparse.vfe import (
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
