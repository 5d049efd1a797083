"""Four ways to assign a batch to a local model, or to begin a new one.

- `learn_one_model`: always the same model (streaming variational free energy, Bui, Nguyen and Turner 2017).
- `learn_by_wasserstein`: the model whose beliefs the batch changes least, unless it changes all too much (Kepler,
  Koppel, Bedi and Stilwell 2021, Algorithm 1).
- `learn_by_distance`: the model with the nearest centre, unless it is too far (Wilcox and Yip 2020).
- `learn_row_by_row`: the same for each row alone, with models that keep their rows (Nguyen-Tuong, Seeger and Peters
  2009).

Batches of the first three update sparse models. Candidates are taken one after the other: in one batched program
XLA's factorisations on a CPU take several times as long, and can stall it.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from streamgp.numerics import keys, tree
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.research.sparse.fitting import (
    Prior,
    choose_inducing_inputs,
    choose_start,
    initial_hyperparameters,
    initial_prior,
    next_prior,
    optimise,
)
from streamgp.research.sparse.local import LocalModel, LocalModels, empty_model
from streamgp.research.sparse.vfe import Batch, KernelHyperparameters, SparsePosterior, absorb, empty_posterior
from streamgp.research.sparse.wasserstein import bures_wasserstein

NEAREST_CANDIDATES = 5  # J-hat of the paper


@register
@dataclass(frozen=True)
class BatchOptimiser:
    """How a sparse model learns a batch.

    Parameters
    ----------
    steps
        Steps of the optimiser for each batch; 0 leaves hyperparameters and kept inducing inputs where they are.
    alpha
        0 for variational free energy, up to 1 for power expectation propagation.
    """

    steps: int = 30
    alpha: float = 0.0

    def begin(self, key: Key, batch: Batch, like: LocalModel, row: int) -> LocalModel | None:
        """Return a new model of the batch alone; None where that fails numerically."""
        num_inducing, d = like.sparse.inducing.shape
        start = empty_model(num_inducing, d, batch.y.shape[1])
        hyperparameters = initial_hyperparameters(np.asarray(batch.X), np.asarray(batch.y))
        Z = choose_inducing_inputs(key, np.asarray(batch.X), hyperparameters, num_inducing)
        return self._optimise(
            initial_prior(d), replace(start, hyperparameters=hyperparameters, born=jnp.asarray(row)), Z, batch
        )

    def learn(self, key: Key, model: LocalModel, batch: Batch) -> LocalModel | None:
        """Return the model after a batch; None where that fails numerically."""
        Z = choose_start(key, model.hyperparameters, batch, model.sparse, self.alpha)
        return self._optimise(next_prior(model.hyperparameters), model, Z, batch)

    def _optimise(
        self, prior: Prior, model: LocalModel, Z: Float[np.ndarray, "m d"], batch: Batch
    ) -> LocalModel | None:
        hyperparameters, inducing = model.hyperparameters, jnp.asarray(Z)
        if self.steps:
            hyperparameters, inducing = optimise(
                prior, hyperparameters, Z, batch, model.sparse, self.steps, self.alpha
            )
        rows = model.rows + len(batch.X)
        centre = model.centre + (batch.X.mean(axis=0) - model.centre) * (len(batch.X) / rows)
        new = model.after(
            hyperparameters, _absorb(hyperparameters, inducing, batch, model.sparse, self.alpha), centre, rows
        )
        return new if all(np.isfinite(leaf).all() for leaf in tree.leaves(new)) else None


_absorb = jax.jit(absorb, static_argnums=4)


def learn_one_model(models: LocalModels, batch: Batch, key: Key, row: int, optimiser: BatchOptimiser) -> LocalModels:
    """Learn every batch by the first model; a batch that fails numerically is passed over."""
    alive = int(models.count)
    model = optimiser.learn(key, models[0], batch) if alive else optimiser.begin(key, batch, models[0], row)
    return models if model is None else models.put(0, model)


def learn_by_wasserstein(
    models: LocalModels, batch: Batch, key: Key, row: int, optimiser: BatchOptimiser, threshold: float
) -> LocalModels:
    """Update the candidate that changes least, or keep the new model where all change by more than `threshold`.

    This is WGPR.

    Change is the squared Wasserstein distance between a model's beliefs at its inducing inputs before and after the
    batch, plus that at the batch between the candidate and a model of the batch alone (Kepler et al., Eqs. 6 to 8),
    of values without noise. The paper compares the sum with a threshold in the units of the data. Here it is divided
    by the sum of the posterior variances, those of the old model at its inducing inputs and of the new one at the
    batch, so that the threshold has no units: where the data are as the model expects, a mean moves by about its own
    standard deviation, and the ratio is about one.
    """
    new = optimiser.begin(key, batch, models[0], row)
    alive = int(models.count)
    if not alive:
        return models if new is None else models.put(0, new)
    middles = np.asarray(models.each.sparse.inducing)[:alive].mean(axis=1)
    nearest = np.argsort(np.square(middles - np.asarray(batch.X).mean(axis=0)).sum(axis=1), kind="stable")
    best, min_change = None, np.inf
    for j in nearest[:NEAREST_CANDIDATES].tolist():
        candidate = optimiser.learn(keys.fold_in(key, j), models[j], batch)
        if candidate is None:
            continue
        change = float(relative_change(models[j], candidate, new or candidate, batch.X))
        if change < min_change:
            best, min_change = (j, candidate), change
    full = alive == models.capacity
    if best is not None and (min_change <= threshold or new is None or full):
        return models.put(*best)
    return models if new is None or full else models.put(alive, new)


@jax.jit
def relative_change(
    old: LocalModel, updated: LocalModel, new: LocalModel, X: Float[Array, "n d"]
) -> Float[Array, ""]:
    """Compute how much an update changed a model and how much it differs from a new one, without units.

    The change is taken at the model's inducing inputs, the difference at the batch.
    """
    Z = old.sparse.inducing
    outputs = old.targets.shape[1]
    before, after = _beliefs(old, Z), _beliefs(updated, Z)
    alone, together = _beliefs(new, X), _beliefs(updated, X)
    moved = _squared_distance(before, after) + _squared_distance(alone, together)
    return moved / (outputs * (jnp.trace(before[1]) + jnp.trace(alone[1])))


def _beliefs(model: LocalModel, X: Float[Array, "n d"]) -> tuple[Float[Array, "n e"], Float[Array, "n n"]]:
    return model.posterior.mean(model.hyperparameters, X), model.posterior.covariance(model.hyperparameters, X)


def _squared_distance(one: tuple[Array, Array], other: tuple[Array, Array]) -> Float[Array, ""]:
    """Compute the squared Wasserstein distance, summed over outputs that share a covariance."""
    outputs = one[0].shape[1]
    return jnp.sum(jnp.square(one[0] - other[0])) + outputs * bures_wasserstein(one[1], other[1])


def learn_by_distance(
    models: LocalModels, batch: Batch, key: Key, row: int, optimiser: BatchOptimiser, threshold: float
) -> LocalModels:
    """Update the model whose centre is nearest to the batch's mean, or begin one (SOLAR-GP).

    Nearness is that of the model's kernel; below `threshold` a new model begins, if there is capacity.
    """
    alive = int(models.count)
    full = alive == models.capacity
    if alive:
        similarity = np.asarray(_similarity(models, batch.X.mean(axis=0)))[:alive]
        j = int(np.argmax(similarity))
        if similarity[j] >= threshold or full:
            model = optimiser.learn(key, models[j], batch)
            if model is not None:
                return models.put(j, model)
    new = None if full else optimiser.begin(key, batch, models[0], row)
    return models if new is None else models.put(alive, new)


@jax.jit
def _similarity(models: LocalModels, x: Float[Array, " d"]) -> Float[Array, " j"]:
    scaled = (x[None] - models.each.centre) / models.each.hyperparameters.lengthscales
    return jnp.exp(-0.5 * jnp.sum(jnp.square(scaled), axis=1))


def learn_row_by_row(
    models: LocalModels, batch: Batch, row: int, hyperparameters: KernelHyperparameters, threshold: float
) -> LocalModels:
    """Learn every row by the model with the nearest centre, or begin one (LGPR).

    Nearness is that of the kernel; below `threshold` a new model begins, if there is capacity. Models are exact
    Gaussian processes, all with the same `hyperparameters`. One that is full drops its oldest row (in the paper: the
    least informative one).
    """
    centres, counts = np.array(models.each.centre), np.array(models.each.rows)
    inputs, targets, born = (
        np.array(a) for a in (models.each.sparse.inducing, models.each.targets, models.each.born)
    )
    alive, capacity, size = int(models.count), models.capacity, inputs.shape[1]
    touched = set()
    for i, (x, y) in enumerate(zip(np.asarray(batch.X), np.asarray(batch.y), strict=True)):
        scaled = (x - centres[:alive]) / np.asarray(hyperparameters.lengthscales)
        similarity = np.exp(-0.5 * np.square(scaled).sum(axis=1))
        j = int(np.argmax(similarity)) if alive else 0
        if not alive or (similarity[j] < threshold and alive < capacity):
            j, born[alive], alive = alive, row + i, alive + 1
        inputs[j, counts[j] % size], targets[j, counts[j] % size] = x, y
        counts[j] += 1
        centres[j] = inputs[j, : min(counts[j], size)].mean(axis=0)
        touched.add(j)
    changed = {}
    for j in sorted(touched):
        sparse = _exact(hyperparameters, jnp.asarray(inputs[j]), jnp.asarray(targets[j]), jnp.asarray(counts[j]))
        model = models[j].after(hyperparameters, sparse, jnp.asarray(centres[j]), jnp.asarray(counts[j]))
        changed[j] = replace(model, born=jnp.asarray(born[j]), targets=jnp.asarray(targets[j]))
    return models.put_all(changed)


@jax.jit
def _exact(
    hyperparameters: KernelHyperparameters, X: Float[Array, "m d"], y: Float[Array, "m e"], count: Int[Array, ""]
) -> SparsePosterior:
    """Learn the first `count` rows by an exact Gaussian process: a sparse one whose inducing inputs are the rows."""
    kept = jnp.arange(len(X)) < count
    # Where there is no row yet, a place that is independent of all other points.
    elsewhere = 1e4 * hyperparameters.lengthscales[None] * (1.0 + jnp.arange(len(X)))[:, None]
    Z = jnp.where(kept[:, None], X, elsewhere)
    return absorb(hyperparameters, Z, Batch(Z, y, kept), empty_posterior(Z, y.shape[1]))
