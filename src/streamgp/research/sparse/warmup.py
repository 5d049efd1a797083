"""The fit of sparse Gaussian processes to the warm-up: only the hyperparameters that all of them share."""

import numpy as np

from streamgp.models.base import FittedExpert
from streamgp.models.spec import Spec
from streamgp.research.sparse import BatchOptimiser, KernelHyperparameters, LocalGPs, fit_exact_hyperparameters

# The number of inducing inputs of each model, as in Kepler et al. (2021).
INDUCING = 50
# The number of rows that each model of LGPR keeps.
KEPT_ROWS = 100
# LGPR learns its hyperparameters from so many rows of the warm-up.
OFFLINE_ROWS = 300


def from_spec(
    spec: Spec, num_inputs: int, num_outputs: int, hyperparameters: KernelHyperparameters | None
) -> LocalGPs:
    """Build the model that `spec` describes; `hyperparameters` are those of ``lgpr``."""
    assert spec.learner is not None
    return LocalGPs(
        method=spec.learner,
        num_inputs=num_inputs,
        num_outputs=num_outputs,
        num_inducing=spec.features_per_basis or (KEPT_ROWS if spec.learner == "lgpr" else INDUCING),
        batch_size=spec.batch_size,
        max_models=spec.max_models,
        threshold=spec.threshold,
        combination=spec.combination,
        optimiser=BatchOptimiser(spec.steps, spec.alpha),
        hyperparameters=hyperparameters,
        robust=spec.robust,
    )


def make_sparse(spec: Spec, X: np.ndarray, y: np.ndarray, *, seed: int) -> tuple[LocalGPs, list[FittedExpert]]:
    """Build the model of `spec` before it has learnt any row.

    Parameters
    ----------
    X, y
        Standardised inputs (n, D) and targets (n, E) of the warm-up.
    seed
        Seed for the choice of the rows that hyperparameters are learnt from.
    """
    hyperparameters = None
    if spec.learner == "lgpr":
        rows = np.random.default_rng(seed).permutation(len(X))[:OFFLINE_ROWS]
        hyperparameters = fit_exact_hyperparameters(X[rows], y[rows])
    model = from_spec(spec, X.shape[1], y.shape[1], hyperparameters)
    names = [f"model {j + 1}" for j in range(spec.max_models)]
    return model, [FittedExpert(name, "sparse", "static", "constant", model.num_inducing, np.nan) for name in names]
