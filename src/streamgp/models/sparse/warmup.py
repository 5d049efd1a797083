"""From warm-up rows to sparse Gaussian processes: nothing is fitted but what all of them share, if anything."""

import numpy as np

from streamgp.models.base import FittedExpert
from streamgp.models.sparse import Hyper, Learning, LocalGPs, exact_hyper
from streamgp.models.spec import Spec

INDUCING = 50  # of each model, as in Kepler et al. (2021)
KEPT = 100  # rows that each model of LGPR keeps
OFFLINE_ROWS = 300  # of the warm-up, from which LGPR learns its hyperparameters


def from_spec(spec: Spec, num_inputs: int, num_outputs: int, hyper: Hyper | None) -> LocalGPs:
    """The model that `spec` describes; `hyper` are the hyperparameters of ``lgpr``."""
    assert spec.learner is not None
    return LocalGPs(
        method=spec.learner,
        num_inputs=num_inputs,
        num_outputs=num_outputs,
        num_inducing=spec.features_per_basis or (KEPT if spec.learner == "lgpr" else INDUCING),
        batch_size=spec.batch_size,
        max_models=spec.max_models,
        threshold=spec.threshold,
        combination=spec.combination,
        learning=Learning(spec.steps, spec.alpha),
        hyper=hyper,
        robust=spec.robust,
    )


def make_sparse(spec: Spec, X: np.ndarray, y: np.ndarray, *, seed: int) -> tuple[LocalGPs, list[FittedExpert]]:
    """The model of `spec` before it has learnt any row.

    Parameters
    ----------
    X, y
        Standardised inputs (n, D) and targets (n, E) of the warm-up.
    seed
        Seed of the rows that hyperparameters are learnt from.
    """
    hyper = None
    if spec.learner == "lgpr":
        rows = np.random.default_rng(seed).permutation(len(X))[:OFFLINE_ROWS]
        hyper = exact_hyper(X[rows], y[rows])
    model = from_spec(spec, X.shape[1], y.shape[1], hyper)
    names = [f"model {j + 1}" for j in range(spec.max_models)]
    return model, [FittedExpert(name, "sparse", "static", "constant", model.num_inducing, np.nan) for name in names]
