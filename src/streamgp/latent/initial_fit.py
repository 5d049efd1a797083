"""The end of the warm-up: scales of columns, one fit for each kernel, and the ensemble that has learnt the rows."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.dynamics import parse
from streamgp.latent.glitches import find_warmup_glitches
from streamgp.latent.model import LatentEnsemble, LatentState
from streamgp.latent.spec import LatentSpec
from streamgp.latent.warmup import fill_gaps, fit_coordinates, principal_coordinates
from streamgp.numerics import keys, tree
from streamgp.numerics.accelerator import jnp
from streamgp.weights import BMA, fixed_share


class InitialFit(NamedTuple):
    """What the warm-up's rows leave.

    Attributes
    ----------
    model, state
        The ensemble, and its state after these rows.
    mean, std
        Of each column over its observed cells; the mean of a column without any is NaN.
    scale
        What each column is divided by.
    glitches
        Cells that are taken to be missing because they are absurd.
    rows
        The rows in standard units, gaps filled.
    coordinates
        Their coordinates under each expert (n, k, d).
    log_joint
        Their log joint density under each expert.
    """

    model: LatentEnsemble
    state: LatentState
    mean: Float[np.ndarray, " e"]
    std: Float[np.ndarray, " e"]
    scale: Float[np.ndarray, " e"]
    glitches: Bool[np.ndarray, "n e"]
    rows: Float[np.ndarray, "n e"]
    coordinates: Float[np.ndarray, "n k d"]
    log_joint: Float[np.ndarray, " k"]


def fit_ensemble(spec: LatentSpec, Y: Float[np.ndarray, "n e"]) -> InitialFit:
    """Fit every kernel to the rows of the warm-up, NaN where cells are missing."""
    absurd = find_warmup_glitches(Y) if spec.robust else np.zeros(Y.shape, bool)
    seen = ~np.isnan(Y) & ~absurd
    # The mean of a column that was never observed is NaN.
    with np.errstate(invalid="ignore"):
        mean = np.where(seen, Y, 0.0).sum(axis=0) / seen.sum(axis=0)
    # Missing values are replaced by the mean.
    centred = np.where(seen, Y - mean, 0.0)
    std = np.sqrt(np.square(centred).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))
    # A constant column may move later; the rounding error in its deviation is no scale.
    constant = std <= len(Y) * np.finfo(float).eps * np.abs(np.nan_to_num(mean))
    typical = np.sqrt(np.square(centred[:, ~constant]).sum() / max(seen.sum(), 1)) or 1.0
    scale = np.full(Y.shape[1], typical)
    if spec.standardise:
        scale = np.where(constant, scale, std)
    rows = fill_gaps(centred / scale, seen, spec.n_components)
    start, key = principal_coordinates(rows, spec.n_components), keys.key(spec.seed)
    dynamics, cells_per_row = parse(spec.dynamics), float(seen.sum(axis=1).mean())
    fits = [
        fit_coordinates(
            lengthscale,
            rows,
            start,
            dynamics,
            keys.fold_in(key, i),
            spec.n_features,
            cells_per_row=cells_per_row,
        )
        for i, lengthscale in enumerate(spec.lengthscales)
    ]
    experts: Any = tree.map(lambda *a: jnp.stack(a), *[fit.expert for fit in fits])
    rule = fixed_share(len(fits), spec.switch) if spec.switch else BMA()
    model = LatentEnsemble(experts, rule, Y.shape[1])
    coordinates = np.stack([np.asarray(fit.coordinates) for fit in fits], axis=1)
    prior = model.init()
    observed = None if seen.all() else jnp.asarray(seen)
    learnt, _ = model.learn(prior, jnp.asarray(rows), jnp.asarray(coordinates.swapaxes(0, 1)), observed)
    # Coordinates were fitted to these rows: how well they explain them is no prediction, so weights stay equal.
    state = LatentState(learnt.belief, prior.rule, learnt.rows, learnt.seen)
    log_joint = np.array([fit.log_joint for fit in fits])
    return InitialFit(model, state, mean, std, scale, absurd, rows, coordinates, log_joint)
