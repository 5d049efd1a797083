"""From warm-up rows to sparse Gaussian processes: nothing is fitted but what all of them share, if anything."""

from typing import Any

import numpy as np

from streamgp.models.gaussian.warmup import FittedExpert
from streamgp.models.sparse import Hyper, Learning, LocalGPs, LocalModels, exact_hyper
from streamgp.models.spec import Spec
from streamgp.numerics.standardise import Standardiser

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


def described(models: LocalModels, inputs: Standardiser, targets: Standardiser) -> list[dict[str, Any]]:
    """Of each model alive: row of birth, rows learnt, centre and hyperparameters, in the units of the data.

    Variances are those of the first target. With two inputs there are the inducing inputs as well, for a map.
    """
    mean, scale, unit = (np.asarray(a) for a in (inputs.mean, inputs.scale, targets.scale[0]))
    each = models.each
    mapped = len(mean) == 2
    return [
        {
            "born": int(each.born[j]),
            "rows": int(each.rows[j]),
            "centre": (mean + scale * np.asarray(each.centre[j])).tolist(),
            "lengthscales": (scale * np.asarray(each.hyper.lengthscales[j])).tolist(),
            "variance": float(unit**2 * each.hyper.variance[j]),
            "noise_var": float(unit**2 * each.hyper.noise_var[j]),
        }
        | ({"inducing": (mean + scale * np.asarray(each.site.inducing[j])).tolist()} if mapped else {})
        for j in range(int(models.count))
    ]
