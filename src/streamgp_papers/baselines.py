"""The baselines of Lu, Karanikolas and Giannakis (2022): AdaRaker, and a streaming sparse Gaussian process (SSGP)."""

import numpy as np

from streamgp.likelihoods import AnyPredictive, Predictive
from streamgp.models.presets import IE_GP_DICTIONARY
from streamgp.numerics import keys, tree
from streamgp.numerics.accelerator import jax, jnp
from streamgp.numerics.batching import concatenate, split_batches
from streamgp.research.multikernel import (
    AdaRaker,
    LogisticLoss,
    MultiKernel,
    SquaredLoss,
    draw_features,
    squared_exponentials,
)
from streamgp.research.multikernel.warmup import RADIUS
from streamgp.research.sparse import EXACT_STEPS, Batch, BatchOptimiser, LocalModel, empty_model


def adaraker(
    X: np.ndarray, y: np.ndarray, seed: int, num_features: int, loss: SquaredLoss | LogisticLoss
) -> AnyPredictive:
    """Predict each row (n, D) before its target (n, 1) by AdaRaker (Shen, Chen and Giannakis 2019), from row 0 on.

    It has the dictionary of the experts, and as many random features of each kernel.
    """
    bank = draw_features(squared_exponentials(IE_GP_DICTIONARY), X.shape[1], num_features, keys.key(seed))
    model = MultiKernel(AdaRaker(bank, loss, radius=RADIUS), ("",) * len(IE_GP_DICTIONARY), X.shape[1])
    state, predicted = model.init(keys.key(seed)), []
    for rows, _ in split_batches(len(X)):
        state, info = model.update(state, X[rows], y[rows])
        predicted.append(tree.map(np.asarray, info.predictive))
    return concatenate(predicted)


def ssgp(X: np.ndarray, y: np.ndarray, seed: int, *, warmup: int, num_inducing: int, batch_size: int) -> Predictive:
    """Predict each row before its batch by the streaming variational process of Bui, Nguyen and Turner (2017).

    It begins with all rows of the warm-up as one batch. These are predicted by another one, which begins with the
    first `batch_size` rows.
    """
    blank_model = empty_model(num_inducing, X.shape[1], 1)
    key = keys.key(seed)
    loc, var = np.zeros(len(X)), np.ones(len(X))
    model: LocalModel | None = None

    def batch(rows: slice) -> Batch:
        inputs, targets = jnp.asarray(X[rows]), jnp.asarray(y[rows])
        return Batch(inputs, targets, jnp.ones(len(inputs), bool))

    for first in (*range(0, warmup, batch_size), *range(warmup, len(X), batch_size)):
        rows = slice(first, min(first + batch_size, warmup if first < warmup else len(X)))
        now = keys.fold_in(key, first)
        if first == warmup:
            model = BatchOptimiser(EXACT_STEPS).begin(now, batch(slice(0, warmup)), blank_model, 0) or model
        if model is not None:
            loc[rows], var[rows] = _marginals(model, jnp.asarray(X[rows]))
        if rows.stop - first == batch_size:  # an incomplete batch is predicted, not learnt
            whole = batch(rows)
            learnt = (
                BatchOptimiser().begin(now, whole, blank_model, first)
                if model is None
                else BatchOptimiser().learn(now, model, whole)
            )
            model = learnt or model
    return Predictive(np.zeros((len(X), 1)), loc[:, None, None], var[:, None, None])


@jax.jit
def _marginals(model: LocalModel, X: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Compute means and variances of the targets."""
    return model.posterior.mean(model.hyperparameters, X)[:, 0], model.posterior.variance(
        model.hyperparameters, X
    ) + model.hyperparameters.noise_var
